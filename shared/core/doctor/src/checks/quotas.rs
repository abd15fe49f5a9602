//! Quotas of EC2 that the limits of NodePools would exceed.

use crate::facts::{Facts, Read};
use crate::finding::{Check, Finding, Severity};
use crate::quota::Quota;
use nodeless_model::resources::name;
use nodeless_model::shell::quoted;
use nodeless_model::{NodePool, Requirement, labels};

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let quotas = match &facts.quotas {
        Read::Done(quotas) => quotas,
        Read::Not(why) => {
            return findings.push(Finding::not_checked(
                Check::Quotas,
                why,
                format!(
                    "{}; compare with `aws service-quotas get-service-quota --service-code ec2 --quota-code L-1216C47A` (on-demand) and \
                     L-34B43A08 (spot), the vCPUs of running instances of the standard families",
                    allowed(&facts.view.node_pools)
                ),
            ));
        }
    };
    let of_cluster = cluster_limit(facts);
    for quota in quotas {
        let pools = facts.view.node_pools.iter().filter(|pool| uses(pool, quota)).collect::<Vec<_>>();
        let bounded = pools.iter().filter_map(|pool| vcpus(pool)).sum::<i64>();
        let bounded = of_cluster.map_or(bounded, |limit| bounded.min(limit));
        if bounded > quota.vcpus {
            let names = pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ");
            findings.push(
                Finding::new(Severity::Warning, Check::Quotas, format!("quota {}", quota.code))
                    .problem(format!(
                        "{}: {} vCPUs, and the limits of {names} together allow {bounded}; launches fail when the quota is reached",
                        quota.name, quota.vcpus
                    ))
                    .advice(format!(
                        "request an increase with `aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {} \
                         --desired-value {bounded}`, or lower spec.limits.cpu",
                        quoted(&quota.code)
                    )),
            );
        }
    }
}

/// The limit of CPUs of all NodePools together, if there is one.
fn cluster_limit(facts: &Facts) -> Option<i64> {
    let limits = facts.view.options.limits();
    limits.resources.contains(name::CPU).then(|| limits.resources.get(name::CPU).units())
}

/// The requirements by which a NodePool chooses families other than the standard ones. Without any of them, it launches these only for
/// pods that request a GPU or an accelerator.
const CHOOSES: [&str; 5] = [
    labels::INSTANCE_CATEGORY,
    labels::INSTANCE_FAMILY,
    labels::INSTANCE_TYPE,
    labels::INSTANCE_GPU_NAME,
    labels::INSTANCE_ACCELERATOR_NAME,
];

/// Whether a NodePool can launch instances that count for a quota.
fn uses(pool: &NodePool, quota: &Quota) -> bool {
    let requirements = &pool.template.requirements;
    let allows = |key: &str, value: &str| requirements.get(key).is_none_or(|values| values.has(value));
    // Families and types are only compared where they are listed.
    let listed = |key: &str, bounded: &str| {
        let values = requirements.get(key).and_then(Requirement::values);
        values.is_none_or(|values| values.iter().any(|value| is_of(value, bounded)))
    };
    allows(labels::CAPACITY_TYPE, &quota.capacity_type)
        && (quota.standard || CHOOSES.iter().any(|key| requirements.get(key).is_some()))
        && quota.families.iter().any(|bounded| {
            let category = bounded.trim_end_matches(|last: char| last.is_ascii_digit());
            allows(labels::INSTANCE_CATEGORY, category)
                && listed(labels::INSTANCE_FAMILY, bounded)
                && listed(labels::INSTANCE_TYPE, bounded)
        })
}

/// Whether a family or an instance type, such as `p4d` or `p4d.24xlarge`, is one of those that a quota bounds, such as `p` or `p4`.
fn is_of(value: &str, bounded: &str) -> bool {
    let letters = |text: &str| text.find(|first: char| !first.is_ascii_lowercase()).unwrap_or(text.len());
    let rest = value.strip_prefix(bounded);
    rest.is_some_and(|rest| {
        letters(value) == letters(bounded)
            && (letters(bounded) == bounded.len() || !rest.starts_with(|next: char| next.is_ascii_digit()))
    })
}

/// The limit of vCPUs, if there is one.
fn vcpus(pool: &NodePool) -> Option<i64> {
    pool.limits.contains(name::CPU).then(|| pool.limits.get(name::CPU).units())
}

fn allowed(pools: &[NodePool]) -> String {
    let unlimited =
        pools.iter().filter(|pool| vcpus(pool).is_none()).map(|pool| pool.name.as_str()).collect::<Vec<_>>();
    let bounded = pools.iter().filter_map(vcpus).sum::<i64>();
    match (unlimited.is_empty(), bounded > 0) {
        (true, true) => format!("the limits of all NodePools together allow {bounded} vCPUs"),
        (true, false) => "there is no NodePool".to_owned(),
        (false, _) => format!("NodePools without a limit of cpu can reach any quota: {}", unlimited.join(", ")),
    }
}
