//! How far running pods are from what their topology spread over zones allows.
//!
//! The kube-scheduler evaluates a spread when it binds a pod and never again, and one with `ScheduleAnyway` only as a score. So pods
//! become uneven over zones when others end. [`ZoneSpreads`] counts them as a plan does: by the selector of the spread with its
//! `matchLabelKeys`, on the nodes that `nodeAffinityPolicy` and `nodeTaintsPolicy` include, with `minDomains`, over the zones that have
//! such a node or in which a NodePool can launch one.

use crate::constraints::groups::{Groups, Kind, NodeFilter};
use crate::engine::Prepared;
use crate::problem::{BoundPods, ClusterFacts, ExistingNode, PoolOffer, Problem, excess};
use crate::topology::{counts, counts_node, offered_domains};
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::{Pod, Requirement, Requirements, labels};
use std::collections::{BTreeMap, BTreeSet};

/// The index of a constraint in [`ZoneSpreads`].
pub type ZoneSpreadId = usize;

/// The topology spread constraints over zones of some pods, required and preferred, and the pods that they count.
pub struct ZoneSpreads<'a> {
    groups: Groups<'a>,
    /// By group, its place in `list`.
    of_group: Vec<Option<ZoneSpreadId>>,
    list: Vec<ZoneSpread<'a>>,
    /// The names of the zones. The first stands for nodes without a zone.
    zones: Vec<String>,
    /// By namespace and name, the zone of each pod that a constraint counts, and the labels and taints of its node.
    at: HashMap<(&'a str, &'a str), usize>,
    running: Vec<BoundPods<'a>>,
}

struct ZoneSpread<'a> {
    filter: NodeFilter,
    max_skew: i64,
    min_domains: usize,
    /// The first pod with this constraint, by name.
    owner: &'a Pod,
    /// By zone, whether it counts.
    domains: Vec<bool>,
    counts: Vec<i64>,
    /// Whether none of the counted pods waits for a node or leaves one.
    quiescent: bool,
}

/// How far the pods that a constraint counts are from what it allows; zero where it is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Imbalance {
    /// The number of pods that are in a zone beyond `maxSkew` more than the zone with the fewest.
    pub pods_above: i64,
    /// By how much the difference between the fullest and the emptiest zone is above `maxSkew`.
    pub skew_above: i64,
}

/// Moves of pods, as changes of the counts by constraint and zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneChanges(BTreeMap<ZoneSpreadId, Vec<i64>>);

impl Prepared<'_> {
    /// The constraints of `owners`, which run on some of the `running` nodes. Zones count in which one of `offers` launches nodes.
    /// `moving` are pods that wait for a node, or whose node is going to end. Pods with too many constraints are left out, as in
    /// plans.
    pub fn zone_spreads<'a>(
        &mut self,
        owners: impl IntoIterator<Item = &'a Pod>,
        running: Vec<BoundPods<'a>>,
        moving: &[&'a Pod],
        offers: &[PoolOffer<'_>],
        facts: ClusterFacts<'a>,
    ) -> ZoneSpreads<'a> {
        let mut owners: Vec<&'a Pod> = owners
            .into_iter()
            .filter(|pod| pod.is_active() && has_zone_spread(pod) && excess::excess(pod).is_none())
            .collect();
        owners.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let problem = Problem { pods: owners, facts, ..Problem::default() };
        let groups = Groups::new(&problem, true);
        let mut zones: BTreeSet<String> = running.iter().filter_map(zone_of).map(str::to_owned).collect();
        let launching: HashSet<&str> = offers.iter().map(|offer| offer.pool.name.as_str()).collect();
        let (mut pools, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pools).into_iter().partition(|pool| launching.contains(pool.pool.name.as_str()));
        zones.extend(pools.iter_mut().flat_map(|pool| pool.values_of(labels::ZONE).clone()));
        let zones: Vec<String> = std::iter::once(String::new()).chain(zones).collect();
        let mut spreads = ZoneSpreads {
            of_group: vec![None; groups.list.len()],
            groups,
            list: Vec::new(),
            zones,
            at: HashMap::default(),
            running,
        };
        for (index, pod) in problem.pods.iter().enumerate() {
            let owned = spreads.groups.owned[spreads.groups.relations[index].owned].clone();
            for group in owned.iter().copied() {
                let of = &spreads.groups.list[group];
                let Kind::Spread { max_skew, min_domains } = of.kind else { continue };
                if of.key != labels::ZONE || spreads.of_group[group].is_some() {
                    continue;
                }
                let domains = offered_domains::offered(of, &spreads.zones, &mut pools);
                spreads.of_group[group] = Some(spreads.list.len());
                spreads.list.push(ZoneSpread {
                    filter: of.filter.clone(),
                    max_skew: i64::from(max_skew),
                    min_domains: usize::try_from(min_domains).unwrap_or(usize::MAX),
                    owner: pod,
                    counts: vec![0; domains.len()],
                    domains,
                    quiescent: true,
                });
            }
        }
        pools.extend(others);
        self.keep(pools);
        spreads.count();
        for pod in moving {
            for spread in spreads.selecting(pod) {
                spreads.list[spread].quiescent = false;
            }
        }
        spreads
    }
}

fn has_zone_spread(pod: &Pod) -> bool {
    pod.template.topology_spread.iter().any(|spread| labels::normalize(&spread.topology_key) == labels::ZONE)
}

fn zone_of<'n>(node: &'n BoundPods<'_>) -> Option<&'n str> {
    labels::value(node.labels, labels::ZONE).map(String::as_str)
}

impl<'a> ZoneSpreads<'a> {
    fn count(&mut self) {
        let running = std::mem::take(&mut self.running);
        for (number, node) in running.iter().enumerate() {
            let Some(zone) = zone_of(node).and_then(|zone| self.place(zone)) else { continue };
            let counted: Vec<bool> = self.list.iter().map(|spread| counts_node(&spread.filter, node)).collect();
            for (spread, counted) in self.list.iter_mut().zip(&counted) {
                spread.domains[zone] |= counted;
            }
            for pod in node.pods.iter().copied().filter(|pod| pod.is_active()) {
                let selecting = self.selecting(pod);
                for spread in selecting.iter().filter(|spread| counted[**spread]) {
                    self.list[*spread].counts[zone] += 1;
                }
                if !selecting.is_empty() {
                    self.at.insert((&pod.namespace, &pod.name), number);
                }
            }
        }
        self.running = running;
    }

    fn place(&self, zone: &str) -> Option<usize> {
        self.zones.iter().position(|known| known == zone)
    }

    /// The constraints that count a pod.
    pub fn selecting(&mut self, pod: &'a Pod) -> Vec<ZoneSpreadId> {
        if self.list.is_empty() {
            return Vec::new();
        }
        let signature = self.groups.signature(pod);
        self.groups.selected[signature].iter().filter_map(|group| self.of_group[*group]).collect()
    }

    /// All constraints.
    pub fn all(&self) -> impl Iterator<Item = ZoneSpreadId> + use<> {
        0..self.list.len()
    }

    /// The first pod with a constraint, by name.
    #[must_use]
    pub fn owner(&self, spread: ZoneSpreadId) -> &'a Pod {
        self.list[spread].owner
    }

    /// Whether none of the pods that a constraint counts waits for a node or leaves one.
    #[must_use]
    pub fn is_quiescent(&self, spread: ZoneSpreadId) -> bool {
        self.list[spread].quiescent
    }

    /// Moves a running pod to a node. A second move of the same pod is one from its present node too.
    pub fn move_pod(&mut self, changes: &mut ZoneChanges, pod: &'a Pod, to: &ExistingNode) {
        self.leave(changes, pod);
        self.join(changes, pod, to, 1);
    }

    /// Reverts a move of [`Self::move_pod`].
    pub fn move_back(&mut self, changes: &mut ZoneChanges, pod: &'a Pod, from: &ExistingNode) {
        self.join(changes, pod, from, -1);
        self.add_present(changes, pod, 1);
    }

    fn leave(&mut self, changes: &mut ZoneChanges, pod: &'a Pod) {
        self.add_present(changes, pod, -1);
    }

    fn add_present(&mut self, changes: &mut ZoneChanges, pod: &'a Pod, count: i64) {
        let Some(&number) = self.at.get(&(pod.namespace.as_str(), pod.name.as_str())) else { return };
        let Some(zone) = zone_of(&self.running[number]).and_then(|zone| self.place(zone)) else { return };
        for spread in self.selecting(pod) {
            if counts_node(&self.list[spread].filter, &self.running[number]) {
                changes.add(spread, zone, self.zones.len(), count);
            }
        }
    }

    fn join(&mut self, changes: &mut ZoneChanges, pod: &'a Pod, to: &ExistingNode, count: i64) {
        let zone = to.requirements.get(labels::ZONE).and_then(Requirement::single);
        let Some(zone) = zone.and_then(|zone| self.place(zone)) else { return };
        for spread in self.selecting(pod) {
            if self.counts_on(spread, &to.requirements, to) {
                changes.add(spread, zone, self.zones.len(), count);
            }
        }
    }

    fn counts_on(&self, spread: ZoneSpreadId, labels: &Requirements, node: &ExistingNode) -> bool {
        let filter = &self.list[spread].filter;
        filter.is_trivial() || counts(filter, labels, &node.taints)
    }

    /// The imbalance of a constraint after moves.
    #[must_use]
    pub fn imbalance(&self, spread: ZoneSpreadId, changes: &ZoneChanges) -> Imbalance {
        let above: Vec<i64> = self.above_by_zone(spread, changes).into_iter().map(|(_, above)| above).collect();
        Imbalance { pods_above: above.iter().sum(), skew_above: above.into_iter().max().unwrap_or(0) }
    }

    /// The number of pods that a constraint counts in each of its zones, after moves.
    pub fn counts<'s>(
        &'s self,
        spread: ZoneSpreadId,
        changes: &'s ZoneChanges,
    ) -> impl Iterator<Item = (&'s str, i64)> + use<'s, 'a> {
        let of = &self.list[spread];
        let changed = changes.0.get(&spread);
        let change = move |zone: usize| changed.map_or(0, |changed| changed[zone]);
        let zones = self.zones.iter().enumerate().filter(|(zone, _)| of.domains[*zone]);
        zones.map(move |(zone, name)| (name.as_str(), of.counts[zone] + change(zone)))
    }

    /// By how many pods each zone is above what a constraint allows, after moves.
    fn above_by_zone<'s>(&'s self, spread: ZoneSpreadId, changes: &'s ZoneChanges) -> Vec<(&'s str, i64)> {
        let of = &self.list[spread];
        let counts: Vec<(&str, i64)> = self.counts(spread, changes).collect();
        let fewest = counts.iter().map(|(_, count)| *count).min().unwrap_or(0);
        let least = if counts.len() < of.min_domains { 0 } else { fewest };
        counts.into_iter().map(|(zone, count)| (zone, (count - least - of.max_skew).max(0))).collect()
    }

    /// The first constraint that moves make worse.
    #[must_use]
    pub fn first_worse(&self, changes: &ZoneChanges) -> Option<ZoneSpreadId> {
        let none = ZoneChanges::default();
        changes.0.keys().copied().find(|spread| {
            let (before, after) = (self.imbalance(*spread, &none), self.imbalance(*spread, changes));
            after.pods_above > before.pods_above || after.skew_above > before.skew_above
        })
    }

    /// By how many pods moves lower the imbalance of a constraint.
    #[must_use]
    pub fn gain(&self, spread: ZoneSpreadId, changes: &ZoneChanges) -> i64 {
        self.imbalance(spread, &ZoneChanges::default()).pods_above - self.imbalance(spread, changes).pods_above
    }

    /// The constraints with pods that moves affect.
    pub fn changed<'c>(&self, changes: &'c ZoneChanges) -> impl Iterator<Item = ZoneSpreadId> + use<'c> {
        changes.0.keys().copied()
    }

    /// The quiescent constraints of which a running pod is in a zone with more pods than they allow.
    pub fn above(&mut self, pod: &'a Pod) -> Vec<ZoneSpreadId> {
        let Some(&number) = self.at.get(&(pod.namespace.as_str(), pod.name.as_str())) else { return Vec::new() };
        let Some(zone) = zone_of(&self.running[number]).map(str::to_owned) else { return Vec::new() };
        let none = ZoneChanges::default();
        let mut found = self.selecting(pod);
        found.retain(|spread| {
            let of = &self.list[*spread];
            of.quiescent
                && counts_node(&of.filter, &self.running[number])
                && self.above_by_zone(*spread, &none).iter().any(|(name, above)| *name == zone && *above > 0)
        });
        found
    }
}

impl ZoneChanges {
    fn add(&mut self, spread: ZoneSpreadId, zone: usize, zones: usize, count: i64) {
        self.0.entry(spread).or_insert_with(|| vec![0; zones])[zone] += count;
    }
}
