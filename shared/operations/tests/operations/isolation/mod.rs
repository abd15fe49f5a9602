//! What a tenant writes into its namespace changes nothing for others: a generated cluster with and without the objects of the namespace
//! `tenant` gives the same nodes, reasons and Events to everybody else.
//!
//! The tenant's pods run on nodes of a NodePool of their own, because Kubernetes lets namespaces share the capacity of nodes.
//!
//! `NODELESS_SEEDS=FROM..TO` selects the seeds. `make test` runs a few, which change with the commit, and `make nightly` hundreds.

mod others;
mod tenant;

use crate::common::{Harness, pod};
use nodeless_model::labels;
use nodeless_model::object::ObjectEvent;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The seeds by default.
const FEW: Range<u64> = 0..6;
/// How long each cluster is observed.
const MINUTES: u32 = 6;

/// A sequence of numbers that a seed determines (SplitMix64).
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below this one, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// What everybody but the tenant sees.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Each node that is not of the tenant's NodePool: its NodePool, its instance type and its pods. The names of nodes are those of
    /// instances, which the tenant launches too.
    nodes: Vec<(String, String, BTreeSet<String>)>,
    /// The pods without a node.
    pending: BTreeSet<String>,
    /// The Events: the object, the type, the reason and the message, without the names that are generated, and which of equal ones it is.
    events: BTreeSet<([String; 4], usize)>,
    /// The status of the others' NodePools, ProvisioningRequests and CapacityBuffers.
    statuses: Vec<String>,
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("NODELESS_SEEDS") else { return FEW };
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.unwrap_or_else(|| panic!("NODELESS_SEEDS={text} is not a range; write it like 0..200"))
}

impl Seen {
    fn read(harness: &Harness) -> Self {
        let is_others = |pod: &&nodeless_model::Pod| pod.namespace != tenant::NAMESPACE;
        let (nodes, pods) = (harness.cluster.nodes(), harness.cluster.pods());
        let claims = harness.cluster.node_claims();
        let mut names: Vec<&str> = nodes.keys().chain(claims.keys()).map(String::as_str).collect();
        let gone: Vec<String> = harness.history.iter().map(|(claim, _)| claim.clone()).collect();
        names.extend(gone.iter().map(String::as_str));
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let pool = |node: &nodeless_model::Node| node.labels.get(labels::NODE_POOL).cloned().unwrap_or_default();
        let kept = |node: &&nodeless_model::Node| pool(node) != tenant::POOL;
        let mut shown: Vec<_> = nodes.values().filter(kept).collect();
        shown.sort_by(|a, b| a.name.cmp(&b.name));
        let mut nodes: Vec<_> = shown
            .into_iter()
            .map(|node| {
                let on_node = pods.values().filter(is_others).filter(|pod| pod.node_name.as_ref() == Some(&node.name));
                let kind = node.labels.get(labels::INSTANCE_TYPE).cloned().unwrap_or_default();
                (pool(node), kind, on_node.map(app).collect())
            })
            .collect();
        nodes.sort();
        let pending = pods.values().filter(is_others).filter(|pod| pod.node_name.is_none()).map(app).collect();
        let workloads = others::workloads(harness);
        let events = harness.cluster.events().into_iter().filter(is_about_others);
        Self {
            nodes,
            pending,
            events: numbered(events.map(|event| masked(&event, &names, &workloads))),
            statuses: others::statuses(harness),
        }
    }
}

/// The namespace and the label `app` of a pod: the name of a pod of a ReplicaSet is random.
fn app(pod: &nodeless_model::Pod) -> String {
    format!("{}/{}", pod.namespace, pod.template.labels.get("app").unwrap_or(&pod.name))
}

/// The Events on NodeClaims are those on their Nodes too, whose names do not show the NodePool.
fn is_about_others(event: &ObjectEvent) -> bool {
    let object = &event.object;
    object.kind != "Node" && object.namespace != tenant::NAMESPACE && !object.name.starts_with(tenant::POOL)
}

fn masked(event: &ObjectEvent, names: &[&str], workloads: &[String]) -> [String; 4] {
    let mask = |text: &str| {
        let text = names.iter().fold(text.to_owned(), |text, name| text.replace(name, "NODE"));
        workloads.iter().fold(text, |text, workload| without_suffixes(&text, workload))
    };
    let object = format!("{} {}/{}", event.object.kind, event.object.namespace, mask(&event.object.name));
    [object, event.event_type.as_str().to_owned(), event.reason.clone(), mask(&event.message)]
}

/// A text in which the pods of a workload are called after it, without the five random characters at the end of their names.
fn without_suffixes(text: &str, workload: &str) -> String {
    let prefix = format!("{workload}-");
    let mut parts = text.split(&prefix);
    let mut masked = parts.next().unwrap().to_owned();
    for part in parts {
        let is_suffix = part.len() >= 5 && part.bytes().take(5).all(|byte| byte.is_ascii_alphanumeric());
        let (name, rest) = if is_suffix { ("POD", &part[5..]) } else { ("", part) };
        masked.extend([&*prefix, name, rest]);
    }
    masked
}

/// Each with its place among equal ones.
fn numbered(all: impl Iterator<Item = [String; 4]>) -> BTreeSet<([String; 4], usize)> {
    let mut counts = BTreeMap::new();
    all.map(|one| {
        let count = counts.entry(one.clone()).or_insert(0);
        *count += 1;
        (one, *count)
    })
    .collect()
}

/// The cluster of a seed, observed for some minutes, with or without the tenant's objects.
async fn observed(seed: u64, with: Option<&[tenant::Kind]>) -> Seen {
    let mut harness = Harness::new().await;
    others::create(&harness, seed);
    harness.minutes(2).await;
    let mut written = Vec::new();
    if let Some(kinds) = with {
        written = tenant::create(&harness, seed, kinds);
    }
    others::create_more(&harness, seed);
    for minute in 0..MINUTES {
        if with.is_some() && minute == MINUTES / 2 {
            tenant::forge_statuses(&harness, seed, &written);
        }
        harness.minutes(1).await;
    }
    Seen::read(&harness)
}

/// What differs, one line for each.
fn differences(without: &Seen, with: &Seen) -> Vec<String> {
    let mut lines = Vec::new();
    if without.nodes != with.nodes {
        lines.push(format!("nodes: {:?} became {:?}", without.nodes, with.nodes));
    }
    lines.extend(without.pending.symmetric_difference(&with.pending).map(|pod| format!("pending or not: {pod}")));
    let both = [("missing", without, with), ("new", with, without)];
    for (what, one, other) in both {
        lines.extend(one.events.difference(&other.events).map(|event| format!("{what} Event: {event:?}")));
        let statuses = one.statuses.iter().filter(|status| !other.statuses.contains(status));
        lines.extend(statuses.map(|status| format!("{what} status: {status}")));
    }
    lines
}

/// All kinds of objects together, in the seeds of the commit.
#[tokio::test]
async fn the_objects_of_a_tenant_change_nothing_for_others() {
    let mut failed = Vec::new();
    for seed in seeds() {
        let without = observed(seed, None).await;
        let differences = differences(&without, &observed(seed, Some(&tenant::Kind::ALL)).await);
        if !differences.is_empty() {
            failed.push(format!("NODELESS_SEEDS={seed}..{}: {}", seed + 1, differences.join("\n  ")));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Each kind by itself, which shows the one that a failure is about.
#[tokio::test]
async fn no_kind_of_object_of_a_tenant_changes_anything_for_others() {
    let seed = seeds().start;
    let without = observed(seed, None).await;
    assert!(without.nodes.len() >= 3 && !without.pending.is_empty() && without.events.len() > 10, "{without:#?}");
    let mut failed = Vec::new();
    for kind in tenant::Kind::ALL {
        let differences = differences(&without, &observed(seed, Some(&[kind])).await);
        if !differences.is_empty() {
            failed.push(format!("NODELESS_SEEDS={seed}..{} {kind:?}: {}", seed + 1, differences.join("\n  ")));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The comparison finds what does change for others: the tenant's pods without their NodePool take its capacity.
#[tokio::test]
async fn the_comparison_finds_a_shared_node() {
    let without = observed(0, None).await;
    let mut harness = Harness::new().await;
    others::create(&harness, 0);
    harness.minutes(2).await;
    harness.cluster.add_pods((0..4).map(tenant::anywhere));
    others::create_more(&harness, 0);
    harness.minutes(MINUTES).await;
    assert!(!differences(&without, &Seen::read(&harness)).is_empty());
}

/// Kubernetes lets required anti-affinity reach into other namespaces. The reason names the object of the tenant.
#[tokio::test]
async fn the_anti_affinity_of_a_tenant_is_a_reason_that_names_its_pod() {
    let mut harness = Harness::new().await;
    others::create(&harness, 0);
    harness.cluster.add_pods([tenant::alone("victim")]);
    harness.minutes(3).await;
    let mut victim = pod("victim", 100);
    victim["metadata"]["namespace"] = json!("web");
    harness.cluster.add_pods([victim]);
    harness.minutes(2).await;
    let events = harness.cluster.events_of("FailedScheduling");
    let reason = events.iter().find(|event| event.object.name == "victim").unwrap();
    assert!(reason.message.contains("pods such as tenant/alone excludes it"), "{}", reason.message);
}
