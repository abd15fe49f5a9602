//! What is said on Nodes, NodeClaims and NodePools about disruption by choice, with Karpenter's reasons.

use super::pools::{Judged, pool_event};
use nodeless_disruption::{Command, Kept, Method};
use nodeless_lifecycle::claim_event;
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::{ConsolidationPolicy, DisruptionReason, Node};
use std::collections::BTreeMap;

use super::situation::Situation;

/// How many names are told of a command.
const NAMES: usize = 5;
/// The least score of a command that the policy `Balanced` approves.
const THRESHOLD: f64 = 0.5;

/// An event on a Node and the same on its NodeClaim.
pub(super) struct OnBoth<'a> {
    situation: &'a Situation<'a>,
    /// The claim of each node, and the node.
    claims: BTreeMap<&'a str, (&'a str, Option<&'a Node>)>,
}

impl<'a> OnBoth<'a> {
    pub(super) fn new(situation: &'a Situation<'a>) -> Self {
        let of = |place: &super::situation::Place<'a>| {
            let claim = place.claim?;
            let node = place.node;
            Some((node.map_or(claim.name.as_str(), |node| node.name.as_str()), (claim.name.as_str(), node)))
        };
        Self { situation, claims: situation.places.iter().filter_map(of).collect() }
    }

    fn say(&self, node: &str, reason: &str, message: &str) -> Vec<ObjectEvent> {
        let Some((claim, node)) = self.claims.get(node) else { return Vec::new() };
        let mirror = self.situation.view.node_claims.iter().find(|mirror| mirror.name == **claim);
        let uid = mirror.map_or("", |mirror| mirror.uid.as_str());
        let on_claim = claim_event(claim, uid, false, reason, message);
        let on_node = node.map(|node| ObjectEvent { object: node_reference(node), ..on_claim.clone() });
        on_node.into_iter().chain([on_claim]).collect()
    }

    /// Why nodes stay: `DisruptionBlocked` and `Unconsolidatable`, of each node what comes first.
    pub(super) fn kept(&self, kept: &[Kept]) -> Vec<ObjectEvent> {
        let of = |kept: &Kept| {
            let reason = kept.reasons.iter().find_map(nodeless_disruption::KeptReason::event_reason)?;
            let same = kept.reasons.iter().filter(|why| why.event_reason() == Some(reason));
            let why: Vec<String> = same.map(|why| why.to_string()).collect();
            Some(self.say(&kept.node, reason, &sentence(&why.join("; "))))
        };
        kept.iter().filter_map(of).flatten().collect()
    }

    /// That nodes may be consolidated, and that the policy `Balanced` approves.
    pub(super) fn candidates(&self, command: &Command, judged: &[Judged]) -> Vec<ObjectEvent> {
        if command.reason != DisruptionReason::Underutilized {
            return Vec::new();
        }
        let text = format!("Consolidation candidate: {} ({})", deed(command), saved(command));
        let mut events = self.on_candidates(command, "ConsolidationCandidate", &text);
        let balanced = |pool: &Judged| {
            pool.pool.disruption.consolidation_policy == ConsolidationPolicy::Balanced
                && command.candidates.iter().any(|candidate| candidate.node_pool == pool.pool.name)
        };
        let mut pools = judged.iter().filter(|pool| balanced(pool)).peekable();
        if let (Some(score), true) = (command.score, pools.peek().is_some()) {
            let text = format!("score {score:.2} >= threshold {THRESHOLD:.2} ({})", saved(command));
            match command.method {
                Method::SingleNodeConsolidation => {
                    events.extend(self.on_candidates(command, "ConsolidationApproved", &text));
                }
                _ => events.extend(pools.map(|pool| ObjectEvent {
                    warning: false,
                    ..pool_event(pool, "ConsolidationApproved", text.clone())
                })),
            }
        }
        events
    }

    /// That a proposal to save money was not right any more.
    pub(super) fn rejected(&self, command: &Command, why: &str) -> Vec<ObjectEvent> {
        if command.reason != DisruptionReason::Underutilized {
            return Vec::new();
        }
        let text = format!("Consolidation rejected: {}, reason: {why} ({})", deed(command), saved(command));
        self.on_candidates(command, "ConsolidationRejected", &text)
    }

    fn on_candidates(&self, command: &Command, reason: &str, text: &str) -> Vec<ObjectEvent> {
        command.candidates.iter().flat_map(|candidate| self.say(&candidate.node, reason, text)).collect()
    }
}

/// What a command does, in short.
fn deed(command: &Command) -> String {
    let nodes: Vec<&str> = command.candidates.iter().map(|candidate| candidate.node.as_str()).collect();
    let more = nodes.len().saturating_sub(NAMES);
    let shown = nodes.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let kinds: Vec<String> = command
        .replacements
        .iter()
        .map(|one| format!("{} {}", one.launch.offering.instance_type, one.launch.offering.capacity_type))
        .collect();
    match kinds.len() {
        0 => format!("delete {shown}{more}"),
        _ => format!("replace {shown}{more} by {}", kinds.join(" and ")),
    }
}

fn saved(command: &Command) -> String {
    format!("savings: ${:.4} an hour", command.savings_per_hour)
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn node_reference(node: &Node) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: String::new(),
        name: node.name.clone(),
        uid: node.uid.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_becomes_a_sentence() {
        assert_eq!(sentence("it is annotated"), "It is annotated");
        assert_eq!(sentence(""), "");
    }
}
