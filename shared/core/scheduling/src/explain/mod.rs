//! Why a class of pods is unschedulable. Computed only for unschedulable pods.

pub(crate) mod daemon_set_effects;
pub(crate) mod ruled_out;
pub(crate) mod topology_barriers;

use crate::claim_needs;
use crate::claims::{self, Claims};
use crate::classes::{Class, Classes};
use crate::constraints::Alternative;
use crate::constraints::AlternativeId;
use crate::daemon_sets;
use crate::dense;
use crate::pools::limits::Limit;
use crate::pools::{self, Choice, Pool, PoolType};
use crate::problem::reason::{Cause, LimitScope, PodFault, Reason};
use crate::problem::{ClusterFacts, MinValuesPolicy, Options, Problem};
use crate::volumes;
use nodeless_model::hashed::HashMap;
use nodeless_model::{Quantity, ResourceIndex, labels};
use std::cell::RefCell;
use std::rc::Rc;

/// Why a class is unschedulable.
pub(crate) struct Explanation {
    /// The error of the pods, or one reason for each NodePool in the order in which they are tried.
    pub(crate) reasons: Vec<Reason>,
    /// Whether a limit is among the reasons.
    pub(crate) limited: bool,
    /// Whether some NodePool could launch a node for one of the pods.
    pub(crate) unexplained: bool,
}

impl Explanation {
    pub(crate) fn of_pod(fault: PodFault) -> Self {
        Self { reasons: vec![Reason::Pod(fault)], limited: false, unexplained: false }
    }

    /// No node has the label, or can get it; with the NodePools that are not ready and would give it to their nodes.
    pub(crate) fn without_domain(input: &Problem<'_>, key: &str) -> Self {
        let mut explanation = Self::of_pod(PodFault::NoDomain { topology_key: key.to_owned() });
        for offer in pools::order(&input.node_pools) {
            let template = &offer.pool.template;
            if (template.labels.contains_key(key) || template.requirements.get(key).is_some())
                && let Some(cause @ Cause::NotReady { .. }) = pools::unusable(offer.pool)
            {
                explanation.reasons.push(Reason::NodePool { node_pool: offer.pool.name.clone(), cause });
            }
        }
        explanation
    }
}

/// The launchable instance types of NodePools for alternatives, without regard to requests: by NodePool and alternative.
pub(crate) type Launchable = HashMap<(usize, AlternativeId), Rc<Launched>>;

/// The launchable instance types of a NodePool for an alternative.
pub(crate) struct Launched {
    /// The matching instance types, as indices into the NodePool's.
    types: Vec<usize>,
    /// The types that are available now.
    choices: Vec<Choice>,
}

/// The input of explanations. The pools' limits have to be as they were when the last node was packed.
pub(crate) struct Explainer<'e, 'a, 'p> {
    pub(crate) input: &'e Problem<'a>,
    pub(crate) pools: &'e [Pool<'p>],
    pub(crate) classes: &'e Classes<'a>,
    pub(crate) resources: &'e ResourceIndex,
    pub(crate) options: &'e Options,
    pub(crate) launchable: &'e RefCell<Launchable>,
    pub(crate) claims: &'e Claims,
}

impl Explainer<'_, '_, '_> {
    /// Explains why pods of a class are unschedulable, given the remaining alternatives.
    pub(crate) fn explain(&self, class: &Class<'_>, alternatives: &[AlternativeId]) -> Explanation {
        let plain = |reason| Explanation { reasons: vec![reason], limited: false, unexplained: false };
        if let Some(refused) = &class.refused {
            return plain(refused.clone());
        }
        if self.input.node_pools.is_empty() {
            return plain(match self.input.facts.any_invalid_node_pool {
                true => Reason::NoValidNodePools,
                false => Reason::NoNodePools,
            });
        }
        let mut all = Explanation { reasons: Vec::new(), limited: false, unexplained: false };
        for offer in pools::order(&self.input.node_pools) {
            let cause = pools::unusable(offer.pool).unwrap_or_else(|| {
                let place = self.pools.iter().position(|pool| pool.pool.name == offer.pool.name);
                place.map_or(Cause::NoInstanceTypes, |place| self.last_cause(place, class, alternatives))
            });
            all.limited |= matches!(cause, Cause::Limit { .. } | Cause::DollarLimit { .. } | Cause::Limits);
            all.unexplained |= matches!(cause, Cause::Limits);
            all.reasons.push(Reason::NodePool { node_pool: offer.pool.name.clone(), cause });
        }
        all
    }

    /// The cause with the most progress, of the alternatives without preferences.
    fn last_cause(&self, place: usize, class: &Class<'_>, alternatives: &[AlternativeId]) -> Cause {
        let pool = &self.pools[place];
        let examined = alternatives.iter().map(|&id| {
            let alternative = &self.classes.alternatives[id];
            let launched = || {
                let mut launchable = self.launchable.borrow_mut();
                Rc::clone(launchable.entry((place, id)).or_insert_with(|| Rc::new(Launched::new(pool, alternative))))
            };
            let (resources, options) = (self.resources, self.options);
            let (claims, facts) = (self.claims, &self.input.facts);
            Examination { pool, class, alternative, resources, options, claims, facts }.cause(launched)
        });
        // The first of equal ones; `max_by_key` would return the last.
        examined
            .reduce(|furthest, other| if stage(&other) > stage(&furthest) { other } else { furthest })
            .unwrap_or(Cause::NoInstanceTypes)
    }
}

/// The progress of an alternative before the cause stopped it.
const fn stage(cause: &Cause) -> u8 {
    match cause {
        Cause::NotReady { .. } | Cause::Deleting | Cause::Static | Cause::NoInstanceTypes => 0,
        Cause::Taint(_) => 1,
        Cause::UndefinedLabel { .. } | Cause::Label { .. } => 2,
        Cause::NoTypeMatches { .. } => 3,
        Cause::ResourceNotOffered { .. }
        | Cause::TooLarge { .. }
        | Cause::TooManyVolumes { .. }
        | Cause::Devices { .. }
        | Cause::NoTypeFits { .. } => 4,
        Cause::HostPort { .. } | Cause::DaemonSetPod { .. } => 5,
        Cause::NoOffering { .. } => 6,
        Cause::MinValues { .. } => 7,
        Cause::Limit { .. } | Cause::DollarLimit { .. } | Cause::Limits => 8,
    }
}

/// An alternative of a class, evaluated against a NodePool.
struct Examination<'e, 'a> {
    pool: &'e Pool<'a>,
    class: &'e Class<'a>,
    alternative: &'e Alternative,
    resources: &'e ResourceIndex,
    options: &'e Options,
    claims: &'e Claims,
    facts: &'e ClusterFacts<'a>,
}

impl Launched {
    fn new(pool: &Pool<'_>, alternative: &Alternative) -> Self {
        let merged = pool.requirements.with(&alternative.requirements);
        // The NodePool's types satisfy its own requirements.
        let changed = merged.other_than(&pool.requirements);
        let matching = pool.types.iter().enumerate().filter(|(_, kind)| changed.intersects(&kind.kind.requirements));
        let types: Vec<usize> = matching.map(|(place, _)| place).collect();
        let priced = || types.iter().filter_map(|place| pool.choice(*place, &pool.types[*place], &merged)).collect();
        // The types of a set are those for pods of any size.
        let known = pool.known(&merged).filter(|_| !pool.is_ranked());
        let choices = known.map_or_else(priced, |set| {
            let mut choices = set.offer.choices.clone();
            choices.sort_unstable_by_key(|choice| choice.kind);
            choices
        });
        Self { types, choices }
    }
}

impl Examination<'_, '_> {
    fn cause(&self, launched: impl Fn() -> Rc<Launched>) -> Cause {
        if self.pool.types.is_empty() {
            return Cause::NoInstanceTypes;
        }
        if let Some(taint) = self.alternative.first_repelling(&self.pool.pool.template.taints) {
            return Cause::Taint(taint.clone());
        }
        if let Some(cause) = self.label() {
            return cause;
        }
        let launched = launched();
        if launched.types.is_empty() {
            return Cause::NoTypeMatches { required: self.alternative.requirements.to_string() };
        }
        let requests = volumes::alone(self.class.mounts());
        let types = self.usable(&launched, &requests);
        let kept_off =
            |kind: &PoolType<'_>| self.class.kept_off.iter().find(|one| Rc::ptr_eq(&one.daemons, &kind.daemons));
        let types: Vec<&PoolType<'_>> = match types.first().and_then(|kind| kept_off(kind)) {
            Some(first) if types.iter().all(|kind| kept_off(kind).is_some()) => {
                let (barrier, daemon_set) = (first.barrier.clone(), first.daemon_set.clone());
                return Cause::DaemonSetPod { barrier, daemon_set };
            }
            _ if self.class.kept_off.is_empty() => types,
            _ => types.into_iter().filter(|kind| kept_off(kind).is_none()).collect(),
        };
        let fitting: Vec<&PoolType<'_>> =
            types.iter().copied().filter(|kind| dense::fits(&requests, &kind.allocatable)).collect();
        if fitting.is_empty() {
            return self.resource(&types);
        }
        let free = |kind: &&&PoolType<'_>| self.class.ports_free(&kind.daemons.ports);
        let Some(_) = fitting.iter().find(free) else { return self.port(&fitting) };
        let choices: Vec<&Choice> = self.choices(&launched, fitting[0].rank);
        if choices.is_empty() {
            let instance_types = fitting.iter().filter(free).map(|kind| kind.kind.name.clone()).collect();
            return Cause::NoOffering { instance_types };
        }
        if self.options.min_values == MinValuesPolicy::Strict
            && let Some((key, required, found)) = self.pool.first_short(
                &self.pool.requirements.with(&self.alternative.requirements),
                &choices.iter().map(|choice| choice.kind).collect::<Vec<_>>(),
            )
        {
            return Cause::MinValues { key: key.to_owned(), required, found };
        }
        self.limit(&choices)
    }

    /// The types for pods of the class: of those that are large enough without DaemonSets, or of all if none is, the types on which the
    /// DaemonSets with the highest rank have space.
    fn usable(&self, launched: &Launched, requests: &[i64]) -> Vec<&PoolType<'_>> {
        let all = || launched.types.iter().map(|place| &self.pool.types[*place]);
        if !self.pool.is_ranked() {
            return all().collect();
        }
        let merged = self.pool.requirements.with(&self.alternative.requirements);
        let is_large_enough = |kind: &&PoolType<'_>| kind.holds_alone(requests);
        let rank = if all().any(|kind| is_large_enough(&kind)) {
            self.pool.lowest_rank(&merged, all().filter(is_large_enough))
        } else {
            self.pool.lowest_rank(&merged, all())
        };
        all().filter(|kind| kind.rank == rank).collect()
    }

    fn label(&self) -> Option<Cause> {
        let requirements = &self.alternative.requirements;
        let key = self.pool.requirements.first_incompatible(requirements, labels::is_well_known)?;
        let required = requirements.get(key).map(ToString::to_string).unwrap_or_default();
        Some(match self.pool.requirements.get(key) {
            None => Cause::UndefinedLabel { key: key.to_owned(), required },
            Some(allowed) => Cause::Label { key: key.to_owned(), required, allowed: allowed.to_string() },
        })
    }

    fn refusal_of_claims(&self, types: &[&PoolType<'_>]) -> Option<Cause> {
        let needs = claim_needs::needs(self.class.example, self.facts);
        self.claims.refusal(&needs, types.iter().map(|kind| kind.kind), self.facts)
    }

    fn resource(&self, types: &[&PoolType<'_>]) -> Cause {
        let requests = volumes::alone(self.class.mounts());
        for (place, asked) in requests.iter().enumerate().filter(|(_, asked)| **asked > 0) {
            let resource = self.resources.name(place);
            let kind = types.iter().max_by_key(|kind| kind.allocatable[place]);
            let largest = kind.map_or(0, |kind| kind.allocatable[place]);
            if claims::is_column(resource) {
                if largest < *asked
                    && let Some(cause) = self.refusal_of_claims(types)
                {
                    return cause;
                }
                continue;
            }
            if let Some(driver) = volumes::driver(resource) {
                if largest < *asked {
                    let (mounted, most) = (volumes::count(*asked), volumes::count(largest));
                    return Cause::TooManyVolumes { driver: driver.to_owned(), mounted, most };
                }
                continue;
            }
            if !self.pool.types.iter().any(|kind| kind.kind.capacity.get(resource).milli() > 0) {
                return Cause::ResourceNotOffered { resource: resource.to_owned() };
            }
            if largest < *asked {
                return Cause::TooLarge {
                    resource: resource.to_owned(),
                    requested: Quantity::from_milli(*asked),
                    largest: Quantity::from_milli(largest.max(0)),
                    daemon_set: types
                        .iter()
                        .find(|kind| kind.allocatable[place].saturating_add(kind.daemons.amounts[place]) >= *asked)
                        .and_then(|kind| daemon_sets::most_taken(&kind.daemons.sets, resource)),
                };
            }
        }
        let with_daemons = types.iter().find(|kind| kind.holds_alone(&requests));
        let daemon_set = with_daemons.and_then(|kind| {
            let lacking = requests.iter().zip(&kind.allocatable).position(|(asked, left)| asked > left)?;
            daemon_sets::most_taken(&kind.daemons.sets, self.resources.name(lacking))
        });
        Cause::NoTypeFits { most: self.most(types), daemon_set }
    }

    /// By requested resource, the most that a type leaves which has enough of all others.
    fn most(&self, types: &[&PoolType<'_>]) -> Vec<(String, Quantity)> {
        let requests = volumes::alone(self.class.mounts());
        let most = |place: usize| {
            let enough = |kind: &&&PoolType<'_>| {
                let others =
                    requests.iter().zip(kind.allocatable.iter()).enumerate().filter(|(other, _)| *other != place);
                others.map(|(_, pair)| pair).all(|(asked, free)| asked <= free)
            };
            types.iter().filter(enough).map(|kind| kind.allocatable[place]).max().filter(|most| *most > 0)
        };
        let asked = requests.iter().enumerate().filter(|(_, asked)| **asked > 0);
        let asked = asked.filter(|(place, _)| {
            let name = self.resources.name(*place);
            volumes::driver(name).is_none() && !claims::is_column(name)
        });
        asked
            .filter_map(|(place, _)| Some((self.resources.name(place).to_owned(), Quantity::from_milli(most(place)?))))
            .collect()
    }

    fn port(&self, fitting: &[&PoolType<'_>]) -> Cause {
        let own = &self.class.host_ports;
        let taken = fitting.iter().find_map(|kind| daemon_sets::taken_port(&kind.daemons.sets, own.iter()));
        // The ports of the DaemonSets are why the pod does not fit.
        taken.map_or(Cause::NoTypeFits { most: Vec::new(), daemon_set: None }, |(port, daemon_set)| Cause::HostPort {
            port,
            daemon_set,
        })
    }

    /// The types that could be launched for one pod, ignoring limits.
    fn choices<'l>(&self, launched: &'l Launched, rank: usize) -> Vec<&'l Choice> {
        let requests = volumes::alone(self.class.mounts());
        let holds = |choice: &&Choice| {
            let kind = &self.pool.types[choice.kind];
            kind.rank == rank && dense::fits(&requests, &kind.allocatable) && self.class.ports_free(&kind.daemons.ports)
        };
        launched.choices.iter().filter(holds).collect()
    }

    fn limit(&self, choices: &[&Choice]) -> Cause {
        let limits = &self.pool.limits;
        for (place, (scope, limit)) in limits.resources().into_iter().enumerate() {
            let smallest = choices.iter().map(|choice| choice.share.resources[place]).min().unwrap_or(0);
            if limit.used.saturating_add(smallest) > limit.limit {
                return self.reached(scope, &limit, smallest);
            }
        }
        for (scope, limit, used) in limits.dollars() {
            let least = choices.iter().map(|choice| choice.share.dollars).fold(f64::INFINITY, f64::min);
            if used + least > limit {
                return Cause::DollarLimit { scope, limit, used, min_charge: least };
            }
        }
        Cause::Limits
    }

    fn reached(&self, scope: LimitScope, limit: &Limit, smallest_node: i64) -> Cause {
        Cause::Limit {
            scope,
            resource: limit.name.clone(),
            limit: Quantity::from_milli(limit.limit),
            used: Quantity::from_milli(limit.used),
            requested: match limit.name.as_str() {
                nodeless_model::resources::name::NODES => Quantity::from_units(1),
                name => self.class.example.template.next_requests().get(name),
            },
            smallest_node: Quantity::from_milli(smallest_node),
        }
    }
}
