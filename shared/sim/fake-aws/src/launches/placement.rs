//! Placement groups: the number of machines that they still take, and the partitions of machines.

use serde_json::Value;

use super::launch::{LaunchPlan, no_capacity};
use crate::error::Ec2Error;
use crate::objects::account::PlacementGroup;
use crate::objects::instance::{Instance, InstanceState};
use crate::requests::LaunchTemplateData;
use crate::state::AccountState;

/// Running machines of a spread group in one zone:
/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html#placement-groups-limitations-spread>
const SPREAD_IN_A_ZONE: usize = 7;

/// The id or name of the group in a template.
fn selected(data: &LaunchTemplateData) -> Option<&str> {
    let placement = data.other.get("Placement")?;
    ["GroupId", "GroupName"].iter().find_map(|key| placement.get(key).and_then(Value::as_str))
}

/// The partition in a template.
fn requested_partition(data: &LaunchTemplateData) -> Option<u64> {
    data.other.get("Placement")?.get("PartitionNumber").and_then(Value::as_u64)
}

fn is_in(instance: &Instance, group: &PlacementGroup) -> bool {
    matches!(instance.state, InstanceState::Pending | InstanceState::Running)
        && selected(&instance.data).is_some_and(|name| name == group.id || name == group.name)
}

impl AccountState {
    /// The placement group of a launch; `None` if the template names none.
    pub(crate) fn placement_group(&self, plan: &LaunchPlan) -> Result<Option<&PlacementGroup>, Ec2Error> {
        let partition = requested_partition(&plan.data);
        let Some(name) = selected(&plan.data) else {
            return if partition.is_none() { Ok(None) } else { Err(no_partition()) };
        };
        let found = self.account.placement_groups.iter().find(|group| group.id == name || group.name == name);
        let unknown =
            || Ec2Error::new("InvalidPlacementGroup.Unknown", format!("The Placement Group '{name}' is unknown."));
        let group = found.ok_or_else(unknown)?;
        match partition {
            Some(number) if !(1..=u64::from(group.partitions)).contains(&number) => Err(no_partition()),
            _ => Ok(Some(group)),
        }
    }

    /// How many machines the placement group of a launch still takes in its zone; `None` is unlimited.
    pub(crate) fn left_in_placement_group(&self, plan: &LaunchPlan) -> Result<Option<u64>, Ec2Error> {
        let Some(group) = self.placement_group(plan)? else { return Ok(None) };
        let machines = self.instances.values().filter(|instance| is_in(instance, group));
        if group.strategy == "spread" {
            let in_zone = machines.filter(|instance| instance.offering.zone == plan.offering.zone).count();
            return match SPREAD_IN_A_ZONE.saturating_sub(in_zone) {
                0 => Err(spread_limit()),
                left => Ok(u64::try_from(left).ok()),
            };
        }
        let Some(capacity) = group.capacity else { return Ok(None) };
        let left_beside = |count: usize| capacity.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        let left = match self.partitions_of(plan, group).as_slice() {
            [] => left_beside(machines.count()),
            partitions => partitions.iter().map(|(_, count)| left_beside(*count)).sum(),
        };
        if left == 0 { Err(no_capacity(&plan.offering)) } else { Ok(Some(left)) }
    }

    /// The partition of the next machine of a launch; `None` if its group has none. EC2 tries to distribute instances evenly unless the
    /// launch requests a partition:
    /// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html#placement-groups-partition>
    pub(crate) fn partition(&self, plan: &LaunchPlan) -> Result<Option<u32>, Ec2Error> {
        let Some(group) = self.placement_group(plan)? else { return Ok(None) };
        let emptiest = self.partitions_of(plan, group).into_iter().min_by_key(|(number, count)| (*count, *number));
        Ok(emptiest.map(|(number, _)| number))
    }

    /// The partitions that a launch may use, each with the number of its machines.
    fn partitions_of(&self, plan: &LaunchPlan, group: &PlacementGroup) -> Vec<(u32, usize)> {
        let requested = requested_partition(&plan.data);
        let usable = (1..=group.partitions).filter(|number| requested.is_none_or(|it| it == u64::from(*number)));
        let machines = |number: u32| {
            self.instances.values().filter(|one| one.partition == Some(number) && is_in(one, group)).count()
        };
        usable.map(|number| (number, machines(number))).collect()
    }
}

fn no_partition() -> Ec2Error {
    let message = "The partition number is not valid for the placement group.";
    Ec2Error::new("InvalidParameterValue", message)
}

fn spread_limit() -> Ec2Error {
    let message = "You've reached the limit of instances in this spread placement group. A spread placement group can have up to \
                   seven instances per Availability Zone.";
    Ec2Error::new("InsufficientInstanceCapacity", message).with_status(500)
}
