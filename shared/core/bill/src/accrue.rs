//! Adds what nodes cost since the last time to the open record.
//!
//! The time of instances is exact: a claim that has an instance counts until now, or until its termination is requested or it is stopped
//! as a warm node. For one that is deleted meanwhile, the claims table keeps an item with these times. What pods request is sampled: it counts for the whole time since the last record.

use crate::controller::controller;
use crate::hour::{Amounts, Ended, Group, HourRecord, MAX_GROUPS, NO_NODE_POOL, OfferingCost, hour_of};
use crate::open::{Open, PoolTotals, day_of};
use crate::piece::{Doing, Piece, Times, pieces};
use crate::price::{Prices, prices};
use crate::share::{amounts, shares};
use jiff::{SignedDuration, Timestamp};
use nodeless_catalog::Catalog;
use nodeless_model::claim::TerminationReason;
use nodeless_model::money::HOURS_PER_MONTH;
use nodeless_model::{EndedNode, NodeClaim, Pod, ResourceList};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum time that one step records. After a longer outage, the next steps record the rest.
const MAX_STEP: SignedDuration = SignedDuration::from_hours(24);
/// After this time without a record, what is recorded is not exact: the planner did not run, or the table was restored to an earlier time.
/// DynamoDB restores to five minutes before at the latest, and costs are recorded every five minutes.
const RECORDED_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// The maximum delay until the end of an instance is visible.
const LATE: SignedDuration = SignedDuration::from_mins(15);

/// A claim, its node and the pods on it.
#[derive(Clone, Debug)]
pub struct LiveNode<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// The allocatable resources of its node.
    pub allocatable: &'a ResourceList,
    /// The pods on its node.
    pub pods: Vec<&'a Pod>,
}

/// The facts about a cluster at a time.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The time, at or before the claims were read.
    pub now: Timestamp,
    /// All claims.
    pub nodes: &'a [LiveNode<'a>],
    /// The instances that have ended since [`Open::ended_since`], read after the claims.
    pub ended: &'a [EndedNode],
    /// The prices.
    pub catalog: &'a Catalog,
    /// The labels of pods by whose values costs are divided.
    pub labels: &'a [String],
    /// The budgets: [`Open::budgets`].
    pub budgets: BTreeMap<String, f64>,
}

/// The current costs of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolNow {
    /// The NodePool, or [`NO_NODE_POOL`](crate::NO_NODE_POOL).
    pub node_pool: String,
    /// The number of instances.
    pub nodes: usize,
    /// The price of the instances.
    pub dollars_per_hour: f64,
    /// The on-demand price of the instances.
    pub on_demand_dollars_per_hour: f64,
    /// The part of the price for what no pod requests on initialized nodes.
    pub idle_dollars_per_hour: f64,
    /// The costs of today, in UTC.
    pub dollars_today: f64,
    /// The costs of this month, in UTC.
    pub dollars_this_month: f64,
    /// The costs of the whole month at the present pace.
    pub dollars_this_month_at_this_pace: f64,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Accrual {
    /// The next open record.
    pub open: Open,
    /// The records of the hours that have ended, in the order of hour and NodePool.
    pub closed: Vec<HourRecord>,
    /// The current costs of each NodePool, including NodePools without nodes that have costs this month.
    pub pools: Vec<PoolNow>,
}

impl Open {
    /// The time since which the next step reads ends of instances.
    #[must_use]
    pub fn ended_since(&self) -> Timestamp {
        self.through.checked_sub(LATE).unwrap_or(Timestamp::MIN)
    }
}

/// Records everything until now, or until a day after the last record. Without a record, it begins now.
#[must_use]
pub fn accrue(open: Option<&Open>, facts: &Facts<'_>) -> Accrual {
    let before = open.cloned().unwrap_or_else(|| Open::begin(facts.now));
    let until =
        before.through.checked_add(MAX_STEP).map_or(facts.now, |limit| limit.min(facts.now)).max(before.through);
    let late = facts.now.duration_since(before.through) >= RECORDED_WITHIN;
    let mut step = Step { facts, until, late, hours: BTreeMap::new(), totals: before.totals.clone(), before: &before };
    for record in &before.hours {
        step.hours.insert((record.hour, record.node_pool.clone()), record.clone());
    }
    let fresh: Vec<&EndedNode> =
        facts.ended.iter().filter(|node| node.ended <= until && !before.ended.contains(&node.uid)).collect();
    let has_ended: BTreeSet<&str> = facts.ended.iter().map(|node| node.uid.as_str()).collect();
    facts.ended.iter().for_each(|node| step.add_ended(node));
    fresh.iter().for_each(|node| step.count_end(node));
    let live: Vec<&LiveNode<'_>> =
        facts.nodes.iter().filter(|node| !has_ended.contains(node.claim.uid.as_str())).collect();
    live.iter().for_each(|node| step.add_live(node));
    step.end(&live)
}

/// The group of the costs of a node: its NodePool.
fn group_of(node_pool: Option<&str>) -> &str {
    node_pool.unwrap_or(NO_NODE_POOL)
}

struct Step<'a> {
    facts: &'a Facts<'a>,
    before: &'a Open,
    until: Timestamp,
    late: bool,
    hours: BTreeMap<(Timestamp, String), HourRecord>,
    totals: BTreeMap<String, PoolTotals>,
}

/// The costs of a node, and its states over time.
struct Costing<'a> {
    uid: &'a str,
    node_pool: &'a str,
    offering: OfferingCost,
    prices: Prices,
    /// Dollars an hour of the volumes, if they are known.
    volumes: Option<f64>,
    launched: Timestamp,
    until: Timestamp,
    times: Times,
    interrupted: bool,
}

impl<'a> Costing<'a> {
    fn live(claim: &'a NodeClaim, catalog: &Catalog, until: Timestamp) -> Option<Self> {
        let instance = claim.status.instance.as_ref()?;
        let termination = claim.status.termination.as_ref();
        Some(Self {
            uid: &claim.uid,
            node_pool: group_of(claim.node_pool.as_deref()),
            offering: offering(&instance.instance_type, &instance.zone, instance.capacity_type),
            prices: prices(catalog, &instance.instance_type, &instance.zone, instance.capacity_type, instance.price),
            volumes: claim.spec.volumes_per_month.map(|dollars| dollars / HOURS_PER_MONTH),
            launched: instance.launched,
            until: claim.stopped_at().map_or(until, |stopped| stopped.min(until)),
            times: Times { initialized: claim.initialized_at(), leaving: termination.map(|it| it.requested) },
            interrupted: termination.is_some_and(|it| it.reason == TerminationReason::Interrupted),
        })
    }

    /// Only the claim is known of the recent time of the node: pods that ran on it since the last record are not. So what is not
    /// known to be something else counts as the time of a node that leaves.
    fn ended(node: &'a EndedNode, catalog: &Catalog, until: Timestamp) -> Self {
        Self {
            uid: &node.uid,
            node_pool: group_of(node.node_pool.as_deref()),
            offering: offering(&node.instance_type, &node.zone, node.capacity_type),
            prices: prices(catalog, &node.instance_type, &node.zone, node.capacity_type, node.price),
            volumes: node.volumes_per_month.map(|dollars| dollars / HOURS_PER_MONTH),
            launched: node.launched,
            until: node.stopped.unwrap_or(node.ended).min(until),
            times: Times { initialized: node.initialized, leaving: node.leaving },
            interrupted: node.reason == Some(TerminationReason::Interrupted),
        }
    }
}

fn offering(instance_type: &str, zone: &str, capacity_type: nodeless_model::CapacityType) -> OfferingCost {
    OfferingCost {
        instance_type: instance_type.to_owned(),
        zone: zone.to_owned(),
        capacity_type,
        seconds: 0.0,
        dollars: 0.0,
        on_demand_dollars: 0.0,
        unpriced_seconds: 0.0,
    }
}

impl Step<'_> {
    fn record(&mut self, hour: Timestamp, node_pool: &str) -> &mut HourRecord {
        self.hours.entry((hour, node_pool.to_owned())).or_insert_with(|| HourRecord::new(hour, node_pool))
    }

    /// The pieces of a node since the last record. A node that had no instance then counts from its launch.
    fn pieces(&self, node: &Costing<'_>) -> Vec<Piece> {
        let through = self.before.through;
        let from = if self.before.awaited.contains(node.uid) { node.launched } else { node.launched.max(through) };
        pieces(from, node.until, node.times, hour_of(through))
    }

    fn add_ended(&mut self, node: &EndedNode) {
        let costing = Costing::ended(node, self.facts.catalog, self.until);
        for piece in self.pieces(&costing) {
            let dollars = self.add_instance(&costing, piece);
            let record = self.record(piece.hour, costing.node_pool);
            match piece.doing {
                Doing::Starting => record.starting += dollars,
                Doing::Running | Doing::Leaving => record.leaving += dollars,
            }
        }
    }

    fn add_live(&mut self, node: &LiveNode<'_>) {
        let Some(costing) = Costing::live(node.claim, self.facts.catalog, self.until) else { return };
        if node.claim.is_stopped() {
            self.add_volumes_of_stopped(&costing);
        }
        let pieces = self.pieces(&costing);
        if pieces.is_empty() {
            return;
        }
        let allocatable = amounts(node.allocatable);
        let shares = shares(&node.pods, allocatable);
        for piece in pieces {
            let dollars = self.add_instance(&costing, piece);
            // Pods are on nodes that have joined. What they request while the node starts is part of starting.
            let initialized = piece.doing != Doing::Starting;
            let shares = if initialized { shares.as_slice() } else { &[] };
            let labels = self.facts.labels;
            let record = self.record(piece.hour, costing.node_pool);
            if initialized {
                record.allocatable.add(allocatable.times(piece.seconds / 3600.0));
            }
            let used = add_pods(record, shares, labels, dollars, piece.seconds / 3600.0);
            let rest = (dollars - used).max(0.0);
            match piece.doing {
                Doing::Starting => record.starting += rest,
                Doing::Running => record.idle += rest,
                Doing::Leaving => record.leaving += rest,
            }
        }
    }

    /// Adds what the volumes of a stopped warm node cost: EC2 bills them until the instance is terminated.
    fn add_volumes_of_stopped(&mut self, node: &Costing<'_>) {
        let through = self.before.through;
        for piece in pieces(node.until.max(through), self.until, node.times, hour_of(through)) {
            let dollars = node.volumes.unwrap_or_default() * piece.seconds / 3600.0;
            self.record(piece.hour, node.node_pool).volumes.dollars += dollars;
        }
    }

    /// Adds what an instance cost in a piece of its time, and returns the dollars, without those of its volumes.
    fn add_instance(&mut self, node: &Costing<'_>, piece: Piece) -> f64 {
        let hours = piece.seconds / 3600.0;
        let dollars = node.prices.paid.unwrap_or_default() * hours;
        let cost = OfferingCost {
            seconds: piece.seconds,
            dollars,
            on_demand_dollars: node.prices.on_demand.unwrap_or_default() * hours,
            unpriced_seconds: if node.prices.paid.is_none() { piece.seconds } else { 0.0 },
            ..node.offering.clone()
        };
        let interrupted = node.interrupted && piece.doing == Doing::Leaving;
        let late = self.late;
        let record = self.record(piece.hour, node.node_pool);
        record.late |= late;
        record.add_offering(cost);
        if let Some(volumes) = node.volumes {
            record.volumes.dollars += volumes * hours;
            record.volumes.seconds += piece.seconds;
        }
        if interrupted {
            record.interruptions.dollars += dollars;
        }
        let day = day_of(piece.hour);
        self.totals.entry(node.node_pool.to_owned()).or_insert_with(|| PoolTotals::new(day)).add(day, dollars);
        dollars
    }

    /// Counts an instance that ended, once.
    fn count_end(&mut self, node: &EndedNode) {
        let price = Costing::ended(node, self.facts.catalog, self.until).prices.paid.unwrap_or_default();
        let hour = hour_of(node.ended).max(hour_of(self.before.through));
        let replaced = self.price_of_replacements(&node.name);
        let record = self.record(hour, group_of(node.node_pool.as_deref()));
        let reason = node.reason.map_or("unknown", TerminationReason::as_str);
        let ended: &mut Ended = record.ended.entry(reason.to_owned()).or_default();
        ended.nodes += 1;
        ended.dollars_per_hour += price;
        match node.reason {
            Some(TerminationReason::Interrupted) => record.interruptions.nodes += 1,
            Some(TerminationReason::Empty | TerminationReason::Underutilized) if !node.took_no_pod => {
                record.consolidation.nodes += 1;
                record.consolidation.dollars_per_hour += price - replaced;
            }
            _ => {}
        }
    }

    /// The part of the price of each replacement that falls to one of the nodes that it replaces.
    fn price_of_replacements(&self, name: &str) -> f64 {
        let replaces = |node: &&LiveNode<'_>| node.claim.spec.replaces.iter().any(|it| it == name);
        let price = |node: &LiveNode<'_>| {
            let paid = Costing::live(node.claim, self.facts.catalog, self.until).and_then(|it| it.prices.paid);
            #[expect(clippy::cast_precision_loss, reason = "a command has few nodes")]
            let nodes = node.claim.spec.replaces.len() as f64;
            paid.unwrap_or(node.claim.spec.charge.dollars_per_hour) / nodes
        };
        self.facts.nodes.iter().filter(replaces).map(price).sum()
    }

    fn end(mut self, live: &[&LiveNode<'_>]) -> Accrual {
        let current = hour_of(self.until);
        let mut closed = Vec::new();
        let mut hours = Vec::new();
        for mut record in std::mem::take(&mut self.hours).into_values().filter(|record| !record.is_empty()) {
            record.limit_groups(MAX_GROUPS);
            if record.hour < current { closed.push(record) } else { hours.push(record) }
        }
        let since = self.until.checked_sub(LATE).unwrap_or(Timestamp::MIN);
        let lately = self.facts.ended.iter().filter(|node| node.ended >= since && node.ended <= self.until);
        let awaited = live.iter().filter(|node| node.claim.status.instance.is_none());
        let month = day_of(self.until).first_of_month();
        self.totals.retain(|_, totals| totals.on(day_of(self.until)).this_month > 0.0 || totals.day >= month);
        let mut open = Open {
            since: self.before.since,
            through: self.until,
            awaited: awaited.map(|node| node.claim.uid.clone()).collect(),
            ended: lately.map(|node| node.uid.clone()).collect(),
            hours,
            totals: self.totals,
            paces: BTreeMap::new(),
            budgets: self.facts.budgets.clone(),
        };
        let pools = pools_now(&open, live, self.facts);
        let pace =
            |pool: &PoolNow| (pool.node_pool.clone(), (pool.dollars_this_month_at_this_pace * 1e6).round() / 1e6);
        open.paces = pools.iter().map(pace).collect();
        Accrual { open, closed, pools }
    }
}

/// Adds the shares of pods, and returns their dollars.
fn add_pods(
    record: &mut HourRecord,
    shares: &[(&Pod, Amounts, f64)],
    labels: &[String],
    dollars: f64,
    hours: f64,
) -> f64 {
    let mut used = 0.0;
    for (pod, amounts, share) in shares {
        let group = Group { dollars: dollars * share, requested: amounts.times(hours) };
        used += group.dollars;
        record.requested.add(group.requested);
        add(&mut record.namespaces, &pod.namespace, group);
        if let Some(controller) = controller(pod) {
            add(&mut record.controllers, &controller, group);
        }
        for label in labels {
            if let Some(value) = pod.template.labels.get(label) {
                add(record.labels.entry(label.clone()).or_default(), value, group);
            }
        }
    }
    used
}

fn add(groups: &mut BTreeMap<String, Group>, name: &str, group: Group) {
    match groups.get_mut(name) {
        Some(own) => own.add(group),
        None => drop(groups.insert(name.to_owned(), group)),
    }
}

fn pools_now(open: &Open, live: &[&LiveNode<'_>], facts: &Facts<'_>) -> Vec<PoolNow> {
    let mut pools: BTreeMap<&str, PoolNow> =
        open.totals.keys().map(|name| (name.as_str(), PoolNow::default())).collect();
    for node in live {
        let Some(costing) = Costing::live(node.claim, facts.catalog, open.through) else { continue };
        let pool = pools.entry(costing.node_pool).or_default();
        let paid = costing.prices.paid.unwrap_or_default();
        if costing.until < open.through {
            continue;
        }
        pool.nodes += 1;
        pool.dollars_per_hour += paid;
        pool.on_demand_dollars_per_hour += costing.prices.on_demand.unwrap_or_default();
        if costing.times.initialized.is_some() && costing.times.leaving.is_none() {
            let used: f64 = shares(&node.pods, amounts(node.allocatable)).iter().map(|(_, _, share)| share).sum();
            pool.idle_dollars_per_hour += paid * (1.0 - used).max(0.0);
        }
    }
    let whole = |(name, pool): (&str, PoolNow)| {
        let totals = open.totals_of(name, open.through);
        let at_this_pace = totals.this_month_at_this_pace(open.since, open.through, pool.dollars_per_hour);
        PoolNow {
            node_pool: name.to_owned(),
            dollars_today: totals.today,
            dollars_this_month: totals.this_month,
            dollars_this_month_at_this_pace: at_this_pace,
            ..pool
        }
    };
    pools.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests;
