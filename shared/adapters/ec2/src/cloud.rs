//! Launching, describing, tagging and terminating instances.

mod known_templates;

use crate::addresses::Addresses;
use crate::control_plane::{CurrentControlPlane, DESCRIBED_AGAIN_AFTER};
use crate::log_lines::{ControlPlaneUnread, FreeAddressesUnread, InstanceTypesLeftOut};
use crate::{ClusterDetails, instance, requests, templates};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::operation::describe_instances::paginator::DescribeInstancesPaginator;
use aws_sdk_ec2::types::{Filter, ResourceType};
use futures::future::try_join_all;
use jiff::Timestamp;
use known_templates::{LAST_USED_TAG, LastUsed, Templates};
use nodeless_api::EC2NodeClass;
use nodeless_aws::port_error;
use nodeless_launch::fleet::{self, FleetOverride, FleetPlan};
use nodeless_launch::node_class::check::{Call, refusal};
use nodeless_launch::template::{TemplateError, TemplateSpec, Variant, instance_tags};
use nodeless_model::certificate_authorities::lacks_any;
use nodeless_model::instance::{Instance, InstanceFault, InstanceState, LAUNCH_UNANSWERED, LaunchOutcome};
use nodeless_model::launch_check::Refusal;
use nodeless_model::{StringMap, labels};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{Cloud, ControlPlane, DescribeControlPlane, ErrorKind, PortError};
use nodeless_telemetry::Context;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// EC2 accepts at most 200 values in the filters of a call, and at most 1,000 ids in a call; 200 satisfies both.
const IDS_A_CALL: usize = 200;
/// The scheduled events that end or interrupt an instance; those that Karpenter handles.
const EVENT_CODES: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];

/// All states except for that of a terminated instance.
const ALIVE_OR_ENDING: [&str; 5] = ["pending", "running", "stopping", "stopped", "shutting-down"];
/// The timeout of CreateFleet. It answers when all instances are launched, which takes far longer than any other call: usually
/// seconds, more when EC2 has to try many offerings.
const FLEET_TIME: Duration = Duration::from_secs(45);

/// EC2, for the lifecycle of a claim.
#[derive(Clone, Debug)]
pub struct Ec2Cloud {
    client: Client,
    /// As it was described at the start, but for the certificate authority: see [`Self::cluster`].
    described: ClusterDetails,
    control_plane: CurrentControlPlane,
    context: Context,
    /// Launch templates by name, with the day on which each was last marked as used; `None` before it is known to exist.
    known_templates: Arc<Mutex<BTreeMap<String, LastUsed>>>,
    addresses: Addresses,
}

impl Ec2Cloud {
    /// EC2 for the nodes of this cluster.
    #[must_use]
    pub fn new(
        config: &SdkConfig,
        cluster: ClusterDetails,
        control_plane: Arc<dyn DescribeControlPlane>,
        context: Context,
    ) -> Self {
        Self {
            client: Client::new(config),
            control_plane: CurrentControlPlane::new(&cluster, control_plane, context.now()),
            described: cluster,
            context,
            known_templates: Arc::default(),
            addresses: Addresses::default(),
        }
    }

    /// The cluster that instances of a class join. The certificate authority is the newest one that can be read: it is read again if the
    /// class states another one than this process knows, once a minute at most, and the launch does not fail if that fails.
    async fn cluster(&self, class: &EC2NodeClass) -> ClusterDetails {
        let with = |control_plane: ControlPlane| ClusterDetails {
            certificate_authority: control_plane.certificate_authority.unwrap_or_default(),
            ..self.described.clone()
        };
        let cluster = with(self.control_plane.last().await);
        let trusted = cluster.authority_digests().unwrap_or_default();
        if class.certificate_authority().is_none_or(|stated| !lacks_any(&trusted, stated)) {
            return cluster;
        }
        let (control_plane, unread) = self.control_plane.at(self.context.now(), DESCRIBED_AGAIN_AFTER).await;
        if let Some(error) = unread {
            self.context.log(&ControlPlaneUnread { error: &error.to_string() });
        }
        with(control_plane)
    }

    async fn create_fleet(
        &self,
        request: &LaunchRequest<'_>,
        plan: &FleetPlan,
        templates: &Templates,
        dry_run: bool,
    ) -> Result<CreateFleetOutput, PortError> {
        let group = request.claim.spec.launch_group.as_ref();
        let count = group.map_or(1, |group| group.size);
        let token = request.claim.client_token().unwrap_or_else(|| request.claim.uid.clone());
        let tags = &templates.instance_tags;
        let call = self
            .client
            .create_fleet()
            .set_client_token((!dry_run).then_some(token))
            .set_dry_run(dry_run.then_some(true))
            .set_context(plan.context.clone())
            .tag_specifications(requests::tag_specification(ResourceType::Instance, tags))
            .tag_specifications(requests::tag_specification(ResourceType::Volume, tags))
            .tag_specifications(requests::tag_specification(ResourceType::Fleet, tags));
        // The timeout only loses the answer of the call: the next step of the claim repeats the call with the same token.
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(FLEET_TIME).operation_timeout(FLEET_TIME);
        requests::fleet(call, plan, &templates.names, i32::try_from(count).unwrap_or(i32::MAX))
            .customize()
            .config_override(aws_sdk_ec2::config::Builder::new().timeout_config(timeouts.build()))
            .send()
            .await
            .map_err(|error| port_error("EC2 CreateFleet", &error))
    }

    /// Checks by a dry run whether EC2 would launch one instance of an entry of the plan.
    async fn try_instance(
        &self,
        cluster: &ClusterDetails,
        request: &LaunchRequest<'_>,
        variant: &Variant,
        template: &str,
        entry: &FleetOverride,
    ) -> Result<Option<Refusal>, PortError> {
        const OPERATION: &str = "EC2 RunInstances";
        let spec = TemplateSpec::new(cluster, request.claim, request.node_class, variant, false)
            .map_err(|error| template_error(&error))?;
        let tags = instance_tags(cluster, request.claim, &request.node_class.spec);
        let call = self
            .client
            .run_instances()
            .dry_run(true)
            .tag_specifications(requests::tag_specification(ResourceType::Instance, &tags))
            .tag_specifications(requests::tag_specification(ResourceType::Volume, &tags))
            .tag_specifications(requests::tag_specification(ResourceType::NetworkInterface, &tags));
        match requests::one_instance(call, &spec, template, entry).send().await {
            Ok(_) => Ok(None),
            Err(error) => refusal(Call::RunInstances, port_error(OPERATION, &error)),
        }
    }

    /// The faults of the instances whose status matches a filter.
    async fn faults(&self, name: &str, values: &[&str]) -> Result<Vec<InstanceFault>, PortError> {
        let filter = filter(name, values.iter().copied());
        let mut pages = self.client.describe_instance_status().filters(filter).into_paginator().send();
        let mut faults = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| port_error("EC2 DescribeInstanceStatus", &error))?;
            faults.extend(page.instance_statuses().iter().flat_map(instance::read_faults));
        }
        Ok(faults)
    }

    async fn filtered(&self, filters: Vec<Filter>) -> Result<Vec<Instance>, PortError> {
        let call = self.client.describe_instances().set_filters(Some(filters));
        read_pages(call.into_paginator().page_size(1000)).await
    }

    /// The existing instances with these ids. An unknown id fails the whole call with an error that names it: the call is
    /// repeated without it.
    async fn known(&self, ids: &[String]) -> Result<Vec<Instance>, PortError> {
        let mut ids = ids.to_vec();
        while !ids.is_empty() {
            // EC2 does not support a page size together with ids.
            let call = self.client.describe_instances().set_instance_ids(Some(ids.clone()));
            match read_pages(call.into_paginator()).await {
                Err(error) if error.code.starts_with("InvalidInstanceID.") => {
                    let asked = ids.len();
                    ids.retain(|id| !names(&error.message, id));
                    if ids.len() == asked {
                        // A filter ignores unknown ids.
                        return self.filtered(vec![filter("instance-id", ids.iter().map(String::as_str))]).await;
                    }
                }
                answer => return answer,
            }
        }
        Ok(Vec::new())
    }
}

/// Whether a message contains this instance id as a word: an id of the old format may be a prefix of one of the new format.
fn names(message: &str, id: &str) -> bool {
    message.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-')).any(|word| word == id)
}

async fn read_pages(call: DescribeInstancesPaginator) -> Result<Vec<Instance>, PortError> {
    let mut instances = Vec::new();
    let mut pages = call.send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| port_error("EC2 DescribeInstances", &error))?;
        for reservation in page.reservations() {
            for instance in reservation.instances() {
                instances.push(instance::read(instance)?);
            }
        }
    }
    instances.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(instances)
}

#[async_trait]
impl Cloud for Ec2Cloud {
    async fn launch(&self, request: LaunchRequest<'_>) -> Result<LaunchOutcome, PortError> {
        let class = self.addresses.most_free_first(&self.client, request.node_class).await.unwrap_or_else(|error| {
            let node_class = request.claim.node_class.as_str();
            self.context.log(&FreeAddressesUnread { node_class, error: &error.to_string() });
            request.node_class.clone()
        });
        let request = LaunchRequest { node_class: &class, ..request };
        let plan = fleet::plan(request.node_class, request.claim, request.candidates)
            .map_err(|error| PortError::new(ErrorKind::Invalid, "EC2 CreateFleet", error.to_string()))?;
        if !plan.left_out.is_empty() {
            self.context.log(&InstanceTypesLeftOut { claim: &request.claim.name, instance_types: &plan.left_out });
        }
        let templates = self.templates(&self.cluster(&class).await, &request, &plan)?;
        self.ensure_templates(&templates).await?;
        let group = request.claim.spec.launch_group.as_ref();
        let _taken = self.addresses.take(&plan, group.map_or(1, |group| group.size));
        let mut result = self.create_fleet(&request, &plan, &templates, false).await;
        if let Err(error) = &result
            && error.code.starts_with("InvalidLaunchTemplate")
        {
            // A cached template was deleted: create it again, once.
            self.forget_templates();
            self.create_again(&templates).await?;
            result = self.create_fleet(&request, &plan, &templates, false).await;
        }
        match result {
            Ok(output) => outcome(&output, &plan, self.context.now()),
            Err(error) => plan.rejected(&error.code, &error.message).ok_or(error),
        }
    }

    async fn dry_run(&self, request: LaunchRequest<'_>) -> Result<Option<Refusal>, PortError> {
        let plan = fleet::plan(request.node_class, request.claim, request.candidates)
            .map_err(|error| PortError::new(ErrorKind::Invalid, "EC2 CreateFleet", error.to_string()))?;
        let cluster = self.cluster(request.node_class).await;
        let templates = async {
            let templates = self.templates(&cluster, &request, &plan)?;
            self.ensure_templates(&templates).await?;
            Ok(templates)
        };
        let templates = match templates.await {
            Ok(templates) => templates,
            Err(error) => return refusal(Call::CreateLaunchTemplate, error),
        };
        if let Err(error) = self.create_fleet(&request, &plan, &templates, true).await {
            if error.code.starts_with("InvalidLaunchTemplate") {
                // A cached template was deleted; the next attempt creates it again.
                self.forget_templates();
                return Err(PortError { kind: ErrorKind::Unavailable, ..error });
            }
            if let Some(refused) = refusal(Call::CreateFleet, error)? {
                return Ok(Some(refused));
            }
        }
        // CreateFleet's dry run only checks permissions; that of RunInstances checks the parameters, too.
        let mut refused = None;
        for (variant, entries) in &plan.groups {
            let Some(template) = templates.names.get(variant) else { continue };
            for entry in entries {
                refused = self.try_instance(&cluster, &request, variant, template, entry).await?;
                if refused.is_none() {
                    return Ok(None);
                }
            }
        }
        Ok(refused)
    }

    async fn instances(&self, ids: &[String]) -> Result<Vec<Instance>, PortError> {
        // By id and not by filter: while a zone is impaired, calls without ids may fail, and calls with ids in other zones do
        // not.
        let mut instances = Vec::new();
        for chunk in ids.chunks(IDS_A_CALL) {
            instances.extend(self.known(chunk).await?);
        }
        Ok(instances)
    }

    async fn all_instances(&self) -> Result<Vec<Instance>, PortError> {
        let instances = self
            .filtered(vec![
                filter("tag:eks:eks-cluster-name", [self.described.name.as_str()]),
                filter("tag-key", [labels::NODE_POOL]),
                filter("tag-key", [labels::EC2_NODE_CLASS]),
                filter("instance-state-name", ALIVE_OR_ENDING),
            ])
            .await?;
        Ok(instances)
    }

    async fn group_instances(&self, group: &str) -> Result<Vec<Instance>, PortError> {
        self.filtered(vec![
            filter("tag:eks:eks-cluster-name", [self.described.name.as_str()]),
            filter(&format!("tag:{}", labels::LAUNCH_GROUP_TAG), [group]),
            filter("instance-state-name", ALIVE_OR_ENDING),
        ])
        .await
    }

    async fn instance_faults(&self) -> Result<Vec<InstanceFault>, PortError> {
        // Each filter needs its own call, because EC2 combines filters with different names with AND.
        let found = try_join_all([
            self.faults("instance-status.status", &["impaired"]),
            self.faults("system-status.status", &["impaired"]),
            self.faults("event.code", &EVENT_CODES),
        ])
        .await?;
        let mut faults = Vec::new();
        for fault in found.into_iter().flatten() {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        Ok(faults)
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), PortError> {
        let known = self.instances(ids).await?;
        let alive: Vec<String> = known.into_iter().filter(Instance::is_alive).map(|instance| instance.id).collect();
        for chunk in alive.chunks(IDS_A_CALL) {
            self.client
                .terminate_instances()
                .set_instance_ids(Some(chunk.to_vec()))
                .send()
                .await
                .map_err(|error| port_error("EC2 TerminateInstances", &error))?;
        }
        Ok(())
    }

    async fn stop(&self, ids: &[String]) -> Result<(), PortError> {
        let call = self.client.stop_instances().set_instance_ids(Some(ids.to_vec())).send().await;
        call.map(drop).map_err(|error| port_error("EC2 StopInstances", &error))
    }

    async fn start(&self, ids: &[String]) -> Result<(), PortError> {
        let call = self.client.start_instances().set_instance_ids(Some(ids.to_vec())).send().await;
        call.map(drop).map_err(|error| port_error("EC2 StartInstances", &error))
    }

    async fn reboot(&self, id: &str) -> Result<(), PortError> {
        let call = self.client.reboot_instances().instance_ids(id).send().await;
        call.map(drop).map_err(|error| port_error("EC2 RebootInstances", &error))
    }

    async fn tag(&self, id: &str, tags: &StringMap) -> Result<(), PortError> {
        self.client
            .create_tags()
            .resources(id)
            .set_tags(Some(requests::tags(tags)))
            .send()
            .await
            .map_err(|error| port_error("EC2 CreateTags", &error))?;
        Ok(())
    }

    async fn delete_unused_launch_templates(
        &self,
        since: Timestamp,
        max_count: usize,
    ) -> Result<Vec<String>, PortError> {
        let since = since.strftime("%Y-%m-%d").to_string();
        let found = templates::list(&self.client, &self.described.name, None).await?;
        let unused = found.iter().filter(|template| {
            let last_used = template.tags().iter().find(|tag| tag.key() == Some(LAST_USED_TAG));
            // Days in this format sort as text. Karpenter's templates have other names and no such tag.
            let unused = last_used.and_then(|tag| tag.value()).is_some_and(|day| day < since.as_str());
            templates::is_ours(template) && unused
        });
        let deleted = templates::delete(&self.client, unused.take(max_count)).await?;
        self.known_templates.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| !deleted.contains(name));
        Ok(deleted)
    }
}

fn filter<'a>(name: &str, values: impl IntoIterator<Item = &'a str>) -> Filter {
    Filter::builder().name(name).set_values(Some(values.into_iter().map(str::to_owned).collect())).build()
}

fn template_error(error: &TemplateError) -> PortError {
    PortError::new(ErrorKind::Invalid, "EC2 CreateLaunchTemplate", error.to_string())
}

/// Parses CreateFleet's answer. If EC2 omits a detail, it is taken from the override in the plan.
fn outcome(output: &CreateFleetOutput, plan: &FleetPlan, now: Timestamp) -> Result<LaunchOutcome, PortError> {
    let mut outcome = LaunchOutcome::default();
    let mut seen = HashSet::new();
    for fleet in output.instances() {
        let overrides = fleet.launch_template_and_overrides().and_then(|both| both.overrides());
        let instance_type = fleet.instance_type().map(|kind| kind.as_str().to_owned());
        let zone = fleet
            .availability_zone()
            .or_else(|| overrides.and_then(|o| o.availability_zone()))
            .map(str::to_owned)
            .or_else(|| plan.zone_of_subnet(overrides?.subnet_id()?).map(str::to_owned));
        let (Some(instance_type), Some(zone)) = (instance_type, zone) else {
            let message = "an instance came without its type or zone; the next read finds it by its tag";
            return Err(PortError::new(ErrorKind::Invalid, "EC2 CreateFleet", message).with_code(LAUNCH_UNANSWERED));
        };
        let used = plan.used(&instance_type, &zone);
        for id in fleet.instance_ids() {
            outcome.instances.push(Instance {
                id: id.clone(),
                state: InstanceState::Pending,
                instance_type: instance_type.clone(),
                zone: zone.clone(),
                capacity_type: plan.capacity_type,
                image_id: used.map(|variant| variant.image_id.clone()).unwrap_or_default(),
                subnet_id: overrides.and_then(|o| o.subnet_id()).map(str::to_owned),
                security_group_ids: Vec::new(),
                private_dns_name: None,
                reservation_id: used.and_then(|variant| variant.reservation_id.clone()),
                partition: used.and_then(|variant| variant.partition),
                launched: now,
                tags: StringMap::new(),
            });
        }
    }
    outcome.instances.sort_by(|a, b| a.id.cmp(&b.id));
    for error in output.errors() {
        let overrides = error.launch_template_and_overrides().and_then(|both| both.overrides());
        let instance_type = overrides.and_then(|o| o.instance_type()).map_or("", |kind| kind.as_str());
        let zone = overrides
            .and_then(|o| o.availability_zone())
            .or_else(|| plan.zone_of_subnet(overrides?.subnet_id()?))
            .unwrap_or_default();
        let (code, message) = (error.error_code().unwrap_or("Unknown"), error.error_message().unwrap_or_default());
        let failure = plan.failure(instance_type, zone, code, message);
        // EC2 repeats an error for each launch template with the same type and zone.
        if seen.insert((failure.instance_type.clone(), failure.zone.clone(), failure.code.clone())) {
            outcome.failures.push(failure);
        }
    }
    Ok(outcome)
}
