//! The usage of NodePools, recounted from their claims.

use super::{SweepReport, Sweeper};
use jiff::Timestamp;
use nodeless_model::NodeClaim;
use nodeless_model::node_pool::PoolUsage;
use nodeless_operations::log_lines::UsageCorrected;
use nodeless_ports::ErrorKind;
use std::collections::BTreeMap;

/// Smaller differences in dollars per hour come from the order of additions.
const ROUNDING: f64 = 1e-6;

impl Sweeper {
    /// Corrects the usage of NodePools to the sum of the charges of their claims. If another process writes a claim meanwhile,
    /// the correction fails and the next sweep retries it.
    pub(super) async fn recount(
        &self,
        claims: &[NodeClaim],
        usage: &BTreeMap<String, PoolUsage>,
        now: Timestamp,
        report: &mut SweepReport,
    ) {
        for (name, mut right) in charged(claims, usage) {
            let present = usage.get(&name).cloned().unwrap_or_default();
            if same_usage(&present, &right) {
                continue;
            }
            right.recounted = Some(now);
            match self.claims.correct_usage(&name, &present, &right).await {
                Ok(()) => self.context.log(&UsageCorrected { node_pool: &name }),
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => report.problems.push(format!("usage of NodePool {name}: {error}")),
            }
        }
    }
}

/// The usage of each NodePool by the charges of its claims; nothing for a NodePool without claims whose usage is recorded.
pub(super) fn charged(claims: &[NodeClaim], usage: &BTreeMap<String, PoolUsage>) -> BTreeMap<String, PoolUsage> {
    let mut counted: BTreeMap<String, PoolUsage> =
        usage.keys().map(|name| (name.clone(), PoolUsage::default())).collect();
    for claim in claims {
        let Some(name) = &claim.node_pool else { continue };
        let pool = counted.entry(name.clone()).or_default();
        pool.resources.add(&claim.spec.charge.resources);
        pool.dollars_per_hour += claim.spec.charge.dollars_per_hour;
    }
    counted
}

pub(super) fn same_usage(a: &PoolUsage, b: &PoolUsage) -> bool {
    let covers =
        |a: &PoolUsage, b: &PoolUsage| a.resources.iter().all(|(name, quantity)| b.resources.get(name) == quantity);
    covers(a, b) && covers(b, a) && (a.dollars_per_hour - b.dollars_per_hour).abs() < ROUNDING
}
