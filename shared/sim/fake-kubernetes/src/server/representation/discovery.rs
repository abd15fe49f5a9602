//! Discovery: which groups, versions and resources are served, in the plain and in the aggregated form.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::server::definition::Definition;
use crate::server::metrics;
use crate::server::path::text;
use crate::server::resource::{NAMESPACES, PODS};
use crate::server::store::Store;

/// The media type of aggregated discovery.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Resources that are only created and not stored: group, plural, kind.
pub(crate) const REVIEWS: &[(&str, &str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
];

/// Metrics are only read, and namespaces are deleted one by one.
fn verbs(definition: &Definition) -> Vec<&'static str> {
    if definition.resource.group == metrics::GROUP {
        return vec!["get", "list"];
    }
    let is_namespaces = definition.resource == NAMESPACES;
    VERBS.iter().copied().filter(|verb| !is_namespaces || *verb != "deletecollection").collect()
}

/// Adds the short names and the categories of a kind, if it has any.
fn with_names(mut entry: Value, definition: &Definition) -> Value {
    for (field, names) in [("shortNames", json!(definition.short_names)), ("categories", json!(definition.categories))]
    {
        if names.as_array().is_some_and(|names| !names.is_empty()) {
            entry[field] = names;
        }
    }
    entry
}

type Groups = BTreeMap<String, BTreeMap<String, Vec<Arc<Definition>>>>;

/// The served definitions by group and version; review groups are there without definitions.
fn groups(store: &Store) -> Groups {
    let mut groups = Groups::new();
    for definition in store.definitions() {
        let resource = &definition.resource;
        let versions = groups.entry(resource.group.to_string()).or_default();
        versions.entry(resource.version.to_string()).or_default().push(definition.clone());
    }
    for definition in metrics::definitions() {
        let versions = groups.entry(definition.resource.group.to_string()).or_default();
        versions.entry(definition.resource.version.to_string()).or_default().push(definition);
    }
    for (group, _, _) in REVIEWS {
        groups.entry((*group).to_owned()).or_default().entry("v1".into()).or_default();
    }
    groups
}

/// The group versions whose objects are stored, as `v1` or `group/version`.
pub(crate) fn group_versions(store: &Store) -> BTreeSet<(String, String)> {
    let stored = groups(store).into_iter().filter(|(group, _)| group != metrics::GROUP);
    let pairs = stored.flat_map(|(group, versions)| {
        versions.into_keys().map(move |version| (group.clone(), version)).collect::<Vec<_>>()
    });
    pairs.collect()
}

fn full(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `/api`.
pub(crate) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]})
}

/// `/apis`.
pub(crate) fn group_list(store: &Store) -> Value {
    let list: Vec<Value> =
        groups(store).iter().filter(|(group, _)| !group.is_empty()).map(|(group, it)| api_group(group, it)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list})
}

/// Orders versions as in discovery: stable ones first (`v1` is shorter than `v1beta1`), then the newest.
fn preference(version: &str) -> (usize, Reverse<&str>) {
    (version.len(), Reverse(version))
}

fn api_group(group: &str, versions: &BTreeMap<String, Vec<Arc<Definition>>>) -> Value {
    let mut list: Vec<Value> =
        versions.keys().map(|version| json!({"groupVersion": full(group, version), "version": version})).collect();
    list.sort_by(|a, b| preference(text(a, "/version")).cmp(&preference(text(b, "/version"))));
    json!({"name": group, "versions": list, "preferredVersion": list.first()})
}

/// `/apis/GROUP`.
pub(crate) fn one_group(store: &Store, group: &str) -> Option<Value> {
    let groups = groups(store);
    let mut found = api_group(group, groups.get(group)?);
    found["kind"] = json!("APIGroup");
    found["apiVersion"] = json!("v1");
    Some(found)
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(crate) fn resource_list(store: &Store, group: &str, version: &str) -> Option<Value> {
    let groups = groups(store);
    let definitions = groups.get(group)?.get(version)?;
    let mut list = Vec::new();
    for definition in definitions {
        let resource = &definition.resource;
        let entry = json!({"name": resource.plural, "singularName": definition.singular, "kind": resource.kind,
            "namespaced": resource.namespaced, "verbs": verbs(definition)});
        list.push(with_names(entry, definition));
        for subresource in definition.subresources() {
            let (group, version, kind) = response_kind(definition, subresource);
            let mut entry = json!({"name": format!("{}/{subresource}", resource.plural), "singularName": "",
                "namespaced": resource.namespaced, "kind": kind, "verbs": subresource_verbs(subresource)});
            // Only those of another group and version.
            if (group, version) != (&*resource.group, &*resource.version) && !group.is_empty() {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            list.push(entry);
        }
    }
    for (_, plural, kind) in REVIEWS.iter().filter(|(other, _, _)| *other == group) {
        list.push(json!({"name": plural, "singularName": kind.to_lowercase(), "kind": kind, "namespaced": false,
            "verbs": ["create"]}));
    }
    let mut found = json!({"kind": "APIResourceList", "groupVersion": full(group, version), "resources": list});
    // The list of the core group is of a version before there were groups.
    if !group.is_empty() {
        found["apiVersion"] = json!("v1");
    }
    Some(found)
}

fn subresource_verbs(subresource: &str) -> &'static [&'static str] {
    match subresource {
        "status" | "scale" | "resize" => &["get", "patch", "update"],
        "finalize" => &["update"],
        "log" => &["get"],
        _ => &["create"],
    }
}

fn response_kind<'a>(definition: &'a Definition, subresource: &str) -> (&'a str, &'a str, &'a str) {
    match subresource {
        "scale" => ("autoscaling", "v1", "Scale"),
        "eviction" if definition.resource == PODS => ("policy", "v1", "Eviction"),
        "binding" => ("", "v1", "Binding"),
        "exec" => ("", "v1", "PodExecOptions"),
        "attach" => ("", "v1", "PodAttachOptions"),
        "portforward" => ("", "v1", "PodPortForwardOptions"),
        "token" => ("authentication.k8s.io", "v1", "TokenRequest"),
        _ => {
            let resource = &definition.resource;
            (&resource.group, &resource.version, &resource.kind)
        }
    }
}

/// Aggregated discovery of the core group, or of all others.
pub(crate) fn aggregated(store: &Store, core: bool) -> Value {
    let items: Vec<Value> = groups(store)
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let mut list: Vec<_> = versions.iter().collect();
            list.sort_by(|(a, _), (b, _)| preference(a).cmp(&preference(b)));
            let versions: Vec<Value> = list
                .into_iter()
                .map(|(version, definitions)| {
                    json!({"version": version, "freshness": "Current",
                        "resources": aggregated_resources(group, definitions)})
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resources(group: &str, definitions: &[Arc<Definition>]) -> Vec<Value> {
    let mut list: Vec<Value> = definitions.iter().map(|definition| aggregated_resource(definition)).collect();
    for (_, plural, name) in REVIEWS.iter().filter(|(other, _, _)| *other == group) {
        list.push(json!({"resource": plural, "scope": "Cluster",
            "responseKind": {"group": "", "version": "", "kind": name},
            "singularResource": name.to_lowercase(), "verbs": ["create"]}));
    }
    list
}

fn aggregated_resource(definition: &Definition) -> Value {
    let resource = &definition.resource;
    // A built-in kind of the same group and version has neither here, those of definitions have both.
    let kind = |(group, version, kind): (&str, &str, &str)| {
        let own = definition.custom.is_none() && (group, version) == (&*resource.group, &*resource.version);
        let (group, version) = if own { ("", "") } else { (group, version) };
        json!({"group": group, "version": version, "kind": kind})
    };
    let subresources: Vec<Value> = definition
        .subresources()
        .into_iter()
        .map(|name| {
            json!({"subresource": name, "responseKind": kind(response_kind(definition, name)),
                "verbs": subresource_verbs(name)})
        })
        .collect();
    let mut entry = json!({"resource": resource.plural,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": kind((&resource.group, &resource.version, &resource.kind)),
        "singularResource": definition.singular, "verbs": verbs(definition)});
    if !subresources.is_empty() {
        entry["subresources"] = Value::Array(subresources);
    }
    with_names(entry, definition)
}
