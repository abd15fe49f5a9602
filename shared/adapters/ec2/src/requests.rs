//! Converts plain values to EC2 requests.

use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{
    CapacityReservationPreference, CapacityReservationTarget, ConnectionTrackingSpecificationRequest,
    DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy, FleetReservationType, FleetType,
    InstanceMetadataOptionsRequest, InstanceNetworkInterfaceSpecification, InstanceType,
    LaunchTemplateBlockDeviceMappingRequest, LaunchTemplateCapacityReservationSpecificationRequest,
    LaunchTemplateCpuOptionsRequest, LaunchTemplateEbsBlockDeviceRequest, LaunchTemplateEnclaveOptionsRequest,
    LaunchTemplateHttpTokensState, LaunchTemplateIamInstanceProfileSpecificationRequest,
    LaunchTemplateInstanceMarketOptionsRequest, LaunchTemplateInstanceMetadataEndpointState,
    LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateInstanceMetadataProtocolIpv6,
    LaunchTemplateInstanceMetadataTagsState, LaunchTemplateInstanceNetworkInterfaceSpecificationRequest,
    LaunchTemplatePlacementRequest, LaunchTemplateSpecification, LaunchTemplateTagSpecificationRequest,
    LaunchTemplatesMonitoringRequest, MarketType, NestedVirtualizationSpecification, OnDemandOptionsRequest,
    RequestLaunchTemplateData, ReservedCapacityOptionsRequest, ResourceType, SpotAllocationStrategy,
    SpotOptionsRequest, Tag, TagSpecification, TargetCapacitySpecificationRequest, Tenancy, VolumeType,
};
use nodeless_api::nodeclass::{BlockDeviceMapping, PlacementGroupSelector, Toggle, TokenUse};
use nodeless_launch::fleet::{FleetOverride, FleetPlan};
use nodeless_launch::template::{Interface, InterfaceKind, Market, TemplateSpec, Variant, gibibytes};
use nodeless_model::{CapacityType, StringMap};
use nodeless_ports::{ErrorKind, PortError};
use std::collections::BTreeMap;

/// Tags in EC2's form.
pub(crate) fn tags(tags: &StringMap) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

/// Tags for one kind of resource.
pub(crate) fn tag_specification(kind: ResourceType, map: &StringMap) -> TagSpecification {
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags(map))).build()
}

/// The body of a launch template.
pub(crate) fn template_data(spec: &TemplateSpec) -> Result<RequestLaunchTemplateData, PortError> {
    let profile = LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(&spec.instance_profile).build();
    let spot = spec.spot.then_some(ResourceType::SpotInstancesRequest);
    let tagged = [ResourceType::NetworkInterface].into_iter().chain(spot).map(|kind| {
        LaunchTemplateTagSpecificationRequest::builder().resource_type(kind).set_tags(Some(tags(&spec.tags))).build()
    });
    let interfaces = spec.network_interfaces.iter().map(|interface| network_interface(spec, interface));
    let devices = spec.block_devices.iter().map(block_device).collect::<Result<Vec<_>, _>>()?;
    let mut data = RequestLaunchTemplateData::builder()
        .image_id(&spec.image_id)
        .iam_instance_profile(profile)
        .monitoring(LaunchTemplatesMonitoringRequest::builder().enabled(spec.detailed_monitoring).build())
        .metadata_options(metadata_options(spec))
        .set_block_device_mappings((!devices.is_empty()).then_some(devices))
        .set_network_interfaces(Some(interfaces.collect()))
        .capacity_reservation_specification(reservation(spec))
        .set_tag_specifications(Some(tagged.collect()))
        .set_placement(placement(spec));
    if let Some(market) = spec.market {
        let market = MarketType::from(market.as_str());
        let market = LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(market);
        data = data.instance_market_options(market.build());
    }
    if spec.enclaves {
        data = data.enclave_options(LaunchTemplateEnclaveOptionsRequest::builder().enabled(true).build());
    }
    if !spec.user_data.is_empty() {
        data = data.user_data(&spec.user_data);
    }
    if let Some(nested) = spec.nested_virtualization {
        let nested = match nested {
            Toggle::Enabled => NestedVirtualizationSpecification::Enabled,
            Toggle::Disabled => NestedVirtualizationSpecification::Disabled,
        };
        data = data.cpu_options(LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(nested).build());
    }
    Ok(data.build())
}

/// A launch without a reservation does not use open reservations, so that they remain available for launches that request them.
fn reservation(spec: &TemplateSpec) -> LaunchTemplateCapacityReservationSpecificationRequest {
    let builder = LaunchTemplateCapacityReservationSpecificationRequest::builder();
    match &spec.reservation_id {
        None => builder.capacity_reservation_preference(CapacityReservationPreference::None).build(),
        Some(id) => builder
            .capacity_reservation_preference(CapacityReservationPreference::CapacityReservationsOnly)
            .capacity_reservation_target(CapacityReservationTarget::builder().capacity_reservation_id(id).build())
            .build(),
    }
}

fn metadata_options(spec: &TemplateSpec) -> LaunchTemplateInstanceMetadataOptionsRequest {
    let options = &spec.metadata_options;
    let endpoint = match options.http_endpoint {
        Toggle::Enabled => LaunchTemplateInstanceMetadataEndpointState::Enabled,
        Toggle::Disabled => LaunchTemplateInstanceMetadataEndpointState::Disabled,
    };
    let ipv6 = match options.http_protocol_ipv6 {
        Toggle::Enabled => LaunchTemplateInstanceMetadataProtocolIpv6::Enabled,
        Toggle::Disabled => LaunchTemplateInstanceMetadataProtocolIpv6::Disabled,
    };
    let tokens = match options.http_tokens {
        TokenUse::Required => LaunchTemplateHttpTokensState::Required,
        TokenUse::Optional => LaunchTemplateHttpTokensState::Optional,
    };
    LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(endpoint)
        .http_protocol_ipv6(ipv6)
        .http_tokens(tokens)
        .set_http_put_response_hop_limit(i32::try_from(options.http_put_response_hop_limit).ok())
        .instance_metadata_tags(LaunchTemplateInstanceMetadataTagsState::Disabled)
        .build()
}

fn placement(spec: &TemplateSpec) -> Option<LaunchTemplatePlacementRequest> {
    if spec.tenancy.is_none() && spec.placement_group.is_none() {
        return None;
    }
    let group = spec.placement_group.clone().unwrap_or_default();
    let PlacementGroupSelector { name, id } = group;
    let placement = LaunchTemplatePlacementRequest::builder()
        .set_tenancy(spec.tenancy.map(Tenancy::from))
        .set_partition_number(spec.partition.and_then(|number| i32::try_from(number).ok()));
    Some(placement.set_group_name(name.filter(|_| id.is_none())).set_group_id(id).build())
}

fn network_interface(
    spec: &TemplateSpec,
    interface: &Interface,
) -> LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let mut request = LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .device_index(interface.device_index)
        .network_card_index(interface.network_card_index)
        .interface_type(interface.kind.as_str())
        .set_groups(Some(spec.security_group_ids.clone()));
    if interface.kind == InterfaceKind::EfaOnly {
        return request.build();
    }
    let primary = interface.device_index == 0 && interface.network_card_index == 0;
    let prefixes = spec.ip_prefix_count.filter(|count| *count > 0);
    if spec.ipv6 {
        request = request.ipv6_address_count(1).set_ipv6_prefix_count(prefixes);
        request = request.set_primary_ipv6(primary.then_some(true));
    } else {
        request = request.set_ipv4_prefix_count(prefixes);
    }
    // EC2 assigns a public address only to a single primary interface.
    request = request.set_associate_public_ip_address(spec.associate_public_ip_address.filter(|_| primary));
    if let Some(tracking) = &spec.connection_tracking {
        request = request.connection_tracking_specification(
            ConnectionTrackingSpecificationRequest::builder()
                .set_tcp_established_timeout(tracking.tcp_established_timeout)
                .set_udp_stream_timeout(tracking.udp_stream_timeout)
                .set_udp_timeout(tracking.udp_timeout)
                .build(),
        );
    }
    request.build()
}

/// The metadata options of a template, for a call whose permissions policies restrict by them.
fn own_metadata_options(spec: &TemplateSpec) -> InstanceMetadataOptionsRequest {
    let of_template = metadata_options(spec);
    InstanceMetadataOptionsRequest::builder()
        .set_http_endpoint(of_template.http_endpoint().map(|it| it.as_str().into()))
        .set_http_protocol_ipv6(of_template.http_protocol_ipv6().map(|it| it.as_str().into()))
        .set_http_tokens(of_template.http_tokens().map(|it| it.as_str().into()))
        .set_http_put_response_hop_limit(of_template.http_put_response_hop_limit())
        .set_instance_metadata_tags(of_template.instance_metadata_tags().map(|it| it.as_str().into()))
        .build()
}

/// A RunInstances call for one instance from a launch template, in the subnet of an entry of a plan.
///
/// The template lists network interfaces, so the subnet has to be specified there, and the interfaces of a call replace those of
/// the template. CreateFleet does the same with the subnets of its overrides.
pub(crate) fn one_instance(
    request: RunInstancesFluentBuilder,
    spec: &TemplateSpec,
    template: &str,
    entry: &FleetOverride,
) -> RunInstancesFluentBuilder {
    let interfaces = spec.network_interfaces.iter().map(|interface| {
        let from = network_interface(spec, interface);
        let tracking = from.connection_tracking_specification().cloned();
        InstanceNetworkInterfaceSpecification::builder()
            .set_device_index(from.device_index())
            .set_network_card_index(from.network_card_index())
            .set_interface_type(from.interface_type().map(str::to_owned))
            .set_groups(Some(from.groups().to_vec()))
            .set_ipv6_address_count(from.ipv6_address_count())
            .set_ipv6_prefix_count(from.ipv6_prefix_count())
            .set_primary_ipv6(from.primary_ipv6())
            .set_ipv4_prefix_count(from.ipv4_prefix_count())
            .set_associate_public_ip_address(from.associate_public_ip_address())
            .set_connection_tracking_specification(tracking)
            .subnet_id(&entry.subnet_id)
            .build()
    });
    let template = LaunchTemplateSpecification::builder().launch_template_name(template).version("$Latest").build();
    request
        .launch_template(template)
        .instance_type(InstanceType::from(entry.instance_type.as_str()))
        .min_count(1)
        .max_count(1)
        .metadata_options(own_metadata_options(spec))
        .set_network_interfaces(Some(interfaces.collect()))
}

fn block_device(mapping: &BlockDeviceMapping) -> Result<LaunchTemplateBlockDeviceMappingRequest, PortError> {
    let mut request = LaunchTemplateBlockDeviceMappingRequest::builder().set_device_name(mapping.device_name.clone());
    if let Some(ebs) = &mapping.ebs {
        let size = ebs.volume_size.as_deref().map(gibibytes).transpose().map_err(|why| {
            PortError::new(ErrorKind::Invalid, "EC2 CreateLaunchTemplate", format!("spec.blockDeviceMappings: {why}"))
        })?;
        request = request.ebs(
            LaunchTemplateEbsBlockDeviceRequest::builder()
                .set_delete_on_termination(ebs.delete_on_termination.or(Some(true)))
                .set_encrypted(ebs.encrypted)
                .set_iops(ebs.iops.and_then(positive))
                .set_throughput(ebs.throughput.and_then(positive))
                .set_kms_key_id(ebs.kms_key_id.clone())
                .set_snapshot_id(ebs.snapshot_id.clone())
                .set_volume_initialization_rate(ebs.volume_initialization_rate)
                .set_volume_size(size)
                .set_volume_type(ebs.volume_type.map(|kind| VolumeType::from(name_of(&kind).as_str())))
                .build(),
        );
    }
    Ok(request.build())
}

/// Zero means "not set", as in Karpenter.
fn positive(number: i64) -> Option<i32> {
    i32::try_from(number).ok().filter(|number| *number > 0)
}

/// The name of a fieldless enum in its serialised form.
fn name_of<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A CreateFleet call for `count` instances, with the launch templates' names by variant.
pub(crate) fn fleet(
    request: CreateFleetFluentBuilder,
    plan: &FleetPlan,
    templates: &BTreeMap<Variant, String>,
    count: i32,
) -> CreateFleetFluentBuilder {
    let spot = plan.capacity_type == CapacityType::Spot;
    let target = TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(count)
        .default_target_capacity_type(match (spot, plan.market) {
            (true, _) => DefaultTargetCapacityType::Spot,
            (false, Some(Market::CapacityBlock)) => DefaultTargetCapacityType::CapacityBlock,
            (false, Some(Market::Interruptible)) => DefaultTargetCapacityType::ReservedCapacity,
            (false, None) => DefaultTargetCapacityType::OnDemand,
        })
        .build();
    let mut request = request.r#type(FleetType::Instant).target_capacity_specification(target);
    for (variant, overrides) in &plan.groups {
        let Some(name) = templates.get(variant) else { continue };
        let template =
            FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(name).version("$Latest").build();
        let overrides = overrides
            .iter()
            .map(|entry| {
                FleetLaunchTemplateOverridesRequest::builder()
                    .instance_type(InstanceType::from(entry.instance_type.as_str()))
                    .availability_zone(&entry.zone)
                    .subnet_id(&entry.subnet_id)
                    .set_priority(plan.prioritized.then_some(entry.price))
                    .build()
            })
            .collect();
        request = request.launch_template_configs(
            FleetLaunchTemplateConfigRequest::builder()
                .launch_template_specification(template)
                .set_overrides(Some(overrides))
                .build(),
        );
    }
    let (minimum, zone) = (plan.all_or_none.then_some(count), plan.all_or_none.then_some(true));
    if plan.market == Some(Market::Interruptible) {
        let kind = FleetReservationType::InterruptibleCapacityReservation;
        request.reserved_capacity_options(ReservedCapacityOptionsRequest::builder().reservation_types(kind).build())
    } else if spot {
        let strategy = if plan.prioritized {
            SpotAllocationStrategy::CapacityOptimizedPrioritized
        } else {
            SpotAllocationStrategy::PriceCapacityOptimized
        };
        let options = SpotOptionsRequest::builder().allocation_strategy(strategy);
        request.spot_options(options.set_min_target_capacity(minimum).set_single_availability_zone(zone).build())
    } else if plan.market.is_some() {
        request
    } else {
        let strategy = if plan.prioritized {
            FleetOnDemandAllocationStrategy::Prioritized
        } else {
            FleetOnDemandAllocationStrategy::LowestPrice
        };
        let options = OnDemandOptionsRequest::builder().allocation_strategy(strategy);
        request.on_demand_options(options.set_min_target_capacity(minimum).set_single_availability_zone(zone).build())
    }
}
