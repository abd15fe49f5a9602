//! `PodTopologySpread` of nodes as scores.

use super::domains::{Domains, Sum};
use super::score::{MAX, POD_TOPOLOGY_SPREAD, normalize_spread, spread_score, spread_weight};

/// Keys with at most this number of domains have a table of scores, because each domain has many nodes.
const FEW_DOMAINS: usize = 32;

/// The preferred spreads of a class.
pub(super) struct Spreads<'s> {
    /// By spread.
    pub(super) sums: &'s [Sum],
    /// By spread.
    pub(super) max_skews: &'s [i32],
    /// Whether nodes without one of the labels of the spreads get no score. False with the default constraints.
    pub(super) needs_labels: bool,
    pub(super) domains: &'s Domains,
}

/// Spreads of which at most one is over the host name and at most one over another key, with few domains: most nodes of a domain of the
/// latter have the same score.
struct Simple {
    host: Option<usize>,
    other: Option<usize>,
}

/// What the pods of a class score on nodes by [`Simple`] spreads.
struct Summed {
    /// By domain of the other key, the sum on nodes whose host counts no pods.
    plain: [i64; FEW_DOMAINS],
    /// The domains with such nodes, as bits.
    domains: u32,
    /// The places of the other nodes, and their sums.
    special: Vec<(usize, i64)>,
}

impl Spreads<'_> {
    /// Adds the scores of nodes. `dense` has a place for each domain; it is zero before and afterwards.
    pub(super) fn add_scores(&self, nodes: &[usize], dense: &mut [i64], totals: &mut [i64]) {
        match self.simple() {
            Some(simple) => self.add_simple(&simple, nodes, dense, totals),
            None => {
                let scores = self.scores(nodes, dense);
                totals.iter_mut().zip(scores).for_each(|(total, score)| *total += POD_TOPOLOGY_SPREAD * score);
            }
        }
    }

    fn simple(&self) -> Option<Simple> {
        let mut simple = Simple { host: None, other: None };
        for (spread, sum) in self.sums.iter().enumerate() {
            if self.needs_labels && self.domains.is_lacking(sum.key) {
                return None;
            }
            let of_key = if self.domains.is_host(sum.key) {
                &mut simple.host
            } else if self.domains.end(sum.key) <= FEW_DOMAINS {
                &mut simple.other
            } else {
                return None;
            };
            if of_key.replace(spread).is_some() {
                return None;
            }
        }
        Some(simple)
    }

    fn add_simple(&self, simple: &Simple, nodes: &[usize], dense: &mut [i64], totals: &mut [i64]) {
        let domain = self.domain_of(simple);
        let Summed { plain, domains, special } = self.summed(simple, nodes, dense);
        let sums = || {
            let plain = (0..FEW_DOMAINS).filter(|domain| domains & (1 << domain) != 0).map(|domain| plain[domain]);
            plain.chain(special.iter().map(|(_, sum)| *sum))
        };
        let (least, greatest) = (sums().min().unwrap_or(0), sums().max().unwrap_or(0));
        let score = |sum: i64| {
            POD_TOPOLOGY_SPREAD * if greatest == 0 { MAX } else { MAX * (greatest + least - sum) / greatest }
        };
        let scores = plain.map(score);
        totals.iter_mut().zip(nodes).for_each(|(total, node)| *total += scores[domain(*node)]);
        for (place, sum) in special {
            totals[place] += score(sum) - scores[domain(nodes[place])];
        }
    }

    /// The domain of a node of the key other than the host name.
    fn domain_of(&self, simple: &Simple) -> impl Fn(usize) -> usize {
        let of = simple.other.map(|spread| self.domains.by_node(self.sums[spread].key));
        move |node| of.map_or(0, |of| of[node] as usize)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a small score, as upstream computes it")]
    fn summed(&self, simple: &Simple, nodes: &[usize], dense: &mut [i64]) -> Summed {
        let domain = self.domain_of(simple);
        let (mut all, mut domains, mut special) = (0_u32, 0_u32, Vec::new());
        let host = simple.host.map(|spread| &self.sums[spread]);
        let hosts = host.map_or(&[][..], |sum| self.domains.by_node(sum.key));
        if let Some(host) = host {
            host.counts.iter().for_each(|(domain, count)| dense[*domain as usize] = *count);
            // A node without the name of its host is none of those that count no pods.
            dense[Domains::ABSENT as usize] = 1;
            for (place, node) in nodes.iter().enumerate() {
                let bit = 1 << domain(*node);
                all |= bit;
                match dense[hosts[*node] as usize] {
                    0 => domains |= bit,
                    count => special.push((place, count)),
                }
            }
            host.counts.iter().for_each(|(domain, _)| dense[*domain as usize] = 0);
            dense[Domains::ABSENT as usize] = 0;
        } else {
            all = nodes.iter().fold(0, |all, node| all | 1 << domain(*node));
            domains = all;
        }
        let weight = spread_weight(nodes.len());
        let of_host = |count: i64, spread: usize| spread_score(count, self.max_skews[spread], weight);
        let table = simple.other.map(|spread| self.table(spread, all.count_ones() as usize));
        // Of two numbers, so their order does not matter.
        let sum = |domain: usize, of_host: Option<f64>| {
            let of_other = table.as_ref().map_or(0.0, |table| table[domain]);
            let of_host = of_host.unwrap_or(0.0);
            // Rounded: sums are not negative.
            (of_host + of_other + 0.5) as i64
        };
        let empty = simple.host.map(|spread| of_host(0, spread));
        let plain = std::array::from_fn(|domain| if domains & (1 << domain) == 0 { 0 } else { sum(domain, empty) });
        for (place, count) in &mut special {
            let node = nodes[*place];
            let is_known = hosts[node] != Domains::ABSENT;
            *count = sum(domain(node), simple.host.filter(|_| is_known).map(|spread| of_host(*count, spread)));
        }
        Summed { plain, domains, special }
    }

    /// By domain, what a spread over a key with few domains adds.
    fn table(&self, spread: usize, known: usize) -> [f64; FEW_DOMAINS] {
        let (max_skew, weight) = (self.max_skews[spread], spread_weight(known));
        let mut table = [spread_score(0, max_skew, weight); FEW_DOMAINS];
        for (domain, count) in &self.sums[spread].counts {
            table[*domain as usize] = spread_score(*count, max_skew, weight);
        }
        table[Domains::ABSENT as usize] = 0.0;
        table
    }

    /// The scores of nodes, by any spreads.
    #[expect(clippy::cast_possible_truncation, reason = "a small score, as upstream computes it")]
    fn scores(&self, nodes: &[usize], dense: &mut [i64]) -> Vec<i64> {
        let domains = self.domains;
        let lacks = |node: usize| self.sums.iter().any(|sum| domains.by_node(sum.key)[node] == Domains::ABSENT);
        let lacking: Vec<bool> =
            if self.needs_labels { nodes.iter().map(|node| lacks(*node)).collect() } else { Vec::new() };
        let is_lacking = |place: usize| lacking.get(place).copied().unwrap_or(false);
        let scored = nodes.len() - lacking.iter().filter(|lacking| **lacking).count();
        let mut sums = vec![0.0_f64; nodes.len()];
        for (sum, max_skew) in self.sums.iter().zip(self.max_skews) {
            let of = domains.by_node(sum.key);
            let known = if domains.is_host(sum.key) {
                scored
            } else {
                let all = nodes.iter().enumerate().filter(|(place, _)| !is_lacking(*place)).map(|(_, node)| of[*node]);
                distinct(all, domains.end(sum.key), dense)
            };
            let weight = spread_weight(known);
            let score = |count: i64| spread_score(count, *max_skew, weight);
            sum.counts.iter().for_each(|(domain, count)| dense[*domain as usize] = *count);
            if domains.end(sum.key) <= FEW_DOMAINS {
                let mut table: Vec<f64> = dense[..domains.end(sum.key)].iter().map(|count| score(*count)).collect();
                table[Domains::ABSENT as usize] = 0.0;
                sums.iter_mut().zip(nodes).for_each(|(sum, node)| *sum += table[of[*node] as usize]);
            } else {
                let none = score(0);
                for (sum, node) in sums.iter_mut().zip(nodes) {
                    let count = dense[of[*node] as usize];
                    if of[*node] != Domains::ABSENT {
                        *sum += if count == 0 { none } else { score(count) };
                    }
                }
            }
            sum.counts.iter().for_each(|(domain, _)| dense[*domain as usize] = 0);
        }
        // Rounded: sums are not negative.
        let raw = |(place, sum): (usize, &f64)| (!is_lacking(place)).then_some((*sum + 0.5) as i64);
        normalize_spread(&sums.iter().enumerate().map(raw).collect::<Vec<_>>())
    }
}

/// The number of different domains; all of them are below `end`. `seen` is zero before and afterwards.
fn distinct(domains: impl Iterator<Item = u32> + Clone, end: usize, seen: &mut [i64]) -> usize {
    if end <= FEW_DOMAINS {
        return domains.fold(0_u32, |known, domain| known | (1 << domain)).count_ones() as usize;
    }
    let mut count = 0;
    for domain in domains.clone() {
        count += usize::from(seen[domain as usize] == 0);
        seen[domain as usize] = 1;
    }
    domains.for_each(|domain| seen[domain as usize] = 0);
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::ExistingNode;
    use nodeless_model::{Requirement, labels};

    fn node(index: usize, zones: usize, lacks: bool) -> ExistingNode {
        let mut node = ExistingNode::default();
        let mut label = |key: &str, value: String| {
            node.requirements.add(key, Requirement::one_of([value]));
        };
        if !lacks || !index.is_multiple_of(7) {
            label(labels::HOSTNAME, format!("node-{index}"));
        }
        if !lacks || !index.is_multiple_of(5) {
            label(labels::ZONE, format!("zone-{}", index % zones));
        }
        node
    }

    #[test]
    fn simple_spreads_score_as_all_others() {
        for case in 0..600_usize {
            let (count, zones, lacks) = (1 + case % 50, 1 + case % 4, case % 3 == 0);
            let all: Vec<ExistingNode> = (0..count).map(|index| node(index, zones, lacks)).collect();
            let mut domains = Domains::default();
            let keys = [labels::HOSTNAME, labels::ZONE].map(|key| domains.key(key, &all));
            let sum = |key: usize| {
                let of = (1..domains.end(key)).filter(|domain| (domain * 31 + case) % 5 < 2);
                let counts = of.map(|domain| (domain as u32, ((domain * 17 + case) % 4) as i64)).collect();
                Sum { key, counts, ..Sum::default() }
            };
            let mut sums: Vec<Sum> = keys.into_iter().map(sum).collect();
            match case % 4 {
                0 => sums.reverse(),
                1 => sums.truncate(1),
                2 => drop(sums.remove(0)),
                _ => {}
            }
            let spreads =
                Spreads { sums: &sums, max_skews: &[3, 5][..sums.len()], needs_labels: false, domains: &domains };
            let nodes: Vec<usize> = (0..count).filter(|node| (node + case) % 4 != 0).collect();
            if nodes.is_empty() {
                continue;
            }
            let mut dense = vec![0; count + 1];
            let expected = spreads.scores(&nodes, &mut dense);
            let mut totals = vec![0; nodes.len()];
            spreads.add_simple(&spreads.simple().unwrap(), &nodes, &mut dense, &mut totals);
            assert_eq!(totals, expected.iter().map(|score| POD_TOPOLOGY_SPREAD * score).collect::<Vec<_>>(), "{case}");
            assert!(dense.iter().all(|count| *count == 0));
        }
    }
}
