//! The requests to EC2, in the JSON form of its API (the form of `--cli-input-json`).

use crate::fleet::FleetPlan;
use crate::template::{Interface, InterfaceKind, Market, TemplateSpec, Variant, gibibytes};
use nodeless_api::nodeclass::{BlockDeviceMapping, PlacementGroupSelector};
use nodeless_model::{CapacityType, StringMap};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// `LaunchTemplateData` of CreateLaunchTemplate.
#[must_use]
pub fn launch_template_data(spec: &TemplateSpec) -> Value {
    let mut data = Map::new();
    let mut set = |key: &str, value: Value| {
        data.insert(key.to_owned(), value);
    };
    set("ImageId", json!(spec.image_id));
    if !spec.user_data.is_empty() {
        set("UserData", json!(spec.user_data));
    }
    set("IamInstanceProfile", json!({ "Name": spec.instance_profile }));
    set("Monitoring", json!({ "Enabled": spec.detailed_monitoring }));
    set("MetadataOptions", metadata_options(spec));
    if !spec.block_devices.is_empty() {
        set("BlockDeviceMappings", spec.block_devices.iter().map(block_device).collect());
    }
    set("NetworkInterfaces", spec.network_interfaces.iter().map(|it| network_interface(spec, it)).collect());
    set("CapacityReservationSpecification", reservation(spec));
    if let Some(market) = spec.market {
        set("InstanceMarketOptions", json!({ "MarketType": market.as_str() }));
    }
    if let Some(nested) = spec.nested_virtualization {
        set("CpuOptions", json!({ "NestedVirtualization": word(&nested) }));
    }
    if let Some(placement) = placement(spec) {
        set("Placement", placement);
    }
    if spec.enclaves {
        set("EnclaveOptions", json!({ "Enabled": true }));
    }
    let spot = spec.spot.then_some("spot-instances-request");
    let kinds = ["network-interface"].into_iter().chain(spot);
    set("TagSpecifications", kinds.map(|kind| tag_specification(kind, &spec.tags)).collect());
    Value::Object(data)
}

fn metadata_options(spec: &TemplateSpec) -> Value {
    let options = &spec.metadata_options;
    json!({
        "HttpEndpoint": word(&options.http_endpoint),
        "HttpProtocolIpv6": word(&options.http_protocol_ipv6),
        "HttpTokens": word(&options.http_tokens),
        "HttpPutResponseHopLimit": options.http_put_response_hop_limit,
        "InstanceMetadataTags": "disabled",
    })
}

/// A launch without a reservation does not use open reservations, so that they remain available for launches that request them.
fn reservation(spec: &TemplateSpec) -> Value {
    match &spec.reservation_id {
        None => json!({ "CapacityReservationPreference": "none" }),
        Some(id) => json!({
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": { "CapacityReservationId": id },
        }),
    }
}

fn placement(spec: &TemplateSpec) -> Option<Value> {
    let mut placement = Map::new();
    if let Some(tenancy) = spec.tenancy {
        placement.insert("Tenancy".to_owned(), json!(tenancy));
    }
    match &spec.placement_group {
        Some(PlacementGroupSelector { id: Some(id), .. }) => drop(placement.insert("GroupId".to_owned(), json!(id))),
        Some(PlacementGroupSelector { name: Some(name), .. }) => {
            placement.insert("GroupName".to_owned(), json!(name));
        }
        _ => {}
    }
    if let Some(partition) = spec.partition {
        placement.insert("PartitionNumber".to_owned(), json!(partition));
    }
    (!placement.is_empty()).then_some(Value::Object(placement))
}

fn network_interface(spec: &TemplateSpec, interface: &Interface) -> Value {
    let mut request = Map::new();
    let mut set = |key: &str, value: Value| {
        request.insert(key.to_owned(), value);
    };
    set("NetworkCardIndex", json!(interface.network_card_index));
    set("DeviceIndex", json!(interface.device_index));
    set("InterfaceType", json!(interface.kind.as_str()));
    set("Groups", json!(spec.security_group_ids));
    if interface.kind == InterfaceKind::EfaOnly {
        return Value::Object(request);
    }
    let primary = interface.network_card_index == 0 && interface.device_index == 0;
    let prefixes = spec.ip_prefix_count.filter(|count| *count > 0);
    if spec.ipv6 {
        set("Ipv6AddressCount", json!(1));
        if let Some(count) = prefixes {
            set("Ipv6PrefixCount", json!(count));
        }
        if primary {
            set("PrimaryIpv6", json!(true));
        }
    } else if let Some(count) = prefixes {
        set("Ipv4PrefixCount", json!(count));
    }
    // EC2 assigns a public address only to a single primary interface.
    if let Some(public) = spec.associate_public_ip_address.filter(|_| primary) {
        set("AssociatePublicIpAddress", json!(public));
    }
    if let Some(tracking) = &spec.connection_tracking {
        let timeouts = [
            ("TcpEstablishedTimeout", tracking.tcp_established_timeout),
            ("UdpStreamTimeout", tracking.udp_stream_timeout),
            ("UdpTimeout", tracking.udp_timeout),
        ];
        let timeouts: BTreeMap<&str, i32> =
            timeouts.into_iter().filter_map(|(name, seconds)| Some((name, seconds?))).collect();
        set("ConnectionTrackingSpecification", json!(timeouts));
    }
    Value::Object(request)
}

fn block_device(mapping: &BlockDeviceMapping) -> Value {
    let mut request = Map::new();
    request.extend(mapping.device_name.iter().map(|name| ("DeviceName".to_owned(), json!(name))));
    if let Some(volume) = &mapping.ebs {
        // A template is only created from valid sizes.
        let size = volume.volume_size.as_deref().and_then(|size| gibibytes(size).ok());
        let fields = [
            ("DeleteOnTermination", Some(json!(volume.delete_on_termination.unwrap_or(true)))),
            ("Encrypted", volume.encrypted.map(Value::from)),
            ("Iops", volume.iops.and_then(positive).map(Value::from)),
            ("Throughput", volume.throughput.and_then(positive).map(Value::from)),
            ("KmsKeyId", volume.kms_key_id.clone().map(Value::from)),
            ("SnapshotId", volume.snapshot_id.clone().map(Value::from)),
            ("VolumeInitializationRate", volume.volume_initialization_rate.map(Value::from)),
            ("VolumeSize", size.map(Value::from)),
            ("VolumeType", volume.volume_type.map(|kind| word(&kind))),
        ];
        let ebs: Map<String, Value> =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        request.insert("Ebs".to_owned(), Value::Object(ebs));
    }
    Value::Object(request)
}

/// Zero means "not set", as in Karpenter.
fn positive(number: i64) -> Option<i32> {
    i32::try_from(number).ok().filter(|number| *number > 0)
}

/// The serialized name of a value, which is also EC2's name.
fn word<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Tags for one kind of resource.
#[must_use]
pub fn tag_specification(kind: &str, tags: &StringMap) -> Value {
    let tags: Vec<Value> = tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
    json!({ "ResourceType": kind, "Tags": tags })
}

/// A CreateFleet call.
#[derive(Clone, Copy, Debug)]
pub struct FleetCall<'a> {
    /// The plan of the fleet.
    pub plan: &'a FleetPlan,
    /// The names of the launch templates, by variant. A variant without one is omitted.
    pub templates: &'a BTreeMap<Variant, String>,
    /// The number of instances.
    pub count: u32,
    /// Makes the call idempotent.
    pub client_token: &'a str,
    /// Tags of the instances, their volumes and the fleet.
    pub tags: &'a StringMap,
}

/// CreateFleet.
#[must_use]
pub fn create_fleet(call: &FleetCall<'_>) -> Value {
    let plan = call.plan;
    let config = |(variant, overrides): (&Variant, &Vec<crate::fleet::FleetOverride>)| {
        let name = call.templates.get(variant)?;
        let overrides: Vec<Value> = overrides
            .iter()
            .map(|entry| {
                let mut overridden = json!({
                    "InstanceType": entry.instance_type,
                    "AvailabilityZone": entry.zone,
                    "SubnetId": entry.subnet_id,
                });
                if plan.prioritized {
                    overridden["Priority"] = json!(entry.price);
                }
                overridden
            })
            .collect();
        Some(json!({
            "LaunchTemplateSpecification": { "LaunchTemplateName": name, "Version": "$Latest" },
            "Overrides": overrides,
        }))
    };
    let spot = plan.capacity_type == CapacityType::Spot;
    let default_type = match (spot, plan.market) {
        (true, _) => "spot",
        (false, Some(Market::CapacityBlock)) => "capacity-block",
        (false, Some(Market::Interruptible)) => "reserved-capacity",
        (false, None) => "on-demand",
    };
    let tags = ["instance", "volume", "fleet"].map(|kind| tag_specification(kind, call.tags));
    let mut request = json!({
        "Type": "instant",
        "ClientToken": call.client_token,
        "LaunchTemplateConfigs": plan.groups.iter().filter_map(config).collect::<Vec<_>>(),
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": call.count,
            "DefaultTargetCapacityType": default_type,
        },
        "TagSpecifications": tags,
    });
    if spot {
        let strategy = if plan.prioritized { "capacity-optimized-prioritized" } else { "price-capacity-optimized" };
        request["SpotOptions"] = json!({ "AllocationStrategy": strategy });
    } else if plan.market == Some(Market::Interruptible) {
        request["ReservedCapacityOptions"] = json!({ "ReservationTypes": [Market::Interruptible.as_str()] });
    } else if plan.market.is_none() {
        let strategy = if plan.prioritized { "prioritized" } else { "lowest-price" };
        request["OnDemandOptions"] = json!({ "AllocationStrategy": strategy });
    }
    if plan.all_or_none {
        let options = if spot { "SpotOptions" } else { "OnDemandOptions" };
        request[options]["MinTargetCapacity"] = json!(call.count);
        request[options]["SingleAvailabilityZone"] = json!(true);
    }
    if let Some(context) = &plan.context {
        request["Context"] = json!(context);
    }
    request
}
