//! Converts a call and its template to an instance, or to EC2's error.

use std::net::Ipv4Addr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::error::Ec2Error;
use crate::objects::account::{CapacityReservation, Image, Subnet, Tags};
use crate::objects::instance::{Instance, InstanceState};
use crate::objects::offering::{CapacityType, Offering};
use crate::requests::LaunchTemplateData;
use crate::state::AccountState;
use crate::tags::tags_for;

/// The market type and the reservation type of interruptible capacity reservations.
pub(crate) const INTERRUPTIBLE: &str = "interruptible-capacity-reservation";

/// All decisions about a launch except for the number of machines.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchPlan {
    /// The offering.
    pub(crate) offering: Offering,
    /// The subnet of the machine.
    pub(crate) subnet_id: String,
    /// The template, overridden by the values of the call.
    pub(crate) data: Arc<LaunchTemplateData>,
    /// The maximum spot price.
    pub(crate) max_price: Option<f64>,
    /// Tags that EC2 itself adds: template and fleet.
    pub(crate) system_tags: Tags,
    pub(crate) client_token: Option<String>,
    pub(crate) fleet_id: Option<String>,
}

/// EC2's error for an offering without capacity.
pub(crate) fn no_capacity(offering: &Offering) -> Ec2Error {
    let Offering { instance_type, zone, capacity_type } = offering;
    let message = match capacity_type {
        CapacityType::OnDemand => format!(
            "We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested \
             ({zone}). Our system will be working on provisioning additional capacity."
        ),
        CapacityType::Spot => "There is no Spot capacity available that matches your request.".to_owned(),
    };
    Ec2Error::new("InsufficientInstanceCapacity", message).with_status(500)
}

/// Only a single interface, which is then the primary one, can get a public address.
fn check_public_address(plan: &LaunchPlan) -> Result<(), Ec2Error> {
    let interfaces = plan.data.other.get("NetworkInterfaces").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let asks = |interface: &Value| interface.get("AssociatePublicIpAddress").and_then(Value::as_bool) == Some(true);
    if interfaces.len() > 1 && interfaces.iter().any(asks) {
        let message = "The associatePublicIPAddress parameter cannot be specified when launching with multiple network \
                       interfaces.";
        return Err(Ec2Error::combination(message.to_owned()));
    }
    Ok(())
}

impl LaunchPlan {
    /// A member of the launch template data that is only used here.
    fn member(&self, pointer: &str) -> Option<&str> {
        let mut parts = pointer.split('/').skip(1);
        let first = self.data.other.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part)).and_then(Value::as_str)
    }

    /// The security groups, of the primary network interface or of the template.
    fn groups(&self) -> Vec<String> {
        let interfaces = self.data.other.get("NetworkInterfaces").and_then(Value::as_array);
        let Some(primary) = interfaces.and_then(|interfaces| interfaces.first()) else {
            return self.data.security_group_ids.clone();
        };
        let groups = primary.get("Groups").and_then(Value::as_array);
        let groups = groups.into_iter().flatten().filter_map(Value::as_str);
        groups.map(str::to_owned).collect()
    }
}

impl AccountState {
    fn subnet(&self, id: &str) -> Result<&Subnet, Ec2Error> {
        let found = self.account.subnets.iter().find(|subnet| subnet.id == id);
        found.ok_or_else(|| Ec2Error::new("InvalidSubnetID.NotFound", format!("The subnet ID '{id}' does not exist")))
    }

    /// The subnet for a launch: the named one, which must be in the named zone, or the zone's default subnet.
    pub(crate) fn choose_subnet(&self, id: Option<&str>, zone: Option<&str>) -> Result<&Subnet, Ec2Error> {
        if let Some(id) = id {
            let subnet = self.subnet(id)?;
            return match zone {
                Some(zone) if zone != subnet.zone => Err(Ec2Error::invalid(
                    "availabilityZone",
                    zone,
                    &format!("The subnet '{id}' is in the Availability Zone {}.", subnet.zone),
                )),
                _ => Ok(subnet),
            };
        }
        if let Some(zone) = zone.filter(|zone| self.account.facts.zone(zone).is_none()) {
            return Err(Ec2Error::new("InvalidParameterValue", format!("Invalid availability zone: [{zone}]")));
        }
        let mut defaults = self.account.subnets.iter().filter(|subnet| subnet.default_for_zone);
        defaults.find(|subnet| zone.is_none_or(|zone| zone == subnet.zone)).ok_or_else(|| {
            let message = match zone {
                Some(zone) => format!("No default subnet for availability zone: '{zone}'."),
                None => "No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC."
                    .to_owned(),
            };
            Ec2Error::new("MissingInput", message)
        })
    }

    fn image(&self, plan: &LaunchPlan) -> Result<&Image, Ec2Error> {
        let id = plan.data.image_id.as_deref().ok_or_else(|| Ec2Error::missing("ImageId"))?;
        if !id.starts_with("ami-") {
            return Err(Ec2Error::new(
                "InvalidAMIID.Malformed",
                format!("Invalid id: \"{id}\" (expecting \"ami-...\")"),
            ));
        }
        self.account
            .images
            .iter()
            .find(|image| image.id == id)
            .ok_or_else(|| Ec2Error::new("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist")))
    }

    /// The checks that do not depend on capacity: EC2 returns the same error until the request or the account changes.
    pub(crate) fn check_plan(&self, plan: &LaunchPlan) -> Result<(), Ec2Error> {
        let Offering { instance_type, zone, capacity_type } = &plan.offering;
        let facts = self.account.facts.types.get(instance_type).ok_or_else(|| {
            Ec2Error::new("InvalidParameterValue", format!("Invalid value '{instance_type}' for InstanceType."))
        })?;
        if !facts.zones.contains(zone) {
            return Err(Ec2Error::new(
                "Unsupported",
                format!(
                    "Your requested instance type ({instance_type}) is not supported in your requested Availability \
                     Zone ({zone}). Please retry your request by not specifying an Availability Zone or choosing {}.",
                    facts.zones.join(", ")
                ),
            ));
        }
        let image = self.image(plan)?;
        if !facts.architectures().contains(&image.architecture.as_str()) {
            return Err(Ec2Error::new(
                "InvalidParameterValue",
                format!(
                    "The architecture '{}' of the specified instance type does not match the architecture '{}' of the \
                     specified AMI. Specify an instance type and an AMI that have matching architectures, and try \
                     again.",
                    facts.architectures().join(","),
                    image.architecture
                ),
            ));
        }
        check_public_address(plan)?;
        self.check_groups(plan)?;
        self.placement_group(plan)?;
        self.instance_profile(plan)?;
        self.check_spot(plan)?;
        let tags = tags_for(&plan.data.tag_specifications, "spot-instances-request")?;
        if !tags.is_empty() && *capacity_type == CapacityType::OnDemand {
            return Err(Ec2Error::new(
                "InvalidParameterValue",
                "You cannot specify tags for Spot instances requests if there are no Spot instances requests being \
                 created by the request.",
            ));
        }
        Ok(())
    }

    fn check_groups(&self, plan: &LaunchPlan) -> Result<(), Ec2Error> {
        let vpc_id = &self.subnet(&plan.subnet_id)?.vpc_id;
        for id in plan.groups() {
            let group = self.account.security_groups.iter().find(|group| group.id == id);
            let group = group.ok_or_else(|| {
                let message = format!("The security group '{id}' does not exist in VPC '{vpc_id}'");
                Ec2Error::new("InvalidGroup.NotFound", message)
            })?;
            if group.vpc_id != *vpc_id {
                return Err(Ec2Error::new(
                    "InvalidParameter",
                    format!("Security group {id} and subnet {} belong to different networks.", plan.subnet_id),
                ));
            }
        }
        Ok(())
    }

    fn instance_profile(&self, plan: &LaunchPlan) -> Result<Option<(String, String)>, Ec2Error> {
        let Some(expected) = &plan.data.iam_instance_profile else { return Ok(None) };
        let arn = |profile: &crate::objects::account::InstanceProfile| {
            format!("arn:aws:iam::{}:instance-profile{}{}", self.account.id, profile.path, profile.name)
        };
        let found = self.account.instance_profiles.iter().find(|profile| {
            expected.name.as_ref().is_none_or(|name| *name == profile.name)
                && expected.arn.as_ref().is_none_or(|expected| *expected == arn(profile))
        });
        let profile = found.filter(|_| expected.name.is_some() || expected.arn.is_some()).ok_or_else(|| {
            let (member, value) = match (&expected.name, &expected.arn) {
                (Some(name), _) => ("name", name.as_str()),
                (None, arn) => ("arn", arn.as_deref().unwrap_or_default()),
            };
            let parameter = format!("iamInstanceProfile.{member}");
            Ec2Error::invalid(&parameter, value, &format!("Invalid IAM Instance Profile {member}"))
        })?;
        if profile.roles.is_empty() {
            let why = "IAM Instance Profile has no associated IAM Roles";
            return Err(Ec2Error::invalid("iamInstanceProfile.name", &profile.name, why));
        }
        Ok(Some((arn(profile), profile.id.clone())))
    }

    fn check_spot(&self, plan: &LaunchPlan) -> Result<(), Ec2Error> {
        let Offering { instance_type, zone, capacity_type } = &plan.offering;
        if *capacity_type == CapacityType::OnDemand {
            return Ok(());
        }
        let Some(price) = self.account.facts.price(instance_type, zone, true) else {
            return Err(Ec2Error::new(
                "UnfulfillableCapacity",
                "Unable to fulfill capacity due to your request configuration. Please adjust your request and try \
                 again.",
            ));
        };
        match plan.max_price {
            Some(most) if most < price => Err(Ec2Error::new(
                "SpotMaxPriceTooLow",
                format!(
                    "Your Spot request price of {most} is lower than the minimum required Spot request fulfillment \
                     price of {price}."
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The reservation that the launch would use: the specified one, or an open one that matches.
    pub(crate) fn reservation(&self, plan: &LaunchPlan) -> Result<Option<&CapacityReservation>, Ec2Error> {
        let base = "/CapacityReservationSpecification";
        let preference = plan.member(&format!("{base}/CapacityReservationPreference"));
        let target = plan.member(&format!("{base}/CapacityReservationTarget/CapacityReservationId"));
        let Offering { instance_type, zone, capacity_type } = &plan.offering;
        let fits = |r: &&CapacityReservation| {
            r.instance_type == *instance_type
                && r.zone == *zone
                && r.start <= self.now
                && r.end.is_none_or(|end| end > self.now)
        };
        let reservations = &self.account.capacity_reservations;
        if let Some(id) = target {
            let found = reservations.iter().find(|reservation| reservation.id == id);
            let found = found.filter(fits).ok_or_else(|| {
                let message = format!("The capacity reservation ID '{id}' does not exist or does not match.");
                Ec2Error::new("InvalidCapacityReservationId.NotFound", message)
            })?;
            if found.interruptible != (plan.member("/InstanceMarketOptions/MarketType") == Some(INTERRUPTIBLE)) {
                let message = format!("The capacity reservation '{id}' does not match the market type of the launch.");
                return Err(Ec2Error::new("InvalidParameterCombination", message));
            }
            return if found.available > 0 { Ok(Some(found)) } else { Err(exceeded()) };
        }
        if *capacity_type == CapacityType::Spot || preference == Some("none") {
            return Ok(None);
        }
        let open = reservations.iter().filter(fits).find(|reservation| reservation.open && reservation.available > 0);
        match open {
            None if preference == Some("capacity-reservations-only") => Err(exceeded()),
            found => Ok(found),
        }
    }

    /// How many machines the offering still provides; `None` is unlimited. A refused offering returns EC2's error.
    pub(crate) fn depth(&self, plan: &LaunchPlan) -> Result<Option<u64>, Ec2Error> {
        let group = self.left_in_placement_group(plan)?;
        if let Some(reservation) = self.reservation(plan)? {
            return Ok([Some(u64::from(reservation.available)), group].into_iter().flatten().min());
        }
        if let Some((_, error)) = self.faults.refused.iter().find(|(pattern, _)| pattern.matches(&plan.offering)) {
            let plain = error.message.is_empty() && error.code == "InsufficientInstanceCapacity";
            return Err(if plain { no_capacity(&plan.offering) } else { error.clone() });
        }
        let quota = self.machines_left_in_quota(&plan.offering)?;
        let scarce = self.faults.scarce.iter().filter(|(pattern, _)| pattern.matches(&plan.offering));
        let limits =
            scarce.map(|(_, left)| *left).chain(self.capacity.get(&plan.offering).copied()).chain(quota).chain(group);
        match limits.min() {
            Some(0) => Err(no_capacity(&plan.offering)),
            depth => Ok(depth),
        }
    }

    /// Launches one machine.
    pub(crate) fn launch(
        &mut self,
        plan: &LaunchPlan,
        reservation_id: &str,
        launch_index: u32,
    ) -> Result<String, Ec2Error> {
        self.check_plan(plan)?;
        self.depth(plan)?;
        let reserved = self.reservation(plan)?.map(|reservation| reservation.id.clone());
        let image = self.image(plan)?.clone();
        let instance_profile = self.instance_profile(plan)?;
        let partition = self.partition(plan)?;
        let Offering { instance_type, zone, capacity_type } = plan.offering.clone();
        let facts = &self.account.facts;
        let spot = capacity_type == CapacityType::Spot;
        let price = facts.price(&instance_type, &zone, spot).ok_or_else(|| no_capacity(&plan.offering))?;
        let kinds = &plan.data.tag_specifications;
        let mut tags = tags_for(kinds, "instance")?;
        tags.extend(plan.system_tags.clone());
        let (volume_tags, interface_tags) = (tags_for(kinds, "volume")?, tags_for(kinds, "network-interface")?);
        let private_ip = self.take_address(&plan.subnet_id)?;
        let subnet = self.subnet(&plan.subnet_id)?.clone();
        self.buckets.launched();
        let id = self.new_id("i");
        let volume_id = self.new_tagged("vol", volume_tags);
        let network_interface_id = self.new_tagged("eni", interface_tags);
        let spot_request_id = spot.then(|| self.new_id("sir"));
        self.take_capacity(&plan.offering, reserved.as_deref());
        let visible_from = self.visible_from(launch_index);
        self.begin(Instance {
            id: id.clone(),
            reservation_id: reservation_id.to_owned(),
            launch_index,
            offering: plan.offering.clone(),
            architecture: image.architecture,
            zone_id: self.account.facts.zone(&zone).map(|zone| zone.id.clone()).unwrap_or_default(),
            image_id: image.id,
            platform: image.platform,
            root_device: image.root_device,
            subnet_id: subnet.id,
            vpc_id: subnet.vpc_id,
            private_dns_name: private_dns_name(private_ip, &self.account.facts.region),
            private_ip: private_ip.to_string(),
            network_interface_id,
            volume_id,
            security_group_ids: plan.groups(),
            instance_profile,
            data: Arc::clone(&plan.data),
            fleet_id: plan.fleet_id.clone(),
            spot_request_id,
            capacity_reservation_id: reserved,
            partition,
            client_token: plan.client_token.clone(),
            price,
            launched: self.now,
            visible_from,
            tags_visible_from: visible_from.saturating_add(self.account.timing.tags_delay).unwrap_or(visible_from),
            state: InstanceState::Pending,
            stopped: None,
            restarted: false,
            uses_capacity: true,
            state_reason: None,
            impaired_since: None,
            system_impaired_since: None,
            planned: Vec::new(),
            joins: true,
            tags,
        });
        Ok(id)
    }

    /// Takes one machine from a reservation, or from what is left of the offering.
    fn take_capacity(&mut self, offering: &Offering, reservation_id: Option<&str>) {
        if let Some(id) = reservation_id {
            let reservations = &mut self.account.capacity_reservations;
            if let Some(reservation) = reservations.iter_mut().find(|reservation| reservation.id == id) {
                reservation.available = reservation.available.saturating_sub(1);
            }
        } else {
            let scarce = self.faults.scarce.iter_mut().filter(|(pattern, _)| pattern.matches(offering));
            let limits = scarce.map(|(_, left)| left).chain(self.capacity.get_mut(offering));
            limits.for_each(|left| *left = left.saturating_sub(1));
        }
    }

    /// When describe calls start to return an instance that is launched now.
    fn visible_from(&self, launch_index: u32) -> Timestamp {
        let timing = &self.account.timing;
        let spread = i32::try_from(launch_index).map_or(SignedDuration::MAX, |index| timing.visibility_spread * index);
        let visible = self.now.saturating_add(timing.visibility_delay).and_then(|at| at.saturating_add(spread));
        visible.unwrap_or(self.now)
    }

    /// The id of a new resource with tags.
    fn new_tagged(&mut self, prefix: &str, tags: Tags) -> String {
        let id = self.new_id(prefix);
        self.account.tags.insert(id.clone(), tags);
        id
    }

    /// Takes a free address of a subnet. AWS reserves the first four and the last.
    fn take_address(&mut self, subnet_id: &str) -> Result<Ipv4Addr, Ec2Error> {
        let subnet = self.subnet(subnet_id)?;
        if subnet.free_addresses == 0 {
            return Err(no_addresses(subnet_id));
        }
        let malformed = || Ec2Error::new("InternalError", format!("subnet {subnet_id} has a malformed CIDR block"));
        let (base, bits) = subnet.cidr.split_once('/').ok_or_else(malformed)?;
        let base: Ipv4Addr = base.parse().map_err(|_| malformed())?;
        let bits: u32 = bits.parse().ok().filter(|bits| (8..=28).contains(bits)).ok_or_else(malformed)?;
        let usable = (1_u32 << (32 - bits)) - 5;
        let first = u32::from(base) + 4;
        let pool = self.addresses.entry(subnet_id.to_owned()).or_default();
        let address = pool.take(first, usable).ok_or_else(|| no_addresses(subnet_id))?;
        if let Some(subnet) = self.account.subnets.iter_mut().find(|subnet| subnet.id == subnet_id) {
            subnet.free_addresses -= 1;
        }
        Ok(address)
    }
}

/// EC2's error for a subnet without free addresses.
pub(crate) fn no_addresses(subnet_id: &str) -> Ec2Error {
    let message = format!(
        "There are not enough free addresses in subnet '{subnet_id}' to satisfy the requested number of instances."
    );
    Ec2Error::new("InsufficientFreeAddressesInSubnet", message)
}

fn exceeded() -> Ec2Error {
    Ec2Error::new(
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    )
}

/// The private DNS name in a VPC: us-east-1 has its own domain.
fn private_dns_name(address: Ipv4Addr, region: &str) -> String {
    let [a, b, c, d] = address.octets();
    let domain = if region == "us-east-1" { "ec2.internal".to_owned() } else { format!("{region}.compute.internal") };
    format!("ip-{a}-{b}-{c}-{d}.{domain}")
}
