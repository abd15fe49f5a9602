//! CapacityBuffers, and the objects that define their chunks.

use super::{ConvertError, resource_list};
use crate::capacitybuffer::CapacityBuffer;
use crate::slim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodeless_model as model;

impl TryFrom<&CapacityBuffer> for model::CapacityBuffer {
    type Error = ConvertError;

    fn try_from(buffer: &CapacityBuffer) -> Result<Self, ConvertError> {
        let (metadata, spec) = (&buffer.metadata, &buffer.spec);
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let limits = spec.limits.as_ref().map(|limits| resource_list(limits, "spec.limits")).transpose();
        let limits = limits.map_err(|error| error.of(format!("CapacityBuffer {namespace}/{name}")))?;
        let template = spec
            .pod_template_ref
            .as_ref()
            .map(|template| model::BufferSource::PodTemplate { name: template.name.clone() });
        let workload = spec.scalable_ref.as_ref().map(|scalable| model::BufferSource::Workload {
            group: scalable.api_group.clone().unwrap_or_default(),
            kind: scalable.kind.clone(),
            name: scalable.name.clone(),
        });
        let count = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
        Ok(Self {
            namespace,
            name,
            uid: metadata.uid.clone().unwrap_or_default(),
            strategy: spec.provisioning_strategy.clone(),
            source: template.or(workload),
            replicas: count(spec.replicas),
            percentage: count(spec.percentage),
            limits,
        })
    }
}

impl TryFrom<&slim::Scalable> for model::BufferShape {
    type Error = ConvertError;

    fn try_from(workload: &slim::Scalable) -> Result<Self, ConvertError> {
        let replicas = u32::try_from(workload.spec.replicas.unwrap_or(1)).unwrap_or(0);
        let pod = pod(&workload.metadata, &workload.spec.template, "spec.template")?;
        Ok(Self { pod, replicas, generation: None })
    }
}

impl TryFrom<&slim::StoredPodTemplate> for model::BufferShape {
    type Error = ConvertError;

    fn try_from(stored: &slim::StoredPodTemplate) -> Result<Self, ConvertError> {
        let pod = pod(&stored.metadata, &stored.template, "template")?;
        Ok(Self { pod, replicas: 0, generation: stored.metadata.generation })
    }
}

/// A pod from the template. Errors contain the namespace and name of the object; the caller adds the kind.
fn pod(owner: &ObjectMeta, template: &slim::PodTemplate, field: &str) -> Result<model::Pod, ConvertError> {
    let mut metadata = template.metadata.clone();
    metadata.namespace.clone_from(&owner.namespace);
    let pod = slim::Pod { metadata, spec: template.spec.clone(), status: slim::PodStatus::default() };
    model::Pod::try_from(&pod).map_err(|error| ConvertError {
        object: format!("{}/{}", owner.namespace.as_deref().unwrap_or(""), owner.name.as_deref().unwrap_or("")),
        field: format!("{field}.{}", error.field),
        problem: error.problem,
    })
}
