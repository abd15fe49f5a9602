//! The requests, in the SDK's member names. The aliases are the names of the query protocol.
//!
//! An unsupported member is rejected as unknown, so that no request is partly ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Tag {
    /// Key, at most 128 characters.
    pub key: String,
    /// Value, at most 256 characters. DeleteTags without a value deletes any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Tag {
    /// A tag with a value.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: Some(value.into()) }
    }
}

/// Tags for the resources of one kind that a call creates.
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
    /// The filter name, such as `tag:KEY` or `instance-state-name`.
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
        /// The requested ids, names or types; if empty, all.
        #[serde(
            alias = "InstanceId", alias = "SubnetId", alias = "GroupId", alias = "VpcId", alias = "ImageId",
            alias = "InstanceType", alias = "CapacityReservationId", alias = "LaunchTemplateId"
        )]
        ids: Vec<String>,
        /// Names, if the call supports names and ids.
        #[serde(alias = "LaunchTemplateName", alias = "GroupName", alias = "ZoneName")]
        names: Vec<String>,
        /// All must match.
        #[serde(alias = "Filter")]
        filters: Vec<Filter>,
        /// Entries of a page.
        max_results: Option<u32>,
        /// The token of the previous page.
        next_token: Option<String>,
        /// Dry run.
        dry_run: bool,
        /// DescribeImages: `self`, `amazon`, or account ids.
        #[serde(alias = "Owner")]
        owners: Vec<String>,
        /// DescribeImages: include deprecated images.
        include_deprecated: bool,
        /// DescribeInstanceStatus: include instances that are not running.
        include_all_instances: bool,
        /// DescribeInstanceTypeOfferings: `region`, `availability-zone` or `availability-zone-id`.
        location_type: Option<String>,
        /// DescribeSpotPriceHistory: such as `Linux/UNIX`.
        #[serde(alias = "ProductDescription")]
        product_descriptions: Vec<String>,
        /// DescribeSpotPriceHistory: the zone.
        availability_zone: Option<String>,
        /// DescribeSpotPriceHistory: prices in effect from this time. Simulated prices are constant.
        start_time: Option<String>,
        /// DescribeSpotPriceHistory: prices in effect until this time.
        end_time: Option<String>,
        /// DescribeLaunchTemplateVersions: numbers, `$Latest` or `$Default`.
        #[serde(alias = "LaunchTemplateVersion")]
        versions: Vec<String>,
        /// DescribeAvailabilityZones: include zones that are not opted in; the simulation has none.
        all_availability_zones: bool,
        /// Include resources that other AWS services manage; the simulation has none.
        include_managed_resources: bool,
    }
}

request! {
    /// A launch template, by id or by name, and its version.
    LaunchTemplateSpecification {
        /// `lt-…`
        launch_template_id: Option<String>,
        /// The name of the template.
        launch_template_name: Option<String>,
        /// A number, `$Latest` or `$Default`.
        version: Option<String>,
    }
}

request! {
    /// Overrides of a fleet for the values of the template.
    FleetOverride {
        /// Instance type.
        instance_type: Option<String>,
        /// The maximum spot price, in dollars an hour.
        max_price: Option<String>,
        /// Subnet, or several separated by commas.
        subnet_id: Option<String>,
        /// Zone name.
        availability_zone: Option<String>,
        /// The weight of an instance; 1 if absent.
        weighted_capacity: Option<f64>,
        /// The prioritized strategies try lower values first.
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
        /// The offerings; if empty, all values come from the template.
        overrides: Vec<FleetOverride>,
    }
}

request! {
    /// The target capacity of a fleet.
    TargetCapacity {
        /// Instances, or units if the overrides carry weights.
        total_target_capacity: Option<u32>,
        /// The on-demand part.
        on_demand_target_capacity: Option<u32>,
        /// The spot part.
        spot_target_capacity: Option<u32>,
        /// The capacity type of the rest: `on-demand`, `spot` or `reserved-capacity`.
        default_target_capacity_type: Option<String>,
    }
}

request! {
    /// How a fleet selects and launches on-demand offerings.
    OnDemandOptions {
        /// `lowest-price` or `prioritized`.
        allocation_strategy: Option<String>,
        /// With fewer instances, none is launched.
        min_target_capacity: Option<u32>,
        /// Whether all overrides are in one zone.
        single_availability_zone: bool,
    }
}

request! {
    /// How a fleet selects spot offerings.
    SpotOptions {
        /// `price-capacity-optimized`, `capacity-optimized`, `capacity-optimized-prioritized`, `diversified` or
        /// `lowest-price`.
        allocation_strategy: Option<String>,
        /// Only `terminate` is supported.
        instance_interruption_behavior: Option<String>,
        /// With `lowest-price`: how many offerings to spread over.
        instance_pools_to_use_count: Option<u32>,
        /// With fewer instances, none is launched.
        min_target_capacity: Option<u32>,
        /// Whether all overrides are in one zone.
        single_availability_zone: bool,
    }
}

request! {
    /// How a fleet uses reserved capacity.
    ReservedCapacityOptions {
        /// Only `interruptible-capacity-reservation` is supported.
        #[serde(alias = "ReservationType")]
        reservation_types: Vec<String>,
    }
}

request! {
    /// CreateFleet.
    CreateFleet {
        /// Makes the call idempotent.
        client_token: Option<String>,
        /// Dry run.
        dry_run: bool,
        /// Only `instant` is supported.
        #[serde(rename = "Type")]
        fleet_type: Option<String>,
        /// Templates and offerings.
        launch_template_configs: Vec<FleetLaunchTemplateConfig>,
        /// The target capacity.
        target_capacity_specification: Option<TargetCapacity>,
        /// On-demand options.
        on_demand_options: Option<OnDemandOptions>,
        /// Spot options.
        spot_options: Option<SpotOptions>,
        /// Options of reserved capacity.
        reserved_capacity_options: Option<ReservedCapacityOptions>,
        /// Tags.
        #[serde(alias = "TagSpecification")]
        tag_specifications: Vec<TagSpecification>,
        /// Reserved by AWS; it has no effect.
        context: Option<String>,
    }
}

request! {
    /// An instance profile, by ARN or by name.
    IamInstanceProfile {
        /// ARN.
        arn: Option<String>,
        /// Name.
        name: Option<String>,
    }
}

/// The data of a launch template. The members that have an effect are fields. The others are kept and returned by
/// DescribeLaunchTemplateVersions, and do not affect a simulated machine.
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
    /// Security groups, if there are no network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_group_ids: Vec<String>,
    /// Tags for the resources that are launched from the template.
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
        /// Dry run.
        dry_run: bool,
        /// Name: 3 to 128 characters of `A-Za-z0-9()./_-`.
        launch_template_name: Option<String>,
        /// CreateLaunchTemplateVersion: the template by id.
        launch_template_id: Option<String>,
        /// The description.
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
        /// Dry run.
        dry_run: bool,
    }
}

request! {
    /// The purchasing option of RunInstances.
    InstanceMarketOptions {
        /// `spot` or `interruptible-capacity-reservation`.
        market_type: Option<String>,
        /// The options of spot instances.
        spot_options: Option<SpotMarketOptions>,
    }
}

request! {
    /// Options of a spot launch.
    SpotMarketOptions {
        /// The maximum price, in dollars an hour.
        max_price: Option<String>,
        /// Only `one-time` is supported.
        spot_instance_type: Option<String>,
        /// Only `terminate` is supported.
        instance_interruption_behavior: Option<String>,
    }
}

request! {
    /// The placement of an instance.
    Placement {
        /// Zone name.
        availability_zone: Option<String>,
        /// Only `default` is supported.
        tenancy: Option<String>,
    }
}

request! {
    /// RunInstances.
    RunInstances {
        /// Makes the call idempotent.
        client_token: Option<String>,
        /// Dry run.
        dry_run: bool,
        /// The minimum number.
        min_count: Option<u32>,
        /// The maximum number.
        max_count: Option<u32>,
        /// The template. The other members override it.
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
        /// The market options.
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
        /// Dry run.
        dry_run: bool,
    }
}

request! {
    /// StopInstances. Hibernation and force are not supported.
    StopInstances {
        /// The instances.
        #[serde(alias = "InstanceId")]
        instance_ids: Vec<String>,
        /// Dry run.
        dry_run: bool,
    }
}

request! {
    /// RebootInstances.
    RebootInstances {
        /// The instances.
        #[serde(alias = "InstanceId")]
        instance_ids: Vec<String>,
        /// Dry run.
        dry_run: bool,
    }
}

request! {
    /// StartInstances.
    StartInstances {
        /// The instances.
        #[serde(alias = "InstanceId")]
        instance_ids: Vec<String>,
        /// Dry run.
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
        /// Dry run.
        dry_run: bool,
    }
}
