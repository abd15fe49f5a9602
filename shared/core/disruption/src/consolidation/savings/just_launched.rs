//! Nodes that have just been launched, and the pods that they were launched for.
//!
//! Every plan is refined before it is executed, but pods that depend on the placement of others stay as planned, a large workload is
//! created over several plans, and the kube-scheduler binds some pods to other nodes of the plan. So consolidation may find small savings
//! on nodes that are minutes old. Moving pods that have just started is only justified if it saves a tenth of the price of the launches,
//! as for any group of nodes.

use crate::cluster::ClusterNode;
use crate::consolidation::Candidate;
use crate::reasons::KeptReason;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::hashed::HashSet;
use nodeless_model::{NodeClaim, Pod};
use std::collections::BTreeMap;

/// The time for which nodes count as just launched.
const JUST_LAUNCHED: SignedDuration = SignedDuration::from_hours(1);

/// The minimum savings, as a fraction of the price of all just launched nodes of the NodePool.
const MIN_SAVING_SHARE: f64 = 0.1;

/// The just launched nodes: they are young, and the pods that they were launched for run on such nodes of the same NodePool.
#[derive(Debug, Default)]
pub(crate) struct JustLaunched {
    /// The total hourly price of those of each NodePool, in dollars.
    prices: BTreeMap<String, f64>,
    /// Until when each of them counts, by the name of the claim.
    until: BTreeMap<String, Timestamp>,
}

impl JustLaunched {
    /// `nodes` have their prices. Pending pods count like those that run: they are yet to be bound.
    pub(crate) fn new<'n, 'a: 'n>(
        nodes: impl Iterator<Item = (&'n ClusterNode<'a>, f64)>,
        pending: &[&Pod],
        now: Timestamp,
    ) -> Self {
        let pending: HashSet<String> = pending.iter().map(|pod| pod.key()).collect();
        let young: Vec<_> = nodes.filter_map(|(node, price)| Some((node, young(node, now)?, price))).collect();
        let mut running: BTreeMap<&str, HashSet<String>> = BTreeMap::new();
        for (node, (_, pool, _), _) in &young {
            let pods = node.pods.iter().filter(|pod| pod.is_active()).map(|pod| pod.key());
            running.entry(pool).or_default().extend(pods);
        }
        let mut all = Self::default();
        for (_, (claim, pool, until), price) in young {
            let here = running.get(pool);
            let is_here = |pod: &String| pending.contains(pod) || here.is_some_and(|here| here.contains(pod));
            if claim.spec.nominated_pods.iter().all(is_here) {
                *all.prices.entry(pool.to_owned()).or_default() += price;
                all.until.insert(claim.name.clone(), until);
            }
        }
        all
    }

    /// Whether the savings justify the removal of these nodes.
    pub(crate) fn approve(&self, candidates: &[&Candidate<'_, '_>], saving: f64) -> Result<(), KeptReason> {
        for one in candidates {
            let claim = one.one.claim;
            let of_pool = self.prices.get(&one.one.offer.pool.name);
            let (Some(until), Some(launched)) = (self.until.get(&claim.name), of_pool) else { continue };
            let min_saving = launched * MIN_SAVING_SHARE;
            if saving < min_saving {
                return Err(KeptReason::JustLaunched { saving, min_saving, until: *until });
            }
        }
        Ok(())
    }
}

/// The claim of a node that was launched for pods within [`JUST_LAUNCHED`], its NodePool, and when that time ends.
fn young<'a>(node: &ClusterNode<'a>, now: Timestamp) -> Option<(&'a NodeClaim, &'a str, Timestamp)> {
    let claim = node.claim.filter(|claim| !claim.spec.nominated_pods.is_empty())?;
    let until = claim.created.saturating_add(JUST_LAUNCHED).ok()?;
    (until > now).then_some((claim, claim.node_pool.as_deref()?, until))
}
