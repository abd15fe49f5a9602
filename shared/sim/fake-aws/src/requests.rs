//! The requests, in the SDK's member names. The aliases are what the query protocol calls the same members.
//!
//! A member that is not here is refused as unknown, so no request is half obeyed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Tag {
    /// Key, at most 128 characters.
    pub key: String,
    /// Value, at most 256 characters. DeleteTags without a value deletes whatever the value is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Tag {
    /// A tag with a value.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: Some(value.into()) }
    }
}

/// Tags for the resources of one kind that a call makes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
pub struct TagSpecification {
    /// `instance`, `volume`, `fleet` and so on.
    pub resource_type: Option<String>,
    /// The tags.
    #[serde(alias = "Tag")]
    pub tags: Vec<Tag>,
}

/// Narrows a describe call: any of the values may match, `*` and `?` are wildcards.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
pub struct Filter {
    /// What to look at, such as `tag:KEY` or `instance-state-name`.
    pub name: String,
    /// Alternatives.
    #[serde(alias = "Value")]
    pub values: Vec<String>,
}

impl Filter {
    /// A filter with one or more alternatives.
    pub fn new<V: Into<String>>(name: &str, values: impl IntoIterator<Item = V>) -> Self {
        Self { name: name.to_owned(), values: values.into_iter().map(Into::into).collect() }
    }
}

macro_rules! request {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $kind,)*
        }
    };
}

request! {
    /// The parameters that all describe calls share. Which id list applies depends on the call.
    Describe {
        /// The ids, names or types asked for; empty asks for all.
        #[serde(
            alias = "InstanceId", alias = "SubnetId", alias = "GroupId", alias = "VpcId", alias = "ImageId",
            alias = "InstanceType", alias = "CapacityReservationId", alias = "LaunchTemplateId"
        )]
        ids: Vec<String>,
        /// Names, where the call takes names beside ids.
        #[serde(alias = "LaunchTemplateName", alias = "GroupName", alias = "ZoneName")]
        names: Vec<String>,
        /// All must match.
        #[serde(alias = "Filter")]
        filters: Vec<Filter>,
        /// Entries a page.
        max_results: Option<u32>,
        /// What the page before ended with.
        next_token: Option<String>,
        /// Only ask whether it would be permitted.
        dry_run: bool,
        /// DescribeImages: `self`, `amazon`, or account ids.
        #[serde(alias = "Owner")]
        owners: Vec<String>,
        /// DescribeImages: show deprecated images too.
        include_deprecated: bool,
        /// DescribeInstanceStatus: show instances that do not run, too.
        include_all_instances: bool,
        /// DescribeInstanceTypeOfferings: `region`, `availability-zone` or `availability-zone-id`.
        location_type: Option<String>,
        /// DescribeSpotPriceHistory: such as `Linux/UNIX`.
        #[serde(alias = "ProductDescription")]
        product_descriptions: Vec<String>,
        /// DescribeSpotPriceHistory: one zone.
        availability_zone: Option<String>,
        /// DescribeSpotPriceHistory: prices in effect from this time. One price stands for all time here.
        start_time: Option<String>,
        /// DescribeSpotPriceHistory: prices in effect until this time.
        end_time: Option<String>,
        /// DescribeLaunchTemplateVersions: numbers, `$Latest` or `$Default`.
        #[serde(alias = "LaunchTemplateVersion")]
        versions: Vec<String>,
        /// DescribeAvailabilityZones: also zones that are not opted in; there are none here.
        all_availability_zones: bool,
        /// Show what other AWS services manage; there is nothing of the kind here.
        include_managed_resources: bool,
    }
}

request! {
    /// Names a launch template, by id or by name, and its version.
    LaunchTemplateSpecification {
        /// `lt-…`
        launch_template_id: Option<String>,
        /// Its name.
        launch_template_name: Option<String>,
        /// A number, `$Latest` or `$Default`.
        version: Option<String>,
    }
}

request! {
    /// What a fleet may launch instead of what the template has.
    FleetOverride {
        /// Instance type.
        instance_type: Option<String>,
        /// The most to pay for spot, in dollars an hour.
        max_price: Option<String>,
        /// Subnet, or several separated by commas.
        subnet_id: Option<String>,
        /// Zone name.
        availability_zone: Option<String>,
        /// How much of the target capacity one instance fulfils; 1 if absent.
        weighted_capacity: Option<f64>,
        /// Lower is taken first by the prioritized strategies.
        priority: Option<f64>,
        /// Image.
        image_id: Option<String>,
    }
}

request! {
    /// A template and the offerings to try it on.
    FleetLaunchTemplateConfig {
        /// The template.
        launch_template_specification: LaunchTemplateSpecification,
        /// The offerings; none takes everything from the template.
        overrides: Vec<FleetOverride>,
    }
}

request! {
    /// How many instances a fleet is to have.
    TargetCapacity {
        /// Instances, or units if the overrides carry weights.
        total_target_capacity: Option<u32>,
        /// Of these, certainly on-demand.
        on_demand_target_capacity: Option<u32>,
        /// Of these, certainly spot.
        spot_target_capacity: Option<u32>,
        /// What the rest is: `on-demand` or `spot`.
        default_target_capacity_type: Option<String>,
    }
}

request! {
    /// How a fleet chooses and buys on-demand offerings.
    OnDemandOptions {
        /// `lowest-price` or `prioritized`.
        allocation_strategy: Option<String>,
    }
}

request! {
    /// How a fleet chooses spot offerings.
    SpotOptions {
        /// `price-capacity-optimized`, `capacity-optimized`, `capacity-optimized-prioritized`, `diversified` or
        /// `lowest-price`.
        allocation_strategy: Option<String>,
        /// Only `terminate` here.
        instance_interruption_behavior: Option<String>,
        /// With `lowest-price`: how many offerings to spread over.
        instance_pools_to_use_count: Option<u32>,
    }
}

request! {
    /// CreateFleet.
    CreateFleet {
        /// Makes the call idempotent.
        client_token: Option<String>,
        /// Only ask whether it would be permitted.
        dry_run: bool,
        /// Only `instant` here.
        #[serde(rename = "Type")]
        fleet_type: Option<String>,
        /// Templates and offerings.
        launch_template_configs: Vec<FleetLaunchTemplateConfig>,
        /// How many.
        target_capacity_specification: Option<TargetCapacity>,
        /// On-demand choice.
        on_demand_options: Option<OnDemandOptions>,
        /// Spot choice.
        spot_options: Option<SpotOptions>,
        /// Tags.
        #[serde(alias = "TagSpecification")]
        tag_specifications: Vec<TagSpecification>,
        /// Passed through to EC2 by those whom AWS gave one; without effect.
        context: Option<String>,
    }
}

request! {
    /// Names an instance profile by ARN or by name.
    IamInstanceProfile {
        /// ARN.
        arn: Option<String>,
        /// Name.
        name: Option<String>,
    }
}

/// The data of a launch template. The members that have an effect are fields; the rest is kept, answered again by
/// DescribeLaunchTemplateVersions, and without effect on a simulated machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LaunchTemplateData {
    /// Image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Instance type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// User data in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// The nodes' profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iam_instance_profile: Option<IamInstanceProfile>,
    /// Security groups, when there are no network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_group_ids: Vec<String>,
    /// Tags for what is launched from the template.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tag_specifications: Vec<TagSpecification>,
    /// The other members.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

request! {
    /// CreateLaunchTemplate and CreateLaunchTemplateVersion.
    CreateLaunchTemplate {
        /// Makes the call idempotent.
        client_token: Option<String>,
        /// Only ask whether it would be permitted.
        dry_run: bool,
        /// Name: 3 to 128 characters of `A-Za-z0-9()./_-`.
        launch_template_name: Option<String>,
        /// CreateLaunchTemplateVersion: the template by id.
        launch_template_id: Option<String>,
        /// A note.
        version_description: Option<String>,
        /// The data.
        launch_template_data: Option<LaunchTemplateData>,
        /// Tags of the template itself.
        #[serde(alias = "TagSpecification")]
        tag_specifications: Vec<TagSpecification>,
    }
}

request! {
    /// DeleteLaunchTemplate.
    DeleteLaunchTemplate {
        /// `lt-…`
        launch_template_id: Option<String>,
        /// Or its name.
        launch_template_name: Option<String>,
        /// Only ask whether it would be permitted.
        dry_run: bool,
    }
}

request! {
    /// Whether RunInstances buys spot.
    InstanceMarketOptions {
        /// `spot`.
        market_type: Option<String>,
        /// Its terms.
        spot_options: Option<SpotMarketOptions>,
    }
}

request! {
    /// Terms of a spot purchase.
    SpotMarketOptions {
        /// The most to pay, in dollars an hour.
        max_price: Option<String>,
        /// Only `one-time` here.
        spot_instance_type: Option<String>,
        /// Only `terminate` here.
        instance_interruption_behavior: Option<String>,
    }
}

request! {
    /// Where an instance goes.
    Placement {
        /// Zone name.
        availability_zone: Option<String>,
        /// Only `default` here.
        tenancy: Option<String>,
    }
}

request! {
    /// RunInstances.
    RunInstances {
        /// Makes the call idempotent.
        client_token: Option<String>,
        /// Only ask whether it would be permitted.
        dry_run: bool,
        /// At least as many, or none.
        min_count: Option<u32>,
        /// At most as many.
        max_count: Option<u32>,
        /// The template; the other members override it.
        launch_template: Option<LaunchTemplateSpecification>,
        /// Instance type.
        instance_type: Option<String>,
        /// Image.
        image_id: Option<String>,
        /// Subnet.
        subnet_id: Option<String>,
        /// Zone.
        placement: Option<Placement>,
        /// Network interfaces, in place of the template's.
        #[serde(alias = "NetworkInterface")]
        network_interfaces: Vec<Value>,
        /// Security groups.
        #[serde(alias = "SecurityGroupId")]
        security_group_ids: Vec<String>,
        /// User data in base64.
        user_data: Option<String>,
        /// The instance's profile.
        iam_instance_profile: Option<IamInstanceProfile>,
        /// Spot or not.
        instance_market_options: Option<InstanceMarketOptions>,
        /// The instance metadata service, in place of the template's.
        metadata_options: Option<Value>,
        /// Tags.
        #[serde(alias = "TagSpecification")]
        tag_specifications: Vec<TagSpecification>,
    }
}

request! {
    /// TerminateInstances.
    TerminateInstances {
        /// The instances.
        #[serde(alias = "InstanceId")]
        instance_ids: Vec<String>,
        /// Only ask whether it would be permitted.
        dry_run: bool,
    }
}

request! {
    /// CreateTags and DeleteTags.
    ChangeTags {
        /// The resources.
        #[serde(alias = "ResourceId")]
        resources: Vec<String>,
        /// The tags. DeleteTags without tags deletes all.
        #[serde(alias = "Tag")]
        tags: Vec<Tag>,
        /// Only ask whether it would be permitted.
        dry_run: bool,
    }
}
