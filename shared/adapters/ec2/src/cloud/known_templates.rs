//! The launch templates of plans: which exist, and when each was last used.

use super::{Ec2Cloud, template_error};
use crate::{ClusterDetails, requests, templates};
use aws_sdk_ec2::types::{LaunchTemplate, ResourceType};
use nodeless_aws::port_error;
use nodeless_launch::fleet::FleetPlan;
use nodeless_launch::template::{TemplateSpec, Variant, instance_tags};
use nodeless_model::{CapacityType, StringMap};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{Cloud, PortError};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// The tag with the day of the last use of a launch template; see [`Cloud::delete_unused_launch_templates`].
pub(super) const LAST_USED_TAG: &str = "nodeless.sh/last-used";

/// The day on which a launch template was last marked as used. It is locked while the template is created.
pub(super) type LastUsed = Arc<tokio::sync::Mutex<Option<String>>>;

/// The launch templates of a plan.
#[derive(Default)]
pub(super) struct Templates {
    /// The name of the template of each variant.
    pub(super) names: BTreeMap<Variant, String>,
    /// The content of each template, by name.
    specs: BTreeMap<String, TemplateSpec>,
    pub(super) instance_tags: StringMap,
}

impl Ec2Cloud {
    /// The names and contents of the launch templates of a plan.
    pub(super) fn templates(
        &self,
        cluster: &ClusterDetails,
        request: &LaunchRequest<'_>,
        plan: &FleetPlan,
    ) -> Result<Templates, PortError> {
        let spot = plan.capacity_type == CapacityType::Spot;
        let instance_tags = instance_tags(cluster, request.claim, &request.node_class.spec);
        let mut templates = Templates { instance_tags, ..Templates::default() };
        for variant in plan.groups.keys() {
            let spec = TemplateSpec::new(cluster, request.claim, request.node_class, variant, spot)
                .map_err(|error| template_error(&error))?;
            let name = spec.name();
            templates.specs.insert(name.clone(), spec);
            templates.names.insert(variant.clone(), name);
        }
        Ok(templates)
    }

    /// Creates the launch templates that do not exist, and marks the others as used today. It looks for them first, as Karpenter
    /// does: a process that has just started knows none, and most exist.
    pub(super) async fn ensure_templates(&self, templates: &Templates) -> Result<(), PortError> {
        let today = self.today();
        let mut unknown = Vec::new();
        // In the order of names, so that launches that use the same templates at once wait for the first, and not for each other:
        // each call is a token of a small bucket.
        for (name, spec) in &templates.specs {
            let last_used = self.known_template(name).lock_owned().await;
            if last_used.as_deref() != Some(today.as_str()) {
                unknown.push((name, spec, last_used));
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let names = unknown.iter().map(|(name, ..)| name.as_str());
        let present = templates::named(&self.client, names).await?;
        for (name, spec, mut last_used) in unknown {
            match present.iter().find(|template| template.launch_template_name() == Some(name)) {
                Some(template) => self.mark_used(template, &today).await?,
                None => self.create_template(name, spec, &today).await?,
            }
            *last_used = Some(today.clone());
        }
        Ok(())
    }

    /// Creates the launch templates again after EC2 did not find one of them. It may still list those that were deleted.
    pub(super) async fn create_again(&self, templates: &Templates) -> Result<(), PortError> {
        let today = self.today();
        for (name, spec) in &templates.specs {
            let mut last_used = self.known_template(name).lock_owned().await;
            if last_used.as_deref() != Some(today.as_str()) {
                self.create_template(name, spec, &today).await?;
                *last_used = Some(today.clone());
            }
        }
        Ok(())
    }

    fn today(&self) -> String {
        self.context.now().strftime("%Y-%m-%d").to_string()
    }

    fn known_template(&self, name: &str) -> LastUsed {
        let mut known = self.known_templates.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(name.to_owned()).or_default())
    }

    /// Creates a launch template, unless another process has just done so.
    async fn create_template(&self, name: &str, spec: &TemplateSpec, today: &str) -> Result<(), PortError> {
        let mut tags = spec.tags.clone();
        tags.insert(LAST_USED_TAG.to_owned(), today.to_owned());
        let created = self
            .client
            .create_launch_template()
            .launch_template_name(name)
            .launch_template_data(requests::template_data(spec)?)
            .tag_specifications(requests::tag_specification(ResourceType::LaunchTemplate, &tags))
            .send()
            .await
            .map_err(|error| port_error("EC2 CreateLaunchTemplate", &error));
        match created {
            Err(error) if error.code != "InvalidLaunchTemplateName.AlreadyExistsException" => Err(error),
            _ => Ok(()),
        }
    }

    async fn mark_used(&self, template: &LaunchTemplate, today: &str) -> Result<(), PortError> {
        let marked = template.tags().iter().any(|tag| tag.key() == Some(LAST_USED_TAG) && tag.value() == Some(today));
        match template.launch_template_id() {
            Some(id) if !marked => {
                let tags = StringMap::from([(LAST_USED_TAG.to_owned(), today.to_owned())]);
                self.tag(id, &tags).await
            }
            _ => Ok(()),
        }
    }

    pub(super) fn forget_templates(&self) {
        self.known_templates.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
