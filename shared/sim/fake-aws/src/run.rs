//! RunInstances and TerminateInstances.

use std::sync::Arc;

use serde_json::Value;

use super::account::Tags;
use super::create_fleet::{merged_tags, price_limit};
use super::error::Ec2Error;
use super::instance::{Instance, InstanceState};
use super::launch::{INTERRUPTIBLE, LaunchPlan};
use super::launch_templates::check_user_data;
use super::offering::{CapacityType, Offering};
use super::requests::{
    IamInstanceProfile, InstanceMarketOptions, LaunchTemplateData, RunInstances, SpotMarketOptions, TerminateInstances,
};
use super::state::{Ec2, State};
use super::tags::tags_for;

/// An instance whose termination was requested, and its states before and now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminatedInstance {
    /// `i-…`
    pub instance_id: String,
    /// Before the call.
    pub previous: InstanceState,
    /// After it.
    pub current: InstanceState,
}

impl Ec2 {
    /// RunInstances: one reservation with up to the maximum, or at least the minimum, of one offering.
    ///
    /// # Errors
    /// EC2's own; `DryRunOperation` when a dry run would have succeeded.
    pub fn run_instances(&self, request: &RunInstances) -> Result<Vec<Instance>, Ec2Error> {
        self.call("ec2", "RunInstances", request, |state| state.run_instances(request))
    }

    /// TerminateInstances: all, or none if one id is unknown.
    ///
    /// # Errors
    /// EC2's own.
    pub fn terminate_instances(&self, request: &TerminateInstances) -> Result<Vec<TerminatedInstance>, Ec2Error> {
        self.call("ec2", "TerminateInstances", request, |state| {
            if request.instance_ids.is_empty() {
                return Err(Ec2Error::missing("InstanceId"));
            }
            let known = |id: &&String| state.instances.get(*id).is_some_and(|i| i.visible_from <= state.now);
            let unknown: Vec<_> = request.instance_ids.iter().filter(|id| !known(id)).cloned().collect();
            if !unknown.is_empty() {
                return Err(Ec2Error::instance_not_found(&unknown));
            }
            if request.dry_run {
                return Err(Ec2Error::dry_run());
            }
            state.count_terminations(request.instance_ids.len())?;
            Ok(request.instance_ids.iter().filter_map(|id| state.terminate(id)).collect())
        })
    }
}

impl State {
    fn terminate(&mut self, id: &str) -> Option<TerminatedInstance> {
        let previous = self.instances.get(id)?.state;
        let code = "Client.UserInitiatedShutdown";
        self.stop(id, code, "Client.UserInitiatedShutdown: User initiated shutdown");
        let current = self.instances.get(id)?.state;
        Some(TerminatedInstance { instance_id: id.to_owned(), previous, current })
    }

    fn run_instances(&mut self, request: &RunInstances) -> Result<Vec<Instance>, Ec2Error> {
        let least = request.min_count.ok_or_else(|| Ec2Error::missing("MinCount"))?;
        let most = request.max_count.ok_or_else(|| Ec2Error::missing("MaxCount"))?;
        if least == 0 || most < least {
            let message = format!("MinCount ({least}) must be at least 1 and at most MaxCount ({most}).");
            return Err(Ec2Error::combination(message));
        }
        let token = request.client_token.as_deref();
        if let Some(ids) = self.replayed::<Vec<String>>("RunInstances", token, request)? {
            return Ok(ids.iter().filter_map(|id| self.instances.get(id).cloned()).collect());
        }
        let plan = self.run_plan(request)?;
        self.authorize("RunInstances", &plan.data.tag_specifications, &["instance", "volume", "network-interface"])?;
        self.check_plan(&plan)?;
        if request.dry_run {
            return Err(Ec2Error::dry_run());
        }
        let subnet = self.account.subnets.iter().find(|subnet| subnet.id == plan.subnet_id);
        let addresses = subnet.map_or(0, |subnet| subnet.free_addresses);
        self.check_quota(&plan, most)?;
        let depth = self.depth(&plan)?.unwrap_or(u64::MAX);
        let possible = u64::from(most).min(depth);
        if possible < u64::from(least) {
            return Err(super::launch::no_capacity(&plan.offering));
        }
        if u64::from(addresses) < u64::from(least) {
            return Err(super::launch::no_addresses(&plan.subnet_id));
        }
        let count = u32::try_from(possible).unwrap_or(most).min(addresses);
        self.check_launch_rate(count)?;
        let reservation_id = self.new_id("r");
        let mut ids = Vec::new();
        for index in 0..count {
            ids.push(self.launch(&plan, &reservation_id, index)?);
        }
        self.remember("RunInstances", token, request, &ids);
        Ok(ids.iter().filter_map(|id| self.instances.get(id).cloned()).collect())
    }

    /// The template, overridden by the values of the call.
    fn run_plan(&self, request: &RunInstances) -> Result<LaunchPlan, Ec2Error> {
        let mut data = LaunchTemplateData::default();
        let mut system_tags = Tags::new();
        if let Some(specification) = &request.launch_template {
            let (template, version) = self.launch_template_version(specification)?;
            data = version.data.clone();
            system_tags.insert("aws:ec2launchtemplate:id".to_owned(), template.id.clone());
            system_tags.insert("aws:ec2launchtemplate:version".to_owned(), version.number.to_string());
        }
        check_user_data(request.user_data.as_deref())?;
        tags_for(&request.tag_specifications, "instance")?;
        overlay(&mut data, request);
        let (capacity_type, max_price) = market(&data, request.instance_market_options.as_ref())?;
        let placement = request.placement.clone().unwrap_or_default();
        if let Some(tenancy) = placement.tenancy.filter(|tenancy| tenancy != "default") {
            return Err(Ec2Error::unsupported(&format!("the tenancy {tenancy}")));
        }
        let instance_type = data.instance_type.clone().ok_or_else(|| Ec2Error::missing("InstanceType"))?;
        if request.subnet_id.is_some() && data.other.contains_key("NetworkInterfaces") {
            let message = "Network interfaces and an instance-level subnet ID may not be specified on the same request";
            return Err(Ec2Error::combination(message));
        }
        let interface_subnet = data.other.get("NetworkInterfaces").and_then(|list| list.get(0)?.get("SubnetId"));
        let interface_subnet = interface_subnet.and_then(Value::as_str);
        let subnet_id = request.subnet_id.as_deref().or(interface_subnet);
        let subnet = self.choose_subnet(subnet_id, placement.availability_zone.as_deref())?;
        Ok(LaunchPlan {
            offering: Offering::new(&instance_type, &subnet.zone, capacity_type),
            subnet_id: subnet.id.clone(),
            data: Arc::new(data),
            max_price,
            system_tags,
            client_token: request.client_token.clone(),
            fleet_id: None,
        })
    }
}

fn overlay(data: &mut LaunchTemplateData, request: &RunInstances) {
    fn set<T: Clone>(mine: &mut Option<T>, theirs: Option<&T>) {
        if theirs.is_some() {
            *mine = theirs.cloned();
        }
    }
    set(&mut data.instance_type, request.instance_type.as_ref());
    set(&mut data.image_id, request.image_id.as_ref());
    set(&mut data.user_data, request.user_data.as_ref());
    let profile: Option<&IamInstanceProfile> = request.iam_instance_profile.as_ref();
    set(&mut data.iam_instance_profile, profile);
    if !request.network_interfaces.is_empty() {
        data.other.insert("NetworkInterfaces".to_owned(), Value::Array(request.network_interfaces.clone()));
    }
    if let Some(options) = &request.metadata_options {
        data.other.insert("MetadataOptions".to_owned(), options.clone());
    }
    if !request.security_group_ids.is_empty() {
        data.security_group_ids.clone_from(&request.security_group_ids);
    }
    data.tag_specifications = merged_tags(&data.tag_specifications, &request.tag_specifications);
}

/// The capacity type and the maximum price: those of the call override those of the template.
fn market(
    data: &LaunchTemplateData,
    call: Option<&InstanceMarketOptions>,
) -> Result<(CapacityType, Option<f64>), Ec2Error> {
    let template = data.other.get("InstanceMarketOptions").cloned();
    let template: Option<InstanceMarketOptions> = template
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| Ec2Error::unsupported(&format!("these InstanceMarketOptions: {error}")))?;
    let Some(options) = call.cloned().or(template) else { return Ok((CapacityType::OnDemand, None)) };
    match options.market_type.as_deref() {
        Some("spot") => {}
        Some(INTERRUPTIBLE) => return Ok((CapacityType::OnDemand, None)),
        None => return Err(Ec2Error::missing("InstanceMarketOptions.MarketType")),
        Some(other) => return Err(Ec2Error::unsupported(&format!("the market type {other}"))),
    }
    let SpotMarketOptions { max_price, spot_instance_type, instance_interruption_behavior } =
        options.spot_options.unwrap_or_default();
    if let Some(other) = spot_instance_type.filter(|kind| kind != "one-time") {
        return Err(Ec2Error::unsupported(&format!("the spot instance type {other}")));
    }
    if let Some(other) = instance_interruption_behavior.filter(|behaviour| behaviour != "terminate") {
        return Err(Ec2Error::unsupported(&format!("the interruption behaviour {other}")));
    }
    Ok((CapacityType::Spot, price_limit(max_price.as_deref())?))
}
