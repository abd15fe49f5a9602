//! Checks for unfinished work, which a quiescent cluster must not have.

use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{NodeClaim, Phase, ResourceList, labels};
use nodeless_state::plans::StoredCommand;
use std::collections::{BTreeMap, BTreeSet};

/// The rounding of the price of one claim in the table, in dollars per hour.
const ROUNDING: f64 = 1e-6;

/// The claims table and the cluster at one time.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// All claims.
    pub claims: Vec<NodeClaim>,
    /// All commands.
    pub commands: Vec<StoredCommand>,
    /// The usage of each NodePool.
    pub usage: BTreeMap<String, PoolUsage>,
    /// The names of the NodeClaim objects.
    pub node_claims: BTreeSet<String>,
    /// The names of the nodes that have the taint of nodes that are disrupted.
    pub tainted_nodes: BTreeSet<String>,
    /// The names of the Deployments whose replicas are raised for a drain.
    pub raised_deployments: BTreeSet<String>,
}

impl Observed {
    /// All leftovers, one line each.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        [self.unfinished_commands(), self.taints(), self.mirrors(), self.raises(), self.wrong_usage()].concat()
    }

    /// Commands that do not end, and claims that belong to one of them.
    fn unfinished_commands(&self) -> Vec<String> {
        let held = self.claims.iter().filter(|claim| !claim.phase.is_leaving() && claim.status.command.is_some());
        let held = held.map(|claim| format!("claim {} is held by command {:?}", claim.name, claim.status.command));
        let stored =
            self.commands.iter().map(|command| format!("command {} is there: {}", command.id, command.summary));
        stored.chain(held).collect()
    }

    /// Nodes that keep the taint of disrupted nodes.
    fn taints(&self) -> Vec<String> {
        let stays = |name: &&String| {
            let of_node = |claim: &&NodeClaim| claim.status.node_name.as_ref() == Some(*name);
            self.claims.iter().find(of_node).is_some_and(|claim| !claim.phase.is_leaving())
        };
        let names = self.tainted_nodes.iter().filter(stays);
        names.map(|name| format!("node {name} has the taint {} and stays", labels::DISRUPTED_TAINT)).collect()
    }

    /// NodeClaim objects without a claim in the table, and claims without an object.
    fn mirrors(&self) -> Vec<String> {
        let live = self.claims.iter().filter(|claim| claim.phase != Phase::Gone);
        let kept: BTreeSet<String> = live.map(|claim| claim.name.clone()).collect();
        let without_claim = self.node_claims.difference(&kept);
        let without_object = kept.difference(&self.node_claims);
        without_claim
            .map(|name| format!("no claim in the table is that of NodeClaim {name}"))
            .chain(without_object.map(|name| format!("no NodeClaim mirrors claim {name}")))
            .collect()
    }

    /// Deployments that keep the replicas of a surge.
    fn raises(&self) -> Vec<String> {
        let names = self.raised_deployments.iter();
        names.map(|name| format!("Deployment {name} has the annotation {} and stays raised", labels::SURGE)).collect()
    }

    /// NodePools whose usage is not the sum of their claims: their limits would apply too early or too late.
    fn wrong_usage(&self) -> Vec<String> {
        let mut sums: BTreeMap<&str, (ResourceList, f64)> = BTreeMap::new();
        for claim in &self.claims {
            let Some(pool) = &claim.node_pool else { continue };
            let sum = sums.entry(pool).or_default();
            sum.0.add(&claim.spec.charge.resources);
            sum.1 += claim.spec.charge.dollars_per_hour;
        }
        #[expect(clippy::cast_precision_loss, reason = "a number of claims is exact")]
        let rounding = ROUNDING * (self.claims.len() + 1) as f64;
        let pools: BTreeSet<&str> = sums.keys().copied().chain(self.usage.keys().map(String::as_str)).collect();
        let mut wrong = Vec::new();
        for pool in pools {
            let (resources, dollars) = sums.remove(pool).unwrap_or_default();
            let used = self.usage.get(pool).cloned().unwrap_or_default();
            let names = resources.iter().chain(used.resources.iter()).map(|(name, _)| name.to_owned());
            for name in names.collect::<BTreeSet<String>>() {
                let (is, counts) = (resources.get(&name), used.resources.get(&name));
                if is != counts {
                    wrong.push(format!("NodePool {pool} counts {counts} {name}, and its claims have {is}"));
                }
            }
            if (dollars - used.dollars_per_hour).abs() > rounding {
                let counts = used.dollars_per_hour;
                wrong.push(format!("NodePool {pool} counts {counts} dollars per hour, and its claims cost {dollars}"));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::Quantity;

    #[test]
    fn each_kind_of_leftover_is_reported() {
        assert_eq!(Observed::default().leftovers(), Vec::<String>::new());
        let usage = PoolUsage {
            resources: ResourceList::from([("cpu", Quantity::from_units(4))]),
            dollars_per_hour: 0.5,
            ..PoolUsage::default()
        };
        let command = StoredCommand { id: "c".into(), version: 1, summary: "waits".into(), encoded: Vec::new() };
        let observed = Observed {
            commands: vec![command],
            usage: BTreeMap::from([("default".to_owned(), usage)]),
            node_claims: BTreeSet::from(["lost".to_owned()]),
            tainted_nodes: BTreeSet::from(["foreign".to_owned()]),
            raised_deployments: BTreeSet::from(["web".to_owned()]),
            ..Observed::default()
        };
        assert_eq!(
            observed.leftovers(),
            [
                "command c is there: waits",
                "no claim in the table is that of NodeClaim lost",
                "Deployment web has the annotation nodeless.sh/surge and stays raised",
                "NodePool default counts 4 cpu, and its claims have 0",
                "NodePool default counts 0.5 dollars per hour, and its claims cost 0",
            ]
        );
    }
}
