//! `PodTopologySpread` and `InterPodAffinity` as scores: what the preferences of pods count, by domain.
//!
//! The selectors of a class are compared once with the kinds of running pods, and with the classes of pods that may be bound. From then on
//! the counts change by what is bound, and by the nodes whose pods leave.

use super::domains::{Domains, Included, Sum};
use super::kinds::{Kinds, workload};
use super::preference::Scoring;
use super::score::{INTER_POD_AFFINITY, normalize_affinity};
use super::spread::Spreads;
use crate::classes::{Class, Classes};
use crate::constraints::{covers, first_repelling};
use crate::problem::{ClusterFacts, ExistingNode};
use nodeless_model::pod::TopologySpread;
use nodeless_model::{Pod, labels};

/// The constraints that upstream gives pods without any: key and `maxSkew` (`systemDefaultConstraints`).
const DEFAULTS: [(&str, i32); 2] = [(labels::HOSTNAME, 3), (labels::ZONE, 5)];

/// What the preferences of all classes count.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    domains: Domains,
    /// The running pods, by node.
    running: Kinds<'a>,
    /// By node, the kinds of its running pods, and their number.
    at: Vec<Vec<(usize, i64)>>,
    /// By kind of running pods, the sums that count them.
    by_running: Vec<Vec<Count>>,
    /// The pods that may be bound, by class.
    classes: Kinds<'a>,
    /// By class, the sums that count its pods.
    by_class: Vec<Vec<Count>>,
    /// By class, as far as computed.
    preferred: Vec<Option<Preferred>>,
    /// By domain; zero between the uses.
    dense: Vec<i64>,
}

/// By how much a pod changes a sum of a class.
#[derive(Clone, Copy, Debug)]
struct Count {
    class: usize,
    sum: usize,
    weight: i64,
}

/// What the preferences of the pods of a class count.
#[derive(Debug, Default)]
struct Preferred {
    /// First the counts of the preferred spreads, then the sums of weights of affinity, one for each key.
    sums: Vec<Sum>,
    /// The `maxSkew` of each spread.
    max_skews: Vec<i32>,
    /// Whether nodes without one of the labels of the spreads get no score. False with the default constraints.
    needs_labels: bool,
}

/// The input of the counts.
#[derive(Clone, Copy)]
pub(super) struct CountedInput<'i, 'a> {
    pub(super) classes: &'i Classes<'a>,
    pub(super) nodes: &'i [ExistingNode],
    /// Nodes whose pods do not count.
    pub(super) closed: &'i [bool],
    pub(super) facts: &'i ClusterFacts<'a>,
}

impl Preferred {
    fn push(&mut self, key: usize, included: Included) -> usize {
        self.sums.push(Sum { key, counts: Vec::new(), included });
        self.sums.len() - 1
    }

    /// The sum of affinity over a key.
    fn affinity(&mut self, key: usize) -> usize {
        let spreads = self.max_skews.len();
        let known = self.sums[spreads..].iter().position(|sum| sum.key == key);
        known.map_or_else(|| self.push(key, Included::default()), |known| spreads + known)
    }
}

impl<'a> Counted<'a> {
    /// `running` are the pods of each node.
    pub(super) fn new(running: &[Vec<&'a Pod>], classes: &Classes<'a>) -> Self {
        let all = running.iter().enumerate().flat_map(|(node, pods)| pods.iter().map(move |pod| (node, *pod)));
        let kinds = Kinds::new(all.filter(|(_, pod)| pod.is_active()));
        let mut at = vec![Vec::new(); running.len()];
        for (id, kind) in kinds.list.iter().enumerate() {
            kind.at.iter().for_each(|(node, count)| at[*node].push((id, *count)));
        }
        let examples = classes.list.iter().enumerate().map(|(index, class)| (index, class.example));
        Self {
            domains: Domains::default(),
            by_running: vec![Vec::new(); kinds.list.len()],
            running: kinds,
            at,
            classes: Kinds::new(examples),
            by_class: vec![Vec::new(); classes.list.len()],
            preferred: classes.list.iter().map(|_| None).collect(),
            dense: Vec::new(),
        }
    }

    /// Computes what the preferences of a class count, if it is not known yet. Returns the work.
    pub(super) fn prepare(&mut self, index: usize, input: CountedInput<'_, 'a>) -> usize {
        if self.preferred[index].is_some() {
            return 0;
        }
        let class = &input.classes.list[index];
        let mut preferred = Preferred::default();
        let mut work = 1;
        // The pods of a class that is refused fit on no node.
        if class.refused.is_none() {
            let mut key = |name: &str| self.domains.key(name, input.nodes);
            let terms = Terms::new(class, &mut preferred, &mut key);
            for (kind, sum, weight) in terms.matching(&self.running, input.facts, &mut preferred, &mut key) {
                self.by_running[kind].push(Count { class: index, sum, weight });
                let of = &mut preferred.sums[sum];
                let included = of.included;
                let at = &self.running.list[kind].at;
                work += at.len();
                let open = at.iter().filter(|(node, _)| !input.closed[*node]);
                for (node, count) in open.filter(|(node, _)| includes(class, included, *node, input)) {
                    of.add(self.domains.by_node(of.key)[*node], weight * count);
                }
            }
            let mut key = |name: &str| self.domains.key(name, input.nodes);
            for (kind, sum, weight) in terms.matching(&self.classes, input.facts, &mut preferred, &mut key) {
                let of_kind = &self.classes.list[kind].at;
                work += of_kind.len();
                of_kind.iter().for_each(|(of, _)| self.by_class[*of].push(Count { class: index, sum, weight }));
            }
        }
        let end = preferred.sums.iter().map(|sum| self.domains.end(sum.key)).max().unwrap_or(0);
        self.dense.resize(self.dense.len().max(end), 0);
        self.preferred[index] = Some(preferred);
        work
    }

    /// Adds a node without pods.
    pub(super) fn add(&mut self, node: &ExistingNode) {
        self.domains.add(node);
        self.dense.resize(self.dense.len() + 1, 0);
        self.at.push(Vec::new());
    }

    /// Removes the nodes that were added last, so that `count` are left.
    pub(super) fn truncate(&mut self, count: usize) {
        self.domains.truncate(count);
        self.at.truncate(count);
    }

    /// Counts the running pods of a node, with a negative sign no longer.
    pub(super) fn change_node(&mut self, node: usize, sign: i64, input: CountedInput<'_, 'a>) {
        for (kind, pods) in &self.at[node] {
            for Count { class, sum, weight } in &self.by_running[*kind] {
                let Some(preferred) = &mut self.preferred[*class] else { continue };
                let of = &mut preferred.sums[*sum];
                if includes(&input.classes.list[*class], of.included, node, input) {
                    of.add(self.domains.by_node(of.key)[node], sign * weight * pods);
                }
            }
        }
    }

    /// Counts a pod of a class that is bound to a node, with a negative sign no longer. Returns the work.
    pub(super) fn change(&mut self, class: usize, node: usize, sign: i64) -> usize {
        for Count { class, sum, weight } in &self.by_class[class] {
            let Some(preferred) = &mut self.preferred[*class] else { continue };
            let of = &mut preferred.sums[*sum];
            of.add(self.domains.by_node(of.key)[node], sign * weight);
        }
        self.by_class[class].len()
    }

    /// Adds the scores of nodes for the pods of a class.
    pub(super) fn add_scores(&mut self, class: usize, nodes: &[usize], totals: &mut [i64]) {
        let Some(preferred) = &self.preferred[class] else { return };
        let (spreads, affinity) = preferred.sums.split_at(preferred.max_skews.len());
        if !spreads.is_empty() {
            let spreads = Spreads {
                sums: spreads,
                max_skews: &preferred.max_skews,
                needs_labels: preferred.needs_labels,
                domains: &self.domains,
            };
            spreads.add_scores(nodes, &mut self.dense, totals);
        }
        if affinity.iter().any(|sum| sum.counts.iter().any(|(_, sum)| *sum != 0)) {
            let mut near = vec![0_i64; nodes.len()];
            for sum in affinity {
                let domains = self.domains.by_node(sum.key);
                sum.counts.iter().for_each(|(domain, sum)| self.dense[*domain as usize] = *sum);
                near.iter_mut().zip(nodes).for_each(|(near, node)| *near += self.dense[domains[*node] as usize]);
                sum.counts.iter().for_each(|(domain, _)| self.dense[*domain as usize] = 0);
            }
            normalize_affinity(&mut near);
            totals.iter_mut().zip(near).for_each(|(total, score)| *total += INTER_POD_AFFINITY * score);
        }
    }
}

/// The preferences of a class.
struct Terms<'c, 'a> {
    pod: &'a Pod,
    /// The preferred spreads and their sums, without those whose selector is empty.
    spreads: Vec<(usize, &'c TopologySpread)>,
    /// The sums of the default spreads.
    defaults: Vec<usize>,
    affinity: Vec<Scoring>,
}

impl<'c, 'a: 'c> Terms<'c, 'a> {
    fn new(class: &Class<'a>, preferred: &mut Preferred, key: &mut impl FnMut(&str) -> usize) -> Self {
        let pod = class.example;
        let mut terms = Self { pod, spreads: Vec::new(), defaults: Vec::new(), affinity: Vec::new() };
        preferred.needs_labels = !pod.template.topology_spread.is_empty();
        for one in pod.template.topology_spread.iter().filter(|one| !one.hard) {
            let included = Included { admitting: one.honor_node_affinity, tolerated: one.honor_node_taints };
            let sum = preferred.push(key(&one.topology_key), included);
            preferred.max_skews.push(one.max_skew);
            if !is_empty(one) {
                terms.spreads.push((sum, one));
            }
        }
        if pod.template.topology_spread.is_empty() && workload(pod).is_some() {
            for (name, max_skew) in DEFAULTS {
                terms.defaults.push(preferred.push(key(name), Included { admitting: true, tolerated: false }));
                preferred.max_skews.push(max_skew);
            }
        }
        // On the node itself pods count whatever the node inclusion policies.
        let host = key(labels::HOSTNAME);
        preferred.sums.iter_mut().filter(|sum| sum.key == host).for_each(|sum| sum.included = Included::default());
        terms.affinity = Scoring::of_pod(pod);
        terms
    }

    /// The kinds that are counted: kind, sum and weight.
    fn matching(
        &self,
        kinds: &Kinds<'a>,
        facts: &ClusterFacts<'a>,
        preferred: &mut Preferred,
        key: &mut impl FnMut(&str) -> usize,
    ) -> Vec<(usize, usize, i64)> {
        let mut found = Vec::new();
        for (sum, one) in &self.spreads {
            let selectable = kinds.selectable(Some(&self.pod.namespace), one.selector.as_ref());
            let counted = selectable.filter(|kind| one.counts(self.pod, kinds.list[*kind].example));
            found.extend(counted.map(|kind| (kind, *sum, 1)));
        }
        if !self.defaults.is_empty()
            && let Some(own) = workload(self.pod)
        {
            let of_workload = kinds.of_workload(&own);
            found.extend(self.defaults.iter().flat_map(|sum| of_workload.iter().map(|kind| (*kind, *sum, 1))));
        }
        for Scoring { group, weight, .. } in self.affinity.iter().filter(|term| term.own) {
            for kind in kinds.selectable(None, group.selector.as_ref()) {
                if group.selects(facts, kinds.list[kind].example) {
                    found.push((kind, preferred.affinity(key(&group.key)), *weight));
                }
            }
        }
        for (kind, Scoring { group, weight, .. }) in kinds.scoring(self.pod) {
            if group.selects(facts, self.pod) {
                found.push((kind, preferred.affinity(key(&group.key)), *weight));
            }
        }
        found
    }
}

/// Whether the selector of a constraint is empty: upstream, such a constraint counts no pods when it scores.
fn is_empty(spread: &TopologySpread) -> bool {
    spread.selector.as_ref().is_none_or(|selector| {
        selector.match_labels.is_empty() && selector.match_expressions.is_empty() && spread.match_label_keys.is_empty()
    })
}

/// Whether the node inclusion policies of a spread count the pods of a node.
fn includes(class: &Class<'_>, included: Included, node: usize, input: CountedInput<'_, '_>) -> bool {
    let node = &input.nodes[node];
    let tolerated = || first_repelling(&node.taints, &class.example.template.tolerations, false).is_none();
    let admits = || {
        let mut required = class.levels.last().into_iter().flat_map(|level| &level.alternatives);
        required.any(|one| {
            let required = &input.classes.alternatives[*one].requirements;
            required.is_empty() || covers(&node.requirements, required)
        })
    };
    (!included.admitting || admits()) && (!included.tolerated || tolerated())
}
