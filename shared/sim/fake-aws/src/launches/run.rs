//! RunInstances, RebootInstances, StopInstances, StartInstances and TerminateInstances.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::create_fleet::{merged_tags, price_limit};
use super::launch::{INTERRUPTIBLE, LaunchPlan};
use crate::error::Ec2Error;
use crate::launch_templates::check_user_data;
use crate::objects::account::Tags;
use crate::objects::instance::{Instance, InstanceState};
use crate::objects::offering::{CapacityType, Offering};
use crate::requests::{
    IamInstanceProfile, InstanceMarketOptions, LaunchTemplateData, RebootInstances, RunInstances, SpotMarketOptions,
    StartInstances, StopInstances, TerminateInstances,
};
use crate::state::{AccountState, Ec2};
use crate::tags::tags_for;

/// An instance whose state a call changes, and its states before and now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedInstance {
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
    pub fn terminate_instances(&self, request: &TerminateInstances) -> Result<Vec<ChangedInstance>, Ec2Error> {
        self.call("ec2", "TerminateInstances", request, |state| {
            state.check_ids(&request.instance_ids, request.dry_run)?;
            state.count_instances("TerminateInstances", request.instance_ids.len())?;
            Ok(request.instance_ids.iter().filter_map(|id| state.terminate(id)).collect())
        })
    }

    /// RebootInstances: all, or none if one is stopped. Their state stays the same, and those that end are ignored.
    ///
    /// # Errors
    /// EC2's own.
    pub fn reboot_instances(&self, request: &RebootInstances) -> Result<(), Ec2Error> {
        self.call("ec2", "RebootInstances", request, |state| {
            state.check_ids(&request.instance_ids, request.dry_run)?;
            let waits = |id: &&String| {
                let state = state.instances.get(*id).map(|it| it.state);
                state.is_some_and(|state| state.exists() && state != InstanceState::Running)
            };
            if let Some(id) = request.instance_ids.iter().find(waits) {
                return Err(not_in_state(id, "rebooted"));
            }
            request.instance_ids.iter().for_each(|id| state.reboot(id));
            Ok(())
        })
    }

    /// StopInstances: all, or none if one cannot be stopped. Spot instances of a fleet cannot.
    ///
    /// # Errors
    /// EC2's own.
    pub fn stop_instances(&self, request: &StopInstances) -> Result<Vec<ChangedInstance>, Ec2Error> {
        self.call("ec2", "StopInstances", request, |state| {
            state.check_ids(&request.instance_ids, request.dry_run)?;
            state.count_instances("StopInstances", request.instance_ids.len())?;
            for id in &request.instance_ids {
                state.check_changes(id)?;
            }
            Ok(request.instance_ids.iter().filter_map(|id| state.changed(id, |state| state.halt(id))).collect())
        })
    }

    /// StartInstances: all, or none if one cannot be started, or EC2 has no capacity for it.
    ///
    /// # Errors
    /// EC2's own.
    pub fn start_instances(&self, request: &StartInstances) -> Result<Vec<ChangedInstance>, Ec2Error> {
        self.call("ec2", "StartInstances", request, |state| {
            state.check_ids(&request.instance_ids, request.dry_run)?;
            state.count_instances("StartInstances", request.instance_ids.len())?;
            let mut started = Vec::new();
            let mut machines: BTreeMap<Offering, u64> = BTreeMap::new();
            for id in &request.instance_ids {
                state.check_changes(id)?;
                match state.instances.get(id) {
                    Some(it) if it.state == InstanceState::Stopped => {
                        *machines.entry(it.offering.clone()).or_default() += 1;
                        started.push(id);
                    }
                    Some(it) if it.state == InstanceState::Stopping => return Err(not_in_state(id, "started")),
                    _ => {}
                }
            }
            let before = (state.capacity.clone(), state.faults.scarce.clone());
            let mut machines = machines.iter();
            if let Err(error) = machines.try_for_each(|(offering, number)| state.use_capacity(offering, *number)) {
                (state.capacity, state.faults.scarce) = before;
                return Err(error);
            }
            started.into_iter().for_each(|id| state.restart(id));
            Ok(request.instance_ids.iter().filter_map(|id| state.changed(id, |_| ())).collect())
        })
    }
}

/// EC2's error for an instance whose state a call cannot change.
fn not_in_state(id: &str, what: &str) -> Ec2Error {
    let message = format!("The instance '{id}' is not in a state from which it can be {what}.");
    Ec2Error::new("IncorrectInstanceState", message)
}

impl AccountState {
    /// The ids of a call have to be those of instances that are listed.
    fn check_ids(&self, ids: &[String], dry_run: bool) -> Result<(), Ec2Error> {
        if ids.is_empty() {
            return Err(Ec2Error::missing("InstanceId"));
        }
        let known = |id: &&String| self.instances.get(*id).is_some_and(|i| i.visible_from <= self.now);
        let unknown: Vec<_> = ids.iter().filter(|id| !known(id)).cloned().collect();
        if !unknown.is_empty() {
            return Err(Ec2Error::instance_not_found(&unknown));
        }
        if dry_run { Err(Ec2Error::dry_run()) } else { Ok(()) }
    }

    /// An instance that ends, or a spot instance, can be neither stopped nor started.
    fn check_changes(&self, id: &str) -> Result<(), Ec2Error> {
        let Some(instance) = self.instances.get(id) else { return Ok(()) };
        if instance.offering.capacity_type == CapacityType::Spot {
            let message = format!("You can't stop the Spot Instance '{id}' because it is part of a fleet.");
            return Err(Ec2Error::new("UnsupportedOperation", message));
        }
        if instance.state.exists() { Ok(()) } else { Err(not_in_state(id, "stopped or started")) }
    }

    /// Takes the capacity for this number of stopped instances.
    fn use_capacity(&mut self, offering: &Offering, machines: u64) -> Result<(), Ec2Error> {
        if let Some((_, error)) = self.faults.refused.iter().find(|(pattern, _)| pattern.matches(offering)) {
            let plain = error.message.is_empty() && error.code == "InsufficientInstanceCapacity";
            return Err(if plain { super::launch::no_capacity(offering) } else { error.clone() });
        }
        if self.machines_left_in_quota(offering)?.is_some_and(|left| left < machines) {
            return Err(self.quota_exceeded(offering));
        }
        let scarce = self.faults.scarce.iter_mut().filter(|(pattern, _)| pattern.matches(offering));
        let mut limits: Vec<&mut u64> = scarce.map(|(_, left)| left).chain(self.capacity.get_mut(offering)).collect();
        if limits.iter().any(|left| **left < machines) {
            return Err(super::launch::no_capacity(offering));
        }
        limits.iter_mut().for_each(|left| **left -= machines);
        Ok(())
    }

    fn changed(&mut self, id: &str, change: impl FnOnce(&mut Self)) -> Option<ChangedInstance> {
        let previous = self.instances.get(id)?.state;
        change(self);
        let current = self.instances.get(id)?.state;
        Some(ChangedInstance { instance_id: id.to_owned(), previous, current })
    }

    pub(crate) fn terminate(&mut self, id: &str) -> Option<ChangedInstance> {
        let code = "Client.UserInitiatedShutdown";
        self.changed(id, |state| state.stop(id, code, "Client.UserInitiatedShutdown: User initiated shutdown"))
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
