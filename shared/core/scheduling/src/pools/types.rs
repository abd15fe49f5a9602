//! The instance types of a NodePool, prepared for planning.

use crate::claims::Claims;
use crate::constraints::daemons;
use crate::dense::{self, Amounts};
use crate::problem::{Options, PoolOffer};
use crate::volumes;
use nodeless_model::pod::HostPort;
use nodeless_model::{
    DaemonSet, InstanceType, NodePool, Quantity, Requirements, ResourceIndex, ResourceList, resources,
};
use std::cell::LazyCell;
use std::rc::Rc;
use std::sync::Arc;

/// An instance type as a NodePool launches it.
#[derive(Debug)]
pub(crate) struct PoolType<'a> {
    pub(crate) kind: &'a InstanceType,
    /// The capacity for pods after the requests of all DaemonSets, the number of volumes that a node attaches, and of
    /// pods with claims that it has devices for.
    pub(crate) allocatable: Amounts,
    /// The requests of the DaemonSets.
    pub(crate) daemons: ResourceList,
    /// Host ports of DaemonSets.
    pub(crate) daemon_ports: Vec<HostPort>,
}

/// The DaemonSets that run on a NodePool's nodes, in the order of their names, each with the alternatives of its required labels.
pub(super) struct OnBoard<'d>(Vec<(&'d DaemonSet, Vec<Requirements>)>);

impl<'d> OnBoard<'d> {
    pub(super) fn of(pool: &NodePool, requirements: &Requirements, daemon_sets: &'d [DaemonSet]) -> Self {
        let mut sets: Vec<&DaemonSet> = daemon_sets
            .iter()
            .filter(|set| daemons::runs_on_template(&set.template, requirements, &pool.template.taints))
            .collect();
        sets.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Self(sets.into_iter().map(|set| (set, daemons::alternatives(&set.template))).collect())
    }

    fn is_same(&self, other: &Self) -> bool {
        let sets = |all: &Self| all.0.iter().map(|(set, _)| std::ptr::from_ref(*set)).collect::<Vec<_>>();
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
            && !self.on_board.0.iter().any(|(_, alternatives)| alternatives.iter().any(named))
    }
}

/// The labels by which offerings differ.
pub(super) const SOLD_BY: [&str; 2] = [nodeless_model::labels::ZONE, nodeless_model::labels::CAPACITY_TYPE];

/// The instance types that meet a NodePool's requirements, by name.
pub(super) fn of<'a>(
    offer: &'a PoolOffer<'a>,
    requirements: &Requirements,
    on_board: &OnBoard<'_>,
    columns: (&ResourceIndex, &Claims),
    options: &Options,
) -> Rc<[PoolType<'a>]> {
    let mut types: Vec<PoolType<'a>> = offer
        .instance_types
        .iter()
        .filter(|kind| requirements.intersects(&kind.requirements))
        .map(|kind| PoolType::new(kind, requirements, on_board, columns, options))
        .collect();
    types.sort_by(|a, b| a.kind.name.cmp(&b.kind.name));
    types.into()
}

impl<'a> PoolType<'a> {
    fn new(
        kind: &'a InstanceType,
        node_pool: &Requirements,
        on_board: &OnBoard<'_>,
        (resources, claims): (&ResourceIndex, &Claims),
        options: &Options,
    ) -> Self {
        // Most DaemonSets run on all types, for which nothing has to be computed.
        let node = LazyCell::new(|| node_pool.with(&kind.requirements));
        let mut daemons = ResourceList::new();
        let mut daemon_ports = Vec::new();
        let runs =
            |alternatives: &[Requirements]| alternatives.iter().any(|any| any.is_empty() || node.intersects(any));
        for (set, _) in on_board.0.iter().filter(|(_, alternatives)| runs(alternatives)) {
            daemons.add(&set.template.template.requests);
            daemon_ports.extend(set.template.template.host_ports.iter().cloned());
        }
        let mut allocatable = resources.amounts(&kind.allocatable());
        volumes::set_limits(&mut allocatable, kind, resources);
        claims.set_limits(&mut allocatable, kind, resources);
        dense::take(&mut allocatable, &resources.amounts(&daemons), 1);
        if let (Some(most), Some(place)) = (options.max_pods_per_node, resources.place(resources::name::PODS)) {
            allocatable[place] = allocatable[place].min(Quantity::from_units(i64::from(most)).milli());
        }
        Self { kind, allocatable, daemons, daemon_ports }
    }
}
