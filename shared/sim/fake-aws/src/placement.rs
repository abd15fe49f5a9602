//! Placement groups, and the number of machines that they still take.

use serde_json::Value;

use super::account::PlacementGroup;
use super::error::Ec2Error;
use super::instance::{Instance, InstanceState};
use super::launch::{LaunchPlan, no_capacity};
use super::requests::LaunchTemplateData;
use super::state::State;

/// Running machines of a spread group in one zone:
/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html#placement-groups-limitations-spread>
const SPREAD_IN_A_ZONE: usize = 7;

/// The id or name of the group in a template.
fn selected(data: &LaunchTemplateData) -> Option<&str> {
    let placement = data.other.get("Placement")?;
    ["GroupId", "GroupName"].iter().find_map(|key| placement.get(key).and_then(Value::as_str))
}

impl State {
    /// The placement group of a launch; `None` if the template names none.
    pub(super) fn placement_group(&self, plan: &LaunchPlan) -> Result<Option<&PlacementGroup>, Ec2Error> {
        let Some(name) = selected(&plan.data) else { return Ok(None) };
        let found = self.account.placement_groups.iter().find(|group| group.id == name || group.name == name);
        let unknown =
            || Ec2Error::new("InvalidPlacementGroup.Unknown", format!("The Placement Group '{name}' is unknown."));
        found.map(Some).ok_or_else(unknown)
    }

    /// How many machines the placement group of a launch still takes in its zone; `None` is unlimited.
    pub(super) fn left_in_placement_group(&self, plan: &LaunchPlan) -> Result<Option<u64>, Ec2Error> {
        let Some(group) = self.placement_group(plan)? else { return Ok(None) };
        let of_group = |instance: &&Instance| {
            matches!(instance.state, InstanceState::Pending | InstanceState::Running)
                && selected(&instance.data).is_some_and(|name| name == group.id || name == group.name)
        };
        let machines = self.instances.values().filter(of_group);
        if group.strategy == "spread" {
            let in_zone = machines.filter(|instance| instance.offering.zone == plan.offering.zone).count();
            return match SPREAD_IN_A_ZONE.saturating_sub(in_zone) {
                0 => Err(spread_limit()),
                left => Ok(u64::try_from(left).ok()),
            };
        }
        let Some(capacity) = group.capacity else { return Ok(None) };
        match capacity.saturating_sub(u64::try_from(machines.count()).unwrap_or(u64::MAX)) {
            0 => Err(no_capacity(&plan.offering)),
            left => Ok(Some(left)),
        }
    }
}

fn spread_limit() -> Ec2Error {
    let message = "You've reached the limit of instances in this spread placement group. A spread placement group can have up to \
                   seven instances per Availability Zone.";
    Ec2Error::new("InsufficientInstanceCapacity", message).with_status(500)
}
