//! Launches that are made long after they were planned: the table was restored to a time between the two, or something failed until now.
//! Meanwhile the limits may have been used up by other nodes, which count whatever the limits are.

use super::Reconciler;
use jiff::SignedDuration;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{NodeClaim, NodePool};
use nodeless_operations::unadopted::unadopted;
use nodeless_ports::{ErrorKind, PortError};

/// Most launches are made within a second of their plan.
const PLANNED_LATELY: SignedDuration = SignedDuration::from_mins(1);
/// Smaller differences in dollars per hour come from the order of additions.
const ROUNDING: f64 = 1e-6;

impl Reconciler {
    /// Whether a claim was planned so long ago that its launch may be that of a claim which has ended since.
    pub(super) fn is_late(&self, claim: &NodeClaim) -> bool {
        self.context.now().duration_since(claim.created) >= PLANNED_LATELY
    }

    /// Why the launch of a claim that was planned long ago is not made any more, if so.
    ///
    /// # Errors
    /// If something cannot be read, or there are nodes that the sweep has not adopted yet: until then it is unknown what the limits allow.
    pub(super) async fn outdated(&self, claim: &NodeClaim) -> Result<Option<String>, PortError> {
        let Some(name) = claim.node_pool.as_ref().filter(|_| self.is_late(claim)) else { return Ok(None) };
        let (pool, objects, nodes) = futures::try_join!(
            self.cluster.node_pool(name),
            self.cluster.mirrored_claims(),
            self.cluster.labelled_nodes(),
        )?;
        let records = self.claims.list().await?;
        let unadopted = unadopted(&objects.mirrors, &nodes, &records);
        if unadopted > 0 {
            let message = format!("{unadopted} NodeClaims have no record yet, or an old one");
            return Err(PortError::new(ErrorKind::Unavailable, "compare the limits with all nodes", message));
        }
        Ok(pool
            .filter(|pool| exceeds(pool, &records))
            .map(|pool| format!("the limits of NodePool {} are used up", pool.name)))
    }
}

/// Whether the claims of a NodePool, including those that are not launched, exceed its limits.
fn exceeds(pool: &NodePool, records: &[NodeClaim]) -> bool {
    let mut usage = PoolUsage::default();
    records.iter().filter(|claim| claim.is_of(&pool.name)).for_each(|claim| usage.add(&claim.spec.charge));
    pool.limits.iter().any(|(name, limit)| usage.resources.get(name) > limit)
        || pool.limit_dollars_per_hour.is_some_and(|limit| usage.dollars_per_hour > limit + ROUNDING)
}
