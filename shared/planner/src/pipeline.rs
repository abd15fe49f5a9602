//! The planning pipeline: the stages of a plan, one after another.

use super::stages::{bookkeeping, costs, disruption, provisioning, standalone, static_capacity, warm};
use crate::action::{Batch, Stage};
use crate::execute::Execute;
use crate::facts::Facts;
use crate::pods::expected::{expect, places};
use crate::pods::placed::VirtualPods;
use crate::pods::waiting::{WaitingPods, owners_without_launch};
use crate::pools::Offered;
use crate::records::report::Outcome;
use crate::records::unfinished;
use crate::settings::Mechanism;
use crate::snapshot::Snapshot;
use crate::{buffers, pools, requests};
use nodeless_model::NodeClaim;
use nodeless_operations::offers::OfferCache;

/// Makes the plan for a snapshot and executes it. `kept` only makes it faster.
pub(crate) async fn run(snapshot: &Snapshot, kept: &OfferCache, executor: &dyn Execute) -> Outcome {
    let (actions, mut outcome) = unfinished::begin(snapshot);
    executor.carry_out(&Batch::each(Stage::Bookkeeping, actions)).await;
    let mut offered = Offered::new(snapshot, kept);
    let claims = bookkeeping::run(snapshot, &offered, executor, &mut outcome).await;
    let mut names = snapshot.names();
    let facts = Facts { snapshot, evaluated: &offered.evaluated, claims: &claims, commands: &snapshot.commands };
    let claims = static_capacity::run(facts, &mut names, executor, &mut outcome).await;
    let claims =
        standalone::run(Facts { claims: &claims, ..facts }, &offered.class_types, executor, &mut outcome).await;

    pools::charge_created(&mut offered.evaluated, snapshot, &claims);
    let facts = Facts { snapshot, evaluated: &offered.evaluated, claims: &claims, commands: &snapshot.commands };
    let mut quotas = snapshot.view.quota_balance();
    let requested = requests::requested(&snapshot.view, &mut quotas, snapshot.now);
    let with = |mechanism| snapshot.settings.without != Some(mechanism);
    let waiting = WaitingPods::new(snapshot, &claims).filter(|_| with(Mechanism::WaitingPods));
    let restricted = waiting.as_ref().map(|waiting| waiting.restricted(&snapshot.view, &claims, snapshot.now));
    let restricted = restricted.unwrap_or_default();
    outcome.unused_launches += owners_without_launch(&restricted);
    let expected = waiting.as_ref().map(|waiting| expect(facts, waiting.expectations(), &restricted, &mut quotas));
    let expected = expected.unwrap_or_default();
    let reserved = buffers::reserve(&snapshot.view, &mut quotas);
    let virtual_pods = VirtualPods { reserved: &reserved, requested: &requested, expected: &expected };
    let placed = provisioning::place(facts, virtual_pods, &restricted);
    let created = provisioning::launch(&placed, facts, &mut names, executor, &mut outcome).await;
    if let Some(waiting) = waiting {
        waiting.note(&placed, facts, executor, &mut outcome).await;
    }

    // Replacements share the limits with what was launched for pods.
    let mut charged = offered.evaluated.clone();
    pools::charge(&mut charged, pools::charges(created.iter()));
    // What was taken for pods is no longer warm.
    let mut present = claims.clone();
    present.retain(|claim| !created.iter().any(|one| one.name == claim.name));
    present.extend(created.iter().cloned());
    let warmed = Facts { evaluated: &charged, claims: &present, ..facts };
    let warmed = warm::run(warmed, &placed, &mut names, executor, &mut outcome).await;
    pools::charge(&mut charged, pools::charges(warmed.iter()));
    let facts = Facts { evaluated: &charged, ..facts };
    disruption::run(facts, &placed, &mut names, executor, &mut outcome).await;
    note_unused(&present, snapshot, &mut outcome);
    executor.carry_out(&Batch::each(Stage::End, unfinished::end(snapshot))).await;
    if snapshot.costs_due && executor.has_time() {
        costs::record(snapshot, executor, &mut outcome).await;
    }
    outcome
}

/// Notes how long the nodes existed that leave without any of the expected pods that they were launched for.
fn note_unused(claims: &[NodeClaim], snapshot: &Snapshot, outcome: &mut Outcome) {
    let leaving = claims.iter().filter(|claim| outcome.report.leaving.contains(&claim.name));
    let seconds = leaving.filter_map(|claim| places::unused_seconds(claim, snapshot.now)).sum::<f64>();
    outcome.unused_node_seconds += seconds;
}
