//! Prices and capacity of new nodes, for comparing many loads quickly; [`Prepared::solve`] decides.

use crate::constraints::admission::Admission;
use crate::engine::Prepared;
use crate::pools::{BASE, Pool};
use crate::work::Work;
use nodeless_model::{ResourceIndex, labels};

/// A node that a NodePool could launch.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNode {
    /// The instance type.
    pub instance_type: String,
    /// The capacity without DaemonSets, in thousandths, in the order of [`Prepared::resources`].
    pub allocatable: Box<[i64]>,
}

impl Prepared<'_> {
    /// The resources that pods and DaemonSets request, in the order of the listed amounts.
    #[must_use]
    pub const fn resources(&self) -> &ResourceIndex {
        &self.resources
    }

    /// The nodes that a NodePool could launch, by the name of their type.
    #[must_use]
    pub fn new_nodes(&self, node_pool: &str) -> Vec<NewNode> {
        let pool = self.pools.iter().find(|pool| pool.pool.name == node_pool);
        let types = pool.into_iter().flat_map(|pool| pool.types.iter());
        types
            .map(|kind| NewNode { instance_type: kind.kind.name.clone(), allocatable: kind.allocatable.clone() })
            .collect()
    }

    /// The nodes of [`Prepared::new_nodes`] that a NodePool could launch for pods with this admission, each with the lowest price
    /// in dollars per hour. Limits are ignored. Adds its work to `work`.
    pub fn prices(&mut self, node_pool: &str, admission: &Admission, work: &mut u64) -> Vec<(usize, f64)> {
        let Some(pool) = self.pools.iter_mut().find(|pool| pool.pool.name == node_pool) else { return Vec::new() };
        pool.work = Work::default();
        let found = prices(pool, admission);
        *work = work.saturating_add(pool.work.done);
        found
    }
}

fn prices(pool: &mut Pool<'_>, admission: &Admission) -> Vec<(usize, f64)> {
    let mut prices: Vec<Option<f64>> = vec![None; pool.types.len()];
    if admission.tolerates(&pool.pool.template.taints) {
        for required in admission.alternatives() {
            let base = &pool.set(BASE).requirements;
            if base.first_incompatible(required, labels::is_well_known).is_some() {
                continue;
            }
            let Some(set) = pool.narrowed(required) else { continue };
            for (kind, price) in pool.priced(set) {
                let known = &mut prices[kind];
                *known = Some(known.map_or(price, |known| known.min(price)));
            }
        }
    }
    let mut prices: Vec<(usize, f64)> =
        prices.into_iter().enumerate().filter_map(|(kind, price)| Some((kind, price?))).collect();
    // It is collected in place, with the capacity of all types, and most NodePools launch nothing for most pods.
    prices.shrink_to_fit();
    pool.work.add(prices.len());
    prices
}
