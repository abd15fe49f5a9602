//! The requests of the function.

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use jiff::Timestamp;
use nodeless_ports::queue::CatalogMessage;
use nodeless_runtime::terraform::{Invocation, Operation};
use nodeless_runtime::{ConfigurationError, Source};
use serde::Deserialize;
use serde_json::Value;

/// A validated request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// The cluster of the request.
    pub(crate) source: Source,
    /// The requested action.
    pub(crate) action: Action,
    /// The messages of the queue that request a refresh, if they are the request.
    pub(crate) messages: SqsEvent,
    /// The reports of costs that messages of the queue request.
    pub(crate) reports: Vec<ReportRequest>,
}

/// A message that requests a report of costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportRequest {
    /// The id of the message.
    pub(crate) message_id: String,
    /// The time of the schedule's event.
    pub(crate) at: Timestamp,
}

/// The requested action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read what EC2 offers, and resolve every EC2NodeClass.
    Refresh {
        /// Whether the invocation fails if the catalog could not be refreshed. True for a caller that waits, such as Terraform
        /// during installation; a refresh for messages of the queue is retried by the schedule and the planner.
        required: bool,
    },
    /// Send reports of costs, and nothing else.
    Report,
    /// Delete the launch templates of the cluster, because nodeless is uninstalled.
    Leave,
    /// Nothing: Terraform has only created or changed the input for the destroy.
    Nothing,
}

/// Why a request is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EventError {
    #[error(
        "the event cannot be read: {0}; send {{}} to have the catalog refreshed, or {{\"action\":\"leave\"}} to have launch \
         templates deleted"
    )]
    Malformed(String),
    #[error("the event must name the cluster whose launch templates are deleted, in \"cluster\"")]
    NoCluster,
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
}

#[derive(Deserialize)]
struct Refresh {
    #[serde(default)]
    required: bool,
    /// The cluster, if it is not that of the function's own deployment.
    cluster: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Leave {
    action: Verb,
    #[serde(default)]
    cluster: String,
    /// Added by Terraform.
    tf: Option<Invocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Verb {
    Leave,
}

/// Parses an event: messages of the catalog queue, or a request of Terraform or a user. A request without an action means "look
/// now".
pub(crate) fn read(event: Value) -> Result<Request, EventError> {
    let malformed = |error: serde_json::Error| EventError::Malformed(error.to_string());
    let request = |source, action| Request { source, action, messages: SqsEvent::default(), reports: Vec::new() };
    if event.get("Records").is_some() {
        let mut messages: SqsEvent = serde_json::from_value(event).map_err(malformed)?;
        let source = Source::of_event(&messages)?;
        let reports: Vec<ReportRequest> = messages.records.iter().filter_map(report_request).collect();
        messages.records.retain(|message| report_request(message).is_none());
        let refreshes = !messages.records.is_empty() || reports.is_empty();
        let action = if refreshes { Action::Refresh { required: false } } else { Action::Report };
        return Ok(Request { source, action, messages, reports });
    }
    if event.get("action").is_none() {
        let Refresh { required, cluster } = serde_json::from_value(event).map_err(malformed)?;
        return Ok(request(cluster.map_or(Source::Own, Source::Cluster), Action::Refresh { required }));
    }
    let leave: Leave = serde_json::from_value(event).map_err(malformed)?;
    let Verb::Leave = leave.action;
    if leave.cluster.is_empty() {
        return Err(EventError::NoCluster);
    }
    // Terraform sends the same input on create, update and delete, and adds which of these it performs.
    let applies = leave.tf.is_some_and(|terraform| terraform.action != Operation::Delete);
    Ok(request(Source::Cluster(leave.cluster), if applies { Action::Nothing } else { Action::Leave }))
}

/// The request for a report, if the message is one.
fn report_request(message: &SqsMessage) -> Option<ReportRequest> {
    match serde_json::from_str(message.body.as_deref()?).ok()? {
        CatalogMessage::Report { at } => Some(ReportRequest { message_id: message.message_id.clone()?, at }),
        CatalogMessage::Refresh { .. } | CatalogMessage::NodeClasses { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample(text: &str) -> (Source, Action) {
        let request = read(serde_json::from_str(text).unwrap()).unwrap();
        (request.source, request.action)
    }

    fn example() -> Source {
        Source::Cluster("example".to_owned())
    }

    #[test]
    fn reads_what_the_queue_and_terraform_send() {
        let queue = Source::Queue("arn:aws:sqs:us-east-1:111122223333:nodeless-example-catalog.fifo".to_owned());
        let refresh = |required| Action::Refresh { required };
        let scheduled = sample(include_str!("../../../events/catalog.schedule.json"));
        assert_eq!(scheduled, (queue.clone(), refresh(false)));
        assert_eq!(sample(include_str!("../../../events/catalog.node-class.json")), (queue, refresh(false)));
        assert_eq!(sample("{}"), (Source::Own, refresh(false)));
        assert_eq!(sample(include_str!("../../../events/catalog.install.json")), (Source::Own, refresh(true)));
        assert_eq!(sample(r#"{"required":true,"cluster":"example"}"#), (example(), refresh(true)));
        assert_eq!(sample(include_str!("../../../events/catalog.leave.json")), (example(), Action::Leave));
        for action in ["create", "update"] {
            let event =
                json!({ "action": "leave", "cluster": "example", "tf": { "action": action, "prev_input": null } });
            assert_eq!(read(event).unwrap().action, Action::Nothing, "{action}");
        }
        let leave = read(json!({ "action": "leave", "cluster": "example" })).unwrap();
        assert_eq!((leave.source, leave.action), (example(), Action::Leave));
    }

    #[test]
    fn a_report_is_sent_without_a_refresh_unless_a_message_requests_one() {
        let report: Value = serde_json::from_str(include_str!("../../../events/catalog.report.json")).unwrap();
        let requested = ReportRequest {
            message_id: "00000008-44b0-41c7-b1a0-0a3c9be6b1a8".into(),
            at: "2025-03-17T07:00:00Z".parse().unwrap(),
        };
        let read_one = read(report.clone()).unwrap();
        assert_eq!((read_one.action, read_one.messages.records.len()), (Action::Report, 0));
        assert_eq!(read_one.reports, std::slice::from_ref(&requested));
        let mut both: Value = serde_json::from_str(include_str!("../../../events/catalog.schedule.json")).unwrap();
        both["Records"].as_array_mut().unwrap().push(report["Records"][0].clone());
        let read_both = read(both).unwrap();
        assert_eq!(read_both.action, Action::Refresh { required: false });
        assert_eq!((read_both.messages.records.len(), read_both.reports), (1, vec![requested]));
    }

    #[test]
    fn deletes_nothing_in_doubt() {
        for (event, word) in [
            (json!({ "action": "leave" }), "must name the cluster"),
            (json!({ "action": "destroy", "cluster": "example" }), "destroy"),
            (json!({ "action": "leave", "cluster": "example", "tf": {} }), "cannot be read"),
        ] {
            let error = read(event).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn refuses_what_it_would_have_to_guess() {
        for event in [
            json!({ "required": "true" }),
            json!({ "required": null }),
            json!({ "required": true, "cluster": 7 }),
            json!({ "Records": "none" }),
            json!("refresh"),
            json!({ "action": "leave", "cluster": "example", "tf": { "action": "destroy" } }),
        ] {
            let error = read(event.clone()).unwrap_err().to_string();
            assert!(error.contains("cannot be read"), "{event}: {error}");
        }
    }
}
