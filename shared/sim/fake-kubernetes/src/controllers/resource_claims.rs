//! ResourceClaims: made from templates for pods, released by pods that are done, and deleted with the last of them
//! (`pkg/controller/resourceclaim` of Kubernetes).

use super::Controller;
use super::feed::{Feed, Work};
use super::object::{
    NewEvent, all, controller_of, controller_reference, delete, has_ended, is_deleting, lenient, list, name, namespace,
    publish, text, uid, write_status,
};
use super::scheduler::FINALIZER;
use crate::server::path::Path as _;
use crate::server::resource::{PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource};
use crate::server::{ApiServer, CreateOptions, Status, UpdateOptions};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

const WATCHED: &[Resource] = &[PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES];
/// The annotation of a claim with the name that its pod has for it.
const NAME_IN_POD: &str = "resource.kubernetes.io/pod-claim-name";

/// Makes, releases and deletes ResourceClaims.
#[derive(Debug)]
pub struct ResourceClaimController {
    feed: Feed,
}

impl Default for ResourceClaimController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED) }
    }
}

impl Controller for ResourceClaimController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        match self.feed.work(api, now)? {
            Work::Nothing => return Ok(()),
            Work::Changes(changes) => {
                let concerns = |object: &Value| !list(object, "/spec/resourceClaims").is_empty();
                if !changes.iter().any(|change| change.resource != PODS || concerns(&change.object)) {
                    return Ok(());
                }
            }
            Work::Everything => {}
        }
        let mut pods = all(api, &PODS)?;
        pods.retain(|pod| !list(pod, "/spec/resourceClaims").is_empty());
        for pod in pods.iter().filter(|pod| !is_done(pod)) {
            make(api, pod, now)?;
        }
        let pods: HashMap<&str, &Arc<Value>> = pods.iter().map(|pod| (uid(pod), pod)).collect();
        for claim in all(api, &RESOURCE_CLAIMS)? {
            release(api, &claim, &pods)?;
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        None
    }
}

/// Whether a pod does not use its claims any more.
fn is_done(pod: &Value) -> bool {
    has_ended(pod) || (is_deleting(pod) && text(pod, "/spec/nodeName").is_empty())
}

/// Makes the claims of a pod that it has templates for, and writes their names to its status.
fn make(api: &ApiServer, pod: &Value, now: Timestamp) -> Result<(), Status> {
    let mut statuses = list(pod, "/status/resourceClaimStatuses").to_vec();
    let before = statuses.len();
    for claim in list(pod, "/spec/resourceClaims") {
        let own = text(claim, "/name");
        let template = text(claim, "/resourceClaimTemplateName");
        if template.is_empty() || is_deleting(pod) || statuses.iter().any(|status| status["name"] == own) {
            continue;
        }
        let made = match api.get(&RESOURCE_CLAIM_TEMPLATES, namespace(pod), template) {
            Ok(template) => api.create(&RESOURCE_CLAIMS, claim_for(&template, pod, own), &CreateOptions::default()),
            Err(error) => Err(error),
        };
        match made {
            Ok(made) => statuses.push(json!({ "name": own, "resourceClaimName": name(&made) })),
            Err(error) => {
                let message = format!("PodResourceClaim {own}: {}", error.message);
                let (component, reason) = ("resource_claim", "FailedResourceClaimCreation");
                publish(api, pod, &NewEvent { component, kind: "Warning", reason, message: &message }, now)?;
            }
        }
    }
    if statuses.len() == before {
        return Ok(());
    }
    let mut status = pod["status"].clone();
    status["resourceClaimStatuses"] = Value::Array(statuses);
    write_status(api, &PODS, pod, status)
}

/// The claim of a pod from a template.
fn claim_for(template: &Value, pod: &Value, own: &str) -> Value {
    let metadata = |field: &str| template.at(&format!("/spec/metadata/{field}")).cloned().unwrap_or_else(|| json!({}));
    let mut annotations = metadata("annotations");
    annotations[NAME_IN_POD] = json!(own);
    // The type of a pod is not in all its stored forms.
    let pod_of = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"] });
    json!({
        "metadata": {
            "generateName": format!("{}-{own}-", name(pod)), "namespace": namespace(pod), "labels": metadata("labels"),
            "annotations": annotations, "ownerReferences": [controller_reference(&pod_of)],
        },
        "spec": template["spec"]["spec"],
    })
}

/// Removes the pods that are done from a claim, its devices after the last one, and the claim if it was made for such a pod.
fn release(api: &ApiServer, claim: &Value, pods: &HashMap<&str, &Arc<Value>>) -> Result<(), Status> {
    let uses = |user: &&Value| pods.get(text(user, "/uid")).is_some_and(|pod| !is_done(pod));
    let reserved = list(claim, "/status/reservedFor");
    let users: Vec<&Value> = reserved.iter().filter(uses).collect();
    let is_protected = list(claim, "/metadata/finalizers").contains(&json!(FINALIZER));
    if users.len() < reserved.len() || (users.is_empty() && is_deleting(claim) && is_protected) {
        let mut status = claim["status"].as_object().cloned().unwrap_or_default();
        if users.is_empty() {
            status.remove("allocation");
            status.remove("reservedFor");
        } else {
            status.insert("reservedFor".to_owned(), json!(users));
        }
        write_status(api, &RESOURCE_CLAIMS, claim, Value::Object(status))?;
    }
    if !users.is_empty() {
        return Ok(());
    }
    if is_protected && (!reserved.is_empty() || is_deleting(claim)) {
        unprotect(api, claim)?;
    }
    let owner = controller_of(claim).filter(|owner| owner["kind"] == "Pod");
    match owner.and_then(|owner| pods.get(text(owner, "/uid"))) {
        Some(pod) if is_done(pod) && !is_deleting(claim) => delete(api, &RESOURCE_CLAIMS, claim, None),
        _ => Ok(()),
    }
}

fn unprotect(api: &ApiServer, claim: &Value) -> Result<(), Status> {
    let Ok(current) = api.get(&RESOURCE_CLAIMS, namespace(claim), name(claim)) else { return Ok(()) };
    let mut changed = current.as_ref().clone();
    if let Some(finalizers) = changed.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    lenient(api.update(&RESOURCE_CLAIMS, changed, &UpdateOptions::default()))
}
