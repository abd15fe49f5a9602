//! The limits of the cluster in a plan.

use super::wording::parts::rounded;
use nodeless_model::cluster_limits::annotation_of;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{ResourceList, cluster_limits};
use nodeless_scheduling::{Problem, Solution};
use serde::Serialize;

/// A limit of all NodePools together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterLimit {
    /// The annotation of the Namespace `kube-system`.
    pub(crate) annotation: &'static str,
    /// The usage of the nodes, in units or dollars per hour.
    pub(crate) used: f64,
    /// The usage with the launches of the plan, each at the maximum that it may use.
    pub(crate) planned: f64,
    /// The limit.
    pub(crate) limit: f64,
}

/// The limits of the cluster, with what is used of them before and after a plan.
pub(super) fn cluster_limits(problem: &Problem<'_>, solution: &Solution) -> Vec<ClusterLimit> {
    let Some(cluster) = problem.node_pools.iter().find_map(|offer| offer.cluster.as_ref()) else { return Vec::new() };
    let (before, mut after) = (&cluster.usage, cluster.usage.clone());
    solution.launches.iter().for_each(|launch| after.add(&launch.charge));
    let one = |annotation, of: &dyn Fn(&PoolUsage) -> f64, limit| ClusterLimit {
        annotation,
        used: rounded(of(before)),
        planned: rounded(of(&after)),
        limit: rounded(limit),
    };
    let amount = |resources: &ResourceList, name: &str| resources.get(name).as_f64();
    let resources = cluster.limits.resources.iter().map(|(name, limit)| {
        one(annotation_of(name), &|usage: &PoolUsage| amount(&usage.resources, name), limit.as_f64())
    });
    let dollars = cluster
        .limits
        .dollars_per_hour
        .map(|limit| one(cluster_limits::MAX_DOLLARS_PER_HOUR, &|usage: &PoolUsage| usage.dollars_per_hour, limit));
    resources.chain(dollars).collect()
}

impl ClusterLimit {
    /// The limit as a part of a sentence.
    pub(super) fn text(&self) -> String {
        let Self { annotation, used, planned, limit } = self;
        let planned = if planned == used { String::new() } else { format!(", {planned} with this plan") };
        format!("{annotation} {used} of {limit}{planned}")
    }
}
