//! Unhealthy nodes whose instances are rebooted. Lifecycle drains and reboots them.

use crate::action::{Action, Batch, Stage, Written};
use crate::execute::Execute;
use crate::records::decisions::decision;
use crate::records::report::Outcome;
use jiff::Timestamp;
use nodeless_disruption::repair::{Unhealthy, Verdict};
use nodeless_lifecycle::reboot;
use nodeless_model::NodeClaim;
use nodeless_model::events::reboot_requested;
use nodeless_model::object::ObjectRef;
use serde_json::json;
use std::time::Duration;

/// When a plan is retried that could not write a claim.
const SOON: Duration = Duration::from_secs(5);
/// The kind of the records of these decisions.
const KIND: &str = "static-capacity";

/// Writes which instances are rebooted, and wakes lifecycle for them. A claim that another process wrote at the same time is left for the
/// next plan.
pub(super) async fn request(
    unhealthy: &[Unhealthy],
    now: Timestamp,
    claims: &mut [NodeClaim],
    executor: &dyn Execute,
    outcome: &mut Outcome,
) {
    let due = unhealthy.iter().filter(|node| node.verdict == Verdict::Reboot);
    let requested = due.filter_map(|node| {
        let place = claims.iter().position(|claim| claim.name == node.node_claim && !claim.phase.is_leaving())?;
        let mut after = claims.get(place)?.clone();
        let drain = after.spec.termination_grace_period.map_or(node.drain, |own| own.min(node.drain));
        reboot::request(&mut after, &node.message, drain, now);
        Some((node, place, after))
    });
    let requested: Vec<(&Unhealthy, usize, NodeClaim)> = requested.collect();
    let writes = requested.iter().map(|(.., after)| Action::UpdateClaim(Box::new(after.clone()))).collect();
    let written = executor.carry_out(&Batch::each(Stage::StaticCapacity, writes)).await;

    let mut actions = Vec::new();
    for ((node, place, after), answer) in requested.into_iter().zip(written) {
        let Written::Version(version) = answer else {
            outcome.report.problems.extend(answer.problem().map(|why| format!("NodeClaim {}: {why}", after.name)));
            outcome.report.wait_at_most(SOON);
            continue;
        };
        let objects = [ObjectRef::node(&node.node, ""), ObjectRef::node_claim(&after.name, "")];
        outcome.events.extend(objects.map(|object| reboot_requested(object, &node.message)));
        let summary = format!("{} is rebooted: {}", node.node, node.message);
        let detail = json!({ "claims": [&after.name] }).to_string();
        actions.push(Action::WakeClaims(vec![after.name.clone()]));
        actions.push(decision(KIND, vec![after.name.clone()], summary, detail, now));
        if let Some(claim) = claims.get_mut(place) {
            *claim = NodeClaim { version, ..after };
        }
    }
    executor.carry_out(&Batch::each(Stage::StaticCapacity, actions)).await;
}
