//! A node, pod or NodeClaim as lines.

use crate::line::{Line, Target, Tone};
use crate::objects::amount::Amount;
use crate::objects::node::NodeRow;
use crate::objects::pod::PodFacts;
use crate::picture::Picture;
use crate::table::event_line;
use crate::text::{age, cost, counted, cpu, dollars, memory, percent, requests, until, wrapped};
use jiff::Timestamp;

/// The number of lines of an explanation that are shown at first.
const EXPLANATION: usize = 12;

/// The page of an object. `explanation` is what `nodeless plan --disruption --explain` reports about it, or that it is being
/// worked out, or why it cannot be; without `all`, a long one ends early.
#[must_use]
pub fn detail(picture: &Picture, target: &Target, explanation: &[String], all: bool, width: usize) -> Vec<Line> {
    let mut lines = vec![Line::new(Tone::Heading, format!("{} {}", target.kind(), target.name()))];
    for sentence in answer(picture, target).into_iter().chain(first_sentence(explanation)) {
        lines.extend(wrapped(&sentence, width.max(20)).into_iter().map(|part| Line::new(Tone::Notice, part)));
    }
    lines.push(Line::default());
    match target {
        Target::Node(name) => match picture.node(name) {
            Some(node) => node_lines(&mut lines, node, picture, width),
            None => lines.push(Line::new(Tone::Notice, gone("node", picture))),
        },
        Target::Pod(key) => pod_lines(&mut lines, key, picture, width),
        Target::Claim(name) => claim_lines(&mut lines, name, picture, width),
        // A group has a page of its own.
        Target::Group(_) => {}
    }
    lines.push(Line::default());
    lines.push(Line::new(Tone::Heading, "What a plan made now would do"));
    let shown = if all { explanation.len() } else { EXPLANATION };
    for text in explanation.iter().take(shown) {
        let indent = text.len() - text.trim_start().len();
        let available = width.saturating_sub(indent + 4).max(20);
        // A line that fits keeps its columns.
        let parts =
            if text.chars().count() <= available { vec![text.trim().to_owned()] } else { wrapped(text, available) };
        for part in parts {
            lines.push(Line::new(Tone::Plain, format!("  {}{part}", " ".repeat(indent))));
        }
    }
    let more = explanation.len().saturating_sub(shown);
    if more > 0 {
        lines.push(Line::new(Tone::Dim, format!("  and {}: e shows all", counted(more, "other line"))));
    }
    events(&mut lines, picture, target);
    lines
}

/// The state of an object in one sentence; `None` if it does not exist any more.
fn answer(picture: &Picture, target: &Target) -> Option<String> {
    if let Some(problem) = picture.attention.iter().find(|one| one.object.as_ref() == Some(target)) {
        return Some(format!("{}.", problem.text));
    }
    match target {
        Target::Node(name) => {
            let node = picture.node(name)?;
            let cost = node.price_per_hour.map(|price| format!(", costs {}", dollars(price))).unwrap_or_default();
            let (cpu, memory) = (percent(node.load.cpu_requested()), percent(node.load.memory_requested()));
            let pods = counted(node.pods.len(), "pod");
            Some(format!(
                "It is {}{cost} and runs {pods}, with {cpu} of its CPU and {memory} of its memory requested.",
                node.state.as_str()
            ))
        }
        Target::Pod(key) => {
            if let Some(pod) = picture.pending.iter().find(|pod| pod.key() == *key) {
                return Some(format!("It has no node: {}.", pod.reason));
            }
            let node = picture.nodes.iter().find(|node| node.pods.iter().any(|pod| pod.key() == *key))?;
            Some(format!("It is on node {}, which is {}.", node.name, node.state.as_str()))
        }
        Target::Claim(name) => {
            let claim = picture.claims.iter().find(|claim| claim.name == *name)?;
            let why = if claim.message.is_empty() { String::new() } else { format!(": {}", claim.message) };
            Some(format!("It waits for {}{why}.", claim.waits_for))
        }
        Target::Group(_) => None,
    }
}

/// The first line of an explanation, and the first reason below it.
fn first_sentence(explanation: &[String]) -> Option<String> {
    let (first, rest) = explanation.split_first()?;
    let reason = rest.first().filter(|line| line.starts_with(' ')).map(|line| line.trim());
    Some(match reason {
        Some(reason) if reason.starts_with("because") => format!("{first} {reason}"),
        Some(reason) => format!("{first}: {reason}"),
        None => first.clone(),
    })
}

fn fact(lines: &mut Vec<Line>, width: usize, name: &str, value: Option<String>) {
    let Some(value) = value else { return };
    for (number, part) in wrapped(&value, width.saturating_sub(18).max(20)).into_iter().enumerate() {
        let name = if number == 0 { name } else { "" };
        let space = if name.len() < 16 { "" } else { " " };
        lines.push(Line::new(Tone::Plain, format!("  {name:16}{space}{part}")));
    }
}

/// What is shown of an object that is not in the picture.
fn gone(kind: &str, picture: &Picture) -> String {
    let hidden = if picture.hidden.is_some() { ", or the selector hides it" } else { "" };
    format!("  This {kind} does not exist any more{hidden}.")
}

fn node_lines(lines: &mut Vec<Line>, node: &NodeRow, picture: &Picture, width: usize) {
    let now = picture.at;
    let mut fact = |name: &str, value: Option<String>| fact(lines, width, name, value);
    fact("NodePool", node.node_pool.clone());
    fact("NodeClaim", node.node_claim.clone());
    let offering = [&node.instance_type, &node.capacity_type, &node.zone];
    let offering: Vec<&str> = offering.into_iter().flatten().map(String::as_str).collect();
    let price = node.price_per_hour.map_or_else(|| "price not known".to_owned(), cost);
    fact("instance", Some(format!("{} {price}", offering.join(" "))));
    fact("age", Some(age(node.created, now)));
    fact("state", Some(node.state.as_str().to_owned()));
    fact("joining", node.joining.clone());
    fact("disrupted", node.disruption_reason.clone());
    for waiting in &node.waits_for {
        fact("waits for", Some(format!("{}: {}", waiting.pod, waiting.why)));
    }
    for protector in &node.protected_by {
        fact("protected by", Some(format!("karpenter.sh/do-not-disrupt of {protector}")));
    }
    fact("drift", node.drifted.clone());
    fact("consolidatable", node.consolidatable.then(|| "consolidateAfter of its NodePool has passed".to_owned()));
    fact("expires", node.expires.map(|time| format!("in {}, at {time:.0}", until(time, now))));
    let load = &node.load;
    let of_cpu =
        share_of_node(cpu, load.requested.cpu_millicores, load.allocatable.cpu_millicores, load.cpu_requested());
    fact("CPU", Some(of_cpu + &used(load.used, |used| cpu(used.cpu_millicores))));
    let mem =
        share_of_node(memory, load.requested.memory_bytes, load.allocatable.memory_bytes, load.memory_requested());
    fact("memory", Some(mem + &used(load.used, |used| memory(used.memory_bytes))));
    for name in load.extended.names() {
        fact(name, load.extended.text(name).map(|text| format!("{} requested", text.replacen('/', " of ", 1))));
    }
    for key in &picture.label_columns {
        fact(key, node.labels.get(key).cloned());
    }
    lines.push(Line::default());
    lines.push(Line::new(Tone::Heading, counted(node.pods.len(), "pod")));
    lines.extend(node.pods.iter().map(|pod| pod_line(pod, now)));
}

fn share_of_node(form: fn(i64) -> String, requested: i64, allocatable: i64, share: f64) -> String {
    format!("{} of {} requested ({})", form(requested), form(allocatable), percent(share))
}

fn used(used: Option<Amount>, form: impl Fn(Amount) -> String) -> String {
    used.map(|used| format!(", {} used", form(used))).unwrap_or_default()
}

fn pod_line(pod: &PodFacts, now: Timestamp) -> Line {
    let requests = requests(pod.requests, &pod.extended);
    let also =
        [(pod.daemon_set, "DaemonSet"), (pod.terminating, "being deleted"), (pod.is_protected(now), "protected")];
    let also: String = also.iter().filter(|(holds, _)| *holds).map(|(_, text)| format!(", {text}")).collect();
    Line::new(Tone::Plain, format!("  {}  {requests}, {:?}, {}{also}", pod.key(), pod.phase, age(pod.created, now)))
        .opening(Target::Pod(pod.key()))
}

fn pod_lines(lines: &mut Vec<Line>, key: &str, picture: &Picture, width: usize) {
    if let Some(pod) = picture.pending.iter().find(|pod| pod.key() == key) {
        fact(lines, width, "requests", Some(requests(pod.requests, &pod.extended)));
        fact(lines, width, "age", Some(age(pod.created, picture.at)));
        fact(lines, width, "no node because", Some(pod.reason.clone()));
        return;
    }
    let found = picture.nodes.iter().find_map(|node| Some((node, node.pods.iter().find(|pod| pod.key() == key)?)));
    let Some((node, pod)) = found else {
        lines.push(Line::new(Tone::Notice, "  This pod does not exist any more, or it has ended."));
        return;
    };
    lines
        .push(Line::new(Tone::Plain, format!("  {:16}{}", "node", node.name)).opening(Target::Node(node.name.clone())));
    lines.push(pod_line(pod, picture.at));
}

fn claim_lines(lines: &mut Vec<Line>, name: &str, picture: &Picture, width: usize) {
    let Some(claim) = picture.claims.iter().find(|claim| claim.name == name) else {
        let joined = picture.nodes.iter().find(|node| node.node_claim.as_deref() == Some(name));
        lines.push(match joined {
            Some(node) => Line::new(Tone::Good, format!("  Its node {} has joined.", node.name))
                .opening(Target::Node(node.name.clone())),
            None => Line::new(Tone::Notice, gone("NodeClaim", picture)),
        });
        return;
    };
    fact(lines, width, "NodePool", claim.node_pool.clone());
    let offering = [&claim.instance_type, &claim.capacity_type, &claim.zone];
    let offering: Vec<&str> = offering.into_iter().flatten().map(String::as_str).collect();
    fact(lines, width, "instance", Some(offering.join(" ")).filter(|text| !text.is_empty()));
    fact(lines, width, "price", claim.price_per_hour.map(dollars));
    fact(lines, width, "age", Some(age(claim.created, picture.at)));
    fact(lines, width, "waits for", Some(claim.waits_for.to_owned()));
    fact(lines, width, "because", Some(claim.message.clone()).filter(|text| !text.is_empty()));
}

fn events(lines: &mut Vec<Line>, picture: &Picture, target: &Target) {
    let claim = match target {
        Target::Node(name) => picture.node(name).and_then(|node| node.node_claim.clone()),
        _ => None,
    };
    let own = picture.events.iter().filter(|event| match event.kind.as_str() {
        "Pod" => format!("{}/{}", event.namespace, event.name) == target.name() && matches!(target, Target::Pod(_)),
        "NodeClaim" => claim.as_ref() == Some(&event.name) || *target == Target::Claim(event.name.clone()),
        "Node" => *target == Target::Node(event.name.clone()),
        _ => false,
    });
    let own: Vec<Line> = own.map(|event| Line { target: None, ..event_line(event, picture.at) }).collect();
    if !own.is_empty() {
        lines.push(Line::default());
        lines.push(Line::new(Tone::Heading, "Events in the name of nodeless"));
        lines.extend(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, claim_value, cluster, event_value, node_value, pod_value};
    use crate::objects::decode::ShownKind;
    use nodeless_catalog::Catalog;

    #[test]
    fn a_node_shows_its_pods_which_open_and_what_a_plan_would_do() {
        let cluster = cluster(&[
            (ShownKind::Node, node_value("a", "m5.xlarge")),
            (ShownKind::NodeClaim, claim_value("default-a", Some("a"), &["Initialized"])),
            (ShownKind::Pod, pod_value("web", Some("a"))),
            (ShownKind::Pod, pod_value("new", None)),
            (ShownKind::Event, event_value("NodeClaim", "default-a", "Unconsolidatable", "It is too cheap")),
        ]);
        let picture = Picture::new(&cluster, &Catalog::embedded().unwrap(), at(5));
        let explained = ["Node a is not disrupted", "  because its pods fit on no other node", "  drift        no"];
        let explained = explained.map(str::to_owned);
        let lines = detail(&picture, &Target::Node("a".into()), &explained, false, 120);
        let text: String = lines.iter().map(|line| line.text() + "\n").collect();
        for expected in [
            "Node a\nIt is ready, costs $0.0793/h and runs 1 pod, with 25% of its CPU and 12% of its memory requested.\n",
            "  instance        m5.xlarge spot us-east-1a ",
            "  expires         in 29d, at 2026-01-31T00:00:00Z\n",
            "  CPU             1 of 4 requested (25%)\n",
            "  shop/web  cpu 1, memory 2Gi, Running, 5m\n",
            "  Node a is not disrupted\n    because its pods fit on no other node\n    drift        no\n",
            "Unconsolidatable  NodeClaim default-a: It is too cheap\n",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        let targets: Vec<&Target> = lines.iter().filter_map(|line| line.target.as_ref()).collect();
        assert_eq!(targets, [&Target::Pod("shop/web".into())]);

        let text = |target: Target| -> Vec<String> {
            detail(&picture, &target, &[], false, 120).iter().map(Line::text).collect()
        };
        assert_eq!(text(Target::Pod("shop/web".into()))[1], "It is on node a, which is ready.");
        assert!(text(Target::Pod("shop/new".into()))[1].starts_with("Pod shop/new has no node: no scheduler"));
        let first = |target: Target| {
            let lines = text(target);
            let facts = lines.iter().position(String::is_empty).unwrap() + 1;
            lines[facts].clone()
        };
        assert_eq!(first(Target::Pod("shop/web".into())), "  node            a");
        assert_eq!(first(Target::Pod("shop/new".into())), "  requests        cpu 1, memory 2Gi");
        assert!(first(Target::Pod("shop/old".into())).contains("does not exist any more"));
        assert!(first(Target::Node("old".into())).contains("does not exist any more"));
        assert_eq!(first(Target::Claim("default-a".into())), "  Its node a has joined.");
    }

    #[test]
    fn the_answer_is_first_and_a_long_explanation_ends_early() {
        let cluster = cluster(&[(ShownKind::Node, node_value("a", "m5.xlarge"))]);
        let picture = Picture::new(&cluster, &Catalog::embedded().unwrap(), at(5));
        let mut explained = vec!["Node a is not disrupted".to_owned(), "  because it is needed".to_owned()];
        explained.extend((0..200).map(|number| format!("    type-{number}")));
        let shown = |all| {
            let lines = detail(&picture, &Target::Node("a".into()), &explained, all, 120);
            lines.iter().map(Line::text).collect::<Vec<_>>()
        };
        assert_eq!(shown(false)[2], "Node a is not disrupted because it is needed");
        assert!(shown(false).len() < 40 && shown(false).contains(&"  and 190 other lines: e shows all".to_owned()));
        assert!(shown(true).iter().any(|line| line.contains("type-199")));
    }
}
