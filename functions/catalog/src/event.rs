//! The requests of the function.

use nodeless_ports::queue::CatalogMessage;
use nodeless_runtime::batch;
use nodeless_runtime::terraform::{Invocation, Operation, OtherCluster, same_cluster};
use serde::Deserialize;
use serde_json::Value;

/// The requested action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read what EC2 offers, and resolve every EC2NodeClass.
    Refresh {
        /// Whether the invocation fails if the catalog could not be refreshed: for a caller that waits for it, such as Terraform
        /// during installation. For messages of the queue, the schedule and the planner retry.
        required: bool,
    },
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
    #[error(transparent)]
    OtherCluster(#[from] OtherCluster),
}

#[derive(Deserialize)]
struct Refresh {
    #[serde(default)]
    required: bool,
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
/// now". `cluster` is the cluster that this function serves.
pub(crate) fn read(event: Value, cluster: &str) -> Result<Action, EventError> {
    let malformed = |error: serde_json::Error| EventError::Malformed(error.to_string());
    if event.get("Records").is_some() {
        // Each message means "look now": the EC2NodeClasses that it names are read from the cluster with all others.
        let _: Vec<CatalogMessage> = batch::well_formed(&serde_json::from_value(event).map_err(malformed)?);
        return Ok(Action::Refresh { required: false });
    }
    if event.get("action").is_none() {
        let Refresh { required } = serde_json::from_value(event).map_err(malformed)?;
        return Ok(Action::Refresh { required });
    }
    let leave: Leave = serde_json::from_value(event).map_err(malformed)?;
    let Verb::Leave = leave.action;
    same_cluster(&leave.cluster, cluster)?;
    // Terraform sends the same input on create, update and delete, and adds which of these it performs.
    let applies = leave.tf.is_some_and(|terraform| terraform.action != Operation::Delete);
    Ok(if applies { Action::Nothing } else { Action::Leave })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample(text: &str) -> Action {
        read(serde_json::from_str(text).unwrap(), "example").unwrap()
    }

    #[test]
    fn reads_what_the_queue_and_terraform_send() {
        assert_eq!(sample(include_str!("../../../events/catalog.schedule.json")), Action::Refresh { required: false });
        assert_eq!(
            sample(include_str!("../../../events/catalog.node-class.json")),
            Action::Refresh { required: false }
        );
        assert_eq!(sample("{}"), Action::Refresh { required: false });
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

    #[test]
    fn refuses_what_it_would_have_to_guess() {
        for event in [
            json!({ "required": "true" }),
            json!({ "required": null }),
            json!({ "Records": "none" }),
            json!("refresh"),
            json!({ "action": "leave", "cluster": "example", "tf": { "action": "destroy" } }),
        ] {
            let error = read(event.clone(), "example").unwrap_err().to_string();
            assert!(error.contains("cannot be read"), "{event}: {error}");
        }
    }
}
