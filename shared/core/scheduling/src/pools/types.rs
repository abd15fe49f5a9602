//! The instance types of a NodePool, prepared for planning.

use crate::claims::Claims;
use crate::constraints::daemons;
use crate::daemon_sets::{self, Ranked};
use crate::dense::{self, Amounts};
use crate::problem::{Options, PoolOffer};
use crate::volumes;
use nodeless_model::pod::HostPort;
use nodeless_model::{
    DaemonSet, InstanceType, NodePool, Quantity, Requirements, ResourceIndex, ResourceList, resources,
};
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// An instance type as a NodePool launches it.
#[derive(Debug)]
pub(crate) struct PoolType<'a> {
    pub(crate) kind: &'a InstanceType,
    /// The capacity for pods after the requests of its DaemonSets, the number of volumes that a node attaches, and of
    /// pods with claims that it has devices for.
    pub(crate) allocatable: Amounts,
    /// What its DaemonSets take.
    pub(crate) daemons: Rc<Daemons>,
    /// The place of its DaemonSets without space among those of all types of the NodePool: zero for the types on which the DaemonSets
    /// with the highest rank have space. Pods get the types with the lowest of those that they could use.
    pub(crate) rank: usize,
}

/// What the DaemonSets of an instance type take.
#[derive(Debug)]
pub(crate) struct Daemons {
    /// By DaemonSet of the NodePool, in the order of their ranks, whether it would run on the type and has no space there.
    left_out: Box<[bool]>,
    /// The requests of the others.
    pub(crate) requests: ResourceList,
    /// The same as a row.
    pub(crate) amounts: Amounts,
    /// The others, as indices among all DaemonSets.
    pub(crate) places: Vec<usize>,
    /// The same.
    pub(crate) sets: Vec<DaemonSet>,
    /// Their host ports.
    pub(crate) ports: Vec<HostPort>,
}

/// The DaemonSets that run on a NodePool's nodes, in the order of their ranks.
pub(super) struct OnBoard<'d>(Vec<Ranked<'d>>);

impl<'d> OnBoard<'d> {
    pub(super) fn new(pool: &NodePool, requirements: &Requirements, daemon_sets: &'d [DaemonSet]) -> Self {
        let taints = &pool.template.taints;
        Self(daemon_sets::ranked(daemon_sets, |set| daemons::runs_on_template(&set.template, requirements, taints)))
    }

    fn is_same(&self, other: &Self) -> bool {
        let sets = |all: &Self| all.0.iter().map(|one| one.place).collect::<Vec<_>>();
        sets(self) == sets(other)
    }
}

/// Everything that decides what a NodePool launches, except the amounts of its limits and their usage.
pub(super) struct Launching<'a, 'd> {
    /// The index among the prepared NodePools.
    pub(super) pool: usize,
    pub(super) offer: &'a PoolOffer<'a>,
    pub(super) requirements: Requirements,
    pub(super) on_board: OnBoard<'d>,
}

impl Launching<'_, '_> {
    /// Whether both NodePools launch the same: their requirements differ only in keys that nothing else mentions, such as the
    /// NodePool's name.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let limits = |one: &Self| one.offer.pool.limits.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        let limits_dollars = |one: &Self| one.offer.pool.limit_dollars_per_hour.is_some();
        let of_cluster = |one: &Self| one.offer.cluster.as_ref().map(|cluster| cluster.limits.clone());
        Arc::ptr_eq(&self.offer.instance_types, &other.offer.instance_types)
            && self.on_board.is_same(&other.on_board)
            && limits(self) == limits(other)
            && limits_dollars(self) == limits_dollars(other)
            && of_cluster(self) == of_cluster(other)
            && self.matters_not(&self.requirements.other_than(&other.requirements))
            && self.matters_not(&other.requirements.other_than(&self.requirements))
    }

    fn matters_not(&self, requirements: &Requirements) -> bool {
        let named = |others: &Requirements| requirements.shares_key_with(others);
        let sold = |kind: &InstanceType| kind.offerings.iter().any(|offering| named(&offering.requirements));
        requirements.iter().all(|(key, one)| one.min_values().is_none() && !SOLD_BY.contains(&key))
            && !self.offer.instance_types.iter().any(|kind| named(&kind.requirements) || sold(kind))
            && !self.on_board.0.iter().any(|one| one.labels.iter().any(named))
    }
}

/// The labels by which offerings differ.
pub(super) const SOLD_BY: [&str; 2] = [nodeless_model::labels::ZONE, nodeless_model::labels::CAPACITY_TYPE];

/// The instance types that meet a NodePool's requirements, by name.
pub(super) fn types_of_pool<'a>(
    offer: &'a PoolOffer<'a>,
    requirements: &Requirements,
    on_board: &OnBoard<'_>,
    columns: (&ResourceIndex, &Claims),
    options: &Options,
) -> Rc<[PoolType<'a>]> {
    let mut daemons = DaemonsOfTypes { on_board, requirements, resources: columns.0, found: Vec::new() };
    let mut types: Vec<PoolType<'a>> = offer
        .instance_types
        .iter()
        .filter(|kind| requirements.intersects(&kind.requirements))
        .map(|kind| PoolType::new(kind, &mut daemons, columns.1, options))
        .collect();
    let left_out: BTreeSet<Box<[bool]>> = daemons.found.iter().map(|(_, found)| found.left_out.clone()).collect();
    if left_out.len() > 1 {
        for kind in &mut types {
            kind.rank = left_out.iter().take_while(|lower| **lower != kind.daemons.left_out).count();
        }
    }
    types.sort_by(|a, b| a.kind.name.cmp(&b.kind.name));
    types.into()
}

impl<'a> PoolType<'a> {
    fn new(kind: &'a InstanceType, daemons: &mut DaemonsOfTypes<'_, '_>, claims: &Claims, options: &Options) -> Self {
        let resources = daemons.resources;
        let whole = kind.allocatable();
        let daemons = daemons.on(kind, &whole);
        let mut allocatable = resources.amounts(&whole);
        volumes::set_limits(&mut allocatable, kind, resources);
        claims.set_limits(&mut allocatable, kind, resources);
        dense::take(&mut allocatable, &daemons.amounts, 1);
        if let (Some(most), Some(place)) = (options.max_pods_per_node, resources.place(resources::name::PODS)) {
            allocatable[place] = allocatable[place].min(Quantity::from_units(i64::from(most)).milli());
        }
        Self { kind, allocatable, daemons, rank: 0 }
    }

    /// Whether it has capacity for a pod without its DaemonSets.
    pub(crate) fn holds_alone(&self, requests: &[i64]) -> bool {
        let without =
            self.allocatable.iter().zip(&self.daemons.amounts).map(|(left, taken)| left.saturating_add(*taken));
        requests.iter().zip(without).all(|(asked, has)| *asked <= has)
    }
}

/// The DaemonSets of instance types, computed once for those that have the same ones.
struct DaemonsOfTypes<'t, 'd> {
    on_board: &'t OnBoard<'d>,
    /// Those of the NodePool.
    requirements: &'t Requirements,
    resources: &'t ResourceIndex,
    /// By which DaemonSets run on a type.
    found: Vec<(Box<[bool]>, Rc<Daemons>)>,
}

impl DaemonsOfTypes<'_, '_> {
    fn on(&mut self, kind: &InstanceType, whole: &ResourceList) -> Rc<Daemons> {
        // Most DaemonSets run on all types, for which nothing has to be computed.
        let node = LazyCell::new(|| self.requirements.with(&kind.requirements));
        let may_run =
            |alternatives: &[Requirements]| alternatives.iter().any(|any| any.is_empty() || node.intersects(any));
        let runs: Box<[bool]> = self.on_board.0.iter().map(|one| may_run(&one.labels)).collect();
        let mut alike = self.found.iter().filter(|(known, _)| *known == runs).map(|(_, daemons)| daemons);
        let is_right = |daemons: &&Rc<Daemons>| {
            !daemons.left_out.contains(&true) && daemon_sets::first_lacking(&daemons.requests, whole).is_none()
        };
        if let Some(known) = alike.find(is_right) {
            return Rc::clone(known);
        }
        let sets = self.on_board.0.iter().zip(&runs).filter(|(_, runs)| **runs).map(|(one, _)| one);
        let (requests, with_space) = daemon_sets::with_space(sets.clone().map(|one| one.set), whole);
        let mut each = with_space.iter();
        let left_out: Box<[bool]> =
            runs.iter().map(|runs| *runs && each.next().is_some_and(|has_space| !has_space)).collect();
        let same = self.found.iter().find(|(known, daemons)| *known == runs && daemons.left_out == left_out);
        if let Some((_, known)) = same {
            return Rc::clone(known);
        }
        let sets: Vec<&Ranked<'_>> =
            sets.zip(&with_space).filter(|(_, has_space)| **has_space).map(|(one, _)| one).collect();
        let places = sets.iter().map(|one| one.place).collect();
        let sets: Vec<DaemonSet> = sets.into_iter().map(|one| one.set.clone()).collect();
        let ports = sets.iter().flat_map(|set| set.template.template.host_ports.iter().cloned()).collect();
        let amounts = self.resources.amounts(&requests);
        let daemons = Rc::new(Daemons { left_out, requests, amounts, places, sets, ports });
        self.found.push((runs, Rc::clone(&daemons)));
        daemons
    }
}
