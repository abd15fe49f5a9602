//! DaemonSets that decide what a plan launches: those that take most of a new node, and those that are left out.

use super::ruled_out::on_board;
use crate::constraints::admission::new_node_requirements;
use crate::constraints::daemons;
use crate::daemon_sets;
use crate::problem::solution::Launch;
use crate::problem::{PoolOffer, Problem};
use nodeless_model::resources::{at_least, compared};
use nodeless_model::{
    DaemonSet, DaemonSetName, DollarsPerHour, InstanceType, Quantity, RefusingQuota, Requirements, ResourceList,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// A DaemonSet that takes more than this share of a node is reported.
const LARGE_SHARE: f64 = 0.5;

/// What a DaemonSet means for the new nodes of a NodePool. Its text is a message for users.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonSetEffect {
    /// The DaemonSet.
    pub daemon_set: DaemonSetName,
    /// The NodePool.
    pub node_pool: String,
    /// The number of new nodes.
    pub nodes: usize,
    /// The resource that it takes most of, or that is missing; or the limit of the ResourceQuota.
    pub resource: String,
    /// Its request.
    pub requested: Quantity,
    /// What it means.
    pub effect: Effect,
}

/// What a DaemonSet means for new nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// It takes more than half of each.
    Large(LargeShare),
    /// It has no space on any instance type that the pods of the nodes could use, so it takes nothing.
    LeftOut,
    /// This ResourceQuota of its namespace allows it no pod, so it takes nothing.
    Refused(String),
}

/// What a DaemonSet takes that has more than half of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct LargeShare {
    /// The share of the resource of the node of which it takes most, up to 1.
    pub share: f64,
    /// The instance type of that node.
    pub instance_type: String,
    /// What is allocatable there.
    pub allocatable: Quantity,
    /// The same shares of the prices of all these nodes, in dollars per hour.
    pub price_per_hour: f64,
}

impl fmt::Display for DaemonSetEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { daemon_set, node_pool, nodes, resource, requested, effect } = self;
        let (nodes, are) = if *nodes == 1 { ("1 node".to_owned(), "is") } else { (format!("{nodes} nodes"), "are") };
        match effect {
            Effect::Large(LargeShare { share, instance_type, allocatable, price_per_hour }) => {
                let [requested, allocatable] = compared(resource, [*requested, *allocatable]);
                write!(
                    f,
                    "DaemonSet {daemon_set} takes {resource} {requested} of {allocatable} ({:.0}%) of a {instance_type} of NodePool \
                     {node_pool}, and {} of the price of {nodes}",
                    share * 100.0,
                    DollarsPerHour(*price_per_hour)
                )
            }
            Effect::LeftOut => write!(
                f,
                "DaemonSet {daemon_set} needs {resource} {}, for which no instance type of NodePool {node_pool} that the pods could use \
                 has space; {nodes} {are} planned without it",
                at_least(resource, *requested)
            ),
            Effect::Refused(quota) => write!(
                f,
                "ResourceQuota {}/{quota} allows DaemonSet {daemon_set} no pod ({resource}); {nodes} of NodePool {node_pool} {are} \
                 planned without it",
                daemon_set.namespace
            ),
        }
    }
}

impl DaemonSetEffect {
    /// The message of an Event on the DaemonSet. It is the same for any number of nodes, so that plans do not publish it anew.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "dollars for each node")]
    pub fn event_message(&self) -> String {
        let Self { node_pool, nodes, resource, requested, effect, .. } = self;
        match effect {
            Effect::Large(LargeShare { share, instance_type, allocatable, price_per_hour }) => {
                let [requested, allocatable] = compared(resource, [*requested, *allocatable]);
                format!(
                    "Its pod takes {resource} {requested} of {allocatable} ({:.0}%) of a {instance_type} of NodePool {node_pool}, and \
                     {} of the price of each such node",
                    share * 100.0,
                    DollarsPerHour(price_per_hour / (*nodes).max(1) as f64)
                )
            }
            Effect::LeftOut => format!(
                "Its pod needs {resource} {}, for which no instance type of NodePool {node_pool} that the pods of new nodes could use \
                 has space, so nodes are launched without it; its pod stays pending there. Reduce its requests, or exclude the nodes by \
                 its node affinity",
                at_least(resource, *requested)
            ),
            Effect::Refused(quota) => format!(
                "ResourceQuota {quota} allows it no pod ({resource}), so nodes of NodePool {node_pool} are launched without it. Raise \
                 the quota, or set the requests and limits that it allows"
            ),
        }
    }
}

impl Serialize for DaemonSetEffect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("daemonSet", &self.daemon_set.to_string())?;
        map.serialize_entry("nodePool", &self.node_pool)?;
        map.serialize_entry("nodes", &self.nodes)?;
        map.serialize_entry("resource", &self.resource)?;
        let amount = |quantity| nodeless_model::resources::format_quantity(&self.resource, quantity);
        map.serialize_entry("requested", &amount(self.requested))?;
        match &self.effect {
            Effect::LeftOut => map.serialize_entry("effect", "leftOut")?,
            Effect::Refused(quota) => {
                map.serialize_entry("effect", "leftOut")?;
                map.serialize_entry("resourceQuota", quota)?;
            }
            Effect::Large(large) => {
                map.serialize_entry("effect", "large")?;
                map.serialize_entry("share", &large.share)?;
                map.serialize_entry("instanceType", &large.instance_type)?;
                map.serialize_entry("allocatable", &amount(large.allocatable))?;
                map.serialize_entry("pricePerHour", &large.price_per_hour)?;
            }
        }
        map.end()
    }
}

/// The DaemonSets that take more than half of a new node of these launches, and those that are left out of one, by name and NodePool.
#[must_use]
pub fn daemon_set_effects(problem: &Problem<'_>, launches: &[Launch]) -> Vec<DaemonSetEffect> {
    // Most launches are of few instance types.
    let mut by_type: BTreeMap<(&str, &str), (usize, f64)> = BTreeMap::new();
    for launch in launches {
        let (nodes, price) = by_type.entry((&launch.node_pool, &launch.offering.instance_type)).or_default();
        *nodes += 1;
        *price += launch.offering.price;
    }
    let mut effects = Vec::new();
    for ((node_pool, name), (nodes, price)) in by_type {
        let Some(offer) = problem.node_pools.iter().find(|offer| offer.pool.name == node_pool) else { continue };
        let Some(kind) = offer.instance_types.iter().find(|kind| kind.name == name) else { continue };
        let of_type = of_type(problem, offer, kind, price);
        effects.extend(of_type.map(|effect| DaemonSetEffect { nodes, ..effect }));
    }
    DaemonSetEffect::combined(effects)
}

impl DaemonSetEffect {
    /// That a DaemonSet takes more than half of a node, from its requests and what is allocatable there; `None` if it does not. The
    /// price of the instance type is in dollars per hour.
    #[must_use]
    pub fn large(
        daemon_set: DaemonSetName,
        node_pool: &str,
        requests: &ResourceList,
        allocatable: &ResourceList,
        instance_type: &str,
        price: f64,
    ) -> Option<Self> {
        let (resource, share) = largest_share(requests, allocatable)?;
        let large = LargeShare {
            share,
            instance_type: instance_type.to_owned(),
            allocatable: allocatable.get(resource),
            price_per_hour: share * price,
        };
        Some(Self {
            daemon_set,
            node_pool: node_pool.to_owned(),
            nodes: 1,
            resource: resource.to_owned(),
            requested: requests.get(resource),
            effect: Effect::Large(large),
        })
    }

    /// One for each DaemonSet, NodePool and effect, by name.
    #[must_use]
    pub fn combined(all: Vec<Self>) -> Vec<Self> {
        let mut combined: BTreeMap<(DaemonSetName, String, bool), Self> = BTreeMap::new();
        for found in all {
            let is_large = matches!(found.effect, Effect::Large(_));
            let key = (found.daemon_set.clone(), found.node_pool.clone(), is_large);
            match combined.get_mut(&key) {
                Some(known) => known.add(found),
                None => drop(combined.insert(key, found)),
            }
        }
        combined.into_values().collect()
    }

    fn add(&mut self, other: Self) {
        self.nodes += other.nodes;
        if let (Effect::Large(own), Effect::Large(more)) = (&mut self.effect, other.effect) {
            let both = own.price_per_hour + more.price_per_hour;
            if more.share > own.share {
                (self.resource, self.requested, *own) = (other.resource, other.requested, more);
            }
            own.price_per_hour = both;
        }
    }
}

/// The effects on a node of an instance type.
fn of_type<'o>(
    problem: &'o Problem<'_>,
    offer: &'o PoolOffer<'_>,
    kind: &InstanceType,
    price: f64,
) -> impl Iterator<Item = DaemonSetEffect> + use<'o> {
    let node_pool = new_node_requirements(offer.pool);
    let node = node_pool.with(&kind.requirements);
    let on_board = on_board(problem, offer, &node_pool).into_iter();
    let on_board = on_board.filter(|set| set.labels.iter().any(|one| node.intersects(one)));
    let sets: Vec<&DaemonSet> = on_board.map(|one| one.set).collect();
    let whole = kind.allocatable();
    let (taken, with_space) = daemon_sets::with_space(sets.iter().copied(), &whole);
    let mut left = whole.clone();
    left.subtract(&taken);
    let instance_type = kind.name.clone();
    let refused = refused(problem, offer, &node_pool, &node);
    let of_space = sets.into_iter().zip(with_space).filter_map(move |(set, has_space)| {
        let requests = &set.template.template.requests;
        let node_pool = &offer.pool.name;
        if has_space {
            return DaemonSetEffect::large(set.key(), node_pool, requests, &whole, &instance_type, price);
        }
        let resource = daemon_sets::first_lacking(requests, &left)?;
        Some(DaemonSetEffect {
            daemon_set: set.key(),
            node_pool: node_pool.clone(),
            nodes: 1,
            resource: resource.to_owned(),
            requested: requests.get(resource),
            effect: Effect::LeftOut,
        })
    });
    of_space.chain(refused)
}

/// The DaemonSets that a ResourceQuota keeps off a node of an instance type.
fn refused<'o>(
    problem: &'o Problem<'_>,
    offer: &'o PoolOffer<'_>,
    node_pool: &Requirements,
    node: &Requirements,
) -> impl Iterator<Item = DaemonSetEffect> + use<'o> {
    let taints = &offer.pool.template.taints;
    let runs = |set: &DaemonSet| {
        daemons::runs_on_template(&set.template, node_pool, taints)
            && daemons::alternatives(&set.template).iter().any(|one| node.intersects(one))
    };
    let found = |set: &DaemonSet| {
        let RefusingQuota { quota, limit } = set.refused_by.clone().filter(|_| runs(set))?;
        let requested = set.template.template.requests.get(limit.strip_prefix("requests.").unwrap_or(&limit));
        Some(DaemonSetEffect {
            daemon_set: set.key(),
            node_pool: offer.pool.name.clone(),
            nodes: 1,
            resource: limit,
            requested,
            effect: Effect::Refused(quota),
        })
    };
    problem.daemon_sets.iter().filter_map(found).collect::<Vec<_>>().into_iter()
}

/// The resource of which requests take most of a node, and the share; `None` if that is not more than half.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn largest_share<'r>(requests: &'r ResourceList, allocatable: &ResourceList) -> Option<(&'r str, f64)> {
    let share = |(resource, asked): (&'r str, Quantity)| {
        (resource, asked.milli() as f64 / allocatable.get(resource).milli().max(1) as f64)
    };
    let largest = requests.iter().map(share).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (largest.1 > LARGE_SHARE).then_some(largest)
}
