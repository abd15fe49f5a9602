//! The planning pipeline: the stages of a plan, one after another.

use super::stages::command_steps::{ClaimsNow, CommandRun};
use super::stages::disruption::{Begun, Decided, Deciding, GoingOn, TOGETHER};
use super::stages::{bookkeeping, costs, disruption, provisioning, static_capacity};
use crate::names::Names;
use crate::offers::OfferCache;
use crate::plan::action::{Action, Batch, Stage, Written};
use crate::plan::buffers;
use crate::plan::churn::caused_launches;
use crate::plan::execute::Execute;
use crate::plan::facts::Facts;
use crate::plan::pods::waiting::WaitingPods;
use crate::plan::pools::{self, Offered};
use crate::plan::records::report::Outcome;
use crate::plan::records::unfinished;
use crate::plan::snapshot::Snapshot;
use nodeless_state::StoredRecord;

/// Makes the plan for a snapshot and executes it. `kept` only makes it faster.
pub(crate) async fn run(snapshot: &Snapshot, kept: &OfferCache, executor: &dyn Execute) -> Outcome {
    let (begun, mut outcome) = unfinished::begin(snapshot);
    executor.carry_out(&Batch::each(Stage::Bookkeeping, begun)).await;
    let mut offered = Offered::of(snapshot, kept);
    let claims = bookkeeping::run(snapshot, &offered, executor, &mut outcome).await;
    let facts = Facts { snapshot, evaluated: &offered.evaluated, claims: &claims, commands: &snapshot.commands };
    let mut names = snapshot.names();
    let claims = static_capacity::run(facts, &mut names, executor, &mut outcome).await;

    pools::charge_created(&mut offered.evaluated, snapshot, &claims);

    let facts = Facts { snapshot, evaluated: &offered.evaluated, claims: &claims, commands: &snapshot.commands };
    let reserved = buffers::reserve(&snapshot.view);
    let waiting = WaitingPods::of(snapshot);
    let restricted = waiting.as_ref().map(|waiting| waiting.restricted(&snapshot.view, &claims)).unwrap_or_default();
    let placed = provisioning::place(facts, &reserved, &restricted);
    let created = provisioning::launch(&placed, facts, &mut names, executor, &mut outcome).await;
    let churn = caused_launches::note(&placed.launches_for_pods(&created), facts, executor, &mut outcome).await;
    if let Some(waiting) = waiting {
        waiting.note(&placed, facts, executor, &mut outcome).await;
    }

    // Replacements share the limits with what was launched for pods.
    let mut charged = offered.evaluated.clone();
    pools::charge(&mut charged, created.iter().map(|claim| (claim.node_pool.as_str(), &claim.spec.charge)));
    let facts = Facts { evaluated: &charged, ..facts };
    let work = work(snapshot, executor).await;
    match disruption::begin(facts, &placed.cluster_state, work, placed.unfinished()) {
        Begun::Off { batch, doubt, outcome: off } => {
            executor.carry_out(&batch).await;
            outcome.add(*off);
            let going_on = GoingOn::begun_ones(facts, &placed.cluster_state, doubt);
            outcome.add(go_on(going_on, facts, &mut names, executor).await);
        }
        Begun::Decided(deciding) => {
            let decided = decide(*deciding, churn, executor).await;
            let written = executor.carry_out(&decided.batch).await;
            let going_on = decided.go_on(&written);
            outcome.add(go_on(going_on, facts, &mut names, executor).await);
        }
    }
    executor.carry_out(&Batch::each(Stage::End, unfinished::end(snapshot))).await;
    if snapshot.costs_due && executor.has_time() {
        costs::record(snapshot, executor, &mut outcome).await;
    }
    outcome
}

/// How much disruption work there is time for, after the pods were scheduled.
async fn work(snapshot: &Snapshot, executor: &dyn Execute) -> u64 {
    if !snapshot.is_whole() {
        return 0;
    }
    let read = executor.carry_out(&Batch::each(Stage::Disruption, vec![Action::ReadWork])).await;
    if let Some(Written::Work(work)) = read.first() { *work } else { 0 }
}

/// The result of a decision. What was done within the last hour is read only if it matters and is not known yet.
async fn decide<'a>(deciding: Deciding<'a>, known: Option<Vec<StoredRecord>>, executor: &dyn Execute) -> Decided<'a> {
    if !deciding.needs_churn() {
        return deciding.decided(None);
    }
    if let Some(known) = known {
        return deciding.decided(Some(Ok(&known)));
    }
    let read = executor.carry_out(&Batch::each(Stage::Disruption, vec![Action::ReadChurn])).await;
    let churn: Result<&[StoredRecord], &str> = match read.first() {
        Some(Written::Churn(stored)) => Ok(stored),
        other => Err(other.and_then(Written::problem).unwrap_or("it was not read")),
    };
    deciding.decided(Some(churn))
}

/// Continues the commands in progress.
async fn go_on(mut going_on: GoingOn<'_>, facts: Facts<'_>, names: &mut Names, executor: &dyn Execute) -> Outcome {
    executor.carry_out(&going_on.batch).await;
    for record in &facts.commands.records {
        if !executor.has_time() {
            // The rest is unchanged. What was started must be reported before this process ends.
            executor.carry_out(&Batch::each(Stage::Disruption, vec![Action::WakePlanner])).await;
            break;
        }
        if going_on.now.changed() >= TOGETHER {
            executor.carry_out(&going_on.now.wake()).await;
        }
        if let Some(run) = going_on.turn(record, names) {
            let outcome = through(run, &mut going_on.now, executor).await;
            going_on.outcome.add(outcome);
        }
    }
    executor.carry_out(&going_on.now.wake()).await;
    let (batch, outcome) = going_on.end();
    executor.carry_out(&batch).await;
    outcome
}

/// Advances a command as far as it goes in this plan.
async fn through(mut run: CommandRun, now: &mut ClaimsNow<'_>, executor: &dyn Execute) -> Outcome {
    let mut written = Vec::new();
    while let Some(batch) = run.next(now, &written) {
        // The first claims of a large command are reconciled while the others are written.
        if now.changed() >= TOGETHER {
            executor.carry_out(&now.wake()).await;
        }
        written = executor.carry_out(&batch).await;
    }
    run.outcome
}
