//! The policy `Balanced`: whether savings justify the disruption.

use crate::cluster::Cluster;
use crate::consolidation::Candidate;
use crate::pods;
use crate::reasons::KeptReason;
use nodeless_model::{ConsolidationPolicy, NodePool};
use std::collections::BTreeMap;

/// The minimum score.
pub(crate) const MIN_SCORE: f64 = 0.5;

/// The price of the nodes of every NodePool, and the cost of moving all their pods.
#[derive(Debug, Default)]
pub(crate) struct Totals(BTreeMap<String, Total>);

#[derive(Debug)]
struct Total {
    price: f64,
    disruption: f64,
}

impl Totals {
    /// `price` returns the price of a node by its index in the cluster.
    pub(crate) fn new(cluster: &Cluster<'_>, price: impl Fn(usize) -> f64) -> Self {
        let mut nodes: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for (place, node) in cluster.nodes.iter().enumerate() {
            let claim = node.claim.filter(|_| node.node.is_some());
            let Some(pool) = claim.and_then(|claim| claim.node_pool.as_deref()) else { continue };
            nodes.entry(pool).or_default().push((price(place), pods::reschedule_cost(&node.pods)));
        }
        let total = |mut nodes: Vec<(f64, f64)>| {
            // So that the sums do not depend on the order of the list, not even in their last digits.
            nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            Total {
                price: nodes.iter().map(|(price, _)| price).sum(),
                disruption: nodes.iter().map(|(_, disruption)| disruption).sum(),
            }
        };
        Self(nodes.into_iter().map(|(pool, nodes)| (pool.to_owned(), total(nodes))).collect())
    }

    /// The minimum score of a command over the NodePools of its nodes; `None` if a total is unknown. The savings count for each
    /// NodePool by its fraction of the price of the removed nodes.
    pub(crate) fn score(&self, candidates: &[&Candidate<'_, '_>], savings: f64) -> Option<f64> {
        let scores = self.scores(candidates, savings)?;
        scores.into_iter().map(|(_, score)| score).min_by(f64::total_cmp)
    }

    fn scores<'c>(&self, candidates: &[&'c Candidate<'_, '_>], savings: f64) -> Option<Vec<(&'c NodePool, f64)>> {
        let removed: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        let mut pools: BTreeMap<&str, (&NodePool, f64, f64)> = BTreeMap::new();
        for candidate in candidates {
            let pool = candidate.one.offer.pool;
            let of_pool = pools.entry(&pool.name).or_insert((pool, 0.0, 0.0));
            of_pool.1 += candidate.price;
            of_pool.2 += candidate.cost;
        }
        let one = |(pool, price, disruption): (&'c NodePool, f64, f64)| {
            let total = self.0.get(&pool.name)?;
            if total.price <= 0.0 || total.disruption <= 0.0 || removed <= 0.0 {
                return None;
            }
            let saved = savings * price / removed / total.price;
            let disturbed = disruption / total.disruption;
            let score = if saved <= 0.0 {
                0.0
            } else if disturbed <= 0.0 {
                f64::INFINITY
            } else {
                saved / disturbed
            };
            Some((pool, score))
        };
        pools.into_values().map(one).collect()
    }

    /// Whether every NodePool with the policy `Balanced` approves of a command.
    pub(crate) fn approve(&self, candidates: &[&Candidate<'_, '_>], savings: f64) -> Result<(), KeptReason> {
        let balanced = |pool: &NodePool| pool.disruption.consolidation_policy == ConsolidationPolicy::Balanced;
        let Some(first) = candidates.iter().map(|one| one.one.offer.pool).find(|pool| balanced(pool)) else {
            return Ok(());
        };
        let refused = |node_pool: &str, score| Err(KeptReason::Balanced { node_pool: node_pool.to_owned(), score });
        let Some(scores) = self.scores(candidates, savings) else { return refused(&first.name, 0.0) };
        match scores.into_iter().find(|(pool, score)| balanced(pool) && *score < MIN_SCORE) {
            Some((pool, score)) => refused(&pool.name, score),
            None => Ok(()),
        }
    }
}
