//! Assigns pods to topology domains before they are packed.
//!
//! Pods that topology constraints count are each assigned to a domain of every key except the host name, one after another as the
//! kube-scheduler would schedule them, by the counts alone. Nodes are filled afterwards, with classes of pods that also share
//! their domains. Pods that do not fit there are assigned elsewhere.

use crate::classes::{CONSTRAINTS_PER_UNIT, Class, Classes, Level};
use crate::constraints::AlternativeId;
use crate::constraints::groups::{GroupId, Kind};
use crate::packing::bin::Unit;
use crate::topology::{ABSENT, Domain, Standings, Target, Topology, domain_in};
use std::cmp::Ordering;

/// A domain that pods of a class could be assigned to.
#[derive(Debug)]
pub(crate) struct DomainCandidate {
    pub(crate) target: Target,
    pub(crate) alternatives: Vec<AlternativeId>,
    /// Whether the groups that select the pods count them there.
    pub(crate) standings: Standings,
    /// The price of one pod on a new node there, in dollars per hour; `None` if none can be launched.
    pub(crate) worth: Option<f64>,
    /// The price of all pods there that have to be in one domain, if these are the first of them.
    pub(crate) together: Option<f64>,
    /// The number of these pods that could be there.
    pub(crate) gathered: u32,
    /// The number of pods that fit on existing nodes there.
    pub(crate) fit_on_existing: u32,
    /// The number of pods that were planned on existing nodes there before.
    pub(crate) planned_before: u32,
    /// The maximum number of pods to assign to it.
    pub(crate) max: u32,
    /// The number of assigned pods.
    pub(crate) assigned: u32,
}

/// The maximum number of combinations of domains and alternatives for a pod. Spread over zones and over each of 2,000 racks has
/// 6,000.
pub(crate) const MAX_COMBINATIONS: usize = 10_000;

/// The number of combinations of domains of the keys of a level, with its alternatives.
pub(crate) fn combinations(level: &Level, topology: &Topology<'_>) -> usize {
    let domains = level.keys.iter().map(|key| topology.domains[*key].len() - first_domain(level, *key));
    domains.fold(level.alternatives.len(), usize::saturating_mul)
}

fn first_domain(level: &Level, key: usize) -> Domain {
    if level.needs_label(key) { ABSENT + 1 } else { ABSENT }
}

/// Every combination of domains of the keys of a level, with the alternatives that remain possible there; none if they are more
/// than [`MAX_COMBINATIONS`].
pub(crate) fn targets(
    classes: &mut Classes<'_>,
    index: usize,
    level: usize,
    alternatives: &[AlternativeId],
    topology: &Topology<'_>,
) -> Vec<(Target, Vec<AlternativeId>)> {
    let Some(level) = classes.list[index].level(level) else { return Vec::new() };
    let count = combinations(level, topology);
    if count == 0 || count > MAX_COMBINATIONS {
        return Vec::new();
    }
    let mut targets: Vec<Target> = vec![Vec::new()];
    for &key in &level.keys {
        let domains = first_domain(level, key)..topology.domains[key].len();
        targets = targets
            .into_iter()
            .flat_map(|target| {
                domains.clone().map(move |domain| target.iter().copied().chain([(key, domain)]).collect::<Target>())
            })
            .collect();
    }
    let mut possible = Vec::new();
    for target in targets {
        let bound: Vec<AlternativeId> =
            alternatives.iter().filter_map(|one| classes.bound_for(*one, &target, topology)).collect();
        if !bound.is_empty() {
            possible.push((target, bound));
        }
    }
    possible
}

/// The domain of a key in a target, which is in the order of the keys.
pub(crate) fn domain_of(target: &[(usize, Domain)], key: Option<usize>) -> Domain {
    key.and_then(|key| domain_in(target, key)).unwrap_or(ABSENT)
}

/// By spread group, which domains count, in the order of the groups.
pub(crate) type Eligible = Vec<(GroupId, Vec<bool>)>;

/// The domains that count for a spread group; none if it is not among them.
pub(crate) fn domains_of(eligible: &[(GroupId, Vec<bool>)], group: GroupId) -> &[bool] {
    let place = eligible.binary_search_by_key(&group, |(one, _)| *one).ok();
    place.map_or(&[], |place| &eligible[place].1)
}

/// The first group that excludes a pod from a target, by the current counts.
pub(crate) fn first_against(
    class: &Class<'_>,
    level: &Level,
    target: &[(usize, Domain)],
    eligible: &[(GroupId, Vec<bool>)],
    topology: &Topology<'_>,
) -> Option<GroupId> {
    let own = level.bounded.iter().copied().find(|&group| {
        let domain = domain_of(target, topology.key(group));
        let here = || topology.matching(group, domain);
        let itself = class.is_selected_by(group);
        match topology.kind(group) {
            Kind::Spread { max_skew, min_domains } => {
                let least = topology.least(group, domains_of(eligible, group), min_domains);
                let skew = here() + u32::from(itself) - least.min(here());
                skew > max_skew
            }
            Kind::Anti => domain != ABSENT && here() > 0,
            Kind::Affinity => {
                here() == 0 && (!itself || topology.matches_anywhere(group)) && !topology.daemon_pods.selects_any(group)
            }
        }
    });
    own.or_else(|| first_owned(class, target, topology))
}

/// The first anti-affinity of pods in a target that excludes a class.
fn first_owned(class: &Class<'_>, target: &[(usize, Domain)], topology: &Topology<'_>) -> Option<GroupId> {
    class.selected.iter().copied().find(|&group| {
        topology.key(group).is_some()
            && topology.kind(group) == Kind::Anti
            && topology.has_owner(group, domain_of(target, topology.key(group)))
    })
}

/// Whether anti-affinity excludes pods from a target. Pods of the same class do not change this, whatever their target.
pub(crate) fn is_repelled(
    class: &Class<'_>,
    level: &Level,
    target: &[(usize, Domain)],
    topology: &Topology<'_>,
) -> bool {
    let own = level.bounded.iter().any(|&group| {
        let domain = domain_of(target, topology.key(group));
        topology.kind(group) == Kind::Anti && domain != ABSENT && topology.matching(group, domain) > 0
    });
    own || first_owned(class, target, topology).is_some()
}

/// Binds as many of `pending` pods as the counts allow, and counts them. Returns the work: for each compared domain, and for the groups
/// that were evaluated there.
pub(crate) fn assign(
    class: &Class<'_>,
    level: &Level,
    candidates: &mut [DomainCandidate],
    eligible: &[(GroupId, Vec<bool>)],
    mut pending: u32,
    topology: &mut Topology<'_>,
) -> usize {
    let (mut compared, mut evaluated) = (0, 0);
    // If only affinity counts, one more pod changes nothing.
    let groups = || level.bounded.iter().chain(class.selected.iter().filter(|group| topology.key(**group).is_some()));
    let at_once = groups().all(|group| topology.kind(*group) == Kind::Affinity);
    while pending > 0 {
        compared += candidates.len();
        let open = |candidate: &DomainCandidate| {
            candidate.assigned < candidate.max
                && (candidate.worth.is_some() || candidate.assigned < candidate.fit_on_existing)
        };
        let best = (0..candidates.len())
            .filter(|place| open(&candidates[*place]))
            .filter(|place| {
                let against = first_against(class, level, &candidates[*place].target, eligible, topology);
                let first = against.and_then(|group| level.bounded.binary_search(&group).ok());
                evaluated += first.unwrap_or(level.bounded.len() + class.selected.len());
                against.is_none()
            })
            .min_by(|a, b| compare(class, level, &candidates[*a], &candidates[*b], topology));
        let Some(best) = best else { break };
        let candidate = &mut candidates[best];
        let more = if !at_once {
            1
        } else if candidate.assigned < candidate.fit_on_existing {
            pending.min(candidate.fit_on_existing - candidate.assigned)
        } else {
            pending
        };
        let more = more.min(candidate.max - candidate.assigned);
        candidate.assigned += more;
        pending -= more;
        topology.record(&class.selected, &class.required, &candidate.standings, &candidate.target, more);
    }
    compared + evaluated / CONSTRAINTS_PER_UNIT
}

/// Of pods with affinity to each other, the domain that takes most of them comes first. Then come nodes that were launched for these pods,
/// so that plans agree, then other existing nodes, then the domain with the fewest counted pods, then the cheapest.
fn compare(
    class: &Class<'_>,
    level: &Level,
    a: &DomainCandidate,
    b: &DomainCandidate,
    topology: &Topology<'_>,
) -> Ordering {
    let needs_launch = |candidate: &DomainCandidate| candidate.assigned >= candidate.fit_on_existing;
    let load = |candidate: &DomainCandidate| -> u64 {
        let counted =
            level.bounded.iter().chain(&class.selected).filter(|group| {
                topology.key(**group).is_some() && matches!(topology.kind(**group), Kind::Spread { .. })
            });
        counted
            .map(|&group| u64::from(topology.matching(group, domain_of(&candidate.target, topology.key(group)))))
            .sum()
    };
    let price = |candidate: &DomainCandidate| candidate.together.or(candidate.worth).unwrap_or(f64::INFINITY);
    let is_new = |candidate: &DomainCandidate| candidate.assigned >= candidate.planned_before;
    b.gathered
        .cmp(&a.gathered)
        .then_with(|| is_new(a).cmp(&is_new(b)))
        .then_with(|| needs_launch(a).cmp(&needs_launch(b)))
        .then_with(|| load(a).cmp(&load(b)))
        .then_with(|| price(a).total_cmp(&price(b)))
        .then_with(|| a.target.cmp(&b.target))
}

/// The pods of each candidate, as units.
pub(crate) fn units(class: usize, candidates: Vec<DomainCandidate>) -> Vec<Unit> {
    let assigned = candidates.into_iter().filter(|candidate| candidate.assigned > 0);
    assigned
        .map(|candidate| Unit {
            class,
            alternatives: candidate.alternatives,
            target: candidate.target,
            assigned: candidate.assigned,
            pending: candidate.assigned,
        })
        .collect()
}
