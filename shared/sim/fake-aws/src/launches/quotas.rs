//! Quotas of vCPUs: how many vCPUs of running instances an account may have in a region, by family and capacity type.
//!
//! An account has no quotas unless [`Account::vcpu_quotas`](crate::Account::vcpu_quotas) has entries. `docs/reference/aws.csv` states which
//! of these rules AWS documents.

use super::launch::LaunchPlan;
use crate::error::Ec2Error;
use crate::objects::account::CapacityReservation;
use crate::objects::instance::{Instance, InstanceState};
use crate::objects::offering::{CapacityType, Offering};
use crate::objects::quota_family::QuotaFamily;
use crate::state::AccountState;

impl AccountState {
    /// Whether the quotas allow this many more machines. RunInstances refuses a maximum beyond the quota as a whole.
    ///
    /// # Errors
    /// EC2's own.
    pub(crate) fn check_quota(&self, plan: &LaunchPlan, machines: u32) -> Result<(), Ec2Error> {
        if self.reservation(plan)?.is_some() {
            return Ok(());
        }
        match self.machines_left_in_quota(&plan.offering)? {
            Some(left) if left < u64::from(machines) => Err(self.quota_exceeded(&plan.offering)),
            _ => Ok(()),
        }
    }

    /// How many more machines of an offering the quotas allow; `None` without a quota.
    ///
    /// # Errors
    /// EC2's own, if the quota allows none.
    pub(crate) fn machines_left_in_quota(&self, offering: &Offering) -> Result<Option<u64>, Ec2Error> {
        let Some((family, quota)) = self.quota(offering) else { return Ok(None) };
        let vcpus_left = quota.saturating_sub(self.used_vcpus(offering.capacity_type, family));
        match vcpus_left.checked_div(self.vcpus(&offering.instance_type)) {
            Some(0) => Err(self.quota_exceeded(offering)),
            machines => Ok(machines),
        }
    }

    fn quota(&self, offering: &Offering) -> Option<(QuotaFamily, u64)> {
        let family = QuotaFamily::new(&offering.instance_type)?;
        Some((family, *self.account.vcpu_quotas.get(&(offering.capacity_type, family))?))
    }

    /// EC2's error for a launch beyond a quota.
    pub(crate) fn quota_exceeded(&self, offering: &Offering) -> Ec2Error {
        let limit = self.quota(offering).map_or(0, |(_, quota)| quota);
        match offering.capacity_type {
            CapacityType::Spot => Ec2Error::new("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
            CapacityType::OnDemand => Ec2Error::new(
                "VcpuLimitExceeded",
                format!(
                    "You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the \
                     instance bucket that the specified instance type belongs to. Please visit \
                     http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."
                ),
            ),
        }
    }

    /// The vCPUs that count toward a quota. A capacity reservation counts as a whole, whether instances use it or not.
    fn used_vcpus(&self, capacity_type: CapacityType, family: QuotaFamily) -> u64 {
        let counts = |instance: &&Instance| {
            instance.offering.capacity_type == capacity_type
                && instance.capacity_reservation_id.is_none()
                && counts_toward_quota(capacity_type, instance.state)
        };
        let running = self.instances.values().filter(counts).map(|instance| (&instance.offering.instance_type, 1));
        let is_active = |reservation: &&CapacityReservation| {
            capacity_type == CapacityType::OnDemand && reservation.state(self.now) == "active"
        };
        let reserved = self.account.capacity_reservations.iter().filter(is_active);
        let reserved = reserved.map(|reservation| (&reservation.instance_type, u64::from(reservation.total)));
        let of_family = running.chain(reserved).filter(|(name, _)| QuotaFamily::new(name) == Some(family));
        of_family.map(|(name, machines)| self.vcpus(name) * machines).sum()
    }

    fn vcpus(&self, instance_type: &str) -> u64 {
        self.account.facts.types.get(instance_type).map_or(0, crate::objects::facts::TypeFacts::vcpus)
    }
}

/// A spot instance counts until EC2 has closed its request, which it does after the instance has terminated.
fn counts_toward_quota(capacity_type: CapacityType, state: InstanceState) -> bool {
    state.is_alive() || (capacity_type == CapacityType::Spot && state == InstanceState::ShuttingDown)
}
