//! Converts instances of the EC2 SDK.

use aws_sdk_ec2::types::{self, CapacityReservationPreference, InstanceLifecycleType, InstanceStateName, StatusType};
use jiff::Timestamp;
use nodeless_model::CapacityType;
use nodeless_model::instance::{FaultKind, Instance, InstanceFault, InstanceState};
use nodeless_ports::{ErrorKind, PortError};

/// Converts an instance. An instance without an id, state or zone is an error, because it cannot be evaluated.
pub(crate) fn read(instance: &types::Instance) -> Result<Instance, PortError> {
    let missing = |what: &str| {
        let id = instance.instance_id().unwrap_or("without an id");
        PortError::new(
            ErrorKind::Unavailable,
            "EC2 DescribeInstances",
            format!("instance {id} came without its {what}"),
        )
    };
    let state = instance.state().and_then(|state| state.name()).ok_or_else(|| missing("state"))?;
    let launched = instance.launch_time().ok_or_else(|| missing("launch time"))?;
    Ok(Instance {
        id: instance.instance_id().ok_or_else(|| missing("id"))?.to_owned(),
        state: read_state(state).ok_or_else(|| missing("state in a form that is known here"))?,
        instance_type: instance.instance_type().ok_or_else(|| missing("type"))?.as_str().to_owned(),
        zone: instance
            .placement()
            .and_then(|placement| placement.availability_zone())
            .ok_or_else(|| missing("zone"))?
            .to_owned(),
        capacity_type: capacity_type(instance),
        image_id: instance.image_id().unwrap_or_default().to_owned(),
        subnet_id: instance.subnet_id().map(str::to_owned),
        security_group_ids: instance.security_groups().iter().filter_map(|g| g.group_id().map(str::to_owned)).collect(),
        private_dns_name: instance.private_dns_name().filter(|name| !name.is_empty()).map(str::to_owned),
        reservation_id: reservation(instance).map(str::to_owned),
        partition: instance
            .placement()
            .and_then(|placement| placement.partition_number())
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0),
        launched: Timestamp::new(launched.secs(), 0).map_err(|_| missing("launch time within range"))?,
        tags: instance
            .tags()
            .iter()
            .filter_map(|tag| Some((tag.key()?.to_owned(), tag.value().unwrap_or_default().to_owned())))
            .collect(),
    })
}

/// The faults in the status of an instance. Completed and canceled events are listed for a week; only their description shows
/// that.
pub(crate) fn read_faults(status: &types::InstanceStatus) -> Vec<InstanceFault> {
    let Some(id) = status.instance_id() else { return Vec::new() };
    let time = |at: &aws_smithy_types::DateTime| Timestamp::new(at.secs(), 0).ok();
    let mut kinds = Vec::new();
    for (check, summary) in [("instance", status.instance_status()), ("system", status.system_status())] {
        let details = summary.map_or(&[][..], |summary| summary.details());
        let failed = details.iter().filter(|detail| detail.status() == Some(&StatusType::Failed));
        kinds.extend(
            failed.map(|detail| FaultKind::CheckFailed { check, since: detail.impaired_since().and_then(time) }),
        );
    }
    for event in status.events() {
        let description = event.description().unwrap_or_default();
        let over = ["[Completed]", "[Canceled]"].iter().any(|mark| description.starts_with(mark));
        if let Some(code) = event.code().filter(|_| !over) {
            let not_before = event.not_before().and_then(time);
            kinds.push(FaultKind::Planned { code: code.as_str().to_owned(), not_before });
        }
    }
    kinds.into_iter().map(|kind| InstanceFault { id: id.to_owned(), kind }).collect()
}

fn capacity_type(instance: &types::Instance) -> CapacityType {
    match instance.instance_lifecycle() {
        Some(InstanceLifecycleType::Spot) => CapacityType::Spot,
        _ if reservation(instance).is_some() => CapacityType::Reserved,
        _ => CapacityType::OnDemand,
    }
}

/// The reservation that an instance was launched for. An instance that uses an open reservation implicitly counts as on-demand,
/// as in Karpenter.
fn reservation(instance: &types::Instance) -> Option<&str> {
    let specification = instance.capacity_reservation_specification()?;
    let only = Some(&CapacityReservationPreference::CapacityReservationsOnly);
    instance.capacity_reservation_id().filter(|_| specification.capacity_reservation_preference() == only)
}

fn read_state(state: &InstanceStateName) -> Option<InstanceState> {
    Some(match state {
        InstanceStateName::Pending => InstanceState::Pending,
        InstanceStateName::Running => InstanceState::Running,
        InstanceStateName::Stopping => InstanceState::Stopping,
        InstanceStateName::Stopped => InstanceState::Stopped,
        InstanceStateName::ShuttingDown => InstanceState::ShuttingDown,
        InstanceStateName::Terminated => InstanceState::Terminated,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_ec2::types::CapacityReservationSpecificationResponse;

    #[test]
    fn only_an_instance_that_was_launched_for_a_reservation_is_reserved() {
        use CapacityReservationPreference::{CapacityReservationsOnly, Open};
        for (id, preference, expected) in [
            (Some("cr-1"), Some(CapacityReservationsOnly), CapacityType::Reserved),
            (Some("cr-1"), Some(Open), CapacityType::OnDemand),
            (Some("cr-1"), None, CapacityType::OnDemand),
            (None, Some(CapacityReservationsOnly), CapacityType::OnDemand),
        ] {
            let specification = preference.clone().map(|preference| {
                CapacityReservationSpecificationResponse::builder().capacity_reservation_preference(preference).build()
            });
            let instance = types::Instance::builder()
                .set_capacity_reservation_id(id.map(str::to_owned))
                .set_capacity_reservation_specification(specification)
                .build();
            assert_eq!(capacity_type(&instance), expected, "{id:?} {preference:?}");
            assert_eq!(reservation(&instance).is_some(), expected == CapacityType::Reserved);
        }
    }
}
