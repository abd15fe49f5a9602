//! The instance types that a launch chose from, and why cheaper ones were ruled out. Determined only on request.

use crate::claims::Together;
use crate::constraints::admission::new_node_requirements;
use crate::constraints::daemons;
use crate::constraints::required_alternatives;
use crate::daemon_sets::{self, Ranked};
use crate::problem::reason::TakenByDaemonSet;
use crate::problem::solution::{Launch, PricedType};
use crate::problem::{PoolOffer, Problem};
use crate::volumes;
use nodeless_model::resources::compared;
use nodeless_model::{
    CapacityType, DaemonSet, DaemonSetName, InstanceType, Pod, Quantity, Requirements, ResourceList, labels,
};
use serde::{Serialize, Serializer};
use std::fmt;

/// The explanation of a launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchExplanation {
    /// The NodePool.
    pub node_pool: String,
    /// The pods, as `namespace/name`.
    pub pods: Vec<String>,
    /// The total requests of the pods, without DaemonSets.
    pub requests: ResourceList,
    /// The instance types that may be launched, the cheapest first.
    pub instance_types: Vec<PricedType>,
    /// Every cheaper instance type than the chosen one, and why it may not be launched; the cheapest first.
    pub ruled_out: Vec<RuledOut>,
}

/// A cheaper instance type that may not be launched.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuledOut {
    /// The name.
    pub name: String,
    /// The price of the cheapest offering that the NodePool admits, available or not, in dollars per hour; of any offering if it
    /// admits none.
    #[serde(rename = "pricePerHour")]
    pub price: f64,
    /// The first cause that rules it out.
    #[serde(rename = "reason")]
    pub cause: RuledOutCause,
}

/// Why an instance type is ruled out for a launch.
#[derive(Clone, Debug, PartialEq)]
pub enum RuledOutCause {
    /// The NodePool does not admit it.
    NodePool {
        /// The label's key.
        key: String,
        /// The values that the NodePool allows.
        allowed: String,
    },
    /// A pod does not admit it.
    Pod {
        /// `namespace/name`.
        pod: String,
        /// The pod's requirement.
        required: String,
    },
    /// The pods of the node do not admit it: by preferences, volumes or topology constraints.
    Plan {
        /// The label's key.
        key: String,
        /// The required value of the node's label.
        required: String,
    },
    /// The instance type has no offering in the remaining zones and capacity types.
    NotOffered {
        /// The remaining zones.
        zones: String,
        /// The remaining capacity types.
        capacity_types: String,
    },
    /// The offerings of the instance type are not available now.
    Unavailable {
        /// The zones and capacity types.
        offerings: Vec<(String, CapacityType)>,
    },
    /// The instance type does not have the devices that the pods claim.
    Devices {
        /// Why.
        message: String,
    },
    /// The instance type has a later alternative of a ResourceClaim than the chosen one.
    LaterAlternative {
        /// What the claims get there, as `request/alternative`.
        there: String,
        /// What they get on the chosen instance type.
        chosen: String,
    },
    /// The instance type has insufficient resources.
    TooSmall {
        /// The resource.
        resource: String,
        /// The requests of the pods.
        needed: Quantity,
        /// The capacity less the requests of DaemonSets.
        left: Quantity,
        /// The DaemonSet that takes most of it, if the pods had enough without DaemonSets.
        daemon_set: Option<TakenByDaemonSet>,
    },
    /// A DaemonSet has no space there, and has space on other instance types that the pods could use.
    DaemonSet {
        /// The DaemonSet that lacks most of its first missing resource.
        lacking: TakenByDaemonSet,
        /// The capacity, less the requests of the other DaemonSets.
        left: Quantity,
    },
    /// The pods mount more volumes of EBS than a node of the instance type attaches.
    TooManyVolumes {
        /// The number of volumes of the pods.
        mounted: usize,
        /// The limit of the instance type.
        limit: u32,
    },
    /// A DaemonSet takes a host port there that a pod needs.
    HostPort {
        /// The port.
        port: i32,
        /// The DaemonSet.
        daemon_set: DaemonSetName,
    },
    /// The instance type would use more of a limit than the plan charged for this launch.
    Limit {
        /// The resource, or `dollars per hour`.
        limit: String,
    },
    /// The instance type is large enough, but its savings would be in capacity that other launches of the plan use, or the node
    /// got its shape for pods that were added to it later.
    Unused,
}

impl fmt::Display for RuledOutCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodePool { key, allowed } => write!(f, "the NodePool requires {key} {allowed}"),
            Self::Pod { pod, required } => write!(f, "pod {pod} requires {required}"),
            Self::Plan { key, required } => write!(f, "the pods together need {key} {required}"),
            Self::NotOffered { zones, capacity_types } => {
                write!(f, "it is not sold with zone {zones} and capacity type {capacity_types}")
            }
            Self::Unavailable { offerings } => {
                let each = offerings.iter().map(|(zone, capacity)| format!("{} in {zone}", capacity.as_str()));
                write!(f, "it is unavailable now: {}", each.collect::<Vec<_>>().join(", "))
            }
            Self::Devices { message } => write!(f, "it does not have the claimed devices: {message}"),
            Self::LaterAlternative { there, chosen } => {
                write!(f, "it has alternative {there} of the claims, and {chosen} comes before it")
            }
            Self::TooSmall { resource, needed, left, daemon_set } => {
                let [left, needed] = compared(resource, [*left, *needed]);
                write!(f, "it leaves {resource} {left} for pods, and these need {needed}")?;
                daemon_set.as_ref().map_or(Ok(()), |taken| write!(f, "; {taken}"))
            }
            Self::DaemonSet { lacking: TakenByDaemonSet { name, resource, requested }, left } => {
                let [left, requested] = compared(resource, [*left, *requested]);
                write!(f, "it leaves {resource} {left} for DaemonSet {name}, which needs {requested}")
            }
            Self::TooManyVolumes { mounted, limit } => {
                write!(f, "it permits {limit} volume attachments for pods, and these mount {mounted} volumes of EBS")
            }
            Self::HostPort { port, daemon_set } => write!(f, "DaemonSet {daemon_set} takes host port {port} there"),
            Self::Limit { limit } => write!(f, "it would take more of limit {limit} than there is for this node"),
            Self::Unused => f.write_str(
                "it fits, but the plan uses this cheaper capacity, or this node's free capacity, for other pods",
            ),
        }
    }
}

impl Serialize for RuledOutCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Explains a launch of a solution: its possible instance types by price, and for every cheaper one what rules it out. `None` if
/// the problem does not have the NodePool of the launch.
#[must_use]
pub fn explain_launch(problem: &Problem<'_>, launch: &Launch) -> Option<LaunchExplanation> {
    let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool)?;
    let pods: Vec<&Pod> = launch.pods.iter().filter_map(|pod| problem.pods.get(*pod).copied()).collect();
    let mut requests = ResourceList::new();
    pods.iter().for_each(|pod| requests.add(pod.template.next_requests()));
    let node_pool = new_node_requirements(offer.pool);
    let on_board = on_board(problem, offer, &node_pool);
    let chosen = offer.instance_types.iter().find(|kind| kind.name == launch.offering.instance_type);
    let claims = Together::new(&pods, problem.facts);
    let alternatives = claims.as_ref().zip(chosen).and_then(|(claims, chosen)| claims.on(chosen).ok());
    let evaluation = Evaluation {
        problem,
        offer,
        launch,
        pods: &pods,
        requests: &requests,
        node_pool,
        on_board,
        chosen,
        claims,
        alternatives: alternatives.unwrap_or_default(),
    };
    let listed = |kind: &&InstanceType| launch.instance_types.iter().any(|listed| listed.name == kind.name);
    let mut ruled_out: Vec<RuledOut> = offer
        .instance_types
        .iter()
        .filter(|kind| !listed(kind))
        .filter_map(|kind| Some((kind, evaluation.price(kind)?)))
        .filter(|(_, price)| *price < launch.offering.price)
        .map(|(kind, price)| RuledOut { name: kind.name.clone(), price, cause: evaluation.cause(kind) })
        .collect();
    ruled_out.sort_by(|a, b| a.price.total_cmp(&b.price).then_with(|| a.name.cmp(&b.name)));
    Some(LaunchExplanation {
        node_pool: launch.node_pool.clone(),
        pods: pods.iter().map(|pod| pod.key()).collect(),
        requests,
        instance_types: launch.instance_types.clone(),
        ruled_out,
    })
}

/// The DaemonSets that run on nodes of a NodePool, in the order in which they get capacity.
pub(crate) fn on_board<'j>(problem: &Problem<'j>, offer: &PoolOffer<'_>, node_pool: &Requirements) -> Vec<Ranked<'j>> {
    let taints = &offer.pool.template.taints;
    daemon_sets::ranked(problem.daemon_sets, |set| daemons::runs_on_template(&set.template, node_pool, taints))
}

struct Evaluation<'j, 'a> {
    problem: &'j Problem<'a>,
    offer: &'j PoolOffer<'a>,
    launch: &'j Launch,
    pods: &'j [&'a Pod],
    requests: &'j ResourceList,
    node_pool: Requirements,
    /// The DaemonSets that run on nodes of the NodePool.
    on_board: Vec<Ranked<'j>>,
    chosen: Option<&'j InstanceType>,
    claims: Option<Together<'a>>,
    /// What the claims get on the chosen type.
    alternatives: Vec<String>,
}

impl Evaluation<'_, '_> {
    /// The lowest known price of a type.
    fn price(&self, kind: &InstanceType) -> Option<f64> {
        let priced = || kind.offerings.iter().filter(|offering| !offering.lacks_price);
        let admitted = priced().filter(|offering| offering.meets(&self.node_pool));
        let cheapest = admitted.map(|offering| offering.price).min_by(f64::total_cmp);
        cheapest.or_else(|| priced().map(|offering| offering.price).min_by(f64::total_cmp))
    }

    fn cause(&self, kind: &InstanceType) -> RuledOutCause {
        let labels = self.by_labels(kind).or_else(|| self.by_offerings(kind)).or_else(|| self.by_devices(kind));
        labels.or_else(|| self.by_capacity(kind)).or_else(|| self.by_limits(kind)).unwrap_or(RuledOutCause::Unused)
    }

    fn by_labels(&self, kind: &InstanceType) -> Option<RuledOutCause> {
        let against = |required: &Requirements| {
            let key = kind.requirements.first_incompatible(required, |_| true)?;
            Some((key.to_owned(), required.get(key).map(ToString::to_string).unwrap_or_default()))
        };
        if let Some((key, allowed)) = against(&self.node_pool) {
            return Some(RuledOutCause::NodePool { key, allowed });
        }
        let node = self.node_pool.with(&kind.requirements);
        for pod in self.pods {
            let terms = required_alternatives(pod).unwrap_or_default();
            if !terms.iter().any(|term| node.intersects(term)) {
                let required = terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
                return Some(RuledOutCause::Pod { pod: pod.key(), required });
            }
        }
        let mut planned = self.launch.requirements.clone();
        planned.remove(labels::INSTANCE_TYPE);
        for (key, required) in planned.iter().filter(|(key, _)| ![labels::ZONE, labels::CAPACITY_TYPE].contains(key)) {
            let single = Requirements::from([(key, required.clone())]);
            if !kind.requirements.intersects(&single) {
                return Some(RuledOutCause::Plan { key: key.to_owned(), required: required.to_string() });
            }
        }
        None
    }

    fn by_offerings(&self, kind: &InstanceType) -> Option<RuledOutCause> {
        let required = &self.launch.requirements;
        let sold: Vec<_> = kind.offerings.iter().filter(|offering| offering.meets(required)).collect();
        if sold.is_empty() {
            let text = |key| required.get(key).map(ToString::to_string).unwrap_or_default();
            let (zones, capacity_types) = (text(labels::ZONE), text(labels::CAPACITY_TYPE));
            return Some(RuledOutCause::NotOffered { zones, capacity_types });
        }
        if sold.iter().any(|offering| offering.available) {
            return None;
        }
        let offerings = sold.iter().map(|offering| (offering.zone.clone(), offering.capacity_type)).collect();
        Some(RuledOutCause::Unavailable { offerings })
    }

    fn by_devices(&self, kind: &InstanceType) -> Option<RuledOutCause> {
        match self.claims.as_ref()?.on(kind) {
            Err(message) => Some(RuledOutCause::Devices { message }),
            Ok(there) if there != self.alternatives => {
                Some(RuledOutCause::LaterAlternative { there: there.join(", "), chosen: self.alternatives.join(", ") })
            }
            Ok(_) => None,
        }
    }

    fn by_capacity(&self, kind: &InstanceType) -> Option<RuledOutCause> {
        let whole = kind.allocatable();
        let (sets, without_space) = self.daemon_sets(kind, &whole);
        let mut left = whole.clone();
        sets.iter().for_each(|set| left.subtract(&set.template.template.requests));
        if let Some(set) = self.first_with_space_on_chosen(&without_space) {
            let requests = &set.template.template.requests;
            let resource = daemon_sets::first_lacking(requests, &left)?;
            let (resource, requested) = (resource.to_owned(), requests.get(resource));
            let left = left.get(&resource);
            return Some(RuledOutCause::DaemonSet {
                lacking: TakenByDaemonSet { name: set.key(), resource, requested },
                left,
            });
        }
        if let Some((resource, needed)) = self.requests.iter().find(|(name, asked)| *asked > left.get(name)) {
            let daemon_set =
                (needed <= whole.get(resource)).then(|| daemon_sets::most_taken(&sets, resource)).flatten();
            let left = left.get(resource).max(Quantity::ZERO);
            return Some(RuledOutCause::TooSmall { resource: resource.to_owned(), needed, left, daemon_set });
        }
        if let Some(limit) = kind.ebs_volumes {
            let mounted = volumes::of_ebs(&self.problem.facts, self.pods);
            if u32::try_from(mounted).is_ok_and(|mounted| mounted > limit) {
                return Some(RuledOutCause::TooManyVolumes { mounted, limit });
            }
        }
        let own = self.pods.iter().flat_map(|pod| &pod.template.host_ports);
        let taken = daemon_sets::taken_port(&sets, own);
        taken.map(|(port, daemon_set)| RuledOutCause::HostPort { port, daemon_set })
    }

    fn first_with_space_on_chosen<'s>(&self, sets: &[&'s DaemonSet]) -> Option<&'s DaemonSet> {
        let chosen = self.chosen.filter(|_| !sets.is_empty())?;
        let (_, left_out) = self.daemon_sets(chosen, &chosen.allocatable());
        sets.iter().copied().find(|set| !left_out.iter().any(|other| std::ptr::eq(*other, *set)))
    }

    /// The DaemonSets that have space on an instance type, and those that have not.
    fn daemon_sets(&self, kind: &InstanceType, whole: &ResourceList) -> (Vec<DaemonSet>, Vec<&DaemonSet>) {
        let node = self.node_pool.with(&kind.requirements);
        let runs = self.on_board.iter().filter(|set| set.labels.iter().any(|one| node.intersects(one)));
        let sets: Vec<&DaemonSet> = runs.map(|one| one.set).collect();
        let (_, with_space) = daemon_sets::with_space(sets.iter().copied(), whole);
        let (with, without): (Vec<_>, Vec<_>) = sets.into_iter().zip(with_space).partition(|(_, has_space)| *has_space);
        (with.into_iter().map(|(set, _)| set.clone()).collect(), without.into_iter().map(|(set, _)| set).collect())
    }

    fn by_limits(&self, kind: &InstanceType) -> Option<RuledOutCause> {
        let charged = &self.launch.charge;
        let of_cluster = self.offer.cluster.as_ref().map(|cluster| &cluster.limits);
        let limited = |name: &str| {
            self.offer.pool.limits.contains(name) || of_cluster.is_some_and(|limits| limits.resources.contains(name))
        };
        let over = kind.capacity.iter().find(|(name, has)| limited(name) && *has > charged.resources.get(name));
        if let Some((name, _)) = over {
            return Some(RuledOutCause::Limit { limit: name.to_owned() });
        }
        let dearest = kind.available_offerings(&self.launch.requirements).map(|one| one.price).fold(0.0, f64::max);
        let limited = self.offer.pool.limit_dollars_per_hour.is_some()
            || of_cluster.is_some_and(|limits| limits.dollars_per_hour.is_some());
        (limited && dearest > charged.dollars_per_hour)
            .then(|| RuledOutCause::Limit { limit: "dollars per hour".to_owned() })
    }
}
