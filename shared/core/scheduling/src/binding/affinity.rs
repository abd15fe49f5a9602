//! `InterPodAffinity` as a score: the preferences of the pod for pods on a node and in its domains, and those of pods there for it.

use super::Counts;
use super::domains::Domains;
use super::kinds::Kinds;
use super::preference::Scoring;
use crate::classes::Class;
use crate::problem::ClusterFacts;
use std::rc::Rc;

/// The scores of nodes for the pods of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Affinity {
    /// By topology key, the sum of weights by domain.
    sums: Vec<(usize, Counts)>,
    /// By class, what a bound pod of it adds in its domain of a key.
    adds: Rc<[Vec<(usize, i64)>]>,
}

impl Affinity {
    /// The scores by the running pods for the class with this index; `closed` are nodes whose pods do not count.
    pub(super) fn of<'a>(
        index: usize,
        all: &[(&Class<'a>, Vec<Scoring>)],
        kinds: &Kinds<'a>,
        facts: &ClusterFacts<'a>,
        (domains, closed, work): (&mut Domains<'_>, &[bool], &mut usize),
    ) -> Self {
        let mut affinity = Self::default();
        let (class, terms) = &all[index];
        for Scoring { group, weight, .. } in terms.iter().filter(|term| term.own) {
            let key = domains.key(&group.key);
            for kind in kinds.selectable(None, group.selector.as_ref()).iter() {
                *work += 1;
                if group.selects(facts, kind.example) {
                    affinity.count(key, *weight, &kind.at, (domains, closed, work));
                }
            }
        }
        for (kind, Scoring { group, weight, .. }) in kinds.scoring(class.example) {
            *work += 1;
            if group.selects(facts, class.example) {
                let key = domains.key(&group.key);
                affinity.count(key, *weight, &kind.at, (domains, closed, work));
            }
        }
        affinity.adds = all.iter().map(|other| added(&all[index], other, facts, domains)).collect();
        *work += all.len();
        affinity
    }

    fn count(
        &mut self,
        key: usize,
        weight: i64,
        at: &[(usize, i64)],
        (domains, closed, work): (&Domains<'_>, &[bool], &mut usize),
    ) {
        *work += at.len();
        for (node, count) in at.iter().filter(|(node, _)| !closed[*node]) {
            self.add(key, domains.of(key, *node), weight * count);
        }
    }

    fn add(&mut self, key: usize, domain: u32, weight: i64) {
        if domain == Domains::ABSENT {
            return;
        }
        let place = self.sums.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            self.sums.push((key, Counts::new()));
            self.sums.len() - 1
        });
        *self.sums[place].1.entry(domain).or_default() += weight;
    }

    /// Counts a pod of a class that was bound to a node.
    pub(super) fn bound(&mut self, class: usize, node: usize, domains: &Domains<'_>) {
        let adds = Rc::clone(&self.adds);
        for (key, weight) in adds.get(class).into_iter().flatten() {
            self.add(*key, domains.of(*key, node), *weight);
        }
    }

    /// The score of a node, not normalized; `None` if no term applies to any node.
    pub(super) fn score(&self, node: usize, domains: &Domains<'_>) -> Option<i64> {
        let one = |(key, sums): &(usize, Counts)| sums.get(&domains.of(*key, node)).copied().unwrap_or(0);
        (!self.sums.is_empty()).then(|| self.sums.iter().map(one).sum())
    }
}

/// The score that a bound pod of another class adds to its domains for the pods of a class.
fn added<'a>(
    (class, terms): &(&Class<'a>, Vec<Scoring>),
    (other, of_other): &(&Class<'a>, Vec<Scoring>),
    facts: &ClusterFacts<'a>,
    domains: &mut Domains<'_>,
) -> Vec<(usize, i64)> {
    let mut found = Vec::new();
    let own = terms.iter().filter(|term| term.own).map(|term| (term, other.example));
    for (Scoring { group, weight, .. }, selected) in own.chain(of_other.iter().map(|term| (term, class.example))) {
        if group.selects(facts, selected) {
            found.push((domains.key(&group.key), *weight));
        }
    }
    found
}
