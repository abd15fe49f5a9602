//! The CustomResourceDefinitions, in a cluster that may have those of Karpenter.
//!
//! A cluster that ran Karpenter has CRDs of the same names, with objects. The installation adds missing fields to such a CRD,
//! which loses nothing. A CRD that has all fields, or more, is not changed.

use super::apply::{apply, path, present, title, with_version};
use super::{InstallError, Outcome, Step};
use crate::connection::Connection;
use nodeless_api::resources;
use nodeless_cluster::merge::{is_deleting, string, strings};
use nodeless_doctor::{Definition, DefinitionState};
use nodeless_model::shell::quoted;
use nodeless_ports::PortError;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Optional kinds, whose CRDs other autoscalers may also install. A conflict with one of these is reported, and the installation
/// continues.
const OPTIONAL: [&str; 3] = [
    resources::NODE_OVERLAYS.definition,
    resources::CAPACITY_BUFFERS.definition,
    resources::PROVISIONING_REQUESTS.definition,
];
const MANAGED_BY: &str = "/metadata/labels/app.kubernetes.io~1managed-by";
/// How long the API server may take to serve a new definition; it takes about a second.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(250);
/// The maximum number of fields in a note; the others are counted.
const NAMED_FIELDS: usize = 4;

/// The action for one definition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    /// Apply the built-in definition; with `label`, nodeless is its only owner.
    Apply { label: bool, note: String },
    /// Keep the existing definition.
    Keep { note: String },
    /// Do nothing at all.
    Refuse { reason: String },
}

/// How the installation would treat each definition. Nothing is changed.
///
/// # Errors
/// When a definition cannot be read.
pub async fn review(connection: &Connection) -> Result<Vec<Definition>, InstallError> {
    let mut reviewed = Vec::new();
    for crd in ours()? {
        let present = present(connection, &crd).await?;
        let name = string(&crd, "/metadata/name").unwrap_or_default().to_owned();
        reviewed.push(Definition { name, optional: is_optional(&crd), state: state(present.as_ref(), &crd) });
    }
    Ok(reviewed)
}

fn state(present: Option<&Value>, ours: &Value) -> DefinitionState {
    let Some(existing) = present else { return DefinitionState::Missing };
    if let Some(reason) = obstacle(existing, ours) {
        return DefinitionState::Refused(reason);
    }
    let (theirs, mine) = (fields(existing, target(ours)), fields(ours, target(ours)));
    let foreign = string(existing, MANAGED_BY) != Some("nodeless");
    let differs = !mine.lacks(&theirs).is_empty() || (foreign && !theirs.lacks(&mine).is_empty());
    match decide(present, ours) {
        Decision::Apply { note, .. } | Decision::Keep { note } if differs || helm_release(existing).is_some() => {
            DefinitionState::Noted(note)
        }
        _ => DefinitionState::Fine,
    }
}

/// Whether a definition of another tool has every field that this version uses, and who manages it; `None` for one of nodeless.
pub(super) fn foreign(present: &Value, ours: &Value) -> Option<(bool, String)> {
    if string(present, MANAGED_BY) == Some("nodeless") {
        return None;
    }
    let complete = obstacle(present, ours).is_none()
        && fields(present, target(ours)).lacks(&fields(ours, target(ours))).is_empty();
    let (Decision::Apply { note, .. } | Decision::Keep { note } | Decision::Refuse { reason: note }) =
        decide(Some(present), ours);
    Some((complete, note))
}

/// The names of the definitions.
pub(super) fn names() -> Result<Vec<String>, InstallError> {
    Ok(ours()?.iter().filter_map(|crd| string(crd, "/metadata/name").map(str::to_owned)).collect())
}

pub(super) fn ours() -> Result<Vec<Value>, InstallError> {
    let embedded = |reason: String| InstallError::Embedded { object: "the definitions".to_owned(), reason };
    let crds = nodeless_api::crds().map_err(|error| embedded(error.to_string()))?;
    crds.iter()
        .map(|crd| {
            let mut value = serde_json::to_value(crd).map_err(|error| embedded(error.to_string()))?;
            if let Some(fields) = value.as_object_mut() {
                fields.remove("status");
            }
            Ok(value)
        })
        .collect()
}

/// Installs the CRDs and waits until the API server serves them. Nothing is changed if an existing one conflicts.
pub(super) async fn install(connection: &Connection) -> Result<Vec<Step>, InstallError> {
    let mut decided = Vec::new();
    for crd in ours()? {
        let decision = decide(present(connection, &crd).await?.as_ref(), &crd);
        if let Decision::Refuse { reason } = decision {
            return Err(InstallError::Refused { object: title(&crd), reason });
        }
        decided.push((crd, decision));
    }
    let mut steps = Vec::new();
    for (mut crd, decision) in decided {
        match decision {
            Decision::Apply { label, note } => {
                if label {
                    crd["metadata"]["labels"] =
                        json!({ "app.kubernetes.io/name": "nodeless", "app.kubernetes.io/managed-by": "nodeless" });
                    crd = with_version(crd);
                }
                steps.push(apply(connection, &crd, note).await?);
            }
            Decision::Keep { note } => {
                steps.push(Step { object: title(&crd), outcome: Outcome::Kept, note });
            }
            Decision::Refuse { reason } => return Err(InstallError::Refused { object: title(&crd), reason }),
        }
        if !is_optional(&crd) && !connection.dry_run {
            wait_until_served(connection, &crd).await?;
        }
    }
    Ok(steps)
}

/// The action for a definition, given the existing one.
fn decide(present: Option<&Value>, ours: &Value) -> Decision {
    let Some(present) = present else { return Decision::Apply { label: true, note: String::new() } };
    if let Some(reason) = obstacle(present, ours) {
        return if is_optional(ours) {
            Decision::Keep { note: format!("not changed, and its objects are not used: {reason}") }
        } else {
            Decision::Refuse { reason }
        };
    }
    let (theirs, mine) = (fields(present, target(ours)), fields(ours, target(ours)));
    let (more, fewer) = (mine.lacks(&theirs), theirs.lacks(&mine));
    if string(present, MANAGED_BY) == Some("nodeless") {
        return if more.is_empty() {
            Decision::Apply { label: true, note: String::new() }
        } else {
            let note = format!("a newer nodeless installed it ({}); not downgraded", listed("it also has", &more));
            Decision::Keep { note }
        };
    }
    let helm = helm_release(present);
    let owner = helm.as_ref().map_or_else(|| "another tool".to_owned(), |release| format!("Helm release {release}"));
    let mut note = match (more.is_empty(), fewer.is_empty()) {
        (true, true) => format!("{owner} manages it and it has every field; left as it is"),
        (true, false) => format!("extended what {owner} manages ({})", listed("it lacked", &fewer)),
        (false, true) => {
            format!("{owner} manages it and it is newer ({}); left as it is", listed("it also has", &more))
        }
        (false, false) => format!(
            "{owner} manages it; left as it is, although it lacks fields, which cannot be used ({}; {})",
            listed("it lacks", &fewer),
            listed("it also has", &more)
        ),
    };
    note.push_str(&helm_warning(present));
    if more.is_empty() && !fewer.is_empty() {
        Decision::Apply { label: helm.is_none(), note }
    } else {
        Decision::Keep { note }
    }
}

pub(super) fn is_optional(crd: &Value) -> bool {
    string(crd, "/metadata/name").is_some_and(|name| OPTIONAL.contains(&name))
}

/// The version that nodeless reads and writes: the first one of a built-in definition.
fn target(ours: &Value) -> &str {
    string(ours, "/spec/versions/0/name").unwrap_or("v1")
}

/// Why an existing definition cannot be used.
fn obstacle(present: &Value, ours: &Value) -> Option<String> {
    if is_deleting(present) {
        return Some("it is being deleted with all its objects; wait until it no longer exists".to_owned());
    }
    if string(present, "/spec/conversion/strategy") == Some("Webhook") {
        return Some(
            "its objects are converted by a webhook of Karpenter, and cannot be read once Karpenter is gone; upgrade \
             Karpenter to 1.1 or later first, whose definitions need none"
                .to_owned(),
        );
    }
    let target = target(ours);
    // All versions of a built-in definition have the same schema.
    let own = |name: &str| version(ours, name).is_some();
    let stored = strings(present, "/status/storedVersions");
    if let Some(old) = stored.iter().find(|version| !own(version)) {
        return Some(format!(
            "objects may still be stored as {old}; upgrade Karpenter to 1.1 or later first, which migrates them"
        ));
    }
    for pointer in ["/spec/names/kind", "/spec/names/plural", "/spec/scope"] {
        if string(present, pointer) != string(ours, pointer) {
            let show = |crd| string(crd, pointer).unwrap_or("nothing").to_owned();
            return Some(format!("its {pointer} is {} and not {}", show(present), show(ours)));
        }
    }
    let stores = versions(present).any(|found| found["storage"] == true && found["name"].as_str().is_some_and(own));
    match version(present, target) {
        Some(found) if found["served"] == true && stores => None,
        _ if is_optional(ours) => Some(format!("it does not serve and store {target}; upgrade what brought it")),
        _ => Some(format!("it does not serve and store {target}; upgrade Karpenter to 1.1 or later first")),
    }
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

fn version<'a>(crd: &'a Value, name: &str) -> Option<&'a Value> {
    versions(crd).find(|version| version["name"] == name)
}

/// The fields of a definition's version.
#[derive(Debug, Default)]
struct Fields {
    /// The named fields, as paths.
    named: BTreeSet<String>,
    /// The paths of objects that accept any field.
    open: BTreeSet<String>,
}

impl Fields {
    /// The fields that another definition accepts and this one would prune. Nothing is pruned below an object that accepts any
    /// field.
    fn lacks(&self, other: &Self) -> Vec<String> {
        let named = other.named.iter().filter(|path| !self.named.contains(*path) && !self.takes(path));
        let open = other.open.iter().filter(|path| !self.takes(path));
        named.cloned().chain(open.map(|path| format!("any field of {path}"))).collect()
    }

    fn takes(&self, path: &str) -> bool {
        let within = |open: &String| {
            path.strip_prefix(open.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
        };
        self.open.iter().any(within)
    }
}

fn fields(crd: &Value, name: &str) -> Fields {
    let mut found = Fields::default();
    if let Some(schema) = version(crd, name).and_then(|version| version.pointer("/schema/openAPIV3Schema")) {
        collect(schema, "", &mut found);
    }
    found
}

fn collect(schema: &Value, path: &str, found: &mut Fields) {
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(field, &inner, found);
        found.named.insert(inner);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = schema.get(key) {
            collect(inner, &format!("{path}{suffix}"), found);
        }
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        found.open.insert(path.to_owned());
    }
}

fn listed(intro: &str, fields: &[String]) -> String {
    let named: Vec<&str> = fields.iter().take(NAMED_FIELDS).map(String::as_str).collect();
    let rest = match fields.len().saturating_sub(NAMED_FIELDS) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("{intro} {}{rest}", named.join(", "))
}

/// The Helm release that a definition belongs to, as `NAMESPACE/NAME`.
fn helm_release(crd: &Value) -> Option<String> {
    let name = string(crd, "/metadata/annotations/meta.helm.sh~1release-name")?;
    let namespace = string(crd, "/metadata/annotations/meta.helm.sh~1release-namespace").unwrap_or("default");
    Some(format!("{namespace}/{name}"))
}

fn helm_warning(crd: &Value) -> String {
    let Some(release) = helm_release(crd) else { return String::new() };
    let (namespace, name) = release.split_once('/').unwrap_or(("default", &release));
    format!(
        "; never uninstall that release, because Helm would delete the definition and all its objects: to remove only the \
        release, delete its record (kubectl -n {} delete secret -l {})",
        quoted(namespace),
        quoted(&format!("owner=helm,name={name}"))
    )
}

/// Waits until the API server serves a definition.
async fn wait_until_served(connection: &Connection, crd: &Value) -> Result<(), InstallError> {
    let deadline = Instant::now() + SERVED_WITHIN;
    loop {
        let object = connection.find("Kubernetes install", &path(crd)?).await.map_err(PortError::from)?;
        let reason = match object.as_ref().map(condition) {
            Some(Ok(())) => return Ok(()),
            Some(Err(reason)) => reason,
            None => "it was deleted again".to_owned(),
        };
        if Instant::now() >= deadline {
            return Err(InstallError::NotServed { object: title(crd), reason });
        }
        sleep(POLL).await;
    }
}

/// Whether a definition is served; the error is the reason if not.
fn condition(crd: &Value) -> Result<(), String> {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    let find = |kind: &str| conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    if find("Established").is_some_and(|condition| condition["status"] == "True") {
        return Ok(());
    }
    let refused = find("NamesAccepted").filter(|condition| condition["status"] == "False");
    let message = refused.and_then(|condition| condition["message"].as_str());
    Err(message.unwrap_or("its condition Established is not true yet; run the installer again").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node_pools() -> Value {
        ours().unwrap().into_iter().find(|crd| crd["metadata"]["name"] == "nodepools.karpenter.sh").unwrap()
    }

    fn helm(mut crd: Value) -> Value {
        crd["metadata"]["labels"] = json!({ "app.kubernetes.io/managed-by": "Helm" });
        crd["metadata"]["annotations"] =
            json!({ "meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system" });
        crd
    }

    fn spec(crd: &mut Value) -> &mut serde_json::Map<String, Value> {
        crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties")
            .and_then(Value::as_object_mut)
            .unwrap()
    }

    #[test]
    fn the_release_is_one_word_of_the_command() {
        let mut crd = helm(node_pools());
        crd["metadata"]["annotations"]["meta.helm.sh/release-name"] = json!("a;reboot");
        let warning = helm_warning(&crd);
        assert!(warning.contains("kubectl -n kube-system delete secret -l 'owner=helm,name=a;reboot')"), "{warning}");
    }

    #[test]
    fn knows_its_definitions_and_their_fields() {
        assert_eq!(
            names().unwrap(),
            [
                "nodepools.karpenter.sh",
                "nodeclaims.karpenter.sh",
                "ec2nodeclasses.karpenter.k8s.aws",
                "nodeoverlays.karpenter.sh",
                "capacitybuffers.autoscaling.x-k8s.io",
                "provisioningrequests.autoscaling.x-k8s.io"
            ]
        );
        let fields = fields(&node_pools(), "v1");
        for field in ["spec.weight", "spec.template.spec.requirements[].key", "spec.disruption.budgets[].nodes"] {
            assert!(fields.named.contains(field), "{field}");
        }
    }

    #[test]
    fn a_missing_definition_is_created_and_an_own_one_updated() {
        let ours = node_pools();
        assert_eq!(decide(None, &ours), Decision::Apply { label: true, note: String::new() });
        let mut older = ours.clone();
        older["metadata"]["labels"] = json!({ "app.kubernetes.io/managed-by": "nodeless" });
        spec(&mut older).remove("weight");
        assert_eq!(decide(Some(&older), &ours), Decision::Apply { label: true, note: String::new() });
    }

    #[test]
    fn a_newer_definition_is_not_downgraded() {
        let ours = node_pools();
        let mut newer = ours.clone();
        newer["metadata"]["labels"] = json!({ "app.kubernetes.io/managed-by": "nodeless" });
        spec(&mut newer).insert("shape".into(), json!({ "type": "string" }));
        let Decision::Keep { note } = decide(Some(&newer), &ours) else { panic!("must be kept") };
        assert!(note.contains("spec.shape"), "{note}");
        let Decision::Keep { note } = decide(Some(&helm(newer)), &ours) else { panic!("must be kept") };
        assert!(note.contains("newer") && note.contains("kube-system/karpenter-crd"), "{note}");
    }

    #[test]
    fn a_definition_of_karpenter_is_kept_if_equal_and_extended_if_older() {
        let ours = node_pools();
        let Decision::Keep { note } = decide(Some(&helm(ours.clone())), &ours) else { panic!("must be kept") };
        assert!(note.contains("never uninstall") && note.contains("name=karpenter-crd"), "{note}");
        let mut older = helm(ours.clone());
        spec(&mut older).remove("replicas");
        let Decision::Apply { label, note } = decide(Some(&older), &ours) else { panic!("must be extended") };
        assert!(!label && note.contains("spec.replicas"), "{note}");
        spec(&mut older).insert("shape".into(), json!({ "type": "string" }));
        let Decision::Keep { note } = decide(Some(&older), &ours) else { panic!("must be kept") };
        assert!(note.contains("spec.replicas") && note.contains("spec.shape"), "{note}");
    }

    /// `spec.kubelet` in Karpenter's definitions: fixed fields in older ones, an open map in newer ones.
    #[test]
    fn fields_below_an_object_that_accepts_any_are_not_counted() {
        let name = "ec2nodeclasses.karpenter.k8s.aws";
        let ours = ours().unwrap().into_iter().find(|crd| string(crd, "/metadata/name") == Some(name)).unwrap();
        assert!(fields(&ours, "v1").open.contains("spec.kubelet"));

        let mut fixed = helm(ours.clone());
        let kubelet = &mut spec(&mut fixed)["kubelet"];
        kubelet.as_object_mut().unwrap().remove("x-kubernetes-preserve-unknown-fields");
        kubelet["properties"]["older"] = json!({ "type": "string" });
        let Decision::Apply { label, note } = decide(Some(&fixed), &ours) else { panic!("must be extended") };
        assert!(!label && note.contains("it lacked any field of spec.kubelet"), "{note}");

        let mut open = helm(ours.clone());
        let preserved = json!({ "x-kubernetes-preserve-unknown-fields": true });
        spec(&mut open)["kubelet"] = json!({
            "type": "object", "additionalProperties": preserved, "x-kubernetes-preserve-unknown-fields": true,
        });
        let Decision::Keep { note } = decide(Some(&open), &ours) else { panic!("must be kept") };
        assert!(note.contains("it has every field"), "{note}");

        let mut newer = helm(ours.clone());
        spec(&mut newer)["tags"] = preserved;
        let Decision::Keep { note } = decide(Some(&newer), &ours) else { panic!("must be kept") };
        assert!(note.contains("it also has any field of spec.tags"), "{note}");
    }

    #[test]
    fn a_change_that_would_lose_objects_is_refused() {
        let ours = node_pools();
        let with = |pointer: &str, value: Value| {
            let mut crd = ours.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            crd.pointer_mut(parent).unwrap()[key] = value;
            crd
        };
        let mut stored = ours.clone();
        stored["status"] = json!({ "storedVersions": ["v1beta1", "v1"] });
        for (present, word) in [
            (with("/spec/conversion", json!({ "strategy": "Webhook" })), "webhook"),
            (with("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")), "being deleted"),
            (with("/spec/versions/0/served", json!(false)), "serve"),
            (with("/spec/scope", json!("Namespaced")), "scope"),
            (stored, "v1beta1"),
        ] {
            let Decision::Refuse { reason } = decide(Some(&present), &ours) else { panic!("{word}: must be refused") };
            assert!(reason.contains(word), "{reason}");
        }
    }

    #[test]
    fn an_older_buffer_definition_of_another_autoscaler_is_kept() {
        let name = OPTIONAL[1];
        let ours = ours().unwrap().into_iter().find(|crd| string(crd, "/metadata/name") == Some(name)).unwrap();
        assert!(fields(&ours, target(&ours)).named.contains("spec.percentage"));
        let mut older = ours.clone();
        older["spec"]["versions"][0]["name"] = json!("v1alpha1");
        let Decision::Keep { note } = decide(Some(&older), &ours) else { panic!("must be kept") };
        assert!(note.contains("v1beta1") && note.contains("not used"), "{note}");
    }

    /// Cluster Autoscaler and Kueue bring definitions that may still store the earlier version.
    #[test]
    fn a_definition_of_requests_that_stores_either_version_is_used_as_it_is() {
        let name = OPTIONAL[2];
        let ours = ours().unwrap().into_iter().find(|crd| string(crd, "/metadata/name") == Some(name)).unwrap();
        let mut older = ours.clone();
        older["status"] = json!({ "storedVersions": ["v1beta1", "v1"] });
        older["spec"]["versions"][0]["storage"] = json!(false);
        older["spec"]["versions"][1]["storage"] = json!(true);
        let Decision::Keep { note } = decide(Some(&older), &ours) else { panic!("must be kept") };
        assert!(note.contains("it has every field"), "{note}");
        older["spec"]["versions"].as_array_mut().unwrap().remove(0);
        let Decision::Keep { note } = decide(Some(&older), &ours) else { panic!("must be kept") };
        assert!(note.contains("does not serve and store v1"), "{note}");
    }

    #[test]
    fn names_that_are_already_in_use_are_reported() {
        let taken = json!({ "status": { "conditions": [
            { "type": "NamesAccepted", "status": "False", "message": "\"np\" is already in use" },
            { "type": "Established", "status": "False" }
        ] } });
        assert_eq!(condition(&taken).unwrap_err(), "\"np\" is already in use");
        assert!(
            condition(&json!({ "status": { "conditions": [{ "type": "Established", "status": "True" }] } })).is_ok()
        );
        assert!(condition(&json!({})).is_err());
    }
}
