//! Faults of instances that EC2 reports: failing status checks, and scheduled events.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::NodeClaim;
use nodeless_model::claim::TerminationReason;
use nodeless_model::instance::{FaultKind, InstanceFault};
use std::collections::BTreeMap;

/// How long a status check has to fail before it counts, as in Karpenter. EC2 takes about that long to confirm a failure.
const FAILING: SignedDuration = SignedDuration::from_mins(2);

/// A claim to terminate because of its instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnhealthyInstance {
    pub(crate) claim: String,
    pub(crate) node: Option<String>,
    /// `Unhealthy` if the machine fails: its pods are not waited for. `Interrupted` if there is time to drain.
    pub(crate) reason: TerminationReason,
    pub(crate) message: String,
    /// When EC2 ends or restarts the instance, if that is known.
    pub(crate) ends: Option<Timestamp>,
}

/// The claims to terminate, in the order of their names, each with its most severe fault. Other instances are ignored.
pub(crate) fn unhealthy_instances(
    claims: &[NodeClaim],
    faults: &[InstanceFault],
    now: Timestamp,
) -> Vec<UnhealthyInstance> {
    let staying = claims.iter().filter(|claim| !claim.phase.is_leaving());
    let by_instance: BTreeMap<&str, &NodeClaim> =
        staying.filter_map(|claim| Some((claim.status.instance.as_ref()?.id.as_str(), claim))).collect();
    let mut found: BTreeMap<String, UnhealthyInstance> = BTreeMap::new();
    for fault in faults {
        let Some(claim) = by_instance.get(fault.id.as_str()) else { continue };
        // A reboot fails status checks, and has a time limit of its own.
        if claim.rebooting().is_some() && matches!(fault.kind, FaultKind::CheckFailed { .. }) {
            continue;
        }
        let Some((reason, message)) = evaluate(fault, now) else { continue };
        let present = found.get(&claim.name);
        if present.is_none_or(|present| present.reason != TerminationReason::Unhealthy) {
            let node = claim.status.node_name.clone();
            let ends = if let FaultKind::Planned { not_before, .. } = &fault.kind { *not_before } else { None };
            let claim = claim.name.clone();
            found.insert(claim.clone(), UnhealthyInstance { claim, node, reason, message, ends });
        }
    }
    found.into_values().collect()
}

fn evaluate(fault: &InstanceFault, now: Timestamp) -> Option<(TerminationReason, String)> {
    match &fault.kind {
        FaultKind::CheckFailed { check, since } => {
            // A fault without a start time may have begun just now: nothing destructive on doubt.
            let since = (*since).filter(|since| now.duration_since(*since) >= FAILING)?;
            let message = format!("the {check} status check of {} has failed since {since:.0}", fault.id);
            Some((TerminationReason::Unhealthy, message))
        }
        FaultKind::Planned { code, not_before } => {
            let when = not_before.map_or_else(String::new, |at| format!(" for {at:.0}"));
            Some((TerminationReason::Interrupted, format!("EC2 plans {code} of {}{when}", fault.id)))
        }
    }
}
