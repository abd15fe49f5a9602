//! The pods that PodTemplates and workloads make, as they are read.

use crate::convert::{ConvertError, FieldError, requests};
use crate::daemon_sets::{LimitRange, defaults};
use crate::slim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodeless_model as model;

/// A pod of a PodTemplate or a workload, with the spec of its template.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadShape {
    shape: model::PodShape,
    spec: slim::PodSpec,
    /// The namespace and name of the object.
    object: String,
    /// The field with the template.
    field: &'static str,
}

impl TryFrom<&slim::Scalable> for ReadShape {
    type Error = ConvertError;

    fn try_from(workload: &slim::Scalable) -> Result<Self, ConvertError> {
        let mut read = Self::new(&workload.metadata, &workload.spec.template, "spec.template")?;
        read.shape.replicas = u32::try_from(workload.spec.replicas.unwrap_or(1)).unwrap_or(0);
        Ok(read)
    }
}

impl TryFrom<&slim::StoredPodTemplate> for ReadShape {
    type Error = ConvertError;

    fn try_from(stored: &slim::StoredPodTemplate) -> Result<Self, ConvertError> {
        let mut read = Self::new(&stored.metadata, &stored.template, "template")?;
        read.shape.generation = stored.metadata.generation;
        Ok(read)
    }
}

impl ReadShape {
    /// Errors contain the namespace and name of the object; the caller adds the kind.
    fn new(owner: &ObjectMeta, template: &slim::PodTemplate, field: &'static str) -> Result<Self, ConvertError> {
        let mut metadata = template.metadata.clone();
        metadata.namespace.clone_from(&owner.namespace);
        let pod = slim::Pod { metadata, spec: template.spec.clone(), status: slim::PodStatus::default() };
        let object = format!("{}/{}", owner.namespace.as_deref().unwrap_or(""), owner.name.as_deref().unwrap_or(""));
        let of_template = |error: ConvertError| ConvertError {
            object: object.clone(),
            field: format!("{field}.{}", error.field),
            problem: error.problem,
        };
        let converted = model::Pod::try_from(&pod).map_err(of_template)?;
        let shape = model::PodShape { pod: converted, ..model::PodShape::default() };
        Ok(Self { shape, spec: pod.spec, object, field })
    }

    /// The shape of a new pod, with the requests and limits that the LimitRanges of its namespace set.
    ///
    /// # Errors
    /// When a quantity is invalid.
    pub fn with_limit_ranges(&self, ranges: &[LimitRange]) -> Result<model::PodShape, ConvertError> {
        let (default_requests, default_limits) = defaults(ranges, &self.shape.pod.namespace);
        let of_template = |error: FieldError| error.within(self.field).of(self.object.clone());
        let mut shape = self.shape.clone();
        shape.pod.template_mut().requests =
            requests::of_template(&self.spec, &default_requests).map_err(of_template)?;
        shape.limits = requests::limits_of_template(&self.spec, &default_limits).map_err(of_template)?;
        Ok(shape)
    }
}
