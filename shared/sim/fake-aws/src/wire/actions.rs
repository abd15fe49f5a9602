//! EC2's actions: converts parameters to the content of the answer.

use serde::Serialize;
use serde_json::{Value, json};

use super::super::describe::Page;
use super::super::error::Ec2Error;
use super::super::launches::run::ChangedInstance;
use super::super::objects::account::Account;
use super::super::query::QueryNode;
use super::super::requests::Describe;
use super::super::state::Ec2;
use super::encode;
use super::names::{launch_template_member, to_wire};

/// A page of a describe call: the list under its name, and the token.
fn paged<T>(list: &str, page: Page<T>, encode: impl FnMut(T) -> Value) -> Value {
    let (entries, token) = page;
    let mut content = serde_json::Map::new();
    content.insert(list.to_owned(), entries.into_iter().map(encode).collect());
    content.insert("nextToken".to_owned(), token.map_or(Value::Null, Value::String));
    Value::Object(content)
}

/// The states of instances before and after a call.
fn changed(instances: Vec<ChangedInstance>) -> Value {
    let entries = instances.into_iter().map(|instance| {
        json!({
            "instanceId": instance.instance_id,
            "currentState": encode::state(instance.current),
            "previousState": encode::state(instance.previous),
        })
    });
    json!({ "instancesSet": entries.collect::<Value>() })
}

/// A boolean result.
fn done(_: impl Serialize) -> Value {
    json!({ "return": true })
}

/// The describe calls, whose parameters are read before the call is chosen.
const DESCRIBES: &[&str] = &[
    "DescribeAvailabilityZones",
    "DescribeCapacityReservations",
    "DescribeImages",
    "DescribeInstanceStatus",
    "DescribeInstanceTypeOfferings",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeLaunchTemplateVersions",
    "DescribeLaunchTemplates",
    "DescribePlacementGroups",
    "DescribeReservedInstances",
    "DescribeSecurityGroups",
    "DescribeSpotPriceHistory",
    "DescribeSubnets",
    "DescribeTags",
    "DescribeVpcs",
];

/// Runs one action.
pub(crate) fn run(ec2: &Ec2, action: &str, mut parameters: QueryNode) -> Result<Value, Ec2Error> {
    if action.starts_with("Describe") {
        if !DESCRIBES.contains(&action) {
            return Err(Ec2Error::unknown_action(action));
        }
        return describe(ec2, action, &parameters.read()?);
    }
    parameters.rename_below("LaunchTemplateData", &launch_template_member);
    parameters.rename_below("NetworkInterface", &launch_template_member);
    let parameters = parameters;
    match action {
        "CreateFleet" => ec2.create_fleet(&parameters.read()?).map(|answer| encode::fleet(&answer)),
        "RunInstances" => {
            let launched = ec2.run_instances(&parameters.read()?)?;
            let reservations = ec2.with_account(|account| encode::reservation_set(account, &launched));
            Ok(reservations.get(0).cloned().unwrap_or_default())
        }
        "TerminateInstances" => ec2.terminate_instances(&parameters.read()?).map(changed),
        "RebootInstances" => ec2.reboot_instances(&parameters.read()?).map(done),
        "StopInstances" => ec2.stop_instances(&parameters.read()?).map(changed),
        "StartInstances" => ec2.start_instances(&parameters.read()?).map(changed),
        "CreateTags" => ec2.create_tags(&parameters.read()?).map(done),
        "DeleteTags" => ec2.delete_tags(&parameters.read()?).map(done),
        "CreateLaunchTemplate" => {
            let template = ec2.create_launch_template(&parameters.read()?)?;
            Ok(json!({ "launchTemplate": ec2.with_account(|account| encode::launch_template(account, &template)) }))
        }
        "CreateLaunchTemplateVersion" => {
            let template = ec2.create_launch_template_version(&parameters.read()?)?;
            let newest = template.versions.last().map(|version| {
                ec2.with_account(|account| encode::launch_template_version(account, &template, version))
            });
            Ok(json!({ "launchTemplateVersion": newest }))
        }
        "DeleteLaunchTemplate" => {
            let template = ec2.delete_launch_template(&parameters.read()?)?;
            Ok(json!({ "launchTemplate": ec2.with_account(|account| encode::launch_template(account, &template)) }))
        }
        other => Err(Ec2Error::unknown_action(other)),
    }
}

fn describe(ec2: &Ec2, action: &str, request: &Describe) -> Result<Value, Ec2Error> {
    match action {
        "DescribeInstances" => {
            let (instances, token) = ec2.describe_instances(request)?;
            let reservations = ec2.with_account(|account| encode::reservation_set(account, &instances));
            Ok(json!({ "reservationSet": reservations, "nextToken": token }))
        }
        "DescribeInstanceStatus" => {
            let found = ec2.describe_instance_status(request)?;
            Ok(paged("instanceStatusSet", found, |instance| encode::instance_status(&instance)))
        }
        "DescribeTags" => Ok(paged("tagSet", ec2.describe_tags(request)?, |tag| {
            json!({
                "resourceId": tag.resource_id,
                "resourceType": tag.resource_type,
                "key": tag.key,
                "value": tag.value,
            })
        })),
        "DescribeLaunchTemplates" => {
            let found = ec2.describe_launch_templates(request)?;
            Ok(listed(ec2, "launchTemplates", found, encode::launch_template))
        }
        "DescribeLaunchTemplateVersions" => {
            let found = ec2.describe_launch_template_versions(request)?;
            Ok(listed(ec2, "launchTemplateVersionSet", found, |account, (template, version)| {
                encode::launch_template_version(account, template, version)
            }))
        }
        _ => describe_region(ec2, action, request),
    }
}

/// A page of resources of the account.
fn listed<T>(ec2: &Ec2, list: &str, found: Page<T>, encode: impl Fn(&Account, &T) -> Value) -> Value {
    ec2.with_account(|account| paged(list, found, |entry| encode(account, &entry)))
}

fn describe_region(ec2: &Ec2, action: &str, request: &Describe) -> Result<Value, Ec2Error> {
    match action {
        "DescribeVpcs" => Ok(listed(ec2, "vpcSet", ec2.describe_vpcs(request)?, encode::vpc)),
        "DescribeSubnets" => Ok(listed(ec2, "subnetSet", ec2.describe_subnets(request)?, encode::subnet)),
        "DescribeSecurityGroups" => {
            Ok(listed(ec2, "securityGroupInfo", ec2.describe_security_groups(request)?, encode::security_group))
        }
        "DescribeImages" => Ok(listed(ec2, "imagesSet", ec2.describe_images(request)?, encode::image)),
        "DescribeCapacityReservations" => {
            let found = ec2.describe_capacity_reservations(request)?;
            let now = ec2.now();
            Ok(listed(ec2, "capacityReservationSet", found, |account, found| {
                encode::capacity_reservation(account, now, found)
            }))
        }
        "DescribePlacementGroups" => {
            let found = ec2.describe_placement_groups(request)?;
            let encode =
                |account: &Account| found.iter().map(|group| encode::placement_group(account, group)).collect();
            Ok(json!({ "placementGroupSet": ec2.with_account::<Value>(encode) }))
        }
        "DescribeReservedInstances" => {
            let found = ec2.describe_reserved_instances(request)?;
            let found: Vec<Value> = found.iter().map(encode::reserved_instances).collect();
            Ok(json!({ "reservedInstancesSet": found }))
        }
        "DescribeAvailabilityZones" => {
            let facts = ec2.facts();
            let zones = ec2.describe_availability_zones(request)?.into_iter().map(|zone| {
                json!({
                    "zoneName": zone.name,
                    "zoneId": zone.id,
                    "zoneState": "available",
                    "zoneType": zone.kind(),
                    "regionName": facts.region,
                    "groupName": zone.group(),
                    "networkBorderGroup": zone.group(),
                    "optInStatus": zone.opt_in_status(),
                    "messageSet": [],
                })
            });
            Ok(json!({ "availabilityZoneInfo": zones.collect::<Value>() }))
        }
        "DescribeInstanceTypes" => Ok(paged("instanceTypeSet", ec2.describe_instance_types(request)?, to_wire)),
        "DescribeInstanceTypeOfferings" => {
            let found = ec2.describe_instance_type_offerings(request)?;
            Ok(paged("instanceTypeOfferingSet", found, |offering| {
                json!({
                    "instanceType": offering.instance_type,
                    "locationType": offering.location_type,
                    "location": offering.location,
                })
            }))
        }
        "DescribeSpotPriceHistory" => {
            let now = encode::time(ec2.now());
            Ok(paged("spotPriceHistorySet", ec2.describe_spot_price_history(request)?, |spot| {
                json!({
                    "instanceType": spot.instance_type,
                    "availabilityZone": spot.zone,
                    "productDescription": spot.product_description,
                    "spotPrice": format!("{:.6}", spot.price),
                    "timestamp": now,
                })
            }))
        }
        other => Err(Ec2Error::unknown_action(other)),
    }
}
