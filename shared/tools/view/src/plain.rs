//! A picture as sentences, and what changed since the last one: for screen readers, which read lines and no tables.

use crate::attention::{Attention, Problem};
use crate::objects::amount::Load;
use crate::objects::event::EventRow;
use crate::objects::node::NodeRow;
use crate::picture::Picture;
use crate::table::{self, limit_text};
use crate::text::{age, cost, counted, dollars, percent};
use crate::timeline::TimelineEntry;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// The number of entries of the time line that are listed.
const ENTRIES: usize = 10;

/// The whole picture, a sentence in each line.
#[must_use]
pub fn sentences(picture: &Picture) -> Vec<String> {
    let mut lines = vec![summary(picture)];
    lines.extend(picture.hidden.as_ref().map(|hidden| format!("{}.", hidden.text())));
    lines.extend(picture.commitments.map(|committed| format!("Cost: {}.", committed.text())));
    lines.extend(picture.attention.iter().map(|one| attention_sentence(one, picture.at)));
    lines.extend(picture.attention.is_empty().then(|| "Nothing needs attention.".to_owned()));
    let cluster = &picture.cluster;
    lines.extend(cluster.limits.iter().map(|limit| format!("Cluster: limit {}.", limit_text(limit, 0))));
    lines.extend(cluster.disruption_waits.iter().map(|why| format!("Cluster: {why}.")));
    let open =
        cluster.maintenance_until.map(|until| format!("Cluster: a maintenance window is open until {until:.0}."));
    lines.extend(open);
    for pool in table::sections(picture, picture.group_by) {
        let name = picture.group_by.heading(pool.name.as_deref());
        let load = shares(&pool.load);
        lines.push(format!(
            "{name}: {}, {}, {}, {load}.",
            counted(pool.nodes, "node"),
            counted(pool.pods, "pod"),
            cost(pool.price_per_hour)
        ));
        lines.extend(pool.not_ready.iter().map(|why| format!("{name} is not ready: {why}.")));
        lines.extend(pool.limits.iter().map(|limit| format!("{name}: limit {}.", limit_text(limit, 0))));
        let own = picture.nodes.iter().filter(|node| *picture.group_by.value(node) == pool.name);
        lines.extend(own.map(|node| node_sentence(node, picture.at)));
    }
    for claim in &picture.claims {
        let kind = claim.instance_type.as_deref().unwrap_or("not launched yet");
        lines.push(format!("NodeClaim {}: {kind}, waits for {}.", claim.name, claim.waits_for));
    }
    for pod in &picture.pending {
        lines.push(format!("Pod {} has no node for {}: {}.", pod.key(), age(pod.created, picture.at), pod.reason));
    }
    for node in &picture.disruption.nodes {
        let why = node.reason.as_deref().unwrap_or("reason not known");
        lines.push(format!("Node {} is disrupted: {why}, {}.", node.node, node.state.as_str()));
    }
    for command in &picture.disruption.commands {
        lines.push(format!(
            "NodeClaims {} replace nodes {}.",
            command.replacements.join(", "),
            command.nodes.join(", ")
        ));
    }
    let others = picture.disruption.other_replacements();
    if !others.is_empty() {
        lines.push(format!("Replacements: {}.", others.join(", ")));
    }
    lines.extend(
        picture.disruption.saving_per_hour.map(|saving| format!("Disruption in progress saves {}.", dollars(saving))),
    );
    lines.extend(picture.reservations.iter().map(|row| format!("Capacity reservation {}.", row.text)));
    lines.extend(picture.timeline.iter().take(ENTRIES).map(|entry| entry_sentence(entry, picture.at)));
    lines.extend(picture.warnings.iter().map(|warning| format!("Warning: {warning}.")));
    lines
}

fn attention_sentence(one: &Attention, now: Timestamp) -> String {
    let since = one.since.map(|_| format!(", for {}", age(one.since, now))).unwrap_or_default();
    format!("Attention: {}{since}.", one.text)
}

fn summary(picture: &Picture) -> String {
    let totals = &picture.totals;
    format!(
        "{}, {}, {} without a node, {}, {}.",
        counted(totals.nodes, "node"),
        counted(totals.pods, "pod"),
        counted(totals.pending_pods, "pod"),
        cost(totals.price_per_hour),
        shares(&totals.load),
    )
}

fn shares(load: &Load) -> String {
    let extended: String = load.extended.texts().map(|text| format!(", {text}")).collect();
    let (cpu, memory) = (percent(load.cpu_requested()), percent(load.memory_requested()));
    format!("CPU {cpu} and memory {memory} requested{extended}")
}

fn node_sentence(node: &NodeRow, now: Timestamp) -> String {
    let kind = [&node.instance_type, &node.capacity_type, &node.zone];
    let kind: Vec<&str> = kind.into_iter().flatten().map(String::as_str).collect();
    let price = node.price_per_hour.map_or_else(|| "price not known".to_owned(), dollars);
    let mut text = format!(
        "Node {}: {}, {}, {price}, age {}, {}, {}",
        node.name,
        node.state.as_str(),
        kind.join(" "),
        age(node.created, now),
        shares(&node.load),
        counted(node.pods.len(), "pod"),
    );
    text.extend(node.labels.iter().map(|(key, value)| format!(", {key} {value}")));
    let waits = node.waits_for.iter().map(|one| format!(", waits for {} because {}", one.pod, one.why));
    text.extend(waits);
    text.extend(node.protected_by.first().map(|by| format!(", protected by {by}")));
    text + "."
}

fn entry_sentence(entry: &TimelineEntry, now: Timestamp) -> String {
    format!("{} ago, {}: {}.", age(Some(entry.time), now), entry.kind.as_str(), entry.sentence())
}

fn event_sentence(event: &EventRow, now: Timestamp) -> String {
    format!("{} ago, {}, {}: {}", age(event.time, now), event.reason, event.object(), event.message)
}

/// The changes between two pictures, a sentence in each line; empty without changes.
#[must_use]
pub fn changes(before: &Picture, after: &Picture) -> Vec<String> {
    let mut lines = Vec::new();
    nodes(&mut lines, before, after);
    let claims = |picture: &Picture| picture.claims.iter().map(|claim| claim.name.clone()).collect::<BTreeSet<_>>();
    for name in claims(after).difference(&claims(before)) {
        lines.push(format!("NodeClaim {name} is on the way."));
    }
    let waiting = |picture: &Picture| -> BTreeMap<String, String> {
        picture.pending.iter().map(|pod| (pod.key(), pod.reason.clone())).collect()
    };
    let (old, new) = (waiting(before), waiting(after));
    for (pod, reason) in &new {
        if old.get(pod) != Some(reason) {
            lines.push(format!("Pod {pod} has no node: {reason}."));
        }
    }
    lines.extend(old.keys().filter(|pod| !new.contains_key(*pod)).map(|pod| format!("Pod {pod} waits no more.")));
    let known: BTreeSet<&str> = before.attention.iter().map(|one| one.text.as_str()).collect();
    // Each pod has its own line above.
    let of_pods = |one: &&Attention| one.problem == Problem::PendingPods;
    let fresh = after.attention.iter().filter(|one| !of_pods(one) && !known.contains(one.text.as_str()));
    lines.extend(fresh.map(|one| attention_sentence(one, after.at)));
    let known: BTreeSet<_> = before.events.iter().map(identity).collect();
    let fresh = after.events.iter().filter(|event| !(event.is_routine() || known.contains(&identity(event))));
    lines.extend(fresh.map(|event| event_sentence(event, after.at)));
    let warned = after.warnings.iter().filter(|warning| !before.warnings.contains(warning));
    lines.extend(warned.map(|warning| format!("Warning: {warning}.")));
    if !lines.is_empty() && summary(before) != summary(after) {
        lines.push(summary(after));
    }
    lines
}

fn identity(event: &EventRow) -> (Option<Timestamp>, &str, &str, &str) {
    (event.time, &event.reason, &event.name, &event.message)
}

fn nodes(lines: &mut Vec<String>, before: &Picture, after: &Picture) {
    let by_name = |picture: &'_ Picture| -> BTreeMap<String, usize> {
        picture.nodes.iter().enumerate().map(|(index, node)| (node.name.clone(), index)).collect()
    };
    let (old, new) = (by_name(before), by_name(after));
    for (name, index) in &new {
        let node = &after.nodes[*index];
        match old.get(name).map(|index| &before.nodes[*index]) {
            None => lines.push(format!("Joined: {}", node_sentence(node, after.at))),
            Some(known) if (known.state, &known.waits_for) != (node.state, &node.waits_for) => {
                lines.push(node_sentence(node, after.at));
            }
            Some(_) => {}
        }
    }
    lines.extend(old.keys().filter(|name| !new.contains_key(*name)).map(|name| format!("Node {name} is gone.")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, claim_value, cluster, event_value, node_value, pod_value, pool_value};
    use crate::objects::decode::ShownKind;
    use nodeless_catalog::Catalog;
    use serde_json::Value;

    fn picture(objects: &[(ShownKind, Value)]) -> Picture {
        Picture::new(&cluster(objects), &Catalog::embedded().unwrap(), at(5))
    }

    #[test]
    fn sentences_have_words_and_no_drawing() {
        let picture = picture(&[
            (ShownKind::NodePool, pool_value("default")),
            (ShownKind::Node, node_value("a", "m5.xlarge")),
            (ShownKind::Pod, pod_value("web", Some("a"))),
            (ShownKind::Pod, pod_value("new", None)),
        ]);
        let lines = sentences(&picture);
        assert!(lines.iter().all(|line| line.is_ascii()), "{lines:?}");
        assert!(lines[0].starts_with("1 node, 1 pod, 1 pod without a node, $0."), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("Node a: ready, m5.xlarge spot us-east-1a,")), "{lines:?}");
        assert!(lines.iter().any(|line| line == "NodePool default: limit cpu 8 of 16 (50%)."), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("Pod shop/new has no node for 5m:")), "{lines:?}");
    }

    #[test]
    fn only_what_changed_is_reported() {
        let start = [(ShownKind::Node, node_value("a", "m5.xlarge")), (ShownKind::Pod, pod_value("web", None))];
        let before = picture(&start);
        assert_eq!(changes(&before, &before), Vec::<String>::new());
        let after = picture(&[
            (ShownKind::Node, node_value("b", "m5.xlarge")),
            (ShownKind::Pod, pod_value("web", Some("b"))),
            (ShownKind::NodeClaim, claim_value("default-new", None, &[])),
            (ShownKind::Event, event_value("Node", "a", "DisruptionTerminating", "Disrupting Node: Empty")),
        ]);
        let lines = changes(&before, &after);
        for expected in [
            "Joined: Node b: ready",
            "Node a is gone.",
            "NodeClaim default-new is on the way.",
            "Pod shop/web waits no more.",
            "2m ago, DisruptionTerminating, Node a: Disrupting Node: Empty",
            "1 node, 1 pod, 0 pods without a node",
        ] {
            assert!(lines.iter().any(|line| line.starts_with(expected)), "{expected} is missing in {lines:?}");
        }
    }
}
