//! Preferences that are satisfied for running pods, so that voluntary moves can keep them.
//!
//! The kube-scheduler evaluates preferences when it schedules a pod and never again. A voluntary move must not lose them: so a
//! satisfied preference of a running pod counts as required for its next node. Other preferences stay preferences.

use crate::constraints::covers;
use crate::constraints::groups::{Group, GroupId, Groups, Kind};
use crate::problem::excess;
use crate::problem::{BoundPods, ClusterFacts, Problem};
use crate::topology::counts_node;
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::pod::Weighted;
use nodeless_model::{Pod, PodTemplate, Requirements, labels};
use std::cmp::Reverse;
use std::sync::Arc;

/// A pod with its satisfied preferences as requirements.
#[derive(Clone, Debug)]
pub struct HeldPod {
    /// The index of its node among those that run pods.
    pub node: usize,
    /// The index among the pods of the node.
    pub place: usize,
    /// The pod.
    pub pod: Pod,
}

/// All pods with satisfied preferences, with these as requirements. `running` contains all existing nodes; `facts` is as in
/// [`Problem::facts`].
///
/// A preference is met if it is a `ScheduleAnyway` spread whose skew the pod's domain keeps, preferred pod affinity
/// with a counted pod in the domain, preferred pod anti-affinity without one, or a preferred node affinity term that
/// the node matches. Pods with too many constraints are left out, because no plan places them. `PreferNoSchedule` taints do not depend on the pod alone and are left out.
#[must_use]
pub fn held_preferences(running: &[BoundPods<'_>], facts: ClusterFacts<'_>) -> Vec<HeldPod> {
    let mut with_preferences: Vec<(usize, usize)> = Vec::new();
    let mut problem = Problem { facts, ..Problem::default() };
    for (node, bound) in running.iter().enumerate() {
        for (place, pod) in bound
            .pods
            .iter()
            .enumerate()
            .filter(|(_, pod)| pod.is_active() && has_preferences(pod) && excess::excess(pod).is_none())
        {
            with_preferences.push((node, place));
            problem.pods.push(pod);
        }
    }
    if with_preferences.is_empty() {
        return Vec::new();
    }
    let mut groups = Groups::new(&problem, true);
    let counts = Counts::new(running, &mut groups);
    let mut templates: HashMap<(usize, Met), Arc<PodTemplate>> = HashMap::default();
    let mut one = |(index, (node, place)): (usize, (usize, usize))| {
        let running = Running { groups: &groups, counts: &counts, node: &running[node], number: node, index };
        let pod = problem.pods[index];
        let met = running.met(pod)?;
        // The pods of a workload with the same satisfied preferences share a template.
        let template = Arc::as_ptr(&pod.template).addr();
        let template = templates.entry((template, met)).or_insert_with_key(|(_, met)| held(&pod.template, met));
        Some(HeldPod { node, place, pod: Pod { template: Arc::clone(template), ..pod.clone() } })
    };
    with_preferences.into_iter().enumerate().filter_map(&mut one).collect()
}

/// The satisfied preferences of a pod, as places in the lists of its template.
#[derive(PartialEq, Eq, Hash)]
struct Met {
    affinity: Vec<usize>,
    anti: Vec<usize>,
    spread: Vec<usize>,
    node: Vec<usize>,
}

/// A template with these preferences as requirements.
fn held(template: &PodTemplate, met: &Met) -> Arc<PodTemplate> {
    let mut held = template.clone();
    require(&mut held.required_pod_affinity, take(&mut held.preferred_pod_affinity, &met.affinity));
    require(&mut held.required_pod_anti_affinity, take(&mut held.preferred_pod_anti_affinity, &met.anti));
    met.spread.iter().for_each(|place| held.topology_spread[*place].hard = true);
    let node = take(&mut held.preferred_node_affinity, &met.node);
    if !node.is_empty() && held.required_node_affinity.is_empty() {
        held.required_node_affinity.push(Vec::new());
    }
    for alternative in &mut held.required_node_affinity {
        alternative.extend(node.iter().flatten().cloned());
    }
    Arc::new(held)
}

fn has_preferences(pod: &Pod) -> bool {
    !pod.template.preferred_node_affinity.is_empty()
        || !pod.template.preferred_pod_affinity.is_empty()
        || !pod.template.preferred_pod_anti_affinity.is_empty()
        || pod.template.topology_spread.iter().any(|spread| !spread.hard)
}

/// The number of pods that each group counts, by domain. Domains are numbered: by node for groups over the host name, by the
/// value of the label for all others.
struct Counts {
    keys: HashMap<String, Domains>,
    /// By group and domain.
    counts: Vec<HashMap<usize, u32>>,
    /// By spread group, the minimum count over all domains with a counted node.
    minimums: Vec<u32>,
}

/// The domains of a topology key.
struct Domains {
    /// By node; missing where the node lacks the label.
    of_node: Vec<Option<usize>>,
    count: usize,
}

impl Counts {
    fn new<'a>(running: &[BoundPods<'a>], groups: &mut Groups<'a>) -> Self {
        let mut keys: HashMap<String, Domains> = HashMap::default();
        for group in &groups.list {
            keys.entry(group.key.clone()).or_insert_with(|| Domains::new(&group.key, running));
        }
        let of_group: Vec<&Domains> = groups.list.iter().map(|group| &keys[&group.key]).collect();
        let mut counts: Vec<HashMap<usize, u32>> = vec![HashMap::default(); groups.list.len()];
        for (number, node) in running.iter().enumerate() {
            for pod in node.pods.iter().copied().filter(|pod| pod.is_active()) {
                let signature = groups.signature(pod);
                for &group in &groups.selected[signature] {
                    let of = &groups.list[group];
                    if let Some(domain) = of_group[group].of_node[number]
                        && counts_node(&of.filter, node)
                    {
                        *counts[group].entry(domain).or_default() += 1;
                    }
                }
            }
        }
        let counted = groups.list.iter().zip(&counts);
        let minimums = counted.map(|(group, counts)| least(group, counts, &keys[&group.key], running)).collect();
        Self { keys, counts, minimums }
    }

    fn at(&self, group: GroupId, domain: usize) -> u32 {
        self.counts[group].get(&domain).copied().unwrap_or(0)
    }
}

/// The minimum count of a spread group over its domains; zero for other groups.
fn least(group: &Group, counts: &HashMap<usize, u32>, domains: &Domains, running: &[BoundPods<'_>]) -> u32 {
    let Kind::Spread { min_domains, .. } = group.kind else { return 0 };
    let total = if group.filter.is_trivial() {
        domains.count
    } else {
        let nodes = running.iter().zip(&domains.of_node).filter(|(node, _)| counts_node(&group.filter, node));
        nodes.filter_map(|(_, domain)| *domain).collect::<HashSet<usize>>().len()
    };
    // Domains without a counted pod are not in the map.
    if total < min_domains as usize || counts.len() < total {
        return 0;
    }
    counts.values().copied().min().unwrap_or(0)
}

impl Domains {
    fn new(key: &str, running: &[BoundPods<'_>]) -> Self {
        if key == labels::HOSTNAME {
            return Self { of_node: (0..running.len()).map(Some).collect(), count: running.len() };
        }
        let mut known: HashMap<&str, usize> = HashMap::default();
        let mut of_node = Vec::with_capacity(running.len());
        for node in running {
            of_node.push(labels::value(node.labels, key).map(|value| {
                let next = known.len();
                *known.entry(value).or_insert(next)
            }));
        }
        Self { of_node, count: known.len() }
    }
}

/// A running pod.
struct Running<'r, 'a> {
    groups: &'r Groups<'a>,
    counts: &'r Counts,
    node: &'r BoundPods<'a>,
    /// The number of its node.
    number: usize,
    /// The index among the pods with preferences.
    index: usize,
}

impl Running<'_, '_> {
    /// The satisfied preferences of the pod; nothing if there are none.
    fn met(&self, pod: &Pod) -> Option<Met> {
        let owned = &self.groups.owned[self.groups.relations[self.index].owned];
        let soft = pod.template.topology_spread.iter().enumerate().filter(|(_, spread)| !spread.hard);
        let met = Met {
            affinity: self.met_terms(&pod.template.preferred_pod_affinity, &owned.affinity),
            anti: self.met_terms(&pod.template.preferred_pod_anti_affinity, &owned.anti),
            spread: soft
                .zip(&owned.spread)
                .filter(|(_, group)| self.is_met(**group))
                .map(|((place, _), _)| place)
                .collect(),
            node: self.met_by_node(pod),
        };
        let any = [&met.affinity, &met.anti, &met.spread, &met.node].into_iter().any(|places| !places.is_empty());
        any.then_some(met)
    }

    /// The places of the preferred node affinity terms that the labels of the node meet.
    fn met_by_node(&self, pod: &Pod) -> Vec<usize> {
        if pod.template.preferred_node_affinity.is_empty() {
            return Vec::new();
        }
        let own = Requirements::from_labels(self.node.labels);
        let fits = |terms: &Vec<_>| Requirements::from_terms(terms).is_ok_and(|preferred| covers(&own, &preferred));
        let terms = pod.template.preferred_node_affinity.iter().enumerate();
        terms.filter(|(_, term)| fits(&term.preference)).map(|(place, _)| place).collect()
    }

    /// The places of the terms that are met; groups list them with the heaviest first.
    fn met_terms<T>(&self, terms: &[Weighted<T>], groups: &[GroupId]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..terms.len()).collect();
        order.sort_by_key(|place| Reverse(terms[*place].weight));
        order.into_iter().zip(groups).filter(|(_, group)| self.is_met(**group)).map(|(place, _)| place).collect()
    }

    fn is_met(&self, group: GroupId) -> bool {
        let of = &self.groups.list[group];
        let Some(domain) = self.counts.keys[&of.key].of_node[self.number] else {
            // A node without the label is in no domain: only anti-affinity is satisfied there.
            return of.kind == Kind::Anti;
        };
        let selected = &self.groups.selected[self.groups.relations[self.index].selected];
        let itself = u32::from(selected.binary_search(&group).is_ok());
        let here = self.counts.at(group, domain);
        match of.kind {
            Kind::Spread { max_skew, .. } => here.saturating_sub(self.counts.minimums[group]) <= max_skew,
            Kind::Affinity => here > itself,
            Kind::Anti => here <= itself,
        }
    }
}

/// Adds terms to a list without capacity for more: a large cluster has a copy of most of its pods.
fn require<T>(required: &mut Vec<T>, terms: Vec<T>) {
    required.reserve_exact(terms.len());
    required.extend(terms);
}

/// Takes the terms at these places out of a list.
fn take<T>(terms: &mut Vec<Weighted<T>>, places: &[usize]) -> Vec<T> {
    if places.is_empty() {
        return Vec::new();
    }
    let all = std::mem::take(terms).into_iter().enumerate();
    let (taken, left): (Vec<_>, Vec<_>) = all.partition(|(place, _)| places.contains(place));
    *terms = left.into_iter().map(|(_, term)| term).collect();
    taken.into_iter().map(|(_, term)| term.preference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::PodTemplate;
    use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
    use nodeless_model::requirement::RequirementTerm;
    use nodeless_model::test_support::{self, topology_spread};
    use nodeless_model::{Operator, StringMap};

    fn labelled(key: &str, value: &str) -> StringMap {
        StringMap::from([(key.into(), value.into())])
    }

    fn pod(name: &str) -> Pod {
        let selector = test_support::selector("app", "web");
        Pod {
            namespace: "default".into(),
            name: name.into(),
            template: PodTemplate {
                labels: labelled("app", "web"),
                topology_spread: vec![TopologySpread {
                    hard: false,
                    ..topology_spread(labels::ZONE, selector.clone())
                }],
                preferred_pod_anti_affinity: vec![Weighted {
                    weight: 1,
                    preference: PodAffinityTerm {
                        selector: Some(selector),
                        topology_key: labels::HOSTNAME.into(),
                        ..PodAffinityTerm::default()
                    },
                }],
                preferred_node_affinity: vec![Weighted {
                    weight: 1,
                    preference: vec![RequirementTerm {
                        key: "disk".into(),
                        operator: Operator::In,
                        values: vec!["ssd".into()],
                        min_values: None,
                    }],
                }],
                ..PodTemplate::default()
            }
            .into(),
            ..Pod::default()
        }
    }

    fn held(nodes: &[(&str, &StringMap, &[&Pod])]) -> Vec<HeldPod> {
        let running: Vec<BoundPods<'_>> = nodes
            .iter()
            .map(|(name, labels, pods)| BoundPods { name, labels, taints: &[], pods: pods.to_vec() })
            .collect();
        held_preferences(&running, ClusterFacts::default())
    }

    #[test]
    fn what_is_met_is_required_and_what_is_not_stays_a_preference() {
        let (a, b, c) = (pod("a"), pod("b"), pod("c"));
        let one = StringMap::from([(labels::ZONE.into(), "one".into()), ("disk".into(), "ssd".into())]);
        let two = labelled(labels::ZONE, "two");
        let found = held(&[("first", &one, &[&a, &b]), ("second", &two, &[&c])]);
        assert_eq!(found.len(), 3);
        // Two beside one keep the skew; two on a host are not apart.
        assert!(found.iter().all(|held| held.pod.template.topology_spread[0].hard));
        assert_eq!(found[0].pod.template.required_pod_anti_affinity, Vec::new());
        assert_eq!(
            found[0].pod.template.required_node_affinity,
            vec![a.template.preferred_node_affinity[0].preference.clone()]
        );
        assert_eq!(
            found[2].pod.template.required_pod_anti_affinity,
            vec![c.template.preferred_pod_anti_affinity[0].preference.clone()]
        );
        assert_eq!(found[2].pod.template.required_node_affinity, Vec::<Vec<RequirementTerm>>::new());
    }

    #[test]
    fn a_spread_that_is_broken_is_not_held() {
        let (a, b) = (pod("a"), pod("b"));
        let (one, two) = (labelled(labels::ZONE, "one"), labelled(labels::ZONE, "two"));
        let found = held(&[("first", &one, &[&a]), ("second", &one, &[&b]), ("third", &two, &[])]);
        assert!(found.iter().all(|held| !held.pod.template.topology_spread[0].hard));
        // Without the other zone there is one domain, which has the least and the most.
        let found = held(&[("first", &one, &[&a]), ("second", &one, &[&b])]);
        assert!(found.iter().all(|held| held.pod.template.topology_spread[0].hard));
    }

    #[test]
    fn pods_that_have_ended_do_not_count() {
        let (a, gone) = (pod("a"), Pod { phase: nodeless_model::pod::PodPhase::Succeeded, ..pod("gone") });
        let one = labelled(labels::ZONE, "one");
        let found = held(&[("first", &one, &[&a, &gone])]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pod.template.required_pod_anti_affinity.len(), 1);
    }
}
