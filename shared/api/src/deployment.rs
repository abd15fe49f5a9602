//! Deployments as JSON: what a surge reads of them, and the patches that change them.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::labels;
use nodeless_model::object::PodRef;
use nodeless_model::surge::{DeploymentChange, OwningDeployment, Raise, RaisedDeployment, ReadyPod};
use serde::Deserialize;
use serde_json::{Value, json};

/// The number of the template's version, on a Deployment and on its ReplicaSets.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The value of the label of raised Deployments.
const RAISED: &str = "raised";
/// The share of the replicas of a rolling update without one of its own.
const DEFAULT_SHARE: &str = "25%";

/// Why a Deployment is not changed: it is not as the change expects it, and has to be read again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unexpected(pub String);

/// The name of the Deployment that controls a ReplicaSet.
#[must_use]
pub fn owner(replica_set: &Value) -> Option<&str> {
    let owners = replica_set.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let owner = owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == "Deployment")?;
    owner["name"].as_str()
}

/// The label selector of a Deployment's pods, as a query parameter writes it; `None` if it has none, which the API server does not
/// admit.
#[must_use]
pub fn selector(deployment: &Value) -> Option<String> {
    let selector = deployment.pointer("/spec/selector")?;
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let labels = labels.map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    let expressions = expressions.map(|expression| {
        let key = expression["key"].as_str()?;
        let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        Some(match expression["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        })
    });
    let terms: Vec<String> = labels.chain(expressions).collect::<Option<_>>()?;
    (!terms.is_empty()).then(|| terms.join(","))
}

/// A Deployment as a surge uses it, for a pod of one of its ReplicaSets. `pods` are those that its selector selects.
#[must_use]
pub fn owning<'v>(
    deployment: &Value,
    replica_set: &Value,
    pods: impl IntoIterator<Item = &'v Value>,
) -> OwningDeployment {
    let number = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_i64);
    let count = |pointer: &str, absent: i64| i32::try_from(number(pointer).unwrap_or(absent)).unwrap_or(i32::MAX);
    let replicas = count("/spec/replicas", 1);
    let rolling = deployment.pointer("/spec/strategy/rollingUpdate").unwrap_or(&Value::Null);
    let (max_surge, max_unavailable) = surge_and_unavailable(rolling, replicas);
    let revision = annotation(deployment, REVISION);
    OwningDeployment {
        name: deployment.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        observed: revision.is_some() && number("/status/observedGeneration") >= number("/metadata/generation"),
        current: annotation(replica_set, REVISION) == revision,
        paused: deployment.pointer("/spec/paused") == Some(&Value::Bool(true)),
        recreate: deployment.pointer("/spec/strategy/type").is_some_and(|kind| kind == "Recreate"),
        replicas,
        max_surge,
        max_unavailable,
        min_ready: SignedDuration::from_secs(number("/spec/minReadySeconds").unwrap_or(0)),
        ready: ready(pods),
        raise: raise(deployment),
    }
}

/// The ready pods of ReplicaSets among these.
fn ready<'v>(pods: impl IntoIterator<Item = &'v Value>) -> Vec<ReadyPod> {
    let mut ready: Vec<ReadyPod> = pods.into_iter().filter_map(ready_pod).collect();
    ready.sort_by(|one, other| (one.since, &one.pod.name).cmp(&(other.since, &other.pod.name)));
    ready
}

fn ready_pod(pod: &Value) -> Option<ReadyPod> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let is_replica = owners.iter().any(|owner| owner["controller"] == true && owner["kind"] == "ReplicaSet");
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready" && condition["status"] == "True")?;
    if !is_replica || pod.pointer("/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let part = |pointer: &str| text(pointer).unwrap_or_default().to_owned();
    Some(ReadyPod {
        pod: PodRef {
            namespace: part("/metadata/namespace"),
            name: part("/metadata/name"),
            uid: part("/metadata/uid"),
        },
        node: text("/spec/nodeName")?.to_owned(),
        since: ready["lastTransitionTime"].as_str().and_then(|time| time.parse().ok()),
    })
}

/// The JSON merge patch for a change, which the API server applies only to this version of the Deployment; `None` if there is
/// nothing to change.
///
/// # Errors
/// When the Deployment is not as the change expects it.
pub fn patch(deployment: &Value, change: &DeploymentChange) -> Result<Option<Value>, Unexpected> {
    let version = deployment.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    let replicas = replicas(deployment);
    let present = raise(deployment);
    Ok(match change {
        DeploymentChange::Restart { at } => {
            // A later restart replaces the pod too.
            let restarted = deployment.pointer("/spec/template").and_then(|it| annotation(it, labels::RESTARTED_AT));
            let is_newer = restarted.and_then(|text| text.parse::<Timestamp>().ok()).is_some_and(|last| last >= *at);
            let annotations = json!({ labels::RESTARTED_AT: format!("{at:.0}") });
            (!is_newer && restarted != Some(&format!("{at:.0}"))).then(|| {
                json!({
                    "metadata": { "resourceVersion": version },
                    "spec": { "template": { "metadata": { "annotations": annotations } } },
                })
            })
        }
        DeploymentChange::Raise(raise) => match present {
            Some(present) if present.is_for(&raise.claim, &raise.pod) => None,
            Some(present) => {
                return Err(Unexpected(format!("its replicas are raised for NodeClaim {}", present.claim)));
            }
            None if replicas != i64::from(raise.from) => {
                return Err(Unexpected(format!("it has {replicas} replicas, not {}", raise.from)));
            }
            None => Some(json!({
                "metadata": {
                    "resourceVersion": version,
                    "annotations": { labels::SURGE: written(raise, deployment) },
                    "labels": { labels::SURGE: RAISED },
                },
                "spec": { "replicas": raise.to },
            })),
        },
        DeploymentChange::Lower { claim, pod } => {
            present.filter(|raise| raise.is_for(claim, pod)).map(|raise| lowered(deployment, &raise))
        }
        DeploymentChange::LowerLeftBehind(raise) => {
            (present.as_ref() == Some(raise) && is_as_raised(deployment, raise)).then(|| lowered(deployment, raise))
        }
    })
}

/// The patch that undoes a raise. Replicas that another party has changed since stay as they are.
fn lowered(deployment: &Value, raise: &Raise) -> Value {
    let version = &deployment["metadata"]["resourceVersion"];
    let nothing = json!({ labels::SURGE: null });
    let metadata = json!({ "resourceVersion": version, "annotations": nothing, "labels": nothing });
    if replicas(deployment) == i64::from(raise.to) {
        json!({ "metadata": metadata, "spec": { "replicas": raise.from } })
    } else {
        json!({ "metadata": metadata })
    }
}

fn replicas(deployment: &Value) -> i64 {
    deployment.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

/// The raise of a Deployment, if its annotation has one.
#[must_use]
pub fn raised(deployment: &Value) -> Option<RaisedDeployment> {
    let text = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let raise = raise(deployment)?;
    Some(RaisedDeployment {
        namespace: text("/metadata/namespace")?,
        name: text("/metadata/name")?,
        is_as_raised: is_as_raised(deployment, &raise),
        raise,
    })
}

/// Whether a raise left the Deployment as it is now. An annotation that was copied from another Deployment has the uid of that one, and
/// each change of a spec increments the generation of its object.
fn is_as_raised(deployment: &Value, raise: &Raise) -> bool {
    let metadata = &deployment["metadata"];
    let left = annotation(deployment, labels::SURGE).and_then(|text| serde_json::from_str::<Left>(text).ok());
    left.is_some_and(|left| metadata["uid"] == left.deployment && metadata["generation"] == left.generation)
        && replicas(deployment) == i64::from(raise.to)
}

/// What an annotation has of the Deployment that it was written for.
#[derive(Deserialize)]
struct Left {
    /// The uid.
    deployment: String,
    /// The generation once the replicas are raised.
    generation: i64,
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// The raise in the annotation. A text that nodeless did not write counts as none, and is replaced.
fn raise(deployment: &Value) -> Option<Raise> {
    serde_json::from_str(annotation(deployment, labels::SURGE)?).ok()
}

/// The annotation. The patch with it is applied to this version of the Deployment only, and increments the generation by one.
fn written(raise: &Raise, deployment: &Value) -> String {
    let Raise { claim, pod, from, to, at } = raise;
    let metadata = &deployment["metadata"];
    let generation = metadata["generation"].as_i64().unwrap_or_default().saturating_add(1);
    json!({
        "claim": claim, "pod": pod, "from": from, "to": to, "at": at,
        "deployment": metadata["uid"], "generation": generation,
    })
    .to_string()
}

/// The pods that a rolling update may create above the replicas, and leave below them, as the Deployment controller computes
/// them: `maxSurge` is rounded up, `maxUnavailable` down, and one may be unavailable if both are zero.
pub(crate) fn surge_and_unavailable(rolling: &Value, replicas: i32) -> (i32, i32) {
    let surge = share(rolling.get("maxSurge"), replicas, true);
    let unavailable = share(rolling.get("maxUnavailable"), replicas, false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

fn share(value: Option<&Value>, replicas: i32, round_up: bool) -> i32 {
    let of_replicas = |text: &str| {
        let percent = text.strip_suffix('%').and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
        let hundredfold = percent.saturating_mul(i64::from(replicas));
        if round_up { hundredfold.saturating_add(99) / 100 } else { hundredfold / 100 }
    };
    let number = match value {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(0),
        Some(Value::String(text)) => of_replicas(text),
        _ => of_replicas(DEFAULT_SHARE),
    };
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "web-uid", "generation": 4, "resourceVersion": "17",
                "labels": { "app": "web" }, "annotations": { REVISION: "2", "team": "shop" },
            },
            "spec": { "replicas": 1, "template": { "metadata": { "labels": { "app": "web" } } } },
            "status": { "observedGeneration": 4 },
        })
    }

    fn set(revision: &str) -> Value {
        json!({ "metadata": {
            "annotations": { REVISION: revision },
            "ownerReferences": [{ "kind": "Deployment", "name": "web", "controller": true }],
        } })
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn raised() -> Raise {
        Raise { claim: "a".into(), pod: "p".into(), from: 1, to: 2, at: at(10) }
    }

    fn merged(object: &Value, patch: Option<Value>) -> Value {
        fn merge(target: &mut Value, patch: &Value) {
            let Some(fields) = patch.as_object() else { return target.clone_from(patch) };
            for (key, value) in fields {
                if value.is_null() {
                    target.as_object_mut().unwrap().remove(key);
                } else {
                    merge(&mut target[key], value);
                }
            }
        }
        let mut object = object.clone();
        merge(&mut object, &patch.unwrap());
        object
    }

    #[test]
    fn reads_what_a_surge_needs() {
        let read = owning(&deployment(), &set("2"), []);
        assert_eq!((read.name.as_str(), read.observed, read.current), ("web", true, true));
        assert_eq!((read.replicas, read.max_surge, read.max_unavailable), (1, 1, 0), "25% of one, up and down");
        assert_eq!((read.ready, read.min_ready, read.raise), (Vec::new(), SignedDuration::ZERO, None));
        assert!(!owning(&deployment(), &set("1"), []).current);
        let mut changed = deployment();
        changed["metadata"]["generation"] = json!(5);
        changed["spec"]["minReadySeconds"] = json!(30);
        let read = owning(&changed, &set("2"), []);
        assert_eq!((read.observed, read.min_ready), (false, SignedDuration::from_secs(30)));
        assert_eq!(owner(&set("1")), Some("web"));
        assert_eq!(owner(&json!({ "metadata": {} })), None);
    }

    #[test]
    fn only_ready_pods_of_replica_sets_that_stay_count_and_the_oldest_is_first() {
        let pod = |name: &str, since: &str| {
            json!({
                "metadata": {
                    "namespace": "default", "name": name, "uid": format!("uid-{name}"),
                    "ownerReferences": [{ "kind": "ReplicaSet", "name": "web-1", "controller": true }],
                },
                "spec": { "nodeName": "node-1" },
                "status": { "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": since }] },
            })
        };
        let mut deleted = pod("deleted", "1970-01-01T00:00:01Z");
        deleted["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:01:00Z");
        let mut starting = pod("starting", "1970-01-01T00:00:01Z");
        starting["status"]["conditions"][0]["status"] = json!("False");
        let mut alone = pod("alone", "1970-01-01T00:00:01Z");
        alone["metadata"]["ownerReferences"] = json!([]);
        let pods = [pod("b", "1970-01-01T00:00:20Z"), deleted, starting, alone, pod("a", "1970-01-01T00:00:10Z")];
        let read = owning(&deployment(), &set("2"), &pods).ready;
        let names: Vec<&str> = read.iter().map(|ready| ready.pod.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let expected = PodRef { namespace: "default".into(), name: "a".into(), uid: "uid-a".into() };
        assert_eq!(read[0], ReadyPod { pod: expected, node: "node-1".into(), since: Some(at(10)) });
    }

    #[test]
    fn a_selector_is_written_as_a_query_parameter() {
        let of = |selector: Value| super::selector(&json!({ "spec": { "selector": selector } }));
        assert_eq!(of(json!({ "matchLabels": { "app": "web", "tier": "front" } })).unwrap(), "app=web,tier=front");
        let expressions = json!([
            { "key": "a", "operator": "In", "values": ["x", "y"] }, { "key": "b", "operator": "NotIn", "values": ["z"] },
            { "key": "c", "operator": "Exists" }, { "key": "d", "operator": "DoesNotExist" },
        ]);
        assert_eq!(of(json!({ "matchExpressions": expressions })).unwrap(), "a in (x,y),b notin (z),c,!d");
        for none in [json!({}), json!({ "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1"] }] })] {
            assert_eq!(of(none), None);
        }
    }

    #[test]
    fn a_rolling_update_is_computed_as_by_its_controller() {
        for (rolling, replicas, expected) in [
            (json!(null), 1, (1, 0)),
            (json!(null), 4, (1, 1)),
            (json!({ "maxSurge": 0, "maxUnavailable": 0 }), 3, (0, 1)),
            (json!({ "maxSurge": "10%", "maxUnavailable": 0 }), 11, (2, 0)),
            (json!({ "maxSurge": 2, "maxUnavailable": "50%" }), 3, (2, 1)),
        ] {
            assert_eq!(surge_and_unavailable(&rolling, replicas), expected, "{rolling}");
        }
    }

    #[test]
    fn a_restart_is_that_of_kubectl_and_happens_once() {
        let restart = DeploymentChange::Restart { at: at(10) };
        let object = merged(&deployment(), patch(&deployment(), &restart).unwrap());
        assert_eq!(
            object["spec"]["template"]["metadata"],
            json!({ "labels": { "app": "web" }, "annotations": { labels::RESTARTED_AT: "1970-01-01T00:00:10Z" } })
        );
        assert_eq!(patch(&object, &restart), Ok(None));
        let older = DeploymentChange::Restart { at: at(5) };
        assert_eq!(patch(&object, &older), Ok(None), "a later restart replaces the pod too");
        assert!(patch(&object, &DeploymentChange::Restart { at: at(20) }).unwrap().is_some());
    }

    #[test]
    fn a_raise_is_recorded_with_it_and_undone_with_its_record() {
        let raise = DeploymentChange::Raise(raised());
        let lower = DeploymentChange::Lower { claim: "a".into(), pod: "p".into() };
        assert_eq!(patch(&deployment(), &lower), Ok(None));
        let body = patch(&deployment(), &raise).unwrap();
        assert_eq!(body.as_ref().unwrap()["metadata"]["resourceVersion"], "17");
        let object = merged(&deployment(), body);
        assert_eq!((object["spec"]["replicas"].as_i64(), super::raise(&object)), (Some(2), Some(raised())));
        assert_eq!(patch(&object, &raise), Ok(None));
        let other = DeploymentChange::Raise(Raise { pod: "q".into(), ..raised() });
        assert!(patch(&object, &other).unwrap_err().to_string().contains("NodeClaim a"));
        assert_eq!(patch(&object, &DeploymentChange::Lower { claim: "a".into(), pod: "q".into() }), Ok(None));
        let object = merged(&object, patch(&object, &lower).unwrap());
        assert_eq!(object, deployment());
    }

    #[test]
    fn replicas_that_another_party_changed_stay() {
        let mut object = deployment();
        object["spec"]["replicas"] = json!(3);
        assert!(patch(&object, &DeploymentChange::Raise(raised())).unwrap_err().to_string().contains("3 replicas"));
        object["metadata"]["annotations"][labels::SURGE] = json!(written(&raised(), &deployment()));
        let lower = DeploymentChange::Lower { claim: "a".into(), pod: "p".into() };
        let object = merged(&object, patch(&object, &lower).unwrap());
        assert_eq!(object["spec"]["replicas"], 3);
        assert_eq!(super::raise(&object), None);
    }

    #[test]
    fn a_raise_that_was_left_behind_is_undone_only_if_nothing_changed_since() {
        let lower = DeploymentChange::LowerLeftBehind(raised());
        assert_eq!(patch(&deployment(), &lower), Ok(None));
        let mut left = merged(&deployment(), patch(&deployment(), &DeploymentChange::Raise(raised())).unwrap());
        assert_eq!(left["metadata"]["labels"][labels::SURGE], RAISED);
        // The API server increments it.
        left["metadata"]["generation"] = json!(5);
        let found = super::raised(&left).unwrap();
        let expected =
            RaisedDeployment { namespace: "shop".into(), name: "web".into(), raise: raised(), is_as_raised: true };
        assert_eq!(found, expected);
        let lowered = merged(&left, patch(&left, &lower).unwrap());
        assert_eq!(
            (&lowered["spec"], &lowered["metadata"]["labels"]),
            (&deployment()["spec"], &json!({ "app": "web" }))
        );
        let changed = |pointer: &str, value: Value| {
            let mut object = left.clone();
            *object.pointer_mut(pointer).unwrap() = value;
            object
        };
        let older = json!({ "claim": "a", "pod": "p", "from": 1, "to": 2, "at": at(10) }).to_string();
        for (other, why) in [
            (changed("/metadata/generation", json!(6)), "another party changed its spec"),
            (changed("/spec/replicas", json!(3)), "an autoscaler raised it further"),
            (changed("/metadata/uid", json!("copy-uid")), "the annotation was copied from another Deployment"),
            (changed("/metadata/annotations/nodeless.sh~1surge", json!(older)), "an earlier version wrote it"),
        ] {
            assert!(!super::raised(&other).unwrap().is_as_raised, "{why}");
            assert_eq!(patch(&other, &lower), Ok(None), "{why}");
        }
        let again = DeploymentChange::LowerLeftBehind(Raise { at: at(20), ..raised() });
        assert_eq!(patch(&left, &again), Ok(None), "it was lowered and raised again meanwhile");
        assert_eq!(super::raised(&changed("/metadata/annotations/nodeless.sh~1surge", json!("theirs"))), None);
    }
}
