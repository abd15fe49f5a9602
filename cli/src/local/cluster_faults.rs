//! Faults of the account and of the services, for as long as an annotation of the Namespace kube-system names them.

use super::faults::FAULT;
use nodeless_api::view::SYSTEM_NAMESPACE;
use nodeless_fake_aws::{CapacityType, Ec2, LaunchFault, OfferingPattern, QuotaFamily};
use nodeless_fake_kubernetes::resource::NAMESPACES;
use nodeless_ports::ErrorKind;
use nodeless_world::World;
use nodeless_world::fault_injection::FaultInjection;
use std::collections::BTreeMap;

/// A fault of the account or of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// EC2 has no capacity.
    NoCapacity,
    /// The quotas of vCPUs of the standard instance families are zero.
    Quota,
    /// EC2 throttles every call.
    ThrottledEc2,
    /// Instances that are launched run, and do not join.
    NodesNeverJoin,
    /// DynamoDB throttles every call.
    ThrottledTable,
    /// What the catalog reads cannot be read.
    NoCatalog,
    /// The calls of the webhook do not arrive.
    NoWake,
}

/// The faults by their values in the annotation.
const FAULTS: [(&str, Fault); 7] = [
    ("no-capacity", Fault::NoCapacity),
    ("quota", Fault::Quota),
    ("throttled-ec2", Fault::ThrottledEc2),
    ("nodes-never-join", Fault::NodesNeverJoin),
    ("throttled-table", Fault::ThrottledTable),
    ("no-catalog", Fault::NoCatalog),
    ("no-wake", Fault::NoWake),
];

/// Keeps the faults in effect that the annotation names.
#[derive(Debug, Default)]
pub(super) struct ClusterFaults {
    /// The annotation that was read last.
    named: String,
}

impl ClusterFaults {
    /// Changes the faults if the annotation has changed. Returns a line about it, or about each value that is unknown.
    pub(super) fn change(&mut self, world: &World, injection: Option<&FaultInjection>) -> Vec<Result<String, String>> {
        let namespace = world.api().get(&NAMESPACES, "", SYSTEM_NAMESPACE);
        let named = namespace.ok().and_then(|it| it["metadata"]["annotations"][FAULT].as_str().map(str::to_owned));
        let named = named.unwrap_or_default();
        if named == self.named {
            return Vec::new();
        }
        let values = named.split(',').map(str::trim).filter(|value| !value.is_empty());
        let (mut found, mut lines) = (BTreeMap::new(), Vec::new());
        for value in values {
            match FAULTS.iter().find(|(name, _)| *name == value) {
                Some((name, fault)) => drop(found.insert(*name, *fault)),
                None => lines.push(Err(unknown(value))),
            }
        }
        end(world.ec2(), injection);
        found.values().for_each(|fault| begin(*fault, world.ec2(), injection));
        let names: Vec<&str> = found.keys().copied().collect();
        lines.push(Ok(if names.is_empty() {
            "no fault of the cluster is in effect".to_owned()
        } else {
            format!("{} until the annotation of Namespace {SYSTEM_NAMESPACE} is removed", names.join(", "))
        }));
        self.named = named;
        lines
    }
}

fn unknown(value: &str) -> String {
    let known = FAULTS.map(|(name, _)| name).join(", ");
    format!("Namespace {SYSTEM_NAMESPACE}: unknown fault {value:?}; set the annotation {FAULT} to one of {known}")
}

fn end(ec2: &Ec2, injection: Option<&FaultInjection>) {
    ec2.restore(OfferingPattern::default());
    ec2.end_launch_faults();
    ec2.change_account(|account| account.vcpu_quotas.clear());
    injection.into_iter().for_each(FaultInjection::end_outages);
}

fn begin(fault: Fault, ec2: &Ec2, injection: Option<&FaultInjection>) {
    let fail = |operations, kind| injection.into_iter().for_each(|faults| faults.fail(operations, kind));
    match fault {
        Fault::NoCapacity => ec2.exhaust(OfferingPattern::default()),
        Fault::Quota => ec2.change_account(|account| {
            for capacity_type in [CapacityType::OnDemand, CapacityType::Spot] {
                account.vcpu_quotas.insert((capacity_type, QuotaFamily::Standard), 0);
            }
        }),
        Fault::ThrottledEc2 => fail("cloud", ErrorKind::Throttled),
        Fault::NodesNeverJoin => {
            ec2.spoil_launches(OfferingPattern::default(), LaunchFault::NeverJoins, u32::MAX);
        }
        Fault::ThrottledTable => fail("claims", ErrorKind::Throttled),
        Fault::NoCatalog => fail("source", ErrorKind::Unavailable),
        Fault::NoWake => fail("wake", ErrorKind::Unavailable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_fake_kubernetes::{PatchOptions, PatchType};
    use nodeless_world::WorldOptions;
    use serde_json::json;

    #[test]
    fn faults_last_as_long_as_the_annotation_names_them() {
        let world = World::new(WorldOptions::default()).unwrap();
        let injection = FaultInjection::scripted(world.clock().clone());
        let mut faults = ClusterFaults::default();
        let mut set = |value: serde_json::Value| {
            let patch = json!({ "metadata": { "annotations": { FAULT: value } } });
            let options = PatchOptions::default();
            world.api().patch(&NAMESPACES, "", SYSTEM_NAMESPACE, None, PatchType::Merge, &patch, &options).unwrap();
            faults.change(&world, Some(&injection))
        };
        assert_eq!(set(json!(null)), []);
        let quotas = || world.ec2().with_account(|account| account.vcpu_quotas.len());
        assert_eq!(
            set(json!("quota, no-wake")),
            [Ok("no-wake, quota until the annotation of Namespace kube-system is removed".to_owned())]
        );
        assert_eq!((quotas(), injection.fails("wake")), (2, true));
        let changed = set(json!("throttled-table,flood"));
        assert!(changed[0].as_ref().unwrap_err().starts_with(
            "Namespace kube-system: unknown fault \"flood\"; set the annotation local.nodeless.sh/fault to one of no-capacity, quota"
        ));
        assert_eq!((quotas(), injection.fails("wake"), injection.fails("claims list")), (0, false, true));
        assert_eq!(set(json!(null)), [Ok("no fault of the cluster is in effect".to_owned())]);
        assert!(!injection.fails("claims list"));
    }
}
