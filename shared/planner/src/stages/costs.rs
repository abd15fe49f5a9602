//! Records what nodes cost since the last time, every few minutes and when an hour has ended, and compares it with budgets.

use crate::action::{Action, Batch, PlanLine, Stage, Written};
use crate::execute::Execute;
use crate::nodes::cluster_state::ClusterState;
use crate::records::report::Outcome;
use crate::snapshot::{RecordedCosts, Snapshot};
use jiff::{SignedDuration, Timestamp};
use nodeless_bill::{
    Accrual, Budget, Facts, HourRecord, LiveNode, Open, PoolNow, StoredError, accrue, decode, encode, hour_of,
};
use nodeless_model::events::budget_exceeded;
use nodeless_model::object::ObjectRef;
use nodeless_model::{EndedNode, Setting};
use nodeless_state::costs::{StoredCosts, StoredHour};
use std::collections::BTreeMap;

/// How often costs are recorded.
const INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// The largest open record, well below the 400 kB that an item may have.
const OPEN_BYTES: usize = 300_000;

/// Whether costs that are recorded until `through` are due to be recorded again.
pub(crate) fn is_due(through: Timestamp, now: Timestamp) -> bool {
    now.duration_since(through) >= INTERVAL || hour_of(now) > hour_of(through)
}

/// The time from which on ended instances are read. A record that cannot be decoded is reported when it is used.
pub(crate) fn ended_since(stored: &StoredCosts, now: Timestamp) -> Timestamp {
    let open = open(stored).ok().flatten();
    open.map_or(now, |open| open.ended_since())
}

/// The open record that is stored, if there is one.
fn open(stored: &StoredCosts) -> Result<Option<Open>, StoredError> {
    if stored.version == 0 { Ok(None) } else { decode(&stored.encoded).map(Some) }
}

/// Adds what nodes cost to what is recorded. Nothing depends on it: what fails, a later plan makes up for.
pub(crate) async fn record(snapshot: &Snapshot, executor: &dyn Execute, outcome: &mut Outcome) {
    let read = executor.carry_out(&Batch::each(Stage::Costs, vec![Action::ReadCosts])).await;
    let (put, accrual) = match accrued(snapshot, read.first()) {
        Ok(accrued) => accrued,
        Err(actions) => {
            executor.carry_out(&Batch::in_turn(Stage::Costs, actions)).await;
            return;
        }
    };
    let written = executor.carry_out(&Batch::in_turn(Stage::Costs, vec![put])).await;
    // If another process wrote first, the next plan reads its record. A failed write is logged.
    if !matches!(written.as_slice(), [Written::Version(_)]) {
        return;
    }
    let mut actions = vec![Action::NoteCosts(accrual.open.through)];
    compare(snapshot, &accrual.pools, &mut actions, outcome);
    actions.extend(accrual.pools.into_iter().map(|pool| Action::Log(PlanLine::CostsRecorded(pool))));
    executor.carry_out(&Batch::each(Stage::Costs, actions)).await;
}

/// The costs of nodes until now, with their write, given what was read.
///
/// # Errors
/// If nothing is recorded in this plan: the actions instead.
fn accrued(snapshot: &Snapshot, read: Option<&Written>) -> Result<(Action, Accrual), Vec<Action>> {
    let RecordedCosts { open: stored, ended } = match read {
        Some(Written::Costs(read)) => read.as_ref(),
        other => return Err(vec![not_recorded(other.and_then(Written::problem).unwrap_or("they were not read"))]),
    };
    let open = open(stored).map_err(|error| unreadable(snapshot, &error))?;
    // Another planner has recorded costs meanwhile.
    if let Some(open) = open.as_ref().filter(|open| !is_due(open.through, snapshot.now)) {
        return Err(vec![Action::NoteCosts(open.through)]);
    }
    let accrual = add(snapshot, open.as_ref(), ended);
    let put = put(stored.version, &accrual).map_err(|error| vec![not_recorded(&error.to_string())])?;
    Ok((put, accrual))
}

fn not_recorded(why: &str) -> Action {
    Action::Log(PlanLine::CostsNotRecorded { why: why.to_owned() })
}

/// Reports an unreadable record. The next attempt waits for [`INTERVAL`], because every plan would find the same.
fn unreadable(snapshot: &Snapshot, error: &StoredError) -> Vec<Action> {
    let why =
        format!("the item cost#open of the claims table cannot be read: {error}; or delete it, and records begin anew");
    vec![not_recorded(&why), Action::NoteCosts(snapshot.now)]
}

/// The costs of nodes until now, from the claims that were read: claims that this plan creates launch later.
fn add(snapshot: &Snapshot, open: Option<&Open>, ended: &[EndedNode]) -> Accrual {
    let state = ClusterState::new(&snapshot.view, &snapshot.claims);
    let mut places: BTreeMap<&str, _> =
        state.places.iter().filter_map(|place| Some((place.claim?.name.as_str(), place))).collect();
    let live = |claim| {
        let claim: &nodeless_model::NodeClaim = claim;
        let place = places.remove(claim.name.as_str());
        let node = place.and_then(|place| place.node);
        LiveNode {
            claim,
            allocatable: node.map_or(&claim.status.allocatable, |node| &node.allocatable),
            pods: place.map(|place| place.pods.clone()).unwrap_or_default(),
        }
    };
    let nodes: Vec<LiveNode<'_>> = snapshot.claims.iter().map(live).collect();
    let labels = snapshot.settings.cost_labels.keys();
    let (now, catalog, budgets) = (snapshot.now, snapshot.catalog.as_ref(), budgets(snapshot));
    accrue(open, &Facts { now, nodes: &nodes, ended, catalog, labels, budgets })
}

/// The valid budgets of the cluster and of NodePools.
fn budgets(snapshot: &Snapshot) -> BTreeMap<String, f64> {
    let view = &snapshot.view;
    let of_pools = view.node_pools.iter().map(|pool| (pool.name.as_str(), &pool.options.dollars_per_month));
    let all = of_pools.chain([("", &view.options.dollars_per_month)]);
    all.filter_map(|(name, budget)| Some((name.to_owned(), *budget.valid()?))).collect()
}

fn put(version: u64, accrual: &Accrual) -> Result<Action, StoredError> {
    let hour = |record: &HourRecord| {
        Ok(StoredHour { hour: record.hour, node_pool: record.node_pool.clone(), encoded: encode(record)? })
    };
    let hours: Result<Vec<StoredHour>, StoredError> = accrual.closed.iter().map(hour).collect();
    Ok(Action::PutCosts(StoredCosts { version, encoded: accrual.open.encode_within(OPEN_BYTES)? }, hours?))
}

/// Compares what the cluster and each NodePool cost with their budgets.
fn compare(snapshot: &Snapshot, pools: &[PoolNow], actions: &mut Vec<Action>, outcome: &mut Outcome) {
    let mut one = |object: ObjectRef, name: &str, budget: &Setting<f64>, costs: &PoolNow| {
        let Some(&dollars_per_month) = budget.valid() else { return };
        let (this_month, at_this_pace) = (costs.dollars_this_month, costs.dollars_this_month_at_this_pace);
        if let Some(message) = (Budget { dollars_per_month, this_month, at_this_pace }).message() {
            outcome.over_budget += 1;
            outcome.events.push(budget_exceeded(object, &message));
            actions.push(Action::Log(PlanLine::BudgetExceeded {
                node_pool: name.to_owned(),
                dollars_per_month,
                dollars_this_month: this_month,
                dollars_this_month_at_this_pace: at_this_pace,
            }));
        }
    };
    let mut all = PoolNow::default();
    for pool in pools {
        all.dollars_this_month += pool.dollars_this_month;
        all.dollars_this_month_at_this_pace += pool.dollars_this_month_at_this_pace;
    }
    one(ObjectRef::namespace("kube-system"), "", &snapshot.view.options.dollars_per_month, &all);
    let nothing = PoolNow::default();
    for pool in &snapshot.view.node_pools {
        let costs = pools.iter().find(|it| it.node_pool == pool.name).unwrap_or(&nothing);
        one(pool.into(), &pool.name, &pool.options.dollars_per_month, costs);
    }
}
