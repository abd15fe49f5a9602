//! Availability zones that fail as a whole.

use super::World;
use nodeless_fake_aws::{Instance, InstanceState, OfferingPattern};
use nodeless_fake_kubernetes::controllers::Machine;
use std::collections::BTreeSet;

/// The instances that the failure of a zone affects, by id.
#[derive(Debug, Default)]
pub(super) struct ZoneFailure {
    /// Instances that run without a kubelet.
    silent: BTreeSet<String>,
    /// Instances whose status checks fail.
    impaired: BTreeSet<String>,
}

impl World {
    /// A zone fails until [`World::recover_zone`]: EC2 has no capacity in it, the kubelets of its instances stop answering, also those
    /// of instances that start later, and both status checks of its instances fail.
    pub fn fail_zone(&mut self, zone: &str) {
        self.failed_zones.entry(zone.to_owned()).or_default();
        self.ec2.exhaust(pattern(zone));
        for instance in self.ec2.instances() {
            if instance.offering.zone == zone && instance.state == InstanceState::Running {
                let answered = self.silence(&instance.id);
                self.cut_off(&instance, answered);
            }
        }
    }

    /// Whether an instance is in a failed zone. Its machine does not join the cluster before the zone recovers.
    pub(super) fn starts_in_failed_zone(&mut self, instance: &Instance) -> bool {
        let failed = self.failed_zones.contains_key(&instance.offering.zone);
        if failed {
            self.cut_off(instance, true);
        }
        failed
    }

    fn cut_off(&mut self, instance: &Instance, answered: bool) {
        let impaired = self.ec2.impair(&instance.id);
        self.ec2.impair_system(&instance.id);
        let Some(failure) = self.failed_zones.get_mut(&instance.offering.zone) else { return };
        failure.silent.extend(answered.then(|| instance.id.clone()));
        failure.impaired.extend(impaired.then(|| instance.id.clone()));
    }

    /// A failed zone recovers: EC2 has capacity, and the kubelets of the instances that still run answer again.
    pub fn recover_zone(&mut self, zone: &str) {
        let Some(failure) = self.failed_zones.remove(zone) else { return };
        self.ec2.restore(pattern(zone));
        let now = self.now();
        for instance in self.ec2.instances().into_iter().filter(|it| it.state == InstanceState::Running) {
            if failure.impaired.contains(&instance.id) {
                self.ec2.pass_checks(&instance.id);
            }
            if failure.silent.contains(&instance.id)
                && let Some(machine) = self.machine(&instance)
            {
                self.controllers.node_lifecycle.machine_started(&machine.name);
                self.controllers.kubelets.start(Machine { registers: now, ready: now, ..machine });
            }
        }
    }
}

fn pattern(zone: &str) -> OfferingPattern {
    OfferingPattern { zone: Some(zone.to_owned()), ..OfferingPattern::default() }
}
