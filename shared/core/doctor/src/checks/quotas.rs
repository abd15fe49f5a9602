//! Quotas of EC2 that the limits of NodePools would exceed.

use crate::facts::{Facts, Quota, Read};
use crate::finding::{Check, Finding, Severity};
use nodeless_model::resources::name;
use nodeless_model::{NodePool, labels};

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
    for quota in quotas {
        let pools = facts.view.node_pools.iter().filter(|pool| uses(pool, quota)).collect::<Vec<_>>();
        let bounded = pools.iter().filter_map(|pool| vcpus(pool)).sum::<i64>();
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
                        quota.code
                    )),
            );
        }
    }
}

/// Whether a NodePool can launch instances that count for a quota.
fn uses(pool: &NodePool, quota: &Quota) -> bool {
    let allows = |key: &str, value: &str| pool.template.requirements.get(key).is_none_or(|values| values.has(value));
    allows(labels::CAPACITY_TYPE, &quota.capacity_type)
        && quota.families.iter().any(|family| allows(labels::INSTANCE_CATEGORY, family))
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
