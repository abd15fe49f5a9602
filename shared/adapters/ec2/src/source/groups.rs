//! Capacity reservations and placement groups.

use super::filters::sdk_filters;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::types;
use jiff::Timestamp;
use nodeless_api::nodeclass::{CapacityReservation, CapacityReservationSelectorTerm, PlacementGroupSelector};
use nodeless_aws::port_error;
use nodeless_catalog::stored::NamedPlacementGroup;
use nodeless_launch::node_class::reservations::{self, Described, ReservationQuery};
use nodeless_launch::node_class::{Section, validation};
use nodeless_model::ReservedInstances;
use nodeless_ports::{ErrorKind, PortError};
use std::collections::BTreeMap;

/// Finds the capacity reservations that any of the terms selects, and a message for each that is left out.
///
/// # Errors
/// When EC2 cannot be read.
pub(super) async fn selected_reservations(
    client: &Client,
    terms: &[CapacityReservationSelectorTerm],
    now: Timestamp,
) -> Result<(Section<Vec<CapacityReservation>>, Vec<String>), PortError> {
    let mut found = Vec::new();
    for query in reservations::queries(terms) {
        found.extend(describe(client, &query).await?);
    }
    let (selected, left_out) = reservations::select(found, now);
    Ok((Section::ready(selected), left_out))
}

/// The instances of each active reservation, by id. `account` is that of the cluster, if it is known.
///
/// # Errors
/// When EC2 cannot be read.
pub(super) async fn reserved_instances(
    client: &Client,
    account: Option<&str>,
) -> Result<BTreeMap<String, ReservedInstances>, PortError> {
    let active = describe(client, &ReservationQuery::active()).await?;
    Ok(active.into_iter().map(|found| (found.id.clone(), found.instances(account))).collect())
}

/// An unknown id results in nothing.
async fn describe(client: &Client, query: &ReservationQuery) -> Result<Vec<Described>, PortError> {
    let mut found = Vec::new();
    let mut pages = client
        .describe_capacity_reservations()
        .set_capacity_reservation_ids(query.id.clone().map(|id| vec![id]))
        .set_filters(Some(sdk_filters(&query.filters)))
        .into_paginator()
        .send();
    while let Some(page) = pages.next().await {
        let page = match page.map_err(|error| port_error("EC2 DescribeCapacityReservations", &error)) {
            Err(error) if query.id.is_some() && error.kind == ErrorKind::NotFound => break,
            other => other?,
        };
        found.extend(page.capacity_reservations().iter().filter_map(read));
    }
    Ok(found)
}

/// Converts a reservation; `None` if it lacks an id, a type or a zone, because nothing can be launched into it then.
fn read(reservation: &types::CapacityReservation) -> Option<Described> {
    Some(Described {
        id: reservation.capacity_reservation_id()?.to_owned(),
        instance_type: reservation.instance_type()?.to_owned(),
        zone: reservation.availability_zone()?.to_owned(),
        owner_id: reservation.owner_id().unwrap_or_default().to_owned(),
        match_criteria: reservation.instance_match_criteria().map(|it| it.as_str().to_owned()).unwrap_or_default(),
        reservation_type: reservation.reservation_type().map(|it| it.as_str().to_owned()).unwrap_or_default(),
        interruptible: reservation.interruptible().unwrap_or(false),
        end: reservation.end_date().and_then(|end| Timestamp::from_second(end.secs()).ok()),
        total: reservation.total_instance_count().and_then(|count| u32::try_from(count).ok()),
        available: reservation.available_instance_count().and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
    })
}

/// The account's placement groups, by id.
///
/// # Errors
/// When EC2 cannot be read.
pub(super) async fn placement_groups(client: &Client) -> Result<Vec<NamedPlacementGroup>, PortError> {
    let answer = client
        .describe_placement_groups()
        .filters(types::Filter::builder().name("state").values("available").build())
        .send()
        .await
        .map_err(|error| port_error("EC2 DescribePlacementGroups", &error))?;
    let mut groups: Vec<NamedPlacementGroup> = answer
        .placement_groups()
        .iter()
        .filter_map(|group| {
            Some(NamedPlacementGroup {
                id: group.group_id()?.to_owned(),
                name: group.group_name().unwrap_or_default().to_owned(),
                strategy: group.strategy().map(|strategy| strategy.as_str().to_owned()).unwrap_or_default(),
                partitions: group.partition_count().and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
            })
        })
        .collect();
    groups.sort();
    Ok(groups)
}

/// Whether the selected placement group of a class exists.
///
/// # Errors
/// When EC2 cannot be read.
pub(super) async fn placement_group(
    client: &Client,
    selector: Option<&PlacementGroupSelector>,
) -> Result<Section<()>, PortError> {
    let Some(selector) = selector else { return Ok(Section::ready(())) };
    let groups = placement_groups(client).await?;
    let known = groups.iter().map(|group| (group.id.as_str(), group.name.as_str()));
    Ok(Section { value: (), problem: validation::placement_group(known, selector) })
}
