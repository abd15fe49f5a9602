//! What the function is asked to do.

use serde::Deserialize;
use serde_json::Value;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read what EC2 offers, and resolve every EC2NodeClass.
    Refresh {
        /// Whether the invocation fails where the catalog could not be refreshed: for somebody who waits for it, as Terraform does
        /// when it installs. The schedule asks again in any case.
        required: bool,
    },
    /// Delete the launch templates of the cluster: nodeless leaves it.
    Leave,
    /// Nothing: Terraform has only made or changed what it will ask with when it destroys.
    Nothing,
}

/// Why a request makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EventError {
    #[error("the event cannot be read: {0}; send {{\"action\":\"leave\"}} to have launch templates deleted")]
    Malformed(String),
    #[error(
        "the event's \"cluster\" is {event:?} and CLUSTER_NAME is {environment}; this function serves one cluster only"
    )]
    OtherCluster {
        /// As the event says.
        event: String,
        /// As the environment says.
        environment: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Leave {
    action: Verb,
    #[serde(default)]
    cluster: String,
    /// Added by Terraform's aws_lambda_invocation.
    tf: Option<Terraform>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Verb {
    Leave,
}

#[derive(Deserialize)]
struct Terraform {
    action: String,
}

/// Reads an event. One without an action, as the schedule sends it, means "look now". `cluster` is the one that this function is
/// set up for.
pub(crate) fn read(event: Value, cluster: &str) -> Result<Action, EventError> {
    if event.get("action").is_none() {
        return Ok(Action::Refresh { required: event.get("required").and_then(Value::as_bool).unwrap_or(false) });
    }
    let leave: Leave = serde_json::from_value(event).map_err(|error| EventError::Malformed(error.to_string()))?;
    let Verb::Leave = leave.action;
    if leave.cluster != cluster {
        return Err(EventError::OtherCluster { event: leave.cluster, environment: cluster.to_owned() });
    }
    // Terraform sends the same input when it makes, changes and destroys, and adds which of these it does.
    let only_told = leave.tf.is_some_and(|terraform| terraform.action != "delete");
    Ok(if only_told { Action::Nothing } else { Action::Leave })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample(text: &str) -> Action {
        read(serde_json::from_str(text).unwrap(), "example").unwrap()
    }

    #[test]
    fn reads_what_the_schedule_and_terraform_send() {
        assert_eq!(sample(include_str!("../../../events/catalog.schedule.json")), Action::Refresh { required: false });
        assert_eq!(sample(include_str!("../../../events/catalog.install.json")), Action::Refresh { required: true });
        assert_eq!(sample(include_str!("../../../events/catalog.leave.json")), Action::Leave);
        for action in ["create", "update"] {
            let event =
                json!({ "action": "leave", "cluster": "example", "tf": { "action": action, "prev_input": null } });
            assert_eq!(read(event, "example"), Ok(Action::Nothing), "{action}");
        }
        assert_eq!(read(json!({ "action": "leave", "cluster": "example" }), "example"), Ok(Action::Leave));
    }

    #[test]
    fn deletes_nothing_in_doubt() {
        for (event, word) in [
            (json!({ "action": "leave" }), "one cluster only"),
            (json!({ "action": "leave", "cluster": "another" }), "another"),
            (json!({ "action": "destroy", "cluster": "example" }), "destroy"),
            (json!({ "action": "leave", "cluster": "example", "tf": {} }), "cannot be read"),
        ] {
            let error = read(event, "example").unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
