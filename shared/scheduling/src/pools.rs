//! NodePools made ready for planning: what they can launch for which requirements.

use crate::admission::new_node_requirements;
use crate::classes::AlternativeId;
use crate::constraints::Alternative;
use crate::daemons;
use crate::dense::{self, Amounts};
use crate::limits::{Limits, Share};
use crate::problem::{Options, PoolOffer};
use crate::reason::Cause;
use crate::reservations::Reservations;
use crate::work::Work;
use nodeless_model::pod::HostPort;
use nodeless_model::{
    CapacityType, DaemonSet, InstanceType, NodePool, Offering, Quantity, Requirement, Requirements, ResourceIndex,
    ResourceList, labels, resources,
};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// The place of a [`NodeSet`] in its NodePool's table.
pub(crate) type SetId = usize;

/// The set that asks no more than the NodePool itself.
pub(crate) const BASE: SetId = 0;

/// A NodePool made ready for planning.
#[derive(Debug)]
pub(crate) struct Pool<'a> {
    pub(crate) pool: &'a NodePool,
    /// What all its nodes' labels may be.
    pub(crate) requirements: Requirements,
    /// The instance types that meet its requirements, by name.
    pub(crate) types: Vec<PoolType<'a>>,
    /// Keys of which a launch must be able to choose from so many values.
    pub(crate) min_values: Vec<(String, u32)>,
    pub(crate) limits: Limits,
    /// What is left of capacity reservations, as far as this NodePool knows.
    pub(crate) reservations: Reservations,
    /// What planning for it took.
    pub(crate) work: Work,
    /// The reservations when nothing is used of them.
    unused: Reservations,
    sets: Vec<NodeSet>,
    set_ids: HashMap<Requirements, SetId>,
    admitted: HashMap<(SetId, AlternativeId), Option<SetId>>,
    merged: HashMap<(SetId, SetId), Option<SetId>>,
    /// By label, the values that its nodes may have.
    values: HashMap<String, BTreeSet<String>>,
}

/// What it takes to see whether a node of some requirements admits an alternative that was not asked for before.
const WORK_OF_ADMISSION: usize = 50;

/// What it takes to find out the price of an instance type where some requirements stand.
const WORK_PER_TYPE: usize = 100;

/// How many sets are kept from one plan to the next: each knows the prices of all instance types.
const MAX_KEPT_SETS: usize = 256;

/// An instance type as a NodePool launches it.
#[derive(Debug)]
pub(crate) struct PoolType<'a> {
    pub(crate) kind: &'a InstanceType,
    /// What is left for pods when all DaemonSets have taken their share.
    pub(crate) room: Amounts,
    /// What the DaemonSets take.
    pub(crate) daemons: ResourceList,
    /// Host ports that DaemonSets take.
    pub(crate) daemon_ports: Vec<HostPort>,
}

/// What a NodePool can launch where some requirements stand.
#[derive(Debug)]
pub(crate) struct NodeSet {
    pub(crate) requirements: Requirements,
    /// What can be launched now, the cheapest first.
    pub(crate) choices: Vec<Choice>,
    /// The place in `choices` of each instance type.
    by_type: Vec<Option<usize>>,
    /// The choices that are worth a look as the shape of a node: no other has as much room for less.
    pub(crate) shapes: Vec<usize>,
}

/// An instance type that can be launched now, and its cheapest offering.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The place in the NodePool's types.
    pub(crate) kind: usize,
    /// Dollars per hour of the cheapest offering.
    pub(crate) price: f64,
    /// What a node of it takes of the limits: its capacity and its dearest offering.
    pub(crate) share: Share,
    /// Whether the cheapest offering is spot.
    pub(crate) spot: bool,
}

impl NodeSet {
    pub(crate) fn choice(&self, kind: usize) -> Option<&Choice> {
        self.by_type[kind].map(|place| &self.choices[place])
    }
}

/// Why a NodePool launches nothing at all.
pub(crate) fn unusable(pool: &NodePool) -> Option<Cause> {
    if pool.deleting {
        return Some(Cause::Deleting);
    }
    if pool.replicas.is_some() {
        return Some(Cause::Static);
    }
    pool.ready.as_ref().err().map(|message| Cause::NotReady { message: message.clone() })
}

/// The order in which NodePools are tried: the heaviest first; among equals the last name first, as in Karpenter.
pub(crate) fn order<'p, 'a: 'p>(offers: impl IntoIterator<Item = &'p PoolOffer<'a>>) -> Vec<&'p PoolOffer<'a>> {
    let mut sorted: Vec<_> = offers.into_iter().collect();
    sorted.sort_by_key(|offer| rank(offer.pool));
    sorted
}

/// By what they are ordered.
pub(crate) fn rank(pool: &NodePool) -> (Reverse<i32>, Reverse<&str>) {
    (Reverse(pool.weight), Reverse(&pool.name))
}

impl<'a> Pool<'a> {
    pub(crate) fn new(
        offer: &'a PoolOffer<'a>,
        daemon_sets: &[DaemonSet],
        resources: &ResourceIndex,
        options: &Options,
    ) -> Self {
        let pool = offer.pool;
        let requirements = new_node_requirements(pool);
        let mut on_board: Vec<&DaemonSet> = daemon_sets
            .iter()
            .filter(|set| daemons::runs_on_template(&set.template, &requirements, &pool.template.taints))
            .collect();
        on_board.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let mut types: Vec<PoolType<'a>> = offer
            .instance_types
            .iter()
            .filter(|kind| requirements.intersects(&kind.requirements))
            .map(|kind| PoolType::new(kind, &requirements, &on_board, resources, options))
            .collect();
        types.sort_by(|a, b| a.kind.name.cmp(&b.kind.name));
        let min_values = requirements
            .iter()
            .filter_map(|(key, requirement)| Some((key.to_owned(), requirement.min_values()?)))
            .collect();
        let mut ready = Self {
            pool,
            requirements: requirements.clone(),
            types,
            min_values,
            limits: Limits::of(offer),
            unused: Reservations::of(&offer.instance_types),
            reservations: Reservations::of(&offer.instance_types),
            work: Work::default(),
            sets: Vec::new(),
            set_ids: HashMap::new(),
            admitted: HashMap::new(),
            merged: HashMap::new(),
            values: HashMap::new(),
        };
        ready.work.add(offer.instance_types.len() * WORK_PER_TYPE);
        let base = ready.make_set(requirements.clone());
        ready.sets.push(base);
        ready.set_ids.insert(requirements, BASE);
        ready
    }

    /// Makes it ready for another plan, in which so much of its limits is used.
    pub(crate) fn reset(&mut self, offer: &PoolOffer<'_>, work: Work) {
        self.limits = Limits::of(offer);
        self.work = work;
        // Alternatives are numbered anew in each plan.
        self.admitted.clear();
        if self.sets.len() > MAX_KEPT_SETS || self.reservations != self.unused {
            self.sets.truncate(BASE + 1);
            self.set_ids.retain(|_, id| *id == BASE);
            self.merged.clear();
        }
        if self.reservations != self.unused {
            self.reservations.clone_from(&self.unused);
            self.reprice();
        }
    }

    /// The values of a label that its nodes may have.
    pub(crate) fn values_of(&mut self, key: &str) -> &BTreeSet<String> {
        if !self.values.contains_key(key) {
            let values = self.find_values(key);
            self.values.insert(key.to_owned(), values);
        }
        &self.values[key]
    }

    fn find_values(&self, key: &str) -> BTreeSet<String> {
        let allowed = self.requirements.get(key);
        let mut values = BTreeSet::new();
        let mut add = |value: &str| {
            if !values.contains(value) && allowed.is_none_or(|allowed| allowed.has(value)) {
                values.insert(value.to_owned());
            }
        };
        for kind in &self.types {
            for offering in kind.kind.available_offerings(&self.requirements) {
                match key {
                    labels::ZONE => add(&offering.zone),
                    labels::CAPACITY_TYPE => add(offering.capacity_type.as_str()),
                    _ => {
                        let listed = offering.requirements.get(key).or_else(|| kind.kind.requirements.get(key));
                        listed.and_then(Requirement::values).into_iter().flatten().for_each(|value| add(value));
                    }
                }
            }
        }
        if !labels::is_well_known(key) {
            allowed.and_then(Requirement::values).into_iter().flatten().for_each(|value| add(value));
        }
        values
    }

    pub(crate) fn set(&self, id: SetId) -> &NodeSet {
        &self.sets[id]
    }

    /// The set that results when a node of a set also has to satisfy a pod's alternative; `None` when it cannot, or when
    /// nothing could be launched any more.
    pub(crate) fn admit(&mut self, set: SetId, id: AlternativeId, alternatives: &[Alternative]) -> Option<SetId> {
        if let Some(known) = self.admitted.get(&(set, id)) {
            return *known;
        }
        self.work.add(WORK_OF_ADMISSION);
        let result = self.admit_anew(set, &alternatives[id]);
        self.admitted.insert((set, id), result);
        result
    }

    /// The set of nodes that also keep further requirements; `None` when nothing could be launched.
    pub(crate) fn narrowed(&mut self, within: &Requirements) -> Option<SetId> {
        let base = &self.sets[BASE].requirements;
        let narrowed = base.intersects(within).then(|| base.with(within))?;
        self.intern(narrowed)
    }

    fn admit_anew(&mut self, set: SetId, alternative: &Alternative) -> Option<SetId> {
        if alternative.first_repelling(&self.pool.template.taints).is_some() {
            return None;
        }
        self.restricted(set, &alternative.requirements)
    }

    /// Whether any node can be launched whose labels are what is wanted, whatever its taints.
    pub(crate) fn launches(&mut self, wanted: &Requirements) -> bool {
        self.restricted(BASE, wanted).is_some()
    }

    /// The set of nodes of a set whose labels also are what is wanted; `None` when nothing could be launched.
    fn restricted(&mut self, set: SetId, wanted: &Requirements) -> Option<SetId> {
        let present = &self.sets[set].requirements;
        if present.first_incompatible(wanted, labels::is_well_known).is_some() {
            return None;
        }
        let merged = present.with(wanted);
        self.intern(merged)
    }

    /// The set of nodes that satisfy both sets; `None` when nothing could be launched.
    pub(crate) fn merge(&mut self, a: SetId, b: SetId) -> Option<SetId> {
        if a == b {
            return Some(a);
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.merged.get(&key) {
            return *known;
        }
        let (left, right) = (&self.sets[a].requirements, &self.sets[b].requirements);
        let both = left.intersects(right).then(|| left.with(right));
        let id = both.and_then(|both| self.intern(both));
        self.merged.insert(key, id);
        id
    }

    /// The set with these requirements, made if there is none yet; `None` when nothing could be launched.
    fn intern(&mut self, merged: Requirements) -> Option<SetId> {
        if let Some(known) = self.set_ids.get(&merged) {
            return Some(*known).filter(|id| !self.sets[*id].choices.is_empty());
        }
        self.work.add(self.types.len() * WORK_PER_TYPE);
        let made = self.make_set(merged.clone());
        let id = self.sets.len();
        let usable = !made.choices.is_empty();
        self.sets.push(made);
        self.set_ids.insert(merged, id);
        usable.then_some(id)
    }

    fn make_set(&self, requirements: Requirements) -> NodeSet {
        let mut choices: Vec<Choice> = self
            .types
            .iter()
            .enumerate()
            .filter(|(_, kind)| requirements.intersects(&kind.kind.requirements))
            .filter_map(|(place, kind)| self.choice(place, kind, &requirements))
            .collect();
        choices.sort_by(|a, b| a.price.total_cmp(&b.price).then(a.kind.cmp(&b.kind)));
        let mut by_type = vec![None; self.types.len()];
        for (place, choice) in choices.iter().enumerate() {
            by_type[choice.kind] = Some(place);
        }
        let shapes = self.shapes(&choices);
        NodeSet { requirements, choices, by_type, shapes }
    }

    /// The instance type at a place as something to be launched; `None` when no offering can be had.
    pub(crate) fn choice(&self, place: usize, kind: &PoolType<'_>, requirements: &Requirements) -> Option<Choice> {
        let cheapest = self.offerings(kind.kind, requirements).min_by(|a, b| a.cmp_price(b))?;
        let dearest = self.offerings(kind.kind, requirements).map(|offering| offering.price).fold(0.0, f64::max);
        Some(Choice {
            kind: place,
            price: cheapest.price,
            share: self.limits.share(&kind.kind.capacity, dearest),
            spot: cheapest.capacity_type == CapacityType::Spot,
        })
    }

    /// The offerings that meet the requirements and can be had, reservations that are used up left out.
    pub(crate) fn offerings<'o>(
        &'o self,
        kind: &'o InstanceType,
        requirements: &'o Requirements,
    ) -> impl Iterator<Item = &'o Offering> + use<'o, 'a> {
        // Where many types have to be listed, one reserved type is too few.
        let usable = self.min_values.is_empty();
        kind.available_offerings(requirements).filter(move |offering| {
            offering.reservation.as_ref().is_none_or(|held| usable && self.reservations.left(&held.id) > 0)
        })
    }

    /// Whether any type of a set has room for a pod.
    pub(crate) fn may_hold(&self, set: SetId, requests: &[i64]) -> bool {
        let set = &self.sets[set];
        // Types that are no shapes have no more room.
        set.shapes.iter().rev().any(|place| dense::fits(requests, &self.types[set.choices[*place].kind].room))
    }

    /// The reservation that a node of this set and type would use, if that is the cheapest way.
    pub(crate) fn reservation(&self, set: SetId, kind: usize) -> Option<String> {
        let requirements = &self.sets[set].requirements;
        let cheapest = self.offerings(self.types[kind].kind, requirements).min_by(|a, b| a.cmp_price(b))?;
        cheapest.reservation.as_ref().map(|held| held.id.clone())
    }

    /// Whether a node of this set and type can use a reservation.
    pub(crate) fn may_use(&self, set: SetId, kind: usize, id: &str) -> bool {
        let mut offerings = self.types[kind].kind.available_offerings(&self.sets[set].requirements);
        offerings.any(|offering| offering.reservation.as_ref().is_some_and(|held| held.id == id))
    }

    /// Works out anew what can be launched, after reservations have changed.
    pub(crate) fn reprice(&mut self) {
        let requirements: Vec<Requirements> = self.sets.iter().map(|set| set.requirements.clone()).collect();
        self.sets = requirements.into_iter().map(|requirements| self.make_set(requirements)).collect();
        self.admitted.clear();
        self.merged.clear();
    }

    /// Leaves out what no one would buy: where something as cheap has as much room, takes no more of the limits and has
    /// no other ports taken.
    fn shapes(&self, choices: &[Choice]) -> Vec<usize> {
        let better = |a: &Choice, b: &Choice| {
            let (left, right) = (&self.types[a.kind], &self.types[b.kind]);
            dense::fits(&right.room, &left.room)
                && left.daemon_ports == right.daemon_ports
                && a.share.resources.iter().zip(&b.share.resources).all(|(a, b)| a <= b)
                && a.share.dollars <= b.share.dollars
        };
        let mut shapes: Vec<usize> = Vec::new();
        for (place, choice) in choices.iter().enumerate() {
            if !shapes.iter().any(|&kept| better(&choices[kept], choice)) {
                shapes.push(place);
            }
        }
        shapes
    }

    /// The first `minValues` that these instance types do not reach: key, what is required, what there is.
    pub(crate) fn first_short(&self, kinds: &[usize]) -> Option<(&str, u32, u32)> {
        self.min_values.iter().find_map(|(key, required)| {
            let mut values: BTreeSet<&str> = BTreeSet::new();
            for kind in kinds {
                let listed = self.types[*kind].kind.requirements.get(key).and_then(Requirement::values);
                values.extend(listed.into_iter().flatten().map(String::as_str));
            }
            let found = u32::try_from(values.len()).unwrap_or(u32::MAX);
            (found < *required).then_some((key.as_str(), *required, found))
        })
    }
}

impl<'a> PoolType<'a> {
    fn new(
        kind: &'a InstanceType,
        node_pool: &Requirements,
        daemon_sets: &[&DaemonSet],
        resources: &ResourceIndex,
        options: &Options,
    ) -> Self {
        let node = node_pool.with(&kind.requirements);
        let mut daemons = ResourceList::new();
        let mut daemon_ports = Vec::new();
        for set in daemon_sets.iter().filter(|set| daemons::may_run_on(&set.template, &node)) {
            daemons.add(&set.template.requests);
            daemon_ports.extend(set.template.host_ports.iter().cloned());
        }
        let mut room = resources.amounts(&kind.allocatable());
        dense::take(&mut room, &resources.amounts(&daemons), 1);
        if let (Some(most), Some(place)) = (options.max_pods_per_node, resources.place(resources::name::PODS)) {
            room[place] = room[place].min(Quantity::from_units(i64::from(most)).milli());
        }
        Self { kind, room, daemons, daemon_ports }
    }
}
