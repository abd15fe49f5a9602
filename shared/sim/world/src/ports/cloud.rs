//! The Cloud port over the simulated account, through the same EC2 calls as the AWS adapter.

use super::{certificate_authority, details};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use nodeless_api::EC2NodeClass;
use nodeless_fake_aws::requests::{
    ChangeTags, CreateFleet, CreateLaunchTemplate, DeleteLaunchTemplate, Describe, Filter, LaunchTemplateData,
    LaunchTemplateSpecification, RebootInstances, RunInstances, StartInstances, StopInstances, Tag, TagSpecification,
    TerminateInstances,
};
use nodeless_fake_aws::{self as fake_aws, CreateFleetAnswer, Ec2, Ec2Error};
use nodeless_launch::fleet::{self, FleetPlan};
use nodeless_launch::node_class::check::{Call, refusal};
use nodeless_launch::request::{FleetCall, create_fleet, launch_template_data};
use nodeless_launch::template::{TemplateSpec, Variant, instance_tags};
use nodeless_launch::{ClusterDetails, authority_digests};
use nodeless_model::certificate_authorities::lacks_any;
use nodeless_model::instance::{FaultKind, Instance, InstanceFault, InstanceState, LaunchOutcome};
use nodeless_model::{CapacityType, StringMap, labels};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{Cloud, ErrorKind, PortError};
use nodeless_state::Refusal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const LAST_USED_TAG: &str = "nodeless.sh/last-used";
const TEMPLATE_PREFIX: &str = "nodeless/";
/// The minimum time between two reads of the certificate authority, as in AWS.
const DESCRIBED_AGAIN_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// The certificate authority as a process read it.
#[derive(Debug)]
struct Authority {
    bundle: String,
    described: Timestamp,
}

/// The simulated EC2.
#[derive(Clone, Debug)]
pub struct MemoryCloud {
    ec2: Ec2,
    described: ClusterDetails,
    authority: Arc<Mutex<Option<Authority>>>,
    /// The names of launch templates that exist, with the day on which each was last marked as used.
    known_templates: Arc<Mutex<BTreeMap<String, String>>>,
}

/// Maps an error of EC2 to an error of the port.
pub(super) fn failed(operation: &str, error: &Ec2Error) -> PortError {
    let kind = match error.code.as_str() {
        "RequestLimitExceeded" | "Throttling" => ErrorKind::Throttled,
        "UnauthorizedOperation" | "AccessDeniedException" | "OptInRequired" | "PendingVerification" => {
            ErrorKind::Denied
        }
        code if code.contains("NotFound") => ErrorKind::NotFound,
        _ if error.status >= 500 => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    };
    PortError::new(kind, operation, error.message.clone()).with_code(error.code.clone())
}

fn tags(map: &StringMap) -> Vec<Tag> {
    map.iter().map(|(key, value)| Tag::new(key, value)).collect()
}

fn tagged(kind: &str, map: &StringMap) -> TagSpecification {
    TagSpecification { resource_type: Some(kind.to_owned()), tags: tags(map) }
}

impl MemoryCloud {
    /// EC2 for the nodes of this cluster.
    pub fn new(ec2: Ec2, cluster: impl Into<String>) -> Self {
        let described = details(cluster, "");
        Self { ec2, described, authority: Arc::default(), known_templates: Arc::default() }
    }

    /// All instances of the account, including those that are not listed yet.
    pub fn every_instance(&self) -> Vec<Instance> {
        self.ec2.instances().into_iter().map(model).collect()
    }

    fn known_templates(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.known_templates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster that instances of a class join, with the certificate authority that this process read last: at its first launch, and again
    /// as in AWS, if the class states another one, once a minute at most.
    fn cluster(&self, class: &EC2NodeClass) -> ClusterDetails {
        let mut held = self.authority.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.ec2.now();
        let read = || Authority { bundle: certificate_authority(&self.ec2, &self.described.name), described: now };
        let authority = held.get_or_insert_with(read);
        let stated = class.certificate_authority();
        let differs = stated.is_some_and(|stated| lacks_any(&authority_digests(&authority.bundle), stated));
        if differs && now.duration_since(authority.described) >= DESCRIBED_AGAIN_AFTER {
            *authority = read();
        }
        ClusterDetails { certificate_authority: authority.bundle.clone(), ..self.described.clone() }
    }

    /// Creates the launch template of a variant unless it is known to exist, and returns its name.
    fn template(&self, request: &LaunchRequest<'_>, variant: &Variant, spot: bool) -> Result<String, PortError> {
        const OPERATION: &str = "EC2 CreateLaunchTemplate";
        let invalid = |why: String| PortError::new(ErrorKind::Invalid, OPERATION, why);
        let spec =
            TemplateSpec::new(&self.cluster(request.node_class), request.claim, request.node_class, variant, spot)
                .map_err(|error| invalid(error.to_string()))?;
        let data: LaunchTemplateData =
            serde_json::from_value(launch_template_data(&spec)).map_err(|error| invalid(error.to_string()))?;
        let name = spec.name();
        let today = self.ec2.now().strftime("%Y-%m-%d").to_string();
        if self.known_templates().get(&name) == Some(&today) {
            return Ok(name);
        }
        let filters = vec![Filter::new("launch-template-name", [name.as_str()])];
        let found = self.ec2.describe_launch_templates(&Describe { filters, ..Describe::default() });
        let (found, _) = found.map_err(|error| failed("EC2 DescribeLaunchTemplates", &error))?;
        if let Some(template) = found.first() {
            if template.tags.get(LAST_USED_TAG) != Some(&today) {
                let mark = StringMap::from([(LAST_USED_TAG.to_owned(), today.clone())]);
                self.change_tags(&template.id, &mark)?;
            }
        } else {
            let mut own = spec.tags;
            own.insert(LAST_USED_TAG.to_owned(), today.clone());
            let create = CreateLaunchTemplate {
                launch_template_name: Some(name.clone()),
                launch_template_data: Some(data),
                tag_specifications: vec![tagged("launch-template", &own)],
                ..CreateLaunchTemplate::default()
            };
            self.ec2.create_launch_template(&create).map_err(|error| failed(OPERATION, &error))?;
        }
        self.known_templates().insert(name.clone(), today);
        Ok(name)
    }

    fn change_tags(&self, id: &str, map: &StringMap) -> Result<(), PortError> {
        let request = ChangeTags { resources: vec![id.to_owned()], tags: tags(map), dry_run: false };
        self.ec2.create_tags(&request).map_err(|error| failed("EC2 CreateTags", &error))
    }

    /// Creates the launch template of each variant unless it exists, and returns their names.
    fn templates(&self, request: &LaunchRequest<'_>, plan: &FleetPlan) -> Result<BTreeMap<Variant, String>, PortError> {
        let spot = plan.capacity_type == CapacityType::Spot;
        let of = |variant: &Variant| Ok((variant.clone(), self.template(request, variant, spot)?));
        plan.groups.keys().map(of).collect()
    }

    /// The network interfaces of a launch template in this subnet: a call has no other parameter for it.
    fn interfaces(
        &self,
        request: &LaunchRequest<'_>,
        variant: &Variant,
        subnet: &str,
    ) -> Result<Vec<Value>, PortError> {
        let spec =
            TemplateSpec::new(&self.cluster(request.node_class), request.claim, request.node_class, variant, false)
                .map_err(|error| PortError::new(ErrorKind::Invalid, "EC2 RunInstances", error.to_string()))?;
        let mut data = launch_template_data(&spec);
        let mut interfaces = data["NetworkInterfaces"].as_array_mut().map(std::mem::take).unwrap_or_default();
        for interface in &mut interfaces {
            interface["SubnetId"] = Value::from(subnet);
        }
        Ok(interfaces)
    }

    fn fleet(
        &self,
        request: &LaunchRequest<'_>,
        plan: &FleetPlan,
        templates: &BTreeMap<Variant, String>,
    ) -> Result<CreateFleet, PortError> {
        let claim = request.claim;
        let call = create_fleet(&FleetCall {
            plan,
            templates,
            count: claim.spec.launch_group.as_ref().map_or(1, |group| group.size),
            client_token: &claim.client_token().unwrap_or_else(|| claim.uid.clone()),
            tags: &instance_tags(&self.cluster(request.node_class), claim, &request.node_class.spec),
        });
        serde_json::from_value(call)
            .map_err(|error| PortError::new(ErrorKind::Invalid, "EC2 CreateFleet", error.to_string()))
    }

    fn describe(&self, filters: Vec<Filter>) -> Result<Vec<Instance>, PortError> {
        let mut request = Describe { filters, max_results: Some(1000), ..Describe::default() };
        let mut instances = Vec::new();
        loop {
            let page = self.ec2.describe_instances(&request);
            let (page, next) = page.map_err(|error| failed("EC2 DescribeInstances", &error))?;
            instances.extend(page.into_iter().map(model));
            if next.is_none() {
                return Ok(instances);
            }
            request.next_token = next;
        }
    }
}

#[async_trait]
impl Cloud for MemoryCloud {
    async fn launch(&self, request: LaunchRequest<'_>) -> Result<LaunchOutcome, PortError> {
        const OPERATION: &str = "EC2 CreateFleet";
        let subnets = self.ec2.account().subnets;
        let free = subnets.into_iter().map(|subnet| (subnet.id, i64::from(subnet.free_addresses))).collect();
        let class = fleet::most_free_first(request.node_class, &free);
        let request = LaunchRequest { node_class: &class, ..request };
        let plan = fleet::plan(request.node_class, request.claim, request.candidates)
            .map_err(|error| PortError::new(ErrorKind::Invalid, OPERATION, error.to_string()))?;
        let call = self.fleet(&request, &plan, &self.templates(&request, &plan)?)?;
        let mut answer = self.ec2.create_fleet(&call);
        if answer.as_ref().is_err_and(|error| error.code.starts_with("InvalidLaunchTemplate")) {
            // A known template was deleted: create it again, once.
            self.known_templates().clear();
            self.templates(&request, &plan)?;
            answer = self.ec2.create_fleet(&call);
        }
        match answer {
            Ok(answer) => Ok(outcome(&self.ec2, &answer, &plan)),
            Err(error) => plan.rejected(&error.code, &error.message).ok_or_else(|| failed(OPERATION, &error)),
        }
    }

    async fn dry_run(&self, request: LaunchRequest<'_>) -> Result<Option<Refusal>, PortError> {
        let plan = match fleet::plan(request.node_class, request.claim, request.candidates) {
            Ok(plan) => plan,
            Err(error) => return Err(PortError::new(ErrorKind::Invalid, "EC2 CreateFleet", error.to_string())),
        };
        let templates = match self.templates(&request, &plan) {
            Ok(templates) => templates,
            Err(error) => return refusal(Call::CreateLaunchTemplate, error),
        };
        let fleet = self.fleet(&request, &plan, &templates)?;
        let fleet = CreateFleet { dry_run: true, client_token: None, ..fleet };
        if let Err(error) = self.ec2.create_fleet(&fleet) {
            let failed = failed("EC2 CreateFleet", &error);
            if error.code.starts_with("InvalidLaunchTemplate") {
                // A known template was deleted; the next attempt creates it again.
                self.known_templates().clear();
                return Err(PortError { kind: ErrorKind::Unavailable, ..failed });
            }
            if let Some(refused) = refusal(Call::CreateFleet, failed)? {
                return Ok(Some(refused));
            }
        }
        let tags = instance_tags(&self.cluster(request.node_class), request.claim, &request.node_class.spec);
        let mut refused = None;
        for (variant, entry) in plan.groups.iter().flat_map(|(variant, all)| all.iter().map(move |it| (variant, it))) {
            let run = RunInstances {
                dry_run: true,
                min_count: Some(1),
                max_count: Some(1),
                launch_template: Some(LaunchTemplateSpecification {
                    launch_template_name: templates.get(variant).cloned(),
                    version: Some("$Latest".to_owned()),
                    ..LaunchTemplateSpecification::default()
                }),
                instance_type: Some(entry.instance_type.clone()),
                network_interfaces: self.interfaces(&request, variant, &entry.subnet_id)?,
                tag_specifications: vec![tagged("instance", &tags), tagged("volume", &tags)],
                ..RunInstances::default()
            };
            let Err(error) = self.ec2.run_instances(&run) else { return Ok(None) };
            match refusal(Call::RunInstances, failed("EC2 RunInstances", &error))? {
                None => return Ok(None),
                Some(why) => refused = Some(why),
            }
        }
        Ok(refused)
    }

    async fn instances(&self, ids: &[String]) -> Result<Vec<Instance>, PortError> {
        // A filter ignores unknown ids, whereas a call with an unknown id fails as a whole.
        let mut instances = Vec::new();
        for chunk in ids.chunks(200) {
            instances.extend(self.describe(vec![Filter::new("instance-id", chunk.iter().cloned())])?);
        }
        Ok(instances)
    }

    async fn all_instances(&self) -> Result<Vec<Instance>, PortError> {
        self.describe(vec![
            Filter::new(&format!("tag:{}", labels::CLUSTER_NAME_TAG), [self.described.name.as_str()]),
            Filter::new("tag-key", [labels::NODE_POOL]),
            Filter::new("tag-key", [labels::EC2_NODE_CLASS]),
            Filter::new("instance-state-name", ["pending", "running", "stopping", "stopped", "shutting-down"]),
        ])
    }

    async fn group_instances(&self, group: &str) -> Result<Vec<Instance>, PortError> {
        self.describe(vec![
            Filter::new(&format!("tag:{}", labels::CLUSTER_NAME_TAG), [self.described.name.as_str()]),
            Filter::new(&format!("tag:{}", labels::LAUNCH_GROUP_TAG), [group]),
            Filter::new("instance-state-name", ["pending", "running", "stopping", "stopped", "shutting-down"]),
        ])
    }

    async fn instance_faults(&self) -> Result<Vec<InstanceFault>, PortError> {
        let mut request = Describe { max_results: Some(1000), ..Describe::default() };
        let mut faults = Vec::new();
        loop {
            let page = self.ec2.describe_instance_status(&request);
            let (page, next) = page.map_err(|error| failed("EC2 DescribeInstanceStatus", &error))?;
            faults.extend(page.into_iter().flat_map(faults_of));
            if next.is_none() {
                return Ok(faults);
            }
            request.next_token = next;
        }
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), PortError> {
        let known = self.instances(ids).await?;
        let alive: Vec<String> = known.into_iter().filter(Instance::is_alive).map(|instance| instance.id).collect();
        if alive.is_empty() {
            return Ok(());
        }
        let request = TerminateInstances { instance_ids: alive, dry_run: false };
        let answer = self.ec2.terminate_instances(&request);
        answer.map(drop).map_err(|error| failed("EC2 TerminateInstances", &error))
    }

    async fn stop(&self, ids: &[String]) -> Result<(), PortError> {
        let request = StopInstances { instance_ids: ids.to_vec(), dry_run: false };
        let answer = self.ec2.stop_instances(&request);
        answer.map(drop).map_err(|error| failed("EC2 StopInstances", &error))
    }

    async fn start(&self, ids: &[String]) -> Result<(), PortError> {
        let request = StartInstances { instance_ids: ids.to_vec(), dry_run: false };
        let answer = self.ec2.start_instances(&request);
        answer.map(drop).map_err(|error| failed("EC2 StartInstances", &error))
    }

    async fn reboot(&self, id: &str) -> Result<(), PortError> {
        let request = RebootInstances { instance_ids: vec![id.to_owned()], dry_run: false };
        self.ec2.reboot_instances(&request).map_err(|error| failed("EC2 RebootInstances", &error))
    }

    async fn tag(&self, id: &str, tags: &StringMap) -> Result<(), PortError> {
        self.change_tags(id, tags)
    }

    async fn delete_unused_launch_templates(
        &self,
        since: Timestamp,
        max_count: usize,
    ) -> Result<Vec<String>, PortError> {
        let since = since.strftime("%Y-%m-%d").to_string();
        let filter = Filter::new(&format!("tag:{}", labels::CLUSTER_NAME_TAG), [self.described.name.as_str()]);
        let describe = Describe { filters: vec![filter], ..Describe::default() };
        let found = self.ec2.describe_launch_templates(&describe);
        let (found, _) = found.map_err(|error| failed("EC2 DescribeLaunchTemplates", &error))?;
        let mut deleted = Vec::new();
        // Days in this format sort as text.
        let unused = |template: &&fake_aws::LaunchTemplate| {
            let ours = template.name.starts_with(TEMPLATE_PREFIX);
            ours && template.tags.get(LAST_USED_TAG).is_some_and(|day| *day < since)
        };
        for template in found.iter().filter(unused).take(max_count) {
            delete_template(&self.ec2, &template.id)?;
            deleted.push(template.name.clone());
        }
        Ok(deleted)
    }
}

/// Deletes a launch template. A missing one counts as success.
pub(super) fn delete_template(ec2: &Ec2, id: &str) -> Result<(), PortError> {
    let request = DeleteLaunchTemplate { launch_template_id: Some(id.to_owned()), ..DeleteLaunchTemplate::default() };
    match ec2.delete_launch_template(&request).map_err(|error| failed("EC2 DeleteLaunchTemplate", &error)) {
        Err(error) if error.kind != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The faults of an instance. Canceled and completed events are not faults.
fn faults_of(instance: fake_aws::Instance) -> Vec<InstanceFault> {
    let checks = [("instance", instance.impaired_since), ("system", instance.system_impaired_since)];
    let failing = checks.into_iter().filter(|(_, since)| since.is_some());
    let failing = failing.map(|(check, since)| FaultKind::CheckFailed { check, since });
    let ahead = instance.planned.into_iter().filter(|event| !event.description.starts_with('['));
    let planned = ahead.map(|event| FaultKind::Planned { code: event.code, not_before: Some(event.not_before) });
    failing.chain(planned).map(|kind| InstanceFault { id: instance.id.clone(), kind }).collect()
}

/// Converts an instance to the port's type.
fn model(instance: fake_aws::Instance) -> Instance {
    let offering = instance.offering;
    // An instance that uses an open reservation implicitly is on-demand.
    let preference = instance.data.other.get("CapacityReservationSpecification");
    let preference = preference.and_then(|specification| specification.get("CapacityReservationPreference")?.as_str());
    let reservation_id = instance.capacity_reservation_id.filter(|_| preference == Some("capacity-reservations-only"));
    let capacity_type = match (offering.capacity_type, &reservation_id) {
        (fake_aws::CapacityType::Spot, _) => CapacityType::Spot,
        (fake_aws::CapacityType::OnDemand, Some(_)) => CapacityType::Reserved,
        (fake_aws::CapacityType::OnDemand, None) => CapacityType::OnDemand,
    };
    let state = match instance.state {
        fake_aws::InstanceState::Pending => InstanceState::Pending,
        fake_aws::InstanceState::Running => InstanceState::Running,
        fake_aws::InstanceState::Stopping => InstanceState::Stopping,
        fake_aws::InstanceState::Stopped => InstanceState::Stopped,
        fake_aws::InstanceState::ShuttingDown => InstanceState::ShuttingDown,
        fake_aws::InstanceState::Terminated => InstanceState::Terminated,
    };
    Instance {
        id: instance.id,
        state,
        instance_type: offering.instance_type,
        zone: offering.zone,
        capacity_type,
        image_id: instance.image_id,
        subnet_id: Some(instance.subnet_id),
        security_group_ids: instance.security_group_ids,
        private_dns_name: Some(instance.private_dns_name),
        reservation_id,
        partition: instance.partition,
        launched: instance.launched,
        tags: instance.tags,
    }
}

/// The response of CreateFleet. As in EC2, it contains neither the DNS name nor the tags of an instance.
fn outcome(ec2: &Ec2, answer: &CreateFleetAnswer, plan: &FleetPlan) -> LaunchOutcome {
    let mut outcome = LaunchOutcome::default();
    for group in &answer.instances {
        let overrides = &group.launch_template_and_overrides.overrides;
        let zone = overrides.availability_zone.clone().unwrap_or_default();
        let used = plan.used(&group.instance_type, &zone);
        for id in &group.instance_ids {
            outcome.instances.push(Instance {
                id: id.clone(),
                state: InstanceState::Pending,
                instance_type: group.instance_type.clone(),
                zone: zone.clone(),
                capacity_type: plan.capacity_type,
                image_id: used.map(|variant| variant.image_id.clone()).unwrap_or_default(),
                subnet_id: overrides.subnet_id.clone(),
                security_group_ids: Vec::new(),
                private_dns_name: None,
                reservation_id: used.and_then(|variant| variant.reservation_id.clone()),
                partition: used.and_then(|variant| variant.partition),
                launched: ec2.now(),
                tags: StringMap::new(),
            });
        }
    }
    outcome.instances.sort_by(|a, b| a.id.cmp(&b.id));
    let mut seen = BTreeSet::new();
    for error in &answer.errors {
        let overrides = &error.launch_template_and_overrides.overrides;
        let instance_type = overrides.instance_type.as_deref().unwrap_or_default();
        let zone = overrides.availability_zone.as_deref().unwrap_or_default();
        let failure = plan.failure(instance_type, zone, &error.error_code, &error.error_message);
        if seen.insert((failure.instance_type.clone(), failure.zone.clone(), failure.code.clone())) {
            outcome.failures.push(failure);
        }
    }
    outcome
}
