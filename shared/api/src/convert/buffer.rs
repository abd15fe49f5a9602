//! CapacityBuffers.

use super::{ConvertError, resource_list};
use crate::custom::capacitybuffer::CapacityBuffer;
use nodeless_model as model;

impl TryFrom<&CapacityBuffer> for model::CapacityBuffer {
    type Error = ConvertError;

    fn try_from(buffer: &CapacityBuffer) -> Result<Self, ConvertError> {
        let (metadata, spec) = (&buffer.metadata, &buffer.spec);
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let limits = spec.limits.as_ref().map(|limits| resource_list(limits, "spec.limits")).transpose();
        let limits = limits.map_err(|error| error.for_object(format!("CapacityBuffer {namespace}/{name}")))?;
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
