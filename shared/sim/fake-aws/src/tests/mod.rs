//! The account's rules.

mod faults;
mod fleet;
mod launch_templates;
mod life;
mod quotas;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use super::requests::{
    CreateFleet, CreateLaunchTemplate, FleetLaunchTemplateConfig, FleetOverride, IamInstanceProfile,
    LaunchTemplateData, LaunchTemplateSpecification, OnDemandOptions, SpotOptions, Tag, TagSpecification,
    TargetCapacity,
};
use super::{Account, Ec2, RegionFacts, TypeFacts, Zone};

pub(super) const START: &str = "2026-01-05T08:00:00Z";
pub(super) const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];

pub(super) fn start() -> Timestamp {
    START.parse().unwrap()
}

fn sold(name: &str, architecture: &str, price: f64, spot: [f64; 2]) -> (String, TypeFacts) {
    let description = json!({
        "InstanceType": name,
        "ProcessorInfo": { "SupportedArchitectures": [architecture] },
        "VCpuInfo": { "DefaultVCpus": 2 },
        "MemoryInfo": { "SizeInMiB": 8192 },
        "BareMetal": false,
        "SupportedUsageClasses": ["on-demand", "spot"],
    });
    let zones: Vec<_> = ZONES.iter().map(|zone| (*zone).to_owned()).collect();
    let spot_prices = zones.iter().cloned().zip(spot).collect();
    let facts = TypeFacts { description, zones, on_demand_price: Some(price), spot_prices, ..TypeFacts::default() };
    (name.to_owned(), facts)
}

/// Two zones and three types: `m5` is cheapest on demand, `m6` cheapest on spot, `m6g` is arm64.
pub(super) fn account() -> Account {
    let zone = |(index, name): (usize, &str)| Zone { name: name.to_owned(), id: format!("use1-az{}", index + 1) };
    let facts = RegionFacts {
        region: "us-east-1".to_owned(),
        zones: ZONES.into_iter().enumerate().map(zone).collect(),
        types: BTreeMap::from([
            sold("m5.large", "x86_64", 0.096, [0.05, 0.04]),
            sold("m6i.large", "x86_64", 0.100, [0.03, 0.06]),
            sold("m6g.large", "arm64", 0.077, [0.02, 0.02]),
        ]),
    };
    Account::for_cluster("000000000000", facts, "demo", "1.33", start())
}

/// The account with a launch template named `nodes`, which has the x86-64 image, the node group and profile.
pub(super) fn ec2() -> Ec2 {
    let ec2 = Ec2::new(account(), start());
    ec2.create_launch_template(&template("nodes")).unwrap();
    ec2
}

pub(super) fn template(name: &str) -> CreateLaunchTemplate {
    let account = account();
    let image = account.images.iter().find(|image| image.architecture == "x86_64").unwrap();
    CreateLaunchTemplate {
        launch_template_name: Some(name.to_owned()),
        launch_template_data: Some(LaunchTemplateData {
            image_id: Some(image.id.clone()),
            user_data: Some("aGVsbG8=".to_owned()),
            security_group_ids: vec![account.security_groups[0].id.clone()],
            iam_instance_profile: Some(IamInstanceProfile { name: Some("demo-node".to_owned()), arn: None }),
            ..LaunchTemplateData::default()
        }),
        ..CreateLaunchTemplate::default()
    }
}

/// A fleet over all of these types in all zones.
pub(super) fn fleet(types: &[&str], capacity_type: &str, strategy: &str, target: u32) -> CreateFleet {
    let subnets = account().subnets;
    let overridden = |(index, name): (usize, &&str)| {
        let name = (*name).to_owned();
        subnets.iter().map(move |subnet| FleetOverride {
            instance_type: Some(name.clone()),
            subnet_id: Some(subnet.id.clone()),
            availability_zone: Some(subnet.zone.clone()),
            // The first type has the highest priority number, so it is tried last with the prioritized strategies.
            priority: Some(100.0 - f64::from(u32::try_from(index).unwrap())),
            ..FleetOverride::default()
        })
    };
    let strategy = Some(strategy.to_owned());
    let (on_demand_options, spot_options) = if capacity_type == "spot" {
        (None, Some(SpotOptions { allocation_strategy: strategy, ..SpotOptions::default() }))
    } else {
        (Some(OnDemandOptions { allocation_strategy: strategy, ..OnDemandOptions::default() }), None)
    };
    CreateFleet {
        fleet_type: Some("instant".to_owned()),
        launch_template_configs: vec![FleetLaunchTemplateConfig {
            launch_template_specification: LaunchTemplateSpecification {
                launch_template_name: Some("nodes".to_owned()),
                version: Some("$Latest".to_owned()),
                launch_template_id: None,
            },
            overrides: types.iter().enumerate().flat_map(overridden).collect(),
        }],
        target_capacity_specification: Some(TargetCapacity {
            total_target_capacity: Some(target),
            default_target_capacity_type: Some(capacity_type.to_owned()),
            ..TargetCapacity::default()
        }),
        on_demand_options,
        spot_options,
        tag_specifications: vec![TagSpecification {
            resource_type: Some("instance".to_owned()),
            tags: vec![Tag::new("karpenter.sh/nodepool", "default")],
        }],
        ..CreateFleet::default()
    }
}

/// The result of a fleet: type and zone of each instance, and the error codes.
pub(super) fn bought(ec2: &Ec2, request: &CreateFleet) -> (Vec<String>, Vec<String>) {
    let answer = ec2.create_fleet(request).unwrap();
    let ids = answer.instance_ids();
    let instances = ec2.instances();
    let offering = |id: &String| {
        let offering = &instances.iter().find(|instance| instance.id == *id).unwrap().offering;
        format!("{} {}", offering.instance_type, offering.zone)
    };
    let errors = answer.errors.into_iter().map(|error| error.error_code).collect();
    (ids.iter().map(offering).collect(), errors)
}
