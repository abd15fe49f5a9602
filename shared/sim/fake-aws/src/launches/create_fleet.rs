//! CreateFleet of type instant: one synchronous answer with instances, errors, or both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fleet_allocation::{Candidate, Strategy, order};
use super::launch::{INTERRUPTIBLE, LaunchPlan};
use crate::error::Ec2Error;
use crate::objects::account::Tags;
use crate::objects::fleet::{CreateFleetAnswer, Fleet, FleetError, FleetInstances, LaunchTemplateAndOverrides};
use crate::objects::offering::{CapacityType, Offering};
use crate::requests::{CreateFleet, FleetOverride, LaunchTemplateSpecification, TagSpecification, TargetCapacity};
use crate::state::{AccountState, Ec2};
use crate::tags::tags_for;

impl Ec2 {
    /// CreateFleet.
    ///
    /// # Errors
    /// EC2's own. If no instance could be launched, that is not an error but an answer with `errors`.
    pub fn create_fleet(&self, request: &CreateFleet) -> Result<CreateFleetAnswer, Ec2Error> {
        self.call("ec2", "CreateFleet", request, |state| state.create_fleet(request))
    }
}

impl AccountState {
    fn create_fleet(&mut self, request: &CreateFleet) -> Result<CreateFleetAnswer, Ec2Error> {
        let shares = checked(request)?;
        self.authorize("CreateFleet", &request.tag_specifications, &["fleet", "instance", "volume"])?;
        if let Some(answer) = self.replayed("CreateFleet", request.client_token.as_deref(), request)? {
            return Ok(answer);
        }
        if request.dry_run {
            return Err(Ec2Error::dry_run());
        }
        self.some_template_exists(request)?;
        let id = self.new_fleet_id();
        let mut answer = CreateFleetAnswer { fleet_id: id.clone(), errors: Vec::new(), instances: Vec::new() };
        for (capacity_type, target) in shares {
            if target > 0 {
                self.fulfil_or_none(request, &id, capacity_type, f64::from(target), &mut answer)?;
            }
        }
        let instance_ids = answer.instance_ids();
        self.account.tags.insert(id.clone(), tags_for(&request.tag_specifications, "fleet")?);
        self.fleets.insert(id.clone(), Fleet { id, created: self.now, instance_ids });
        self.remember("CreateFleet", request.client_token.as_deref(), request, &answer);
        Ok(answer)
    }

    /// A fleet's id looks like a UUID.
    fn new_fleet_id(&mut self) -> String {
        let id = self.new_id("fleet");
        let digits = &id[id.len() - 12..];
        format!("fleet-00000000-0000-4000-8000-{digits}")
    }

    /// Launches one kind of capacity, or nothing if fewer instances than the minimum can be launched. The errors are those of the
    /// offerings; EC2 does not document others.
    fn fulfil_or_none(
        &mut self,
        request: &CreateFleet,
        fleet_id: &str,
        capacity_type: CapacityType,
        target: f64,
        answer: &mut CreateFleetAnswer,
    ) -> Result<(), Ec2Error> {
        let Some(minimum) = minimum(request, capacity_type) else {
            return self.fulfil(request, fleet_id, capacity_type, target, answer);
        };
        let (before, lines) = (self.clone(), answer.instances.len());
        self.fulfil(request, fleet_id, capacity_type, target, answer)?;
        let launched = answer.instances.iter().skip(lines).map(|line| line.instance_ids.len()).sum::<usize>();
        if u32::try_from(launched).is_ok_and(|launched| launched < minimum) {
            *self = before;
            answer.instances.truncate(lines);
        }
        Ok(())
    }

    /// Launches one kind of capacity, candidate by candidate.
    fn fulfil(
        &mut self,
        request: &CreateFleet,
        fleet_id: &str,
        capacity_type: CapacityType,
        target: f64,
        answer: &mut CreateFleetAnswer,
    ) -> Result<(), Ec2Error> {
        let strategy = Strategy::new(request, capacity_type)?;
        let (mut candidates, mut unusable) = (Vec::new(), Vec::new());
        let all = self.candidates(request, fleet_id, capacity_type);
        distinct_pools(&all)?;
        for (line, result) in all {
            match result {
                Ok(candidate) => candidates.push(candidate),
                Err(error) => unusable.push((line, error)),
            }
        }
        let reservation_id = self.new_id("r");
        let ordered = order(self, candidates, strategy, target);
        let mut left = target;
        let mut launched: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let mut failed = vec![false; ordered.candidates.len()];
        let mut index = 0;
        // Machines are launched one by one. The diversified strategy alternates between its pools; otherwise the first pool is
        // used up first.
        while left > 0.0 {
            let open = |i: &usize| !failed[*i];
            let Some(next) = ordered.turn(index, &open) else { break };
            let candidate = &ordered.candidates[next];
            // The fleet requests all that is left from a pool at once, and RunInstances launches all of it or nothing.
            let started = launched.contains_key(&next);
            let allowed = if started { Ok(()) } else { self.check_launch_rate(machines(left / candidate.weight)) };
            match allowed.and_then(|()| self.launch(&candidate.plan, &reservation_id, index_of(index))) {
                Ok(id) => {
                    left -= candidate.weight;
                    launched.entry(next).or_default().push(id);
                    index += 1;
                }
                Err(error) => {
                    failed[next] = true;
                    answer.errors.push(fleet_error(candidate.line.clone(), capacity_type, error));
                }
            }
        }
        for (next, instance_ids) in launched {
            let candidate = &ordered.candidates[next];
            let platform = instance_ids.first().and_then(|id| self.instances.get(id)?.platform.clone());
            answer.instances.push(FleetInstances {
                launch_template_and_overrides: candidate.line.clone(),
                lifecycle: capacity_type.as_str().to_owned(),
                instance_ids,
                instance_type: candidate.plan.offering.instance_type.clone(),
                platform,
            });
        }
        // Errors of invalid overrides are only reported if the others did not suffice.
        if left > 0.0 {
            let errors = unusable.into_iter().map(|(line, error)| fleet_error(line, capacity_type, error));
            answer.errors.extend(errors);
        }
        Ok(())
    }

    /// If no template of the call exists, the call itself fails; otherwise each missing one is a separate error.
    fn some_template_exists(&self, request: &CreateFleet) -> Result<(), Ec2Error> {
        let mut first = None;
        for config in &request.launch_template_configs {
            match self.launch_template_version(&config.launch_template_specification) {
                Ok(_) => return Ok(()),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Every override in each of its subnets, with its launch or the reason why it is impossible.
    fn candidates(
        &self,
        request: &CreateFleet,
        fleet_id: &str,
        capacity_type: CapacityType,
    ) -> Vec<(LaunchTemplateAndOverrides, Result<Candidate, Ec2Error>)> {
        let mut candidates = Vec::new();
        for config in &request.launch_template_configs {
            let whole = [FleetOverride::default()];
            let overrides = if config.overrides.is_empty() { &whole[..] } else { &config.overrides };
            for overridden in overrides {
                for subnet_id in subnets(overridden) {
                    let overridden = FleetOverride { subnet_id, ..overridden.clone() };
                    let specification = config.launch_template_specification.clone();
                    let mut line = LaunchTemplateAndOverrides {
                        launch_template_specification: specification,
                        overrides: overridden,
                    };
                    let result = self.candidate(request, fleet_id, capacity_type, &mut line);
                    candidates.push((line, result));
                }
            }
        }
        candidates
    }

    fn candidate(
        &self,
        request: &CreateFleet,
        fleet_id: &str,
        capacity_type: CapacityType,
        line: &mut LaunchTemplateAndOverrides,
    ) -> Result<Candidate, Ec2Error> {
        let (template, version) = self.launch_template_version(&line.launch_template_specification)?;
        let (template_id, number) = (template.id.clone(), version.number.to_string());
        line.launch_template_specification = LaunchTemplateSpecification {
            launch_template_id: Some(template_id.clone()),
            launch_template_name: None,
            version: Some(number.clone()),
        };
        let overridden = &mut line.overrides;
        let mut data = version.data.clone();
        let instance_type = overridden.instance_type.clone().or_else(|| data.instance_type.clone());
        let instance_type = instance_type.ok_or_else(|| Ec2Error::missing("InstanceType"))?;
        let interface_subnet = data.other.get("NetworkInterfaces").and_then(|list| list.get(0)?.get("SubnetId"));
        let interface_subnet = interface_subnet.and_then(serde_json::Value::as_str).map(str::to_owned);
        let subnet_id = overridden.subnet_id.clone().or(interface_subnet);
        let subnet = self.choose_subnet(subnet_id.as_deref(), overridden.availability_zone.as_deref())?;
        overridden.availability_zone = Some(subnet.zone.clone());
        overridden.instance_type = Some(instance_type.clone());
        if overridden.image_id.is_some() {
            data.image_id.clone_from(&overridden.image_id);
        }
        data.tag_specifications = merged_tags(&data.tag_specifications, &request.tag_specifications);
        let plan = LaunchPlan {
            offering: Offering::new(&instance_type, &subnet.zone, capacity_type),
            subnet_id: subnet.id.clone(),
            data: Arc::new(data),
            max_price: price_limit(overridden.max_price.as_deref())?,
            system_tags: Tags::from([
                ("aws:ec2:fleet-id".to_owned(), fleet_id.to_owned()),
                ("aws:ec2launchtemplate:id".to_owned(), template_id),
                ("aws:ec2launchtemplate:version".to_owned(), number),
            ]),
            client_token: None,
            fleet_id: Some(fleet_id.to_owned()),
        };
        self.check_plan(&plan)?;
        Ok(Candidate {
            weight: overridden.weighted_capacity.unwrap_or(1.0),
            // An override without a priority is last.
            priority: overridden.priority.unwrap_or(f64::MAX),
            line: line.clone(),
            plan,
        })
    }
}

/// A fleet names each instance type once in each zone, whatever the subnet and the template.
fn distinct_pools(all: &[(LaunchTemplateAndOverrides, Result<Candidate, Ec2Error>)]) -> Result<(), Ec2Error> {
    let mut pools = BTreeSet::new();
    let usable = all.iter().filter_map(|(_, candidate)| candidate.as_ref().ok());
    let repeated = usable.map(|candidate| &candidate.plan.offering).any(|offering| !pools.insert(offering));
    if repeated {
        let message = "The fleet configuration contains duplicate instance pools.";
        return Err(Ec2Error::new("InvalidFleetConfig", message));
    }
    Ok(())
}

/// A number of machines, rounded up.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn machines(count: f64) -> u32 {
    count.ceil() as u32
}

fn index_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn fleet_error(line: LaunchTemplateAndOverrides, capacity_type: CapacityType, error: Ec2Error) -> FleetError {
    FleetError {
        launch_template_and_overrides: line,
        lifecycle: capacity_type.as_str().to_owned(),
        error_code: error.code,
        error_message: error.message,
    }
}

/// The override's subnets: none, one, or several separated by commas.
fn subnets(overridden: &FleetOverride) -> Vec<Option<String>> {
    match &overridden.subnet_id {
        None => vec![None],
        Some(list) => list.split(',').map(|id| Some(id.trim().to_owned())).collect(),
    }
}

/// A limit on the spot price, in dollars an hour.
pub(crate) fn price_limit(limit: Option<&str>) -> Result<Option<f64>, Ec2Error> {
    let Some(limit) = limit else { return Ok(None) };
    let price = limit.parse().ok().filter(|price: &f64| price.is_finite() && *price > 0.0);
    price.map(Some).ok_or_else(|| Ec2Error::invalid("MaxPrice", limit, "It must be a price in dollars above 0."))
}

/// The template's tags with the call's over them, kind by kind.
pub(crate) fn merged_tags(template: &[TagSpecification], call: &[TagSpecification]) -> Vec<TagSpecification> {
    let mut kinds: BTreeMap<Option<String>, BTreeMap<String, crate::requests::Tag>> = BTreeMap::new();
    for specification in template.iter().chain(call) {
        let tags = kinds.entry(specification.resource_type.clone()).or_default();
        tags.extend(specification.tags.iter().map(|tag| (tag.key.clone(), tag.clone())));
    }
    let specification = |(resource_type, tags): (_, BTreeMap<_, _>)| TagSpecification {
        resource_type,
        tags: tags.into_values().collect(),
    };
    kinds.into_iter().map(specification).collect()
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleet.html>
const MAX_TEMPLATES: usize = 50;
/// The maximum of `MinTargetCapacity`.
const MAX_MINIMUM: u32 = 1000;

/// Validates the request, and returns the shares of the target: on-demand first, then spot.
fn checked(request: &CreateFleet) -> Result<[(CapacityType, u32); 2], Ec2Error> {
    match request.fleet_type.as_deref() {
        Some("instant") => {}
        Some("request" | "maintain") | None => {
            return Err(Ec2Error::unsupported("fleets of a type other than instant"));
        }
        Some(other) => {
            return Err(Ec2Error::invalid("Type", other, "Valid values: request, maintain, instant."));
        }
    }
    if request.client_token.as_ref().is_some_and(|token| token.len() > 64 || !token.is_ascii()) {
        return Err(Ec2Error::new("InvalidParameterValue", "Client token must be at most 64 ASCII characters."));
    }
    if request.launch_template_configs.is_empty() {
        return Err(Ec2Error::missing("LaunchTemplateConfigs"));
    }
    if request.launch_template_configs.len() > MAX_TEMPLATES {
        let message = format!("A fleet may have at most {MAX_TEMPLATES} launch template configurations.");
        return Err(Ec2Error::new("InvalidParameterValue", message));
    }
    // EC2 limits the number of overrides to 300 for fleets of the other types only.
    for overridden in request.launch_template_configs.iter().flat_map(|config| &config.overrides) {
        if overridden.weighted_capacity.is_some_and(|weight| !(weight.is_finite() && weight > 0.0)) {
            return Err(Ec2Error::new("InvalidParameterValue", "WeightedCapacity must be above 0."));
        }
        if overridden.priority.is_some_and(|priority| !(priority.is_finite() && priority >= 0.0)) {
            return Err(Ec2Error::new("InvalidParameterValue", "Priority must be 0 or above."));
        }
    }
    for specification in &request.tag_specifications {
        let kind = specification.resource_type.as_deref().unwrap_or_default();
        if !["fleet", "instance", "volume"].contains(&kind) {
            let message = format!("'{kind}' is not a valid taggable resource type for this operation.");
            return Err(Ec2Error::new("InvalidParameterValue", message));
        }
        tags_for(std::slice::from_ref(specification), kind)?;
    }
    let spot = request.spot_options.as_ref().and_then(|spot| spot.instance_interruption_behavior.as_deref());
    if let Some(other) = spot.filter(|behaviour| *behaviour != "terminate") {
        return Err(Ec2Error::unsupported(&format!("the interruption behaviour {other}")));
    }
    checked_minimum(request)?;
    let target = request.target_capacity_specification.as_ref();
    let target = target.ok_or_else(|| Ec2Error::missing("TargetCapacitySpecification"))?;
    let reserved = request.reserved_capacity_options.as_ref();
    let types = reserved.map(|options| options.reservation_types.as_slice()).unwrap_or_default();
    let reserves = target.default_target_capacity_type.as_deref() == Some("reserved-capacity");
    if reserves != (types == [INTERRUPTIBLE]) {
        let message =
            format!("Fleets of the target capacity type reserved-capacity have the reservation type {INTERRUPTIBLE}.");
        return Err(Ec2Error::new("InvalidFleetConfig", message));
    }
    shares(target)
}

/// `MinTargetCapacity` of a capacity type.
fn minimum(request: &CreateFleet, capacity_type: CapacityType) -> Option<u32> {
    match capacity_type {
        CapacityType::OnDemand => request.on_demand_options.as_ref()?.min_target_capacity,
        CapacityType::Spot => request.spot_options.as_ref()?.min_target_capacity,
    }
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_OnDemandOptionsRequest.html>
fn checked_minimum(request: &CreateFleet) -> Result<(), Ec2Error> {
    let on_demand = request.on_demand_options.as_ref();
    let spot = request.spot_options.as_ref();
    let on_demand = on_demand.map(|options| (options.min_target_capacity, options.single_availability_zone));
    let spot = spot.map(|options| (options.min_target_capacity, options.single_availability_zone));
    for (minimum, in_one_zone) in on_demand.into_iter().chain(spot) {
        if minimum.is_some_and(|minimum| minimum > MAX_MINIMUM) {
            let message = format!("MinTargetCapacity must be at most {MAX_MINIMUM}.");
            return Err(Ec2Error::new("InvalidParameterValue", message));
        }
        if minimum.is_some() && !in_one_zone {
            let message = "MinTargetCapacity requires SingleAvailabilityZone or SingleInstanceType.";
            return Err(Ec2Error::new("InvalidParameterCombination", message));
        }
        let overrides = request.launch_template_configs.iter().flat_map(|config| &config.overrides);
        let zones: BTreeSet<Option<&str>> = overrides.map(|one| one.availability_zone.as_deref()).collect();
        if in_one_zone && (zones.len() != 1 || zones.contains(&None)) {
            return Err(Ec2Error::unsupported(
                "SingleAvailabilityZone with overrides of several zones or without a zone",
            ));
        }
    }
    Ok(())
}

fn shares(target: &TargetCapacity) -> Result<[(CapacityType, u32); 2], Ec2Error> {
    let total = target.total_target_capacity;
    let total = total.ok_or_else(|| Ec2Error::missing("TargetCapacitySpecification.TotalTargetCapacity"))?;
    let mut on_demand = target.on_demand_target_capacity.unwrap_or(0);
    let mut spot = target.spot_target_capacity.unwrap_or(0);
    let Some(rest) = on_demand.checked_add(spot).and_then(|both| total.checked_sub(both)) else {
        return Err(Ec2Error::new(
            "InvalidTargetCapacitySpecification",
            "OnDemandTargetCapacity and SpotTargetCapacity must not exceed TotalTargetCapacity.",
        ));
    };
    match target.default_target_capacity_type.as_deref() {
        None | Some("on-demand") => on_demand += rest,
        Some("spot") => spot += rest,
        // <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-launch-instances-interruptible-cr-walkthrough.html>
        Some("reserved-capacity") if on_demand == 0 && spot == 0 => on_demand = rest,
        Some("reserved-capacity") => {
            let message = "A fleet of the target capacity type reserved-capacity has no on-demand and no spot target.";
            return Err(Ec2Error::new("InvalidTargetCapacitySpecification", message));
        }
        Some(other @ "capacity-block") => {
            return Err(Ec2Error::unsupported(&format!("the target capacity type {other}")));
        }
        Some(other) => {
            let why = "Valid values: on-demand, spot, capacity-block, reserved-capacity.";
            return Err(Ec2Error::invalid("DefaultTargetCapacityType", other, why));
        }
    }
    Ok([(CapacityType::OnDemand, on_demand), (CapacityType::Spot, spot)])
}
