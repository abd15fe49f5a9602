//! NodePools prepared for planning: their launchable instance types for requirements.

pub(crate) mod limits;
mod offers;
pub(crate) mod reservations;
mod types;

use crate::claims::Claims;
use crate::constraints::admission::new_node_requirements;
use crate::constraints::{Alternative, AlternativeId};
use crate::dense::Amounts;
use crate::problem::reason::Cause;
use crate::problem::{MinValuesPolicy, Options, PoolOffer};
use crate::work::Work;
use limits::{Limits, Shared};
use nodeless_model::hashed::HashMap;
use nodeless_model::{DaemonSet, NodePool, Requirement, Requirements, ResourceIndex, labels};
use reservations::Reservations;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;
use types::{Launching, OnBoard};

pub(crate) use offers::{Choice, FLEXIBLE, MIN_SAVING_OF_FEW_TYPES, Offer};
pub(crate) use types::{Daemons, PoolType};

/// The index of a [`NodeSet`] in its NodePool's table.
pub(crate) type SetId = usize;

/// The set without further requirements than those of the NodePool.
pub(crate) const BASE: SetId = 0;

/// A NodePool prepared for planning.
#[derive(Debug)]
pub(crate) struct Pool<'a> {
    pub(crate) pool: &'a NodePool,
    /// The possible labels of its nodes.
    pub(crate) requirements: Requirements,
    /// The instance types that meet its requirements, by name.
    pub(crate) types: Rc<[PoolType<'a>]>,
    /// Keys with `minValues`, and the number of values that a launch must be able to choose from.
    pub(crate) min_values: Vec<(String, u32)>,
    /// Whether nothing is launched that does not satisfy `minValues`.
    strict: bool,
    pub(crate) limits: Limits,
    /// The remaining capacity of reservations, according to this NodePool.
    pub(crate) reservations: Reservations,
    /// The work of planning for it.
    pub(crate) work: Work,
    /// The initial reservations.
    unused: Reservations,
    sets: Vec<NodeSet>,
    set_ids: HashMap<Requirements, SetId>,
    admitted: HashMap<(SetId, AlternativeId), Option<SetId>>,
    merged: HashMap<(SetId, SetId), Option<SetId>>,
    /// By launchable types and the requests of a pod, its worth.
    worths: HashMap<usize, HashMap<Amounts, Option<f64>>>,
    /// The number of offers so far.
    offers: usize,
    /// Whether DaemonSets have space on some of the types only.
    is_ranked: bool,
    /// By set and class, the set of [`Pool::narrowed_for_class`].
    holding: HashMap<(SetId, usize), Option<SetId>>,
    /// By label, the values that its nodes may have.
    values: HashMap<String, BTreeSet<String>>,
}

/// The work of checking whether a node with some requirements admits a new alternative.
const WORK_OF_ADMISSION: usize = 50;

/// The work to price an instance type under some requirements.
const WORK_PER_TYPE: usize = 100;

/// The number of NodePools with different launches that each other one is compared with.
const MAX_COMPARED_POOLS: usize = 32;

/// The number of sets that are cached from one plan to the next: each contains the prices of all instance types.
const MAX_KEPT_SETS: usize = 256;

/// What pods of a class need of an instance type, beside labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassNeeds<'c> {
    pub(crate) class: usize,
    pub(crate) requests: &'c [i64],
    /// The DaemonSets of nodes that the pods cannot be on.
    pub(crate) kept_off: &'c [Rc<Daemons>],
}

/// The launchable types of a NodePool for some requirements.
#[derive(Debug)]
pub(crate) struct NodeSet {
    pub(crate) requirements: Requirements,
    pub(crate) offer: Rc<Offer>,
    /// Whether anything can be launched.
    usable: bool,
}

impl NodeSet {
    pub(crate) fn choice(&self, kind: usize) -> Option<&Choice> {
        self.offer.by_type[kind].map(|place| &self.offer.choices[place])
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
    pool.ready.as_ref().err().map(|message| Cause::NotReady { message: message.to_string() })
}

/// The order in which NodePools are tried: the highest weight first; among equals the last name first, as in Karpenter.
pub(crate) fn order<'p, 'a: 'p>(offers: impl IntoIterator<Item = &'p PoolOffer<'a>>) -> Vec<&'p PoolOffer<'a>> {
    let mut sorted: Vec<_> = offers.into_iter().collect();
    sorted.sort_by_key(|offer| rank(offer.pool));
    sorted
}

/// By what they are ordered.
pub(crate) fn rank(pool: &NodePool) -> (Reverse<i32>, Reverse<&str>) {
    (Reverse(pool.weight), Reverse(&pool.name))
}

/// Prepares NodePools, in their order.
pub(crate) fn ready<'a>(
    offers: impl Iterator<Item = &'a PoolOffer<'a>>,
    daemon_sets: &[DaemonSet],
    columns: (&ResourceIndex, &Claims),
    options: &Options,
) -> Vec<Pool<'a>> {
    let mut pools: Vec<Pool<'a>> = Vec::new();
    let mut known: Vec<Launching<'a, '_>> = Vec::new();
    for offer in offers {
        let requirements = new_node_requirements(offer.pool);
        let on_board = OnBoard::new(offer.pool, &requirements, daemon_sets);
        let launching = Launching { pool: pools.len(), offer, requirements, on_board };
        let alike = known.iter().find(|known| known.is_like(&launching)).map(|known| known.pool);
        pools.push(match alike {
            Some(place) => Pool::like(&pools[place], offer, launching.requirements),
            None => {
                let requirements = launching.requirements.clone();
                let made = Pool::new(offer, requirements, &launching.on_board, columns, options);
                known.extend((known.len() < MAX_COMPARED_POOLS).then_some(launching));
                made
            }
        });
    }
    pools
}

impl<'a> Pool<'a> {
    fn new(
        offer: &'a PoolOffer<'a>,
        requirements: Requirements,
        on_board: &OnBoard<'_>,
        columns: (&ResourceIndex, &Claims),
        options: &Options,
    ) -> Self {
        let types = types::types_of_pool(offer, &requirements, on_board, columns, options);
        let mut ready = Self::with_types(offer, requirements, types, options.min_values == MinValuesPolicy::Strict);
        ready.work.add(offer.instance_types.len() * WORK_PER_TYPE);
        let offer = ready.offer(&ready.requirements.clone());
        ready.start_with(offer);
        ready
    }

    /// Another NodePool with the same launchable types.
    fn like(other: &Self, offer: &'a PoolOffer<'a>, requirements: Requirements) -> Self {
        let mut ready = Self::with_types(offer, requirements, Rc::clone(&other.types), other.strict);
        ready.work.add(offer.instance_types.len());
        ready.offers = other.offers;
        ready.start_with(Rc::clone(&other.sets[BASE].offer));
        ready
    }

    fn with_types(
        offer: &'a PoolOffer<'a>,
        requirements: Requirements,
        types: Rc<[PoolType<'a>]>,
        strict: bool,
    ) -> Self {
        let min_values = requirements
            .iter()
            .filter_map(|(key, requirement)| Some((key.to_owned(), requirement.min_values()?)))
            .collect();
        Self {
            pool: offer.pool,
            requirements,
            min_values,
            strict,
            limits: Limits::new(offer, &limits::shared(offer.cluster.as_ref())),
            unused: Reservations::new(&offer.instance_types),
            reservations: Reservations::new(&offer.instance_types),
            work: Work::default(),
            sets: Vec::new(),
            set_ids: HashMap::default(),
            admitted: HashMap::default(),
            merged: HashMap::default(),
            worths: HashMap::default(),
            offers: 0,
            is_ranked: types.iter().any(|kind| kind.rank > 0),
            holding: HashMap::default(),
            values: HashMap::default(),
            types,
        }
    }

    fn start_with(&mut self, offer: Rc<Offer>) {
        let usable = self.is_usable(&self.requirements, &offer);
        self.sets.push(NodeSet { requirements: self.requirements.clone(), offer, usable });
        self.set_ids.insert(self.requirements.clone(), BASE);
    }

    /// Prepares it for another plan, with this usage of its limits and of those of the cluster.
    pub(crate) fn reset(&mut self, offer: &PoolOffer<'_>, cluster: &Shared, work: Work) {
        self.limits = Limits::new(offer, cluster);
        self.work = work;
        // Alternatives and classes are numbered anew in each plan.
        self.admitted.clear();
        self.holding.clear();
        if self.sets.len() > MAX_KEPT_SETS || self.reservations != self.unused {
            self.sets.truncate(BASE + 1);
            self.set_ids.retain(|_, id| *id == BASE);
            self.merged.clear();
            self.worths.clear();
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
        for kind in self.types.iter() {
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

    /// The set of nodes that also satisfy a pod's alternative; `None` if there is none, or if nothing could be launched any more.
    pub(crate) fn admit(&mut self, set: SetId, id: AlternativeId, alternatives: &[Alternative]) -> Option<SetId> {
        if let Some(known) = self.admitted.get(&(set, id)) {
            return *known;
        }
        self.work.add(WORK_OF_ADMISSION);
        let result = self.admit_anew(set, &alternatives[id]);
        self.admitted.insert((set, id), result);
        result
    }

    /// The set of nodes that also satisfy further requirements; `None` if nothing could be launched.
    pub(crate) fn narrowed(&mut self, within: &Requirements) -> Option<SetId> {
        let base = &self.sets[BASE].requirements;
        let narrowed = base.intersects(within).then(|| base.with(within))?;
        self.intern(BASE, narrowed)
    }

    /// [`Pool::admit`] for a pod of this class with these requests.
    pub(crate) fn admit_class(
        &mut self,
        set: SetId,
        id: AlternativeId,
        alternatives: &[Alternative],
        class: ClassNeeds<'_>,
    ) -> Option<SetId> {
        let set = self.admit(set, id, alternatives)?;
        self.narrowed_for_class(set, class)
    }

    /// The subset of a set with the types for which `keeps` is true; `None` if there is none.
    pub(crate) fn narrowed_to(&mut self, set: SetId, keeps: impl Fn(&PoolType<'_>) -> bool) -> Option<SetId> {
        let NodeSet { requirements, offer, .. } = &self.sets[set];
        let kept: Vec<&PoolType<'_>> =
            offer.choices.iter().map(|choice| &self.types[choice.kind]).filter(|kind| keeps(kind)).collect();
        if kept.len() == offer.choices.len() {
            return Some(set);
        }
        let names = Requirement::one_of(kept.iter().map(|kind| kind.kind.name.as_str()));
        let narrowed = requirements.with(&Requirements::from([(labels::INSTANCE_TYPE, names)]));
        self.intern(set, narrowed)
    }

    fn admit_anew(&mut self, set: SetId, alternative: &Alternative) -> Option<SetId> {
        if alternative.first_repelling(&self.pool.template.taints).is_some() {
            return None;
        }
        self.restricted(set, &alternative.requirements)
    }

    /// Whether any node with the required labels can be launched, regardless of its taints.
    pub(crate) fn launches(&mut self, required: &Requirements) -> bool {
        self.restricted(BASE, required).is_some()
    }

    /// The subset of a set with the required labels; `None` when nothing could be launched.
    fn restricted(&mut self, set: SetId, required: &Requirements) -> Option<SetId> {
        let present = &self.sets[set].requirements;
        if present.first_incompatible(required, labels::is_well_known).is_some() {
            return None;
        }
        let merged = present.with(required);
        self.intern(set, merged)
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
        let id = both.and_then(|both| self.intern(a, both));
        self.merged.insert(key, id);
        id
    }

    /// The set with these requirements, which narrow those of `within`, created if it does not exist; `None` if nothing could be
    /// launched.
    fn intern(&mut self, within: SetId, merged: Requirements) -> Option<SetId> {
        if let Some(known) = self.set_ids.get(&merged) {
            return Some(*known).filter(|id| self.sets[*id].usable);
        }
        self.work.add(self.types.len() * WORK_PER_TYPE);
        let offer = self.narrowed_offer(within, &merged);
        let id = self.sets.len();
        let usable = self.is_usable(&merged, &offer);
        self.sets.push(NodeSet { requirements: merged.clone(), offer, usable });
        self.set_ids.insert(merged, id);
        usable.then_some(id)
    }

    /// Whether anything can be launched: requirements may allow fewer values of a label than `minValues` requires.
    fn is_usable(&self, requirements: &Requirements, offer: &Offer) -> bool {
        if self.strict && !self.min_values.is_empty() {
            let kinds: Vec<usize> = offer.choices.iter().map(|choice| choice.kind).collect();
            return !kinds.is_empty() && self.first_short(requirements, &kinds).is_none();
        }
        !offer.choices.is_empty()
    }

    /// The set with these requirements, if it was asked for before.
    pub(crate) fn known(&self, requirements: &Requirements) -> Option<&NodeSet> {
        self.set_ids.get(requirements).map(|id| &self.sets[*id])
    }

    /// Whether DaemonSets have space on some of its types only.
    pub(crate) const fn is_ranked(&self) -> bool {
        self.is_ranked
    }

    /// The subset of a set for pods of a class, without types whose DaemonSets keep the pods off. If the types of the set are too small
    /// for such a pod even without DaemonSets, the types that are large enough, on which other DaemonSets may have space.
    fn narrowed_for_class(&mut self, set: SetId, needs: ClassNeeds<'_>) -> Option<SetId> {
        let ClassNeeds { class, requests, kept_off } = needs;
        if !self.is_ranked && kept_off.is_empty() {
            return Some(set);
        }
        if let Some(known) = self.holding.get(&(set, class)) {
            return *known;
        }
        self.work.add(self.types.len());
        let NodeSet { requirements, offer, .. } = &self.sets[set];
        let is_open = |kind: &&PoolType<'_>| !kept_off.iter().any(|one| Rc::ptr_eq(one, &kind.daemons));
        let matching = || self.types.iter().filter(|kind| requirements.intersects(&kind.kind.requirements));
        let open: Vec<&PoolType<'_>> = matching().filter(is_open).collect();
        let holding: Vec<&PoolType<'_>> = open.iter().copied().filter(|kind| kind.holds_alone(requests)).collect();
        let is_enough = holding.is_empty() || holding.iter().any(|kind| kind.rank == offer.rank);
        let narrowed = if open.is_empty() {
            None
        } else if is_enough && open.len() == matching().count() {
            Some(set)
        } else {
            let kept = if holding.is_empty() { &open } else { &holding };
            let names = kept.iter().map(|kind| kind.kind.name.as_str());
            let names = Requirements::from([(labels::INSTANCE_TYPE, Requirement::one_of(names))]);
            let narrowed = requirements.with(&names);
            self.intern(set, narrowed)
        };
        self.holding.insert((set, class), narrowed);
        narrowed
    }

    /// The reservation that a node of this set and type would use, if that is the cheapest way.
    pub(crate) fn reservation(&self, set: SetId, kind: usize) -> Option<String> {
        let requirements = &self.sets[set].requirements;
        let offerings = self.offerings(self.types[kind].kind, requirements);
        let cheapest = offerings.min_by(|a, b| reservations::order(a, b).then_with(|| a.cmp_price(b)))?;
        cheapest.reservation.as_ref().map(|held| held.id.clone())
    }

    /// What a node of this type uses of a reservation.
    pub(crate) fn reserved_each(&self, kind: usize, id: &str) -> u32 {
        let mut held = self.types[kind].kind.offerings.iter().filter_map(|offering| offering.reservation.as_ref());
        held.find(|held| held.id == id).map_or(1, |held| held.each.max(1))
    }

    /// Whether a node of this set and type can use a reservation.
    pub(crate) fn may_use(&self, set: SetId, kind: usize, id: &str) -> bool {
        let mut offerings = self.types[kind].kind.available_offerings(&self.sets[set].requirements);
        offerings.any(|offering| offering.reservation.as_ref().is_some_and(|held| held.id == id))
    }

    /// Computes the launchable types again, after reservations have changed.
    pub(crate) fn reprice(&mut self) {
        for id in 0..self.sets.len() {
            let requirements = self.sets[id].requirements.clone();
            let offer = self.offer(&requirements);
            let usable = self.is_usable(&requirements, &offer);
            self.sets[id] = NodeSet { requirements, offer, usable };
        }
        self.admitted.clear();
        self.holding.clear();
        self.merged.clear();
        self.worths.clear();
    }

    /// The first `minValues` that these instance types do not satisfy: key, required number, actual number.
    pub(crate) fn first_short(&self, requirements: &Requirements, kinds: &[usize]) -> Option<(&str, u32, u32)> {
        self.min_values.iter().find_map(|(key, required)| {
            let found = self.number_of_values(key, requirements, kinds);
            (found < *required).then_some((key.as_str(), *required, found))
        })
    }

    /// The number of values of a label that these instance types have and requirements allow.
    pub(crate) fn number_of_values(&self, key: &str, requirements: &Requirements, kinds: &[usize]) -> u32 {
        let allowed = requirements.get(key);
        let mut values: BTreeSet<&str> = BTreeSet::new();
        for kind in kinds {
            let listed = self.types[*kind].kind.requirements.get(key).and_then(Requirement::values);
            values.extend(listed.into_iter().flatten().map(String::as_str));
        }
        let values = values.iter().filter(|value| allowed.is_none_or(|allowed| allowed.has(value)));
        u32::try_from(values.count()).unwrap_or(u32::MAX)
    }
}
