//! Describe calls about instances, launch templates and tags.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::error::Ec2Error;
use super::filter::{page, passes};
use super::launch_templates::not_found;
use super::objects::instance::{Instance, InstanceState, PlannedEvent};
use super::objects::template::{LaunchTemplate, LaunchTemplateVersion};
use super::requests::Describe;
use super::state::{AccountState, Ec2};

/// Entries of one page, and the token of the next page if there is one.
pub type Page<T> = (Vec<T>, Option<String>);

/// A tag on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagOfResource {
    /// The resource.
    pub resource_id: String,
    /// The kind of the resource, such as `instance`.
    pub resource_type: &'static str,
    /// The tag's key.
    pub key: String,
    /// The tag's value.
    pub value: String,
}

fn instance_attribute(instance: &Instance, name: &str) -> Option<Vec<String>> {
    let value = match name {
        "instance-id" => instance.id.clone(),
        "instance-state-name" => instance.state.as_str().to_owned(),
        "instance-state-code" => instance.state.code().to_string(),
        "instance-type" => instance.offering.instance_type.clone(),
        "availability-zone" => instance.offering.zone.clone(),
        "availability-zone-id" => instance.zone_id.clone(),
        "architecture" => instance.architecture.clone(),
        "image-id" => instance.image_id.clone(),
        "subnet-id" | "network-interface.subnet-id" => instance.subnet_id.clone(),
        "vpc-id" | "network-interface.vpc-id" => instance.vpc_id.clone(),
        "private-dns-name" | "network-interface.private-dns-name" => instance.private_dns_name.clone(),
        "private-ip-address" => instance.private_ip.clone(),
        "reservation-id" => instance.reservation_id.clone(),
        "client-token" => return Some(instance.client_token.iter().cloned().collect()),
        "spot-instance-request-id" => return Some(instance.spot_request_id.iter().cloned().collect()),
        "capacity-reservation-id" => return Some(instance.capacity_reservation_id.iter().cloned().collect()),
        "iam-instance-profile.arn" => {
            return Some(instance.instance_profile.iter().map(|(arn, _)| arn.clone()).collect());
        }
        "instance-lifecycle" => return Some(instance.spot_request_id.iter().map(|_| "spot".to_owned()).collect()),
        "instance.group-id" | "network-interface.group-id" | "group-id" => {
            return Some(instance.security_group_ids.clone());
        }
        "tenancy" => "default".to_owned(),
        _ => return None,
    };
    Some(vec![value])
}

/// The filters of DescribeInstanceStatus, which supports neither tags nor the other filters of DescribeInstances.
fn status_attribute(instance: &Instance, name: &str) -> Option<Vec<String>> {
    let [(own, own_since), (system, system_since)] = instance.checks();
    let reachability = |since: Option<Timestamp>| match instance.state {
        InstanceState::Running if since.is_some() => "failed",
        InstanceState::Running => "passed",
        InstanceState::Pending => "initializing",
        InstanceState::Stopping | InstanceState::Stopped | InstanceState::ShuttingDown | InstanceState::Terminated => {
            "insufficient-data"
        }
    };
    let of_events = |value: fn(&PlannedEvent) -> String| instance.planned.iter().map(value).collect();
    Some(match name {
        "availability-zone" => vec![instance.offering.zone.clone()],
        "availability-zone-id" => vec![instance.zone_id.clone()],
        "event.code" => of_events(|event| event.code.clone()),
        "event.description" => of_events(|event| event.description.clone()),
        "event.instance-event-id" => of_events(|event| event.id.clone()),
        "event.not-before" => of_events(|event| event.not_before.to_string()),
        "instance-state-code" => vec![instance.state.code().to_string()],
        "instance-state-name" => vec![instance.state.as_str().to_owned()],
        "instance-status.reachability" => vec![reachability(own_since).to_owned()],
        "instance-status.status" => vec![own.to_owned()],
        "system-status.reachability" => vec![reachability(system_since).to_owned()],
        "system-status.status" => vec![system.to_owned()],
        _ => return None,
    })
}

impl Ec2 {
    /// DescribeInstances, in the order of ids.
    ///
    /// # Errors
    /// EC2's own, such as `InvalidInstanceID.NotFound` for an id that does not exist (any more).
    pub fn describe_instances(&self, request: &Describe) -> Result<Page<Instance>, Ec2Error> {
        self.call("ec2", "DescribeInstances", request, |state| {
            let found = state.visible_instances(request, |i| {
                let tags = Some(&i.tags).filter(|_| i.tags_visible_from <= state.now);
                passes(&request.filters, tags, |name| instance_attribute(i, name))
            })?;
            let (found, token) = page(request, found, 5..=1000)?;
            let mut found: Vec<Instance> = found.into_iter().cloned().collect();
            for instance in found.iter_mut().filter(|instance| instance.tags_visible_from > state.now) {
                instance.tags.clear();
            }
            Ok((found, token))
        })
    }

    /// DescribeInstanceStatus: running instances unless all are asked for.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_instance_status(&self, request: &Describe) -> Result<Page<Instance>, Ec2Error> {
        self.call("ec2", "DescribeInstanceStatus", request, |state| {
            let all = request.include_all_instances;
            if let Some(filter) = request.filters.iter().find(|filter| filter.name.starts_with("tag")) {
                let message = format!("The filter '{}' is invalid", filter.name);
                return Err(Ec2Error::new("InvalidParameterValue", message));
            }
            let found = state.visible_instances(request, |i| {
                let matches = passes(&request.filters, None, |name| status_attribute(i, name))?;
                Ok(matches && (all || i.state == InstanceState::Running))
            })?;
            let (found, token) = page(request, found, 5..=1000)?;
            Ok((found.into_iter().cloned().collect(), token))
        })
    }

    /// DescribeTags.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_tags(&self, request: &Describe) -> Result<Page<TagOfResource>, Ec2Error> {
        self.call("ec2", "DescribeTags", request, |state| {
            let mut found = Vec::new();
            for (id, kind, tags) in state.tagged() {
                for (key, value) in tags {
                    let attribute = |name: &str| match name {
                        "resource-id" => Some(vec![id.to_owned()]),
                        "resource-type" => Some(vec![kind.to_owned()]),
                        "key" => Some(vec![key.clone()]),
                        "value" => Some(vec![value.clone()]),
                        _ => None,
                    };
                    if passes(&request.filters, Some(tags), attribute)? {
                        let (resource_id, key, value) = (id.to_owned(), key.clone(), value.clone());
                        found.push(TagOfResource { resource_id, resource_type: kind, key, value });
                    }
                }
            }
            page(request, found, 5..=1000)
        })
    }

    /// DescribeLaunchTemplates.
    ///
    /// # Errors
    /// EC2's own, such as `InvalidLaunchTemplateName.NotFoundException`.
    pub fn describe_launch_templates(&self, request: &Describe) -> Result<Page<LaunchTemplate>, Ec2Error> {
        self.call("ec2", "DescribeLaunchTemplates", request, |state| {
            permitted(request)?;
            let templates = || state.launch_templates.values();
            if let Some(id) = request.ids.iter().find(|id| !state.launch_templates.contains_key(*id)) {
                return Err(not_found(Some(id), None));
            }
            if let Some(name) = request.names.iter().find(|name| !templates().any(|t| t.name == **name)) {
                return Err(Ec2Error::new(
                    "InvalidLaunchTemplateName.NotFoundException",
                    format!("At least one of the launch templates specified in the request does not exist: {name}"),
                ));
            }
            let mut found = Vec::new();
            for template in templates() {
                let named = (request.ids.is_empty() && request.names.is_empty())
                    || request.ids.contains(&template.id)
                    || request.names.contains(&template.name);
                let attribute = |name: &str| match name {
                    "launch-template-name" => Some(vec![template.name.clone()]),
                    "create-time" => Some(vec![template.created.to_string()]),
                    _ => None,
                };
                if passes(&request.filters, Some(&template.tags), attribute)? && named {
                    found.push(template.clone());
                }
            }
            page(request, found, 1..=200)
        })
    }

    /// DescribeLaunchTemplateVersions of one template, newest first.
    ///
    /// # Errors
    /// EC2's own.
    pub fn describe_launch_template_versions(
        &self,
        request: &Describe,
    ) -> Result<Page<(LaunchTemplate, LaunchTemplateVersion)>, Ec2Error> {
        self.call("ec2", "DescribeLaunchTemplateVersions", request, |state| {
            permitted(request)?;
            let (id, name) = (request.ids.first().map(String::as_str), request.names.first().map(String::as_str));
            let template = state.launch_template(id, name)?;
            if let Some(filter) = request.filters.first() {
                return Err(Ec2Error::unsupported(&format!(
                    "the filter {} of DescribeLaunchTemplateVersions",
                    filter.name
                )));
            }
            let mut versions = Vec::new();
            if request.versions.is_empty() {
                versions.extend(template.versions.iter().rev().cloned());
            }
            for requested in &request.versions {
                let version = template.version(Some(requested))?;
                if !versions.contains(version) {
                    versions.push(version.clone());
                }
            }
            let found = versions.into_iter().map(|version| (template.clone(), version)).collect();
            page(request, found, 1..=200)
        })
    }
}

/// The end of a dry run of a describe call.
pub(super) fn permitted(request: &Describe) -> Result<(), Ec2Error> {
    if request.dry_run { Err(Ec2Error::dry_run()) } else { Ok(()) }
}

impl AccountState {
    fn visible_instances(
        &self,
        request: &Describe,
        passes: impl Fn(&Instance) -> Result<bool, Ec2Error>,
    ) -> Result<Vec<&Instance>, Ec2Error> {
        if !request.ids.is_empty() && request.max_results.is_some() {
            let message = "The parameter instancesSet cannot be used with the parameter maxResults";
            return Err(Ec2Error::combination(message));
        }
        permitted(request)?;
        let visible = |instance: &Instance| instance.visible_from <= self.now;
        let unknown: Vec<_> =
            request.ids.iter().filter(|id| !self.instances.get(*id).is_some_and(visible)).cloned().collect();
        if !unknown.is_empty() {
            return Err(Ec2Error::instance_not_found(&unknown));
        }
        let named: BTreeSet<&String> = request.ids.iter().collect();
        let all = self.instances.values().filter(|_| named.is_empty());
        let mut found = Vec::new();
        for instance in all.chain(named.iter().filter_map(|id| self.instances.get(*id))) {
            if passes(instance)? && visible(instance) {
                found.push(instance);
            }
        }
        Ok(found)
    }
}
