//! The requests of the function.

use nodeless_kubernetes::install::{Rights, Wake};
use nodeless_runtime::terraform::{Invocation, Operation, OtherCluster, same_cluster};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A validated request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The cluster of the request.
    pub(crate) cluster: String,
    /// The requested action.
    pub(crate) action: Action,
}

/// The requested action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Apply everything.
    Install {
        /// The change of the webhook.
        wake: Wake,
        /// Whether the URL is an endpoint of the operator, which the control plane can reach through its own network route.
        own_endpoint: bool,
        /// What is granted on request.
        rights: Rights,
    },
    /// Remove everything except for the CRDs.
    Uninstall,
    /// Delete all NodePools, NodeClaims and EC2NodeClasses, and wait until their instances are terminated.
    RemoveNodes,
    /// Nothing: nodes are removed on `terraform destroy`, not before.
    Nothing,
}

/// Why a request is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EventError {
    #[error(
        "the event cannot be read: {0}; send {{\"action\":\"install\"}}, {{\"action\":\"uninstall\"}} or \
             {{\"action\":\"removeNodes\"}}"
    )]
    Malformed(String),
    #[error("no cluster is named: set CLUSTER_NAME, or \"cluster\" in the event")]
    NoCluster,
    #[error(transparent)]
    OtherCluster(#[from] OtherCluster),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    action: Verb,
    cluster: Option<String>,
    /// Absent leaves the webhook as it is; `null` removes it.
    #[serde(default, deserialize_with = "given")]
    wake_url: Option<Option<String>>,
    /// Whether the URL is an endpoint of the operator.
    #[serde(default)]
    own_endpoint: bool,
    /// Whether lifecycle may nominate nodes for pods.
    #[serde(default = "yes")]
    nominations: bool,
    /// Whether admins of namespaces may manage the objects of nodeless in them.
    #[serde(default)]
    aggregate_to_admin: bool,
    /// Added by Terraform.
    tf: Option<Invocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Verb {
    Install,
    Uninstall,
    RemoveNodes,
}

const fn yes() -> bool {
    true
}

/// Distinguishes `null` from a field that is absent.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Parses a request. `cluster` is the cluster that this function serves.
pub(crate) fn read(event: Value, cluster: Option<&str>) -> Result<Request, EventError> {
    let event: Event = serde_json::from_value(event).map_err(|error| EventError::Malformed(error.to_string()))?;
    if let (Some(event), Some(environment)) = (&event.cluster, cluster) {
        same_cluster(event, environment)?;
    }
    let cluster = event.cluster.or_else(|| cluster.map(str::to_owned)).ok_or(EventError::NoCluster)?;
    // On destroy Terraform sends the same input with the action `delete`.
    let destroys = event.tf.is_some_and(|terraform| terraform.action == Operation::Delete);
    let applies = event.tf.is_some() && !destroys;
    let action = match event.action {
        Verb::Uninstall => Action::Uninstall,
        Verb::RemoveNodes if applies => Action::Nothing,
        Verb::RemoveNodes => Action::RemoveNodes,
        Verb::Install if destroys => Action::Uninstall,
        Verb::Install => Action::Install {
            wake: wake(event.wake_url),
            own_endpoint: event.own_endpoint,
            rights: Rights { nominations: event.nominations, aggregate_to_admin: event.aggregate_to_admin },
        },
    };
    Ok(Request { cluster, action })
}

fn wake(url: Option<Option<String>>) -> Wake {
    match url {
        None => Wake::Keep,
        Some(None) => Wake::Off,
        Some(Some(url)) => Wake::Url(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample(text: &str) -> Request {
        read(serde_json::from_str(text).unwrap(), None).unwrap()
    }

    #[test]
    fn reads_what_terraform_sends() {
        let install = sample(include_str!("../../../events/installer.install.json"));
        assert_eq!(install.cluster, "example");
        let Action::Install { wake: Wake::Url(url), own_endpoint: false, rights } = install.action else {
            panic!("{install:?}")
        };
        assert!(url.starts_with("https://") && rights == Rights::default());
        let uninstall = sample(include_str!("../../../events/installer.uninstall.json"));
        assert_eq!(uninstall.action, Action::Uninstall);
        let remove = sample(include_str!("../../../events/installer.remove-nodes.json"));
        assert_eq!(remove.action, Action::RemoveNodes);
    }

    #[test]
    fn a_url_that_is_absent_is_not_a_url_that_is_null() {
        let action = |event| read(event, Some("one")).unwrap().action;
        let install = |wake| Action::Install { wake, own_endpoint: false, rights: Rights::default() };
        assert_eq!(action(json!({ "action": "install" })), install(Wake::Keep));
        assert_eq!(action(json!({ "action": "install", "wakeUrl": null })), install(Wake::Off));
        let with = |rights| Action::Install { wake: Wake::Keep, own_endpoint: false, rights };
        let without = with(Rights { nominations: false, ..Rights::default() });
        assert_eq!(action(json!({ "action": "install", "nominations": false })), without);
        let aggregated = with(Rights { aggregate_to_admin: true, ..Rights::default() });
        assert_eq!(action(json!({ "action": "install", "aggregateToAdmin": true })), aggregated);
        assert_eq!(action(json!({ "action": "uninstall" })), Action::Uninstall);
    }

    #[test]
    fn nodes_are_removed_on_destroy_or_when_a_person_asks_and_never_on_apply() {
        let action = |event| read(event, Some("one")).unwrap().action;
        let by_terraform = |what: &str| action(json!({ "action": "removeNodes", "tf": { "action": what } }));
        assert_eq!(by_terraform("create"), Action::Nothing);
        assert_eq!(by_terraform("update"), Action::Nothing);
        assert_eq!(by_terraform("delete"), Action::RemoveNodes);
        assert_eq!(action(json!({ "action": "removeNodes" })), Action::RemoveNodes);
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for (event, word) in [
            (json!({}), "action"),
            (json!({ "action": "destroy" }), "destroy"),
            (json!("install"), "cannot be read"),
            (json!({ "action": "install", "wakeUrl": 7 }), "cannot be read"),
            (json!({ "action": "install", "cluster": "two" }), "one cluster only"),
        ] {
            let error = read(event, Some("one")).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(read(json!({ "action": "install" }), None), Err(EventError::NoCluster));
    }
}
