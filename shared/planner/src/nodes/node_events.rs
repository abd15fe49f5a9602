//! The events about voluntary disruption on Nodes, NodeClaims and NodePools.

use crate::pools::EvaluatedPool;
use jiff::Timestamp;
use nodeless_disruption::{Command, Kept, KeptEvent, KeptReason, Method};
use nodeless_model::events::{
    consolidation_approved, consolidation_candidate, consolidation_rejected, disruption_blocked,
    initialization_timeout, unconsolidatable, zone_balance_candidate,
};
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::{ConsolidationPolicy, DisruptionReason, DollarsPerHour, Node};
use std::collections::BTreeMap;

use crate::nodes::cluster_state::ClusterState;

/// The maximum number of names in the message about one command.
const NAMES: usize = 5;
/// The minimum score of a command that the policy `Balanced` approves.
const THRESHOLD: f64 = 0.5;

/// Creates events that a Node and its NodeClaim both get.
pub(crate) struct NodeEvents<'a> {
    cluster_state: &'a ClusterState<'a>,
    /// The nodes and their claims.
    claims: BTreeMap<&'a str, (&'a str, Option<&'a Node>)>,
}

impl<'a> NodeEvents<'a> {
    pub(crate) fn new(cluster_state: &'a ClusterState<'a>) -> Self {
        let of = |place: &crate::nodes::place::Place<'a>| {
            let claim = place.claim?;
            let node = place.node;
            Some((node.map_or(claim.name.as_str(), |node| node.name.as_str()), (claim.name.as_str(), node)))
        };
        Self { cluster_state, claims: cluster_state.places.iter().filter_map(of).collect() }
    }

    fn objects(&self, node: &str) -> Vec<ObjectRef> {
        let Some((claim, node)) = self.claims.get(node) else { return Vec::new() };
        let mirror = self.cluster_state.view.node_claims.iter().find(|mirror| mirror.name == **claim);
        let claim = ObjectRef::node_claim(claim, mirror.map_or("", |mirror| mirror.uid.as_str()));
        node.map(ObjectRef::from).into_iter().chain([claim]).collect()
    }

    /// The events about nodes that are not expected to become ready any more.
    pub(crate) fn failed_to_initialize(&self, now: Timestamp) -> Vec<ObjectEvent> {
        let failed = self.cluster_state.places.iter().filter(|place| place.failed_to_initialize(now));
        let names = failed.filter_map(|place| place.node).map(|node| node.name.as_str());
        names.flat_map(|node| self.objects(node)).map(initialization_timeout).collect()
    }

    /// Why nodes stay: `DisruptionBlocked` and `Unconsolidatable`, the first reason of each node.
    pub(crate) fn kept(&self, kept: &[Kept]) -> Vec<ObjectEvent> {
        let of = |kept: &Kept| {
            let reason = kept.reasons.iter().find_map(KeptReason::event)?;
            let same = kept.reasons.iter().filter(|why| why.event() == Some(reason));
            let why: Vec<String> = same.map(|why| why.to_string()).collect();
            let why = sentence(&why.join("; "));
            let event = match reason {
                KeptEvent::DisruptionBlocked => disruption_blocked,
                KeptEvent::Unconsolidatable => unconsolidatable,
            };
            Some(self.objects(&kept.node).into_iter().map(move |object| event(object, &why)))
        };
        kept.iter().filter_map(of).flatten().collect()
    }

    /// The events that nodes may be consolidated, and that the policy `Balanced` approves.
    pub(crate) fn candidates(&self, command: &Command, evaluated: &[EvaluatedPool]) -> Vec<ObjectEvent> {
        if let Some(zones) = &command.zones {
            let (action, zones, cost) = (action(command), zones.to_string(), cost(command));
            return self.on_candidates(command, |object| zone_balance_candidate(object, &action, &zones, &cost));
        }
        if command.reason != DisruptionReason::Underutilized {
            return Vec::new();
        }
        let (action, savings) = (action(command), savings(command));
        let mut events = self.on_candidates(command, |object| consolidation_candidate(object, &action, &savings));
        let balanced = |pool: &EvaluatedPool| {
            pool.pool.disruption.consolidation_policy == ConsolidationPolicy::Balanced
                && command.candidates.iter().any(|candidate| candidate.node_pool == pool.pool.name)
        };
        let mut pools = evaluated.iter().filter(|pool| balanced(pool)).peekable();
        if let (Some(score), true) = (command.score, pools.peek().is_some()) {
            let approved = |object| consolidation_approved(object, score, THRESHOLD, &savings);
            match command.method {
                Method::SingleNodeConsolidation => events.extend(self.on_candidates(command, approved)),
                _ => events.extend(pools.map(|pool| approved(ObjectRef::from(&pool.pool)))),
            }
        }
        events
    }

    /// The event that a consolidation was not valid any more.
    pub(crate) fn rejected(&self, command: &Command, why: &str) -> Vec<ObjectEvent> {
        if command.reason != DisruptionReason::Underutilized {
            return Vec::new();
        }
        let (action, savings) = (action(command), savings(command));
        self.on_candidates(command, |object| consolidation_rejected(object, &action, why, &savings))
    }

    fn on_candidates(&self, command: &Command, event: impl Fn(ObjectRef) -> ObjectEvent) -> Vec<ObjectEvent> {
        command.candidates.iter().flat_map(|candidate| self.objects(&candidate.node)).map(event).collect()
    }
}

/// A summary of a command.
fn action(command: &Command) -> String {
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

fn savings(command: &Command) -> String {
    format!("savings: {}", DollarsPerHour(command.savings_per_hour))
}

fn cost(command: &Command) -> String {
    match command.savings_per_hour {
        saving if saving < 0.0 => format!("cost: {}", DollarsPerHour(-saving)),
        _ => savings(command),
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
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
