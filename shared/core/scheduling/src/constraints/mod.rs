//! A pod's constraints: on labels and taints as a list of alternatives, from the most to the least preferred, and on topology as groups.

pub(crate) mod admission;
pub(crate) mod daemons;
pub(crate) mod groups;

use crate::problem::PreferencePolicy;
use crate::problem::excess::{self, Excess};
use crate::problem::reason::PodFault;
use groups::{GroupId, Owned};
use nodeless_model::pod::Weighted;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{Pod, Requirements, Taint, TaintEffect, Toleration};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The index of an [`Alternative`] in the table of all alternatives.
pub(crate) type AlternativeId = usize;

/// A way to satisfy the constraints of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Alternative {
    /// The required labels of the node.
    pub(crate) requirements: Requirements,
    /// The pod's tolerations.
    pub(crate) tolerations: Vec<Toleration>,
    /// Whether `PreferNoSchedule` taints still count.
    pub(crate) minds_prefer_no_schedule: bool,
}

impl Alternative {
    /// The first taint that is not tolerated.
    pub(crate) fn first_repelling<'t>(&self, taints: &'t [Taint]) -> Option<&'t Taint> {
        first_repelling(taints, &self.tolerations, self.minds_prefer_no_schedule)
    }
}

/// The first taint that is not tolerated. `PreferNoSchedule` counts only with `minds_prefer_no_schedule`.
pub(crate) fn first_repelling<'t>(
    taints: &'t [Taint],
    tolerations: &[Toleration],
    minds_prefer_no_schedule: bool,
) -> Option<&'t Taint> {
    taints.iter().find(|taint| {
        (minds_prefer_no_schedule || taint.effect != TaintEffect::PreferNoSchedule)
            && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}

/// Whether every label that nodes described by `node` may have also meets `required`; labels that the node does not
/// mention are absent.
///
/// For a node with all its labels known this is what the kube-scheduler checks. For a claim with several possible values of a
/// label, each of them has to match.
pub(crate) fn covers(node: &Requirements, required: &Requirements) -> bool {
    required.iter().all(|(key, required)| match node.get(key) {
        None => required.allows_absence(),
        Some(actual) => {
            let narrowed = actual.intersection(required).with_min_values(actual.min_values());
            narrowed == *actual && (!actual.allows_absence() || required.allows_absence())
        }
    })
}

/// The alternatives of required node labels: the node selector with each term of the required node affinity.
pub(crate) fn required_alternatives(pod: &Pod) -> Result<Vec<Requirements>, PodFault> {
    if pod.template.has_match_fields {
        return Err(PodFault::MatchFields);
    }
    let selector = Requirements::from_labels(&pod.template.node_selector);
    if pod.template.required_node_affinity.is_empty() {
        return Ok(vec![selector]);
    }
    let mut alternatives = Vec::new();
    let mut fault = PodFault::EmptyAffinity;
    // Kubernetes: a term without conditions matches no node.
    for term in pod.template.required_node_affinity.iter().filter(|term| !term.is_empty()) {
        match read(term) {
            Ok(required) => alternatives.push(selector.with(&required)),
            Err(why) => fault = why,
        }
    }
    if alternatives.is_empty() { Err(fault) } else { Ok(alternatives) }
}

fn read(term: &[RequirementTerm]) -> Result<Requirements, PodFault> {
    Requirements::from_terms(term).map_err(|error| PodFault::Requirements { message: error.to_string() })
}

/// A level of a pod's preferences.
#[derive(Clone, Debug)]
pub(crate) struct LevelSpec {
    /// Equally preferred alternatives; levels that differ only in topology constraints share them.
    pub(crate) alternatives: Rc<[Alternative]>,
    /// The topology constraints of the level.
    pub(crate) groups: Vec<GroupId>,
}

/// All ways to satisfy a pod: levels from the most to the least preferred.
///
/// At first all preferences are treated as required, and of preferred node affinity the heaviest term. Then preferences
/// are dropped one by one: the heaviest pod affinity, the heaviest pod anti-affinity, the heaviest node affinity (the
/// next takes its place), each `ScheduleAnyway` spread; at the very end, `PreferNoSchedule` taints are tolerated.
/// Karpenter v1.14 relaxes in the same order, but does not return to an alternative of required terms that it has
/// dropped.
pub(crate) fn levels(
    pod: &Pod,
    volumes: &BTreeMap<String, Vec<Requirements>>,
    preferences: PreferencePolicy,
    some_taint_prefers: bool,
    owned: &Owned,
) -> Result<Vec<LevelSpec>, PodFault> {
    let required = hard_alternatives(pod, volumes)?;
    let preferred = match preferences {
        PreferencePolicy::Respect => heaviest_first(&pod.template.preferred_node_affinity),
        PreferencePolicy::Ignore => Vec::new(),
    };
    let nothing = Requirements::new();
    let alternatives = |given_up: &GivenUp, minds_prefer_no_schedule| -> Rc<[Alternative]> {
        let preference = preferred.get(given_up.node).unwrap_or(&nothing);
        let alternative = |required: &Requirements| Alternative {
            requirements: required.with(preference),
            tolerations: pod.template.tolerations.clone(),
            minds_prefer_no_schedule,
        };
        required.iter().map(alternative).collect()
    };
    let level = |given_up: &GivenUp, alternatives: &Rc<[Alternative]>| {
        let soft = owned.affinity[given_up.affinity..].iter().chain(&owned.anti[given_up.anti..]);
        let mut groups: Vec<GroupId> =
            owned.required.iter().chain(soft).chain(&owned.spread[given_up.spread..]).copied().collect();
        groups.sort_unstable();
        groups.dedup();
        LevelSpec { alternatives: Rc::clone(alternatives), groups }
    };
    let mut given_up = GivenUp::default();
    let mut known = alternatives(&given_up, some_taint_prefers);
    let mut levels = vec![level(&given_up, &known)];
    let mut terms = given_up.node;
    while given_up.next(owned, preferred.len()) {
        if given_up.node != terms {
            terms = given_up.node;
            known = alternatives(&given_up, some_taint_prefers);
        }
        levels.push(level(&given_up, &known));
    }
    if some_taint_prefers {
        levels.push(level(&given_up, &alternatives(&given_up, false)));
    }
    Ok(levels)
}

/// The number of relaxed preferences of each kind.
#[derive(Default)]
struct GivenUp {
    affinity: usize,
    anti: usize,
    node: usize,
    spread: usize,
}

impl GivenUp {
    /// Relaxes one more; `false` if none is left.
    fn next(&mut self, owned: &Owned, node: usize) -> bool {
        let each = [
            (&mut self.affinity, owned.affinity.len()),
            (&mut self.anti, owned.anti.len()),
            (&mut self.node, node),
            (&mut self.spread, owned.spread.len()),
        ];
        let next = each.into_iter().find(|(given_up, all)| **given_up < *all);
        next.map(|(given_up, _)| *given_up += 1).is_some()
    }
}

/// The required labels of a pod's node, including those of its volumes.
pub(crate) fn hard_alternatives(
    pod: &Pod,
    volumes: &BTreeMap<String, Vec<Requirements>>,
) -> Result<Vec<Requirements>, PodFault> {
    refuse_unsupported(pod)?;
    with_volumes(pod, required_alternatives(pod)?, volumes)
}

/// Invalid preferences are left out: nothing depends on them.
fn heaviest_first(preferences: &[Weighted<Vec<RequirementTerm>>]) -> Vec<Requirements> {
    let mut sorted: Vec<_> = preferences.iter().collect();
    sorted.sort_by_key(|preference| std::cmp::Reverse(preference.weight));
    sorted.into_iter().filter_map(|preference| read(&preference.preference).ok()).collect()
}

/// Rejects pods with too many constraints, and constraints that this engine does not support, instead of ignoring them.
fn refuse_unsupported(pod: &Pod) -> Result<(), PodFault> {
    if let Some((excess, count)) = excess::excess(pod) {
        return Err(PodFault::TooMany { excess, count });
    }
    if let Some((resource, _)) = pod.template.next_requests().iter().find(|(_, quantity)| quantity.milli() < 0) {
        return Err(PodFault::NegativeRequest { resource: resource.to_owned() });
    }
    Ok(())
}

/// Combines the requirements of a pod with those of its volumes; contradictory combinations are left out.
fn with_volumes(
    pod: &Pod,
    mut required: Vec<Requirements>,
    volumes: &BTreeMap<String, Vec<Requirements>>,
) -> Result<Vec<Requirements>, PodFault> {
    for volume in &pod.template.volume_claims {
        let key = format!("{}/{}", pod.namespace, volume.claim_name);
        let alternatives = volumes.get(&key).ok_or(PodFault::UnknownVolume { claim: key })?;
        if alternatives.is_empty() {
            continue;
        }
        required = alternatives
            .iter()
            .flat_map(|place| required.iter().filter(|one| one.intersects(place)).map(|one| one.with(place)))
            .collect();
        if required.is_empty() {
            let claims = pod.template.volume_claims.iter().map(|volume| volume.claim_name.clone()).collect();
            return Err(PodFault::VolumesApart { claims });
        }
        if required.len() > Excess::VolumeTopologies.limit() {
            return Err(PodFault::TooMany { excess: Excess::VolumeTopologies, count: required.len() });
        }
    }
    Ok(required)
}
