//! Input of the functions that Terraform invokes.

use serde::Deserialize;

/// The object that Terraform's `aws_lambda_invocation` adds to the input under the key `tf`, with the lifecycle scope `CRUD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Invocation {
    /// The reason of the invocation.
    pub action: Operation,
}

/// What Terraform does with the invoking resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// The resource is created.
    Create,
    /// The input of the resource has changed.
    Update,
    /// The resource is destroyed.
    Delete,
}

/// An event is for another cluster than its function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event's \"cluster\" is {event:?} and CLUSTER_NAME is {environment}; this function serves one cluster only"
)]
pub struct OtherCluster {
    /// The cluster in the event.
    pub event: String,
    /// The cluster in the environment.
    pub environment: String,
}

/// Checks the cluster in an event against the environment.
///
/// # Errors
/// When they name different clusters.
pub fn same_cluster(event: &str, environment: &str) -> Result<(), OtherCluster> {
    if event == environment {
        return Ok(());
    }
    Err(OtherCluster { event: event.to_owned(), environment: environment.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_operation_that_terraform_does_not_have_is_refused() {
        let read = |value| serde_json::from_value::<Invocation>(value).map(|invocation| invocation.action).ok();
        assert_eq!(read(json!({ "action": "create", "prev_input": null })), Some(Operation::Create));
        assert_eq!(read(json!({ "action": "update" })), Some(Operation::Update));
        assert_eq!(read(json!({ "action": "delete" })), Some(Operation::Delete));
        assert_eq!((read(json!({})), read(json!({ "action": "destroy" }))), (None, None));
    }

    #[test]
    fn another_cluster_is_refused() {
        assert_eq!(same_cluster("one", "one"), Ok(()));
        let error = same_cluster("two", "one").unwrap_err().to_string();
        assert!(error.contains("\"two\"") && error.contains("one cluster only"), "{error}");
    }
}
