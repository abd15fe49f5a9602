//! `PodTopologySpread` as a score: by how many pods the preferred spread of a pod counts in the domains of a node.

use super::Counts;
use super::domains::Domains;
use super::kinds::{Kind, Kinds, workload};
use super::score::{normalize_spread, spread_score, spread_weight};
use crate::classes::Class;
use crate::constraints::{Alternative, covers, first_repelling};
use crate::problem::ExistingNode;
use nodeless_model::pod::TopologySpread;
use nodeless_model::{Pod, labels};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The constraints that upstream gives pods without any: key and `maxSkew` (`systemDefaultConstraints`).
const DEFAULTS: [(&str, i32); 2] = [(labels::HOSTNAME, 3), (labels::ZONE, 5)];

/// The preferred spread of the pods of a class.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    constraints: Vec<Constraint>,
    /// Whether nodes without one of the labels get no score. False with the default constraints.
    needs_labels: bool,
}

#[derive(Clone, Debug)]
struct Constraint {
    key: usize,
    max_skew: i32,
    counts: Counts,
    /// The classes whose pods it counts.
    selects: Rc<[bool]>,
}

/// The input of the counts.
pub(super) struct Running<'r, 'a> {
    pub(super) kinds: &'r Kinds<'a>,
    pub(super) nodes: &'r [ExistingNode],
    /// Nodes whose pods do not count.
    pub(super) closed: &'r [bool],
    /// The requirements of the class's pods for nodes.
    pub(super) required: Vec<&'r Alternative>,
}

impl Spread {
    /// The constraints with the counts of running pods.
    pub(super) fn of<'a>(
        class: &Class<'a>,
        all: &[Class<'a>],
        running: &Running<'_, 'a>,
        (domains, work): (&mut Domains<'_>, &mut usize),
    ) -> Self {
        let pod = class.example;
        let mut spread = Self { constraints: Vec::new(), needs_labels: !pod.template.topology_spread.is_empty() };
        for one in pod.template.topology_spread.iter().filter(|one| !one.hard) {
            let mut constraint = Constraint::new(&one.topology_key, one.max_skew, domains);
            if is_empty(one) {
                constraint.selects = vec![false; all.len()].into();
                spread.constraints.push(constraint);
                continue;
            }
            for kind in running.kinds.selectable(Some(&pod.namespace), one.selector.as_ref()).iter() {
                *work += 1;
                if one.counts(pod, kind.example) {
                    constraint.count(kind, |node| running.counts(pod, one, node), (running, domains, work));
                }
            }
            constraint.selects = all.iter().map(|other| one.counts(pod, other.example)).collect();
            *work += all.len();
            spread.constraints.push(constraint);
        }
        if pod.template.topology_spread.is_empty()
            && let Some(own) = workload(pod)
        {
            for (key, max_skew) in DEFAULTS {
                let mut constraint = Constraint::new(key, max_skew, domains);
                for kind in running.kinds.of_workload(&own) {
                    constraint.count(kind, |node| running.admits(node), (running, domains, work));
                }
                constraint.selects = all.iter().map(|other| workload(other.example).as_ref() == Some(&own)).collect();
                *work += all.len();
                spread.constraints.push(constraint);
            }
        }
        spread
    }

    /// Counts a pod of a class that was bound to a node.
    pub(super) fn bound(&mut self, class: usize, node: usize, domains: &Domains<'_>) {
        for constraint in self.constraints.iter_mut().filter(|constraint| constraint.selects[class]) {
            *constraint.counts.entry(domains.of(constraint.key, node)).or_default() += 1;
        }
    }

    /// The scores of the feasible nodes.
    #[expect(clippy::cast_possible_truncation, reason = "a small score, as upstream computes it")]
    pub(super) fn scores(&self, feasible: &[usize], domains: &Domains<'_>) -> Vec<i64> {
        if self.constraints.is_empty() {
            return vec![0; feasible.len()];
        }
        let lacks = |node: usize| {
            let absent = |one: &Constraint| domains.of(one.key, node) == Domains::ABSENT;
            self.needs_labels && self.constraints.iter().any(absent)
        };
        let scored: Vec<usize> = feasible.iter().copied().filter(|node| !lacks(*node)).collect();
        let weight = |one: &Constraint| {
            let of = |node: &usize| domains.of(one.key, *node);
            let known = if domains.is_host(one.key) { scored.len() } else { distinct(scored.iter().map(of)) };
            spread_weight(known)
        };
        let weights: Vec<f64> = self.constraints.iter().map(weight).collect();
        let score = |node: &usize| {
            let mut sum = 0.0;
            for (one, weight) in self.constraints.iter().zip(&weights) {
                let domain = domains.of(one.key, *node);
                if domain != Domains::ABSENT {
                    let count = one.counts.get(&domain).copied().unwrap_or(0);
                    sum += spread_score(count, one.max_skew, *weight);
                }
            }
            (!lacks(*node)).then_some(f64::round(sum) as i64)
        };
        normalize_spread(&feasible.iter().map(score).collect::<Vec<_>>())
    }
}

/// Whether the selector of a constraint is empty: upstream, such a constraint counts no pods when it scores.
fn is_empty(spread: &TopologySpread) -> bool {
    spread.selector.as_ref().is_none_or(|selector| {
        selector.match_labels.is_empty() && selector.match_expressions.is_empty() && spread.match_label_keys.is_empty()
    })
}

fn distinct(values: impl Iterator<Item = u32>) -> usize {
    values.collect::<BTreeSet<u32>>().len()
}

impl Constraint {
    fn new(key: &str, max_skew: i32, domains: &mut Domains<'_>) -> Self {
        Self { key: domains.key(key), max_skew, counts: Counts::new(), selects: Rc::default() }
    }

    fn count<'a>(
        &mut self,
        kind: &Kind<'a>,
        counts: impl Fn(usize) -> bool,
        (running, domains, work): (&Running<'_, 'a>, &Domains<'_>, &mut usize),
    ) {
        *work += kind.at.len();
        // On the node itself pods count whatever the node inclusion policies.
        let is_host = domains.is_host(self.key);
        for (node, count) in kind.at.iter().filter(|(node, _)| !running.closed[*node] && (is_host || counts(*node))) {
            *self.counts.entry(domains.of(self.key, *node)).or_default() += count;
        }
    }
}

impl Running<'_, '_> {
    /// Whether the node inclusion policies of a constraint count the domain of a node.
    fn counts(&self, pod: &Pod, spread: &TopologySpread, node: usize) -> bool {
        let tolerated = || first_repelling(&self.nodes[node].taints, &pod.template.tolerations, false).is_none();
        (!spread.honor_node_affinity || self.admits(node)) && (!spread.honor_node_taints || tolerated())
    }

    /// Whether the labels of a node meet the pods' requirements.
    fn admits(&self, node: usize) -> bool {
        let labels = &self.nodes[node].requirements;
        self.required.iter().any(|one| one.requirements.is_empty() || covers(labels, &one.requirements))
    }
}
