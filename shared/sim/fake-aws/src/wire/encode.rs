//! EC2's resources in the names of its answers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nodeless_model::listed_commitments::{ListedReservedInstances, RecurringCharge};
use serde_json::{Value, json};

use super::super::describe_region::Tagged;
use super::super::objects::account::{
    Account, CapacityReservation, Image, PlacementGroup, SecurityGroup, Subnet, Tags, Vpc,
};
use super::super::objects::fleet::CreateFleetAnswer;
use super::super::objects::instance::{Instance, InstanceState};
use super::super::objects::offering::CapacityType;
use super::super::objects::template::{LaunchTemplate, LaunchTemplateVersion};
use super::super::requests::LaunchTemplateData;
use super::names::to_wire;

/// A time with milliseconds, as EC2 writes it.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn tag_set(tags: &Tags) -> Value {
    tags.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
}

pub(super) fn state(state: InstanceState) -> Value {
    json!({ "code": state.code(), "name": state.as_str() })
}

fn group_set(account: &Account, ids: &[String]) -> Value {
    let name = |id: &String| account.security_groups.iter().find(|group| group.id == *id).map(|g| g.name.clone());
    ids.iter().map(|id| json!({ "groupId": id, "groupName": name(id) })).collect()
}

/// Instances by the reservation that they came with.
pub(super) fn reservation_set(account: &Account, instances: &[Instance]) -> Value {
    let mut reservations: Vec<(&str, Vec<Value>)> = Vec::new();
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    for described in instances {
        let id = described.reservation_id.as_str();
        let position = *positions.entry(id).or_insert(reservations.len());
        if position == reservations.len() {
            reservations.push((id, Vec::new()));
        }
        reservations[position].1.push(instance(account, described));
    }
    let reservation = |(id, entries): (&str, Vec<Value>)| json!({ "reservationId": id, "ownerId": account.id, "groupSet": [], "instancesSet": entries });
    reservations.into_iter().map(reservation).collect()
}

/// The market type of an instance in an interruptible capacity reservation.
fn own_market(data: &LaunchTemplateData) -> Option<&str> {
    let market = data.other.get("InstanceMarketOptions")?.get("MarketType")?.as_str()?;
    Some(market).filter(|market| *market != "spot")
}

/// An instance.
pub(super) fn instance(account: &Account, described: &Instance) -> Value {
    let Instance { offering, data, .. } = described;
    let gone = described.state == InstanceState::Terminated;
    let spot = offering.capacity_type == CapacityType::Spot;
    let reason = described.state_reason.as_ref().map(|(code, message)| json!({ "code": code, "message": message }));
    let transition = described.stopped.map(|at| {
        let code = described.state_reason.as_ref().map_or("", |(code, _)| code.as_str());
        let cause = if code.starts_with("Client.") { "User initiated" } else { code };
        format!("{cause} ({})", at.strftime("%Y-%m-%d %H:%M:%S GMT"))
    });
    let mut encoded = json!({
        "instanceId": described.id,
        "imageId": described.image_id,
        "instanceState": state(described.state),
        "privateDnsName": if gone { "" } else { &described.private_dns_name },
        "dnsName": "",
        "reason": transition.unwrap_or_default(),
        "amiLaunchIndex": described.launch_index,
        "productCodes": [],
        "instanceType": offering.instance_type,
        "launchTime": time(described.launched),
        "placement": {
            "availabilityZone": offering.zone,
            "availabilityZoneId": described.zone_id,
            "groupName": "",
            "partitionNumber": described.partition,
            "tenancy": "default",
        },
        "platform": described.platform,
        "monitoring": { "state": "disabled" },
        "stateReason": reason,
        "architecture": described.architecture,
        "rootDeviceType": "ebs",
        "rootDeviceName": described.root_device,
        "virtualizationType": "hvm",
        "clientToken": described.client_token.as_deref().unwrap_or_default(),
        "hypervisor": "xen",
        "enaSupport": true,
        "instanceLifecycle": if spot { Some("spot") } else { own_market(data) },
        "spotInstanceRequestId": described.spot_request_id,
        "capacityReservationId": described.capacity_reservation_id,
        "capacityReservationSpecification": data.other.get("CapacityReservationSpecification").cloned().map(to_wire),
        "tagSet": tag_set(&described.tags),
        "iamInstanceProfile": described.instance_profile.as_ref().map(|(arn, id)| json!({ "arn": arn, "id": id })),
        "metadataOptions": data.other.get("MetadataOptions").cloned().map(to_wire),
        "cpuOptions": data.other.get("CpuOptions").cloned().map(to_wire),
        "ebsOptimized": data.other.get("EbsOptimized").cloned().unwrap_or(Value::Bool(false)),
    });
    if !gone && let Some(members) = encoded.as_object_mut() {
        members.insert("subnetId".to_owned(), json!(described.subnet_id));
        members.insert("vpcId".to_owned(), json!(described.vpc_id));
        members.insert("privateIpAddress".to_owned(), json!(described.private_ip));
        members.insert("groupSet".to_owned(), group_set(account, &described.security_group_ids));
        members.insert("blockDeviceMapping".to_owned(), block_devices(described));
        members.insert("networkInterfaceSet".to_owned(), json!([network_interface(account, described)]));
    }
    encoded
}

fn block_devices(described: &Instance) -> Value {
    json!([{
        "deviceName": described.root_device,
        "ebs": {
            "volumeId": described.volume_id,
            "status": "attached",
            "attachTime": time(described.launched),
            "deleteOnTermination": true,
        },
    }])
}

fn network_interface(account: &Account, described: &Instance) -> Value {
    json!({
        "networkInterfaceId": described.network_interface_id,
        "subnetId": described.subnet_id,
        "vpcId": described.vpc_id,
        "ownerId": account.id,
        "status": "in-use",
        "privateIpAddress": described.private_ip,
        "privateDnsName": described.private_dns_name,
        "sourceDestCheck": true,
        "interfaceType": "interface",
        "groupSet": group_set(account, &described.security_group_ids),
        "attachment": {
            "deviceIndex": 0,
            "networkCardIndex": 0,
            "status": "attached",
            "attachTime": time(described.launched),
            "deleteOnTermination": true,
        },
        "privateIpAddressesSet": [{ "privateIpAddress": described.private_ip, "primary": true }],
    })
}

/// The entry of DescribeInstanceStatus.
pub(super) fn instance_status(described: &Instance) -> Value {
    let [own, system] = described.checks().map(|(status, since)| {
        let failed =
            since.map(|since| json!({ "name": "reachability", "status": "failed", "impairedSince": time(since) }));
        json!({ "status": status, "details": failed.into_iter().collect::<Vec<_>>() })
    });
    let planned = described.planned.iter().map(|event| {
        json!({
            "instanceEventId": event.id,
            "code": event.code,
            "description": event.description,
            "notBefore": time(event.not_before),
        })
    });
    json!({
        "instanceId": described.id,
        "availabilityZone": described.offering.zone,
        "availabilityZoneId": described.zone_id,
        "instanceState": state(described.state),
        "instanceStatus": own,
        "systemStatus": system,
        "eventsSet": planned.collect::<Vec<_>>(),
    })
}

/// The answer to CreateFleet.
pub(super) fn fleet(answer: &CreateFleetAnswer) -> Value {
    let lines = |lines: serde_json::Result<Value>| to_wire(lines.unwrap_or_default());
    json!({
        "fleetId": answer.fleet_id,
        "errorSet": lines(serde_json::to_value(&answer.errors)),
        "fleetInstanceSet": lines(serde_json::to_value(&answer.instances)),
    })
}

/// A launch template without its data.
pub(super) fn launch_template(account: &Account, template: &LaunchTemplate) -> Value {
    json!({
        "launchTemplateId": template.id,
        "launchTemplateName": template.name,
        "createTime": time(template.created),
        "createdBy": format!("arn:aws:iam::{}:root", account.id),
        "defaultVersionNumber": template.default_version,
        "latestVersionNumber": template.latest_version(),
        "tagSet": tag_set(&template.tags),
    })
}

/// A version of a launch template.
pub(super) fn launch_template_version(
    account: &Account,
    template: &LaunchTemplate,
    version: &LaunchTemplateVersion,
) -> Value {
    json!({
        "launchTemplateId": template.id,
        "launchTemplateName": template.name,
        "versionNumber": version.number,
        "versionDescription": version.description,
        "createTime": time(version.created),
        "createdBy": format!("arn:aws:iam::{}:root", account.id),
        "defaultVersion": version.number == template.default_version,
        "launchTemplateData": serde_json::to_value(&version.data).map(to_wire).unwrap_or_default(),
    })
}

pub(super) fn subnet(account: &Account, tagged: &Tagged<Subnet>) -> Value {
    let Tagged { resource: subnet, tags } = tagged;
    json!({
        "subnetId": subnet.id,
        "subnetArn": format!("arn:aws:ec2:{}:{}:subnet/{}", account.facts.region, account.id, subnet.id),
        "ownerId": account.id,
        "state": "available",
        "vpcId": subnet.vpc_id,
        "cidrBlock": subnet.cidr,
        "availableIpAddressCount": subnet.free_addresses,
        "availabilityZone": subnet.zone,
        "availabilityZoneId": account.facts.zone(&subnet.zone).map(|zone| zone.id.clone()),
        "defaultForAz": subnet.default_for_zone,
        "mapPublicIpOnLaunch": subnet.public,
        "assignIpv6AddressOnCreation": false,
        "ipv6CidrBlockAssociationSet": [],
        "tagSet": tag_set(tags),
    })
}

pub(super) fn vpc(account: &Account, tagged: &Tagged<Vpc>) -> Value {
    let Tagged { resource: vpc, tags } = tagged;
    json!({
        "vpcId": vpc.id,
        "ownerId": account.id,
        "state": "available",
        "cidrBlock": vpc.cidr,
        "isDefault": vpc.is_default,
        "instanceTenancy": "default",
        "cidrBlockAssociationSet": [{
            "cidrBlock": vpc.cidr,
            "associationId": vpc.id.replacen("vpc-", "vpc-cidr-assoc-", 1),
            "cidrBlockState": { "state": "associated" },
        }],
        "tagSet": tag_set(tags),
    })
}

pub(super) fn security_group(account: &Account, tagged: &Tagged<SecurityGroup>) -> Value {
    let Tagged { resource: group, tags } = tagged;
    let everything = json!([{ "ipProtocol": "-1", "ipRanges": [{ "cidrIp": "0.0.0.0/0" }], "groups": [] }]);
    json!({
        "groupId": group.id,
        "groupName": group.name,
        "groupDescription": group.description,
        "vpcId": group.vpc_id,
        "ownerId": account.id,
        "ipPermissions": [],
        "ipPermissionsEgress": everything,
        "tagSet": tag_set(tags),
    })
}

pub(super) fn image(account: &Account, tagged: &Tagged<Image>) -> Value {
    let Tagged { resource: image, tags } = tagged;
    json!({
        "imageId": image.id,
        "name": image.name,
        "description": image.name,
        "imageState": image.state,
        "imageOwnerId": image.owner_id,
        "imageOwnerAlias": image.owner_alias,
        "imageLocation": format!("{}/{}", image.owner_alias.as_ref().unwrap_or(&image.owner_id), image.name),
        "isPublic": image.owner_id != account.id,
        "architecture": image.architecture,
        "imageType": "machine",
        "platform": image.platform,
        "platformDetails": if image.platform.is_some() { "Windows" } else { "Linux/UNIX" },
        "creationDate": time(image.created),
        "deprecationTime": image.deprecated.map(time),
        "rootDeviceType": "ebs",
        "rootDeviceName": image.root_device,
        "virtualizationType": "hvm",
        "hypervisor": "xen",
        "enaSupport": true,
        "blockDeviceMapping": [{
            "deviceName": image.root_device,
            "ebs": { "volumeSize": image.root_volume_gib, "volumeType": "gp3", "deleteOnTermination": true, "encrypted": false },
        }],
        "tagSet": tag_set(tags),
    })
}

pub(super) fn reserved_instances(reserved: &ListedReservedInstances) -> Value {
    let charge = |one: &RecurringCharge| json!({ "frequency": one.frequency, "amount": one.amount });
    let mut encoded = json!({
        "reservedInstancesId": reserved.id,
        "instanceType": reserved.instance_type,
        "instanceCount": reserved.instance_count,
        "productDescription": reserved.product_description,
        "instanceTenancy": reserved.instance_tenancy,
        "currencyCode": reserved.currency_code,
        "state": reserved.state,
        "start": time(reserved.start),
        "end": time(reserved.end),
        "duration": reserved.duration.to_string(),
        "fixedPrice": reserved.fixed_price,
        "usagePrice": reserved.usage_price,
        "recurringCharges": reserved.recurring_charges.iter().map(charge).collect::<Vec<_>>(),
    });
    if let Some(zone) = &reserved.availability_zone {
        encoded["availabilityZone"] = json!(zone);
    }
    encoded
}

pub(super) fn placement_group(account: &Account, tagged: &Tagged<PlacementGroup>) -> Value {
    let Tagged { resource: group, tags } = tagged;
    json!({
        "groupId": group.id,
        "groupName": group.name,
        "groupArn": format!("arn:aws:ec2:{}:{}:placement-group/{}", account.facts.region, account.id, group.name),
        "strategy": group.strategy,
        "partitionCount": (group.partitions > 0).then_some(group.partitions),
        "state": "available",
        "tagSet": tag_set(tags),
    })
}

pub(super) fn capacity_reservation(account: &Account, now: Timestamp, tagged: &Tagged<CapacityReservation>) -> Value {
    let Tagged { resource: reservation, tags } = tagged;
    json!({
        "capacityReservationId": reservation.id,
        "ownerId": account.id,
        "capacityReservationArn":
            format!("arn:aws:ec2:{}:{}:capacity-reservation/{}", account.facts.region, account.id, reservation.id),
        "instanceType": reservation.instance_type,
        "instancePlatform": "Linux/UNIX",
        "availabilityZone": reservation.zone,
        "availabilityZoneId": account.facts.zone(&reservation.zone).map(|zone| zone.id.clone()),
        "tenancy": "default",
        "totalInstanceCount": reservation.total,
        "availableInstanceCount": reservation.available,
        "state": reservation.state(now),
        "startDate": time(reservation.start),
        "createDate": time(reservation.start),
        "endDate": reservation.end.map(time),
        "endDateType": if reservation.end.is_some() { "limited" } else { "unlimited" },
        "instanceMatchCriteria": if reservation.open { "open" } else { "targeted" },
        "reservationType": "default",
        "interruptible": reservation.interruptible,
        "tagSet": tag_set(tags),
    })
}
