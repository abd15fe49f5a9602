//! Describe calls about the network, the images, and the catalog of the region.

use nodeless_model::listed_commitments::ListedReservedInstances;
use serde_json::Value;

use super::describe::{Page, permitted};
use super::error::Ec2Error;
use super::filter::{page, passes};
use super::objects::account::{CapacityReservation, Image, PlacementGroup, SecurityGroup, Subnet, Tags, Vpc};
use super::objects::facts::Zone;
use super::requests::{Describe, Filter};
use super::state::Ec2;

/// A described resource with its tags.
#[derive(Debug, Clone, PartialEq)]
pub struct Tagged<T> {
    /// The resource.
    pub resource: T,
    /// The tags of the resource.
    pub tags: Tags,
}

/// An instance type that is offered in a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeOffering {
    /// Instance type.
    pub instance_type: String,
    /// `region`, `availability-zone` or `availability-zone-id`.
    pub location_type: String,
    /// The location.
    pub location: String,
}

/// A spot price.
#[derive(Debug, Clone, PartialEq)]
pub struct SpotPrice {
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Product description, such as `Linux/UNIX`.
    pub product_description: String,
    /// Dollars an hour.
    pub price: f64,
}

/// The requested ids, and EC2's error for a missing one.
struct Ids<'a, T> {
    expected: &'a [String],
    id_of: fn(&T) -> &str,
    code: &'static str,
    kind: &'static str,
}

/// Performs a describe call over a list of resources: ids that must exist, then filters, then the page.
fn select<T: Clone>(
    request: &Describe,
    resources: &[T],
    ids: &Ids<'_, T>,
    tags_of: &dyn Fn(&T) -> Tags,
    attribute: &dyn Fn(&T, &str) -> Option<Vec<String>>,
) -> Result<Page<Tagged<T>>, Ec2Error> {
    permitted(request)?;
    let Ids { expected, id_of, code, kind } = ids;
    if let Some(id) = expected.iter().find(|id| !resources.iter().any(|resource| id_of(resource) == **id)) {
        return Err(Ec2Error::new(*code, format!("The {kind} '{id}' does not exist")));
    }
    let mut found = Vec::new();
    for resource in resources {
        let tags = tags_of(resource);
        let named = expected.is_empty() || expected.iter().any(|id| id == id_of(resource));
        if passes(&request.filters, Some(&tags), |name| attribute(resource, name))? && named {
            found.push(Tagged { resource: resource.clone(), tags });
        }
    }
    page(request, found, 5..=1000)
}

fn one(value: impl Into<String>) -> Option<Vec<String>> {
    Some(vec![value.into()])
}

impl Ec2 {
    /// DescribeVpcs.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_vpcs(&self, request: &Describe) -> Result<Page<Tagged<Vpc>>, Ec2Error> {
        self.call("ec2", "DescribeVpcs", request, |state| {
            let tags = |vpc: &Vpc| state.account.tags.get(&vpc.id).cloned().unwrap_or_default();
            let ids = Ids {
                expected: &request.ids,
                id_of: |vpc: &Vpc| &vpc.id,
                code: "InvalidVpcID.NotFound",
                kind: "vpc ID",
            };
            select(request, &state.account.vpcs, &ids, &tags, &|vpc, name| match name {
                "vpc-id" => one(&vpc.id),
                "cidr" => one(&vpc.cidr),
                "is-default" | "isDefault" => one(vpc.is_default.to_string()),
                "state" => one("available"),
                _ => None,
            })
        })
    }

    /// DescribeSubnets.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_subnets(&self, request: &Describe) -> Result<Page<Tagged<Subnet>>, Ec2Error> {
        self.call("ec2", "DescribeSubnets", request, |state| {
            let tags = |subnet: &Subnet| state.account.tags.get(&subnet.id).cloned().unwrap_or_default();
            let ids = Ids {
                expected: &request.ids,
                id_of: |subnet: &Subnet| &subnet.id,
                code: "InvalidSubnetID.NotFound",
                kind: "subnet ID",
            };
            select(request, &state.account.subnets, &ids, &tags, &|subnet, name| match name {
                "subnet-id" => one(&subnet.id),
                "vpc-id" => one(&subnet.vpc_id),
                "availability-zone" | "availabilityZone" => one(&subnet.zone),
                "availability-zone-id" => state.account.facts.zone(&subnet.zone).map(|zone| vec![zone.id.clone()]),
                "cidr-block" | "cidr" => one(&subnet.cidr),
                "default-for-az" => one(subnet.default_for_zone.to_string()),
                "map-public-ip-on-launch" => one(subnet.public.to_string()),
                "available-ip-address-count" => one(subnet.free_addresses.to_string()),
                "state" => one("available"),
                _ => None,
            })
        })
    }

    /// DescribeSecurityGroups.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_security_groups(&self, request: &Describe) -> Result<Page<Tagged<SecurityGroup>>, Ec2Error> {
        if !request.names.is_empty() {
            // Names only work in a default VPC; otherwise EC2 requires the filter.
            let filters = [&request.filters[..], &[Filter::new("group-name", request.names.clone())]].concat();
            let by_filter = Describe { names: Vec::new(), filters, ..request.clone() };
            return self.describe_security_groups(&by_filter);
        }
        self.call("ec2", "DescribeSecurityGroups", request, |state| {
            let tags = |group: &SecurityGroup| state.account.tags.get(&group.id).cloned().unwrap_or_default();
            let ids = Ids {
                expected: &request.ids,
                id_of: |group: &SecurityGroup| &group.id,
                code: "InvalidGroup.NotFound",
                kind: "security group",
            };
            select(request, &state.account.security_groups, &ids, &tags, &|group, name| match name {
                "group-id" => one(&group.id),
                "group-name" => one(&group.name),
                "vpc-id" => one(&group.vpc_id),
                "description" => one(&group.description),
                _ => None,
            })
        })
    }

    /// DescribeImages. Deprecated images are left out unless requested or named by id.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_images(&self, request: &Describe) -> Result<Page<Tagged<Image>>, Ec2Error> {
        self.call("ec2", "DescribeImages", request, |state| {
            let account = &state.account;
            let owned = |image: &Image| {
                request.owners.is_empty()
                    || request.owners.iter().any(|owner| match owner.as_str() {
                        "self" => image.owner_id == account.id,
                        owner => image.owner_id == owner || image.owner_alias.as_deref() == Some(owner),
                    })
            };
            let current = |image: &Image| {
                request.include_deprecated
                    || request.ids.contains(&image.id)
                    || image.deprecated.is_none_or(|at| at > state.now)
            };
            let images: Vec<Image> =
                account.images.iter().filter(|image| owned(image) && current(image)).cloned().collect();
            // Only the owner sees an image's tags.
            let tags = |image: &Image| match account.tags.get(&image.id) {
                Some(tags) if image.owner_id == account.id => tags.clone(),
                _ => Tags::new(),
            };
            let ids = Ids {
                expected: &request.ids,
                id_of: |image: &Image| &image.id,
                code: "InvalidAMIID.NotFound",
                kind: "image id",
            };
            select(request, &images, &ids, &tags, &|image, name| match name {
                "image-id" => one(&image.id),
                "name" => one(&image.name),
                "architecture" => one(&image.architecture),
                "state" => one(&image.state),
                "owner-id" => one(&image.owner_id),
                "owner-alias" => Some(image.owner_alias.iter().cloned().collect()),
                "platform" => Some(image.platform.iter().cloned().collect()),
                "root-device-type" => one("ebs"),
                "virtualization-type" => one("hvm"),
                "image-type" => one("machine"),
                "is-public" => one((image.owner_id != account.id).to_string()),
                _ => None,
            })
        })
    }

    /// DescribeCapacityReservations.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_capacity_reservations(
        &self,
        request: &Describe,
    ) -> Result<Page<Tagged<CapacityReservation>>, Ec2Error> {
        self.call("ec2", "DescribeCapacityReservations", request, |state| {
            let tags = |r: &CapacityReservation| state.account.tags.get(&r.id).cloned().unwrap_or_default();
            let ids = Ids {
                expected: &request.ids,
                id_of: |r: &CapacityReservation| &r.id,
                code: "InvalidCapacityReservationId.NotFound",
                kind: "capacity reservation",
            };
            let now = state.now;
            select(request, &state.account.capacity_reservations, &ids, &tags, &|r, name| match name {
                "instance-type" => one(&r.instance_type),
                "availability-zone" => one(&r.zone),
                "owner-id" => one(&state.account.id),
                "state" => one(r.state(now)),
                "instance-match-criteria" => one(if r.open { "open" } else { "targeted" }),
                "tenancy" => one("default"),
                _ => None,
            })
        })
    }

    /// DescribePlacementGroups. EC2 returns all of them without pages.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_placement_groups(&self, request: &Describe) -> Result<Vec<Tagged<PlacementGroup>>, Ec2Error> {
        self.call("ec2", "DescribePlacementGroups", request, |state| {
            let tags = |group: &PlacementGroup| state.account.tags.get(&group.id).cloned().unwrap_or_default();
            let ids = Ids {
                expected: &request.ids,
                id_of: |group: &PlacementGroup| &group.id,
                code: "InvalidPlacementGroup.Unknown",
                kind: "placement group",
            };
            let (found, _) =
                select(request, &state.account.placement_groups, &ids, &tags, &|group, name| match name {
                    "group-name" => one(&group.name),
                    "strategy" => one(&group.strategy),
                    "state" => one("available"),
                    _ => None,
                })?;
            Ok(found)
        })
    }

    /// DescribeReservedInstances. EC2 returns all of them without pages.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_reserved_instances(&self, request: &Describe) -> Result<Vec<ListedReservedInstances>, Ec2Error> {
        self.call("ec2", "DescribeReservedInstances", request, |state| {
            permitted(request)?;
            let mut found = Vec::new();
            for one_of in state.account.commitments.iter().flat_map(|all| &all.reserved) {
                let attribute = |name: &str| if name == "state" { one(&one_of.state) } else { None };
                if passes(&request.filters, None, attribute)? {
                    found.push(one_of.clone());
                }
            }
            Ok(found)
        })
    }

    /// DescribeAvailabilityZones.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_availability_zones(&self, request: &Describe) -> Result<Vec<Zone>, Ec2Error> {
        self.call("ec2", "DescribeAvailabilityZones", request, |state| {
            permitted(request)?;
            let facts = &state.account.facts;
            if let Some(name) = request.names.iter().find(|name| facts.zone(name).is_none()) {
                let message = format!("Invalid availability zone: [{name}]");
                return Err(Ec2Error::new("InvalidParameterValue", message));
            }
            let mut found = Vec::new();
            for zone in &facts.zones {
                let attribute = |name: &str| match name {
                    "zone-name" => one(&zone.name),
                    "zone-id" => one(&zone.id),
                    "state" => one("available"),
                    "zone-type" => one(zone.kind()),
                    "region-name" => one(&facts.region),
                    "opt-in-status" => one(zone.opt_in_status()),
                    "group-name" => one(zone.group()),
                    _ => None,
                };
                let named = request.names.is_empty() || request.names.contains(&zone.name);
                if passes(&request.filters, None, attribute)? && named {
                    found.push(zone.clone());
                }
            }
            Ok(found)
        })
    }

    /// DescribeInstanceTypes, as JSON in the SDK's member names.
    ///
    /// # Errors
    /// EC2's own, such as `InvalidInstanceType` for a type that the region does not have.
    pub fn describe_instance_types(&self, request: &Describe) -> Result<Page<Value>, Ec2Error> {
        self.call("ec2", "DescribeInstanceTypes", request, |state| {
            permitted(request)?;
            let types = &state.account.facts.types;
            if let Some(name) = request.ids.iter().find(|name| !types.contains_key(*name)) {
                let message = format!("The following supplied instance types do not exist: [{name}]");
                return Err(Ec2Error::new("InvalidInstanceType", message));
            }
            let mut found = Vec::new();
            for (instance_type, facts) in types {
                let named = request.ids.is_empty() || request.ids.contains(instance_type);
                let attribute = |name: &str| type_attribute(&facts.description, name);
                if passes(&request.filters, None, attribute)? && named {
                    found.push(facts.description.clone());
                }
            }
            // EC2 returns pages of 100 without MaxResults, and never more than that.
            let max_results = request.max_results.or(request.ids.is_empty().then_some(100));
            page(&Describe { max_results, ..request.clone() }, found, 5..=100)
        })
    }

    /// DescribeInstanceTypeOfferings.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_instance_type_offerings(&self, request: &Describe) -> Result<Page<TypeOffering>, Ec2Error> {
        self.call("ec2", "DescribeInstanceTypeOfferings", request, |state| {
            permitted(request)?;
            let facts = &state.account.facts;
            let location_type = request.location_type.as_deref().unwrap_or("region");
            let mut found = Vec::new();
            for (instance_type, sold) in facts.types.iter().filter(|(_, sold)| !sold.zones.is_empty()) {
                let locations = match location_type {
                    "region" => vec![facts.region.clone()],
                    "availability-zone" => sold.zones.clone(),
                    "availability-zone-id" => {
                        sold.zones.iter().filter_map(|name| Some(facts.zone(name)?.id.clone())).collect()
                    }
                    other => {
                        let why = "Valid values: region, availability-zone, availability-zone-id.";
                        return Err(Ec2Error::invalid("LocationType", other, why));
                    }
                };
                for location in locations {
                    let attribute = |name: &str| match name {
                        "instance-type" => one(instance_type),
                        "location" => one(&location),
                        _ => None,
                    };
                    if passes(&request.filters, None, attribute)? {
                        let (instance_type, location_type) = (instance_type.clone(), location_type.to_owned());
                        found.push(TypeOffering { instance_type, location_type, location });
                    }
                }
            }
            page(request, found, 5..=1000)
        })
    }

    /// DescribeSpotPriceHistory. Simulated prices are constant, so there is one entry for each type, zone and product.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_spot_price_history(&self, request: &Describe) -> Result<Page<SpotPrice>, Ec2Error> {
        self.call("ec2", "DescribeSpotPriceHistory", request, |state| {
            permitted(request)?;
            let mut found = Vec::new();
            for (instance_type, facts) in &state.account.facts.types {
                if !(request.ids.is_empty() || request.ids.contains(instance_type)) {
                    continue;
                }
                for (zone, price) in &facts.spot_prices {
                    for product in ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"] {
                        let described = &request.product_descriptions;
                        let expected = (described.is_empty() || described.iter().any(|expected| expected == product))
                            && request.availability_zone.as_ref().is_none_or(|expected| expected == zone);
                        let attribute = |name: &str| match name {
                            "instance-type" => one(instance_type),
                            "availability-zone" => one(zone),
                            "product-description" => one(product),
                            "spot-price" => one(price.to_string()),
                            _ => None,
                        };
                        if passes(&request.filters, None, attribute)? && expected {
                            let (instance_type, zone) = (instance_type.clone(), zone.clone());
                            let product_description = product.to_owned();
                            found.push(SpotPrice { instance_type, zone, product_description, price: *price });
                        }
                    }
                }
            }
            page(request, found, 1..=10_000)
        })
    }
}

/// The filters of DescribeInstanceTypes, by the path of their value in the description.
fn type_attribute(description: &Value, name: &str) -> Option<Vec<String>> {
    let pointer = match name {
        "instance-type" => "/InstanceType",
        "bare-metal" => "/BareMetal",
        "burstable-performance-supported" => "/BurstablePerformanceSupported",
        "current-generation" => "/CurrentGeneration",
        "free-tier-eligible" => "/FreeTierEligible",
        "hypervisor" => "/Hypervisor",
        "instance-storage-supported" => "/InstanceStorageSupported",
        "memory-info.size-in-mib" => "/MemoryInfo/SizeInMiB",
        "processor-info.supported-architecture" => "/ProcessorInfo/SupportedArchitectures",
        "supported-usage-class" => "/SupportedUsageClasses",
        "supported-virtualization-type" => "/SupportedVirtualizationTypes",
        "supported-root-device-type" => "/SupportedRootDeviceTypes",
        "supported-boot-mode" => "/SupportedBootModes",
        "vcpu-info.default-vcpus" => "/VCpuInfo/DefaultVCpus",
        "network-info.efa-supported" => "/NetworkInfo/EfaSupported",
        "network-info.ena-support" => "/NetworkInfo/EnaSupport",
        _ => return None,
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(match description.pointer(pointer) {
        None => Vec::new(),
        Some(Value::Array(values)) => values.iter().map(text).collect(),
        Some(value) => vec![text(value)],
    })
}
