//! Limits that prevented launches, NodeClaims that failed, and other warnings.

use super::facts::TimelineFacts;
use super::reasons::meaning;
use super::{EntryKind, TimelineEntry, listed};
use crate::line::Target;
use crate::objects::event::{EventFacts, FAILED_SCHEDULING};
use crate::text::counted;
use jiff::Timestamp;
use nodeless_model::cluster_limits::annotation_of;
use nodeless_model::labels::DOLLARS_PER_HOUR;
use nodeless_model::shortage::advised;
use std::collections::{BTreeMap, BTreeSet};

/// Why the launches for pods fail, by the namespace and name of the pod.
pub(crate) type FailedLaunches = BTreeMap<(String, String), String>;

/// The reason of Events about NodeClaims for which EC2 has no capacity, or a quota of the account has none left.
const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacityError";
/// The reason of Events about instances that EC2 does not terminate.
const FAILED_TERMINATION: &str = "FailedTermination";
/// The reasons of Events about NodeClaims that failed.
const FAILURES: [&str; 9] = [
    INSUFFICIENT_CAPACITY,
    "NodeClassNotReady",
    "LaunchTimeout",
    "RegistrationTimeout",
    "InitializationTimeout",
    "FailedConsistencyCheck",
    FAILED_TERMINATION,
    "NotLaunched",
    "LaunchRefused",
];
/// The reasons of Events that limits are exceeded until nodes have left.
const PASSED: [&str; 2] = ["LimitPassedWhileNodesLeave", "ClusterLimitPassedWhileNodesLeave"];
/// The kinds of objects whose other warnings are entries. Those of pods need attention only while the pods wait.
const CONFIGURED: [&str; 5] = ["NodePool", "EC2NodeClass", "NodeClaim", "Node", "Namespace"];

/// One entry for each limit that pods need more of.
pub(super) fn limits(facts: &TimelineFacts<'_>) -> Vec<TimelineEntry> {
    let mut pods = BTreeMap::<String, (Timestamp, BTreeSet<(&str, &str)>)>::new();
    for (time, EventFacts { row, .. }) in facts.events.iter().filter(|(_, event)| event.row.reason == FAILED_SCHEDULING)
    {
        if let Some(limit) = limit(facts, &row.message) {
            let (_, waiting) = pods.entry(limit).or_insert((*time, BTreeSet::new()));
            waiting.insert((&row.namespace, &row.name));
        }
    }
    let reached = pods.into_iter().map(|(limit, (time, waiting))| TimelineEntry {
        time,
        kind: EntryKind::Limit,
        text: format!("{limit}: no node was launched for {}", counted(waiting.len(), "pod")),
        followed: None,
        object: waiting.first().map(|(namespace, name)| Target::Pod(format!("{namespace}/{name}"))),
    });
    let passed = facts.with_reasons(&PASSED).into_iter().map(|(time, event)| TimelineEntry {
        time,
        kind: EntryKind::Limit,
        text: format!("{}: {}", event.row.object(), meaning(&event.row.reason).unwrap_or_default()),
        followed: None,
        object: None,
    });
    reached.chain(passed).collect()
}

/// The limit that a message about a pod names, if there is one: `NodePool default: limit cpu 16 reached`.
fn limit(facts: &TimelineFacts<'_>, message: &str) -> Option<String> {
    let (before, _) = message.split_once(" reached: ")?;
    let (who, what) = before.rsplit_once("limit ")?;
    // `limit of $1.00/h` is that of the price.
    let resource = what.split(' ').next().filter(|word| *word != "of").unwrap_or(DOLLARS_PER_HOUR);
    if what.ends_with(" of the cluster") {
        let row = facts.limit_of_cluster(annotation_of(resource))?;
        return Some(format!("the cluster: limit {} {} reached", row.resource, row.limit));
    }
    let pool = who.rsplit_once("NodePool ")?.1.strip_suffix(": ")?;
    let row = facts.limit_of_pool(pool, resource)?;
    Some(format!("NodePool {pool}: limit {} {} reached", row.resource, row.limit))
}

/// One entry for each NodeClaim and reason.
pub(super) fn failures(facts: &TimelineFacts<'_>) -> Vec<TimelineEntry> {
    let mut first = BTreeMap::<(&str, &str), (Timestamp, &EventFacts)>::new();
    for (time, event) in facts.with_reasons(&FAILURES) {
        first.entry((&event.row.name, &event.row.reason)).or_insert((time, event));
    }
    let failed: BTreeSet<&str> = first.keys().map(|(name, _)| *name).collect();
    let entry = |(time, event): &(Timestamp, &EventFacts)| {
        let successors = facts.successors(&event.row.name);
        failure(
            facts,
            *time,
            event,
            &successors.into_iter().filter(|claim| !failed.contains(claim)).collect::<Vec<_>>(),
        )
    };
    first.values().map(entry).collect()
}

/// Why a NodeClaim failed. Of the message only a known code counts.
fn cause(event: &EventFacts) -> String {
    match advised(&event.row.message) {
        Some((code, advice)) if event.row.reason == INSUFFICIENT_CAPACITY => format!("{code}: {advice}"),
        _ => meaning(&event.row.reason).unwrap_or_default().to_owned(),
    }
}

/// Why the latest NodeClaims of pods failed, by namespace and name of the pod: those pods of which the latest NodeClaim failed, or more
/// than one.
pub(super) fn failed_launches(facts: &TimelineFacts<'_>) -> FailedLaunches {
    let failures = facts.with_reasons(&FAILURES).into_iter().map(|(_, event)| event);
    let failures = failures.filter(|event| event.row.reason != FAILED_TERMINATION);
    let failed: BTreeMap<&str, &EventFacts> = failures.map(|event| (event.row.name.as_str(), event)).collect();
    let mut launches = FailedLaunches::new();
    for ((namespace, name), claims) in facts.nominations() {
        let causes: Vec<Option<&&EventFacts>> = claims.iter().map(|claim| failed.get(claim.as_ref()?)).collect();
        let count = causes.iter().flatten().count();
        let is_latest = causes.last().is_some_and(Option::is_some);
        if let Some(last) = causes.iter().flatten().next_back().filter(|_| is_latest || count > 1) {
            launches.insert((namespace.to_owned(), name.to_owned()), cause(last));
        }
    }
    launches
}

fn failure(facts: &TimelineFacts<'_>, time: Timestamp, event: &EventFacts, successors: &[&str]) -> TimelineEntry {
    let row = &event.row;
    let why = cause(event);
    TimelineEntry {
        time,
        kind: EntryKind::Failure,
        text: format!("{} failed ({}): {why}", row.object(), row.reason),
        followed: (!successors.is_empty()).then(|| format!("its pods are planned on {}", listed(successors))),
        object: target(facts, row.kind.as_str(), &row.name),
    }
}

fn target(facts: &TimelineFacts<'_>, kind: &str, name: &str) -> Option<Target> {
    match kind {
        "Node" => facts.node(name).map(|node| Target::Node(node.name.clone())),
        "NodeClaim" => facts.claims.get(name).map(|claim| super::launches::object(facts, claim)),
        _ => None,
    }
}

/// The other warnings: one entry for each object and reason.
pub(super) fn others(facts: &TimelineFacts<'_>) -> Vec<TimelineEntry> {
    let reasons: BTreeSet<&str> = facts
        .events
        .iter()
        .map(|(_, event)| &event.row)
        .filter(|row| row.event_type == "Warning" && CONFIGURED.contains(&row.kind.as_str()))
        .map(|row| row.reason.as_str())
        .filter(|reason| !(FAILURES.contains(reason) || super::interruptions::is_announced(reason)))
        .filter(|reason| meaning(reason).is_some())
        .collect();
    let reasons: Vec<&str> = reasons.into_iter().collect();
    let mut latest = BTreeMap::<(&str, &str, &str), (Timestamp, &EventFacts)>::new();
    for (time, event) in facts.with_reasons(&reasons) {
        let row = &event.row;
        if row.event_type == "Warning" && CONFIGURED.contains(&row.kind.as_str()) {
            latest.insert((&row.kind, &row.name, &row.reason), (time, event));
        }
    }
    let entry = |(time, EventFacts { row, .. }): &(Timestamp, &EventFacts)| TimelineEntry {
        time: *time,
        kind: EntryKind::Warning,
        text: format!("{} ({}): {}", row.object(), row.reason, meaning(&row.reason).unwrap_or_default()),
        followed: None,
        object: target(facts, &row.kind, &row.name),
    };
    latest.values().map(entry).collect()
}
