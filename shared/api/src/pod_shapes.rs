//! The pods that PodTemplates and workloads make, as they are read, and what a pod requests that is made again.

use crate::admission::Admission;
use crate::convert::requests::Role;
use crate::convert::{ConvertError, FieldError, requests, resource_list};
use crate::limit_ranges::{LimitRange, defaults};
use crate::slim::{self, Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodeless_model as model;
use nodeless_model::ResourceList;
use std::collections::BTreeMap;

/// Stands for the part of a name that differs between pods of one template. No name contains it.
const ANY: &str = "*";

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
        for claim in &workload.spec.volume_claim_templates {
            let name = |of: &ObjectMeta| of.name.clone().unwrap_or_default();
            let claim_name = format!("{}-{}-{ANY}", name(&claim.metadata), name(&workload.metadata));
            read.shape.made_claims.insert(claim_name.clone(), claim.spec.storage_class_name.clone());
            let volumes = &mut read.shape.pod.template_mut().volume_claims;
            volumes.push(model::pod::VolumeClaim { claim_name, ephemeral: false });
        }
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
    pub(crate) fn new(
        owner: &ObjectMeta,
        template: &slim::PodTemplate,
        field: &'static str,
    ) -> Result<Self, ConvertError> {
        let mut metadata = template.metadata.clone();
        metadata.namespace.clone_from(&owner.namespace);
        let pod_name = format!("{}-{ANY}", owner.name.as_deref().unwrap_or(""));
        metadata.name = Some(pod_name.clone());
        let pod = slim::Pod { metadata, spec: template.spec.clone(), status: slim::PodStatus::default() };
        let object = format!("{}/{}", owner.namespace.as_deref().unwrap_or(""), owner.name.as_deref().unwrap_or(""));
        let of_template = |error: ConvertError| ConvertError {
            object: object.clone(),
            field: format!("{field}.{}", error.field),
            problem: error.problem,
        };
        let converted = model::Pod::try_from(&pod).map_err(of_template)?;
        let made = |volume: &slim::Volume| {
            let class = &volume.ephemeral.as_ref()?.volume_claim_template.spec.storage_class_name;
            Some((format!("{pod_name}-{}", volume.name), class.clone()))
        };
        let made_claims = pod.spec.volumes.iter().filter_map(made).collect();
        let shape = model::PodShape { pod: converted, made_claims, ..model::PodShape::default() };
        Ok(Self { shape, spec: pod.spec, object, field })
    }

    /// The shape of a new pod, with what admission gives it.
    ///
    /// # Errors
    /// When a quantity is invalid.
    pub fn admitted(&self, admission: &Admission) -> Result<model::PodShape, ConvertError> {
        let of_template = |error: FieldError| error.within(self.field).for_object(self.object.clone());
        let model::PodShape { pod, limits, .. } = admission.shape(&self.shape.pod, &self.spec).map_err(of_template)?;
        Ok(model::PodShape { pod, limits, ..self.shape.clone() })
    }
}

/// What a VerticalPodAutoscaler gives to new pods, by container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recommendation(pub BTreeMap<String, Recommended>);

/// What a VerticalPodAutoscaler gives to a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recommended {
    /// The requests, of the resources that it controls.
    pub target: ResourceList,
    /// The least that it may give.
    pub least: ResourceList,
    /// The most that it may give.
    pub most: ResourceList,
    /// Whether it leaves the limits as they are, which requests cannot exceed.
    pub keeps_limits: bool,
}

impl Recommended {
    /// Replaces the requests of a container that has these limits.
    fn admit(&self, requests: &mut ResourceList, limits: &ResourceList) {
        for (name, target) in self.target.iter() {
            let mut amount = target;
            if self.keeps_limits && limits.contains(name) {
                amount = amount.min(limits.get(name));
            }
            if self.least.contains(name) {
                amount = amount.max(self.least.get(name));
            }
            if self.most.contains(name) {
                amount = amount.min(self.most.get(name));
            }
            requests.set(name, amount);
        }
    }
}

/// A pod that runs, with what its next requests follow from.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningPod {
    /// The containers, the resources of the whole pod, and the overhead.
    spec: PodSpec,
    /// Whether a VerticalPodAutoscaler has set its requests.
    pub is_autoscaled: bool,
}

/// The annotations of the VerticalPodAutoscaler on pods whose requests it has set, at their creation or in place.
const AUTOSCALED: [&str; 2] = ["vpaUpdates", "vpaInPlaceUpdated"];

impl From<&slim::Pod> for RunningPod {
    fn from(pod: &slim::Pod) -> Self {
        let of_resources = |container: &Container| Container { ports: Vec::new(), ..container.clone() };
        let spec = PodSpec {
            containers: pod.spec.containers.iter().map(of_resources).collect(),
            init_containers: pod.spec.init_containers.iter().map(of_resources).collect(),
            overhead: pod.spec.overhead.clone(),
            resources: pod.spec.resources.clone(),
            ..PodSpec::default()
        };
        let annotations = pod.metadata.annotations.as_ref();
        let is_autoscaled = annotations.is_some_and(|all| AUTOSCALED.iter().any(|key| all.contains_key(*key)));
        Self { spec, is_autoscaled }
    }
}

impl RunningPod {
    /// What the pod requests that its controller makes once this one is evicted: the template of the controller, if it is known, with the
    /// defaults of LimitRanges and the recommendation of a VerticalPodAutoscaler. A container that the template does not have, and a
    /// request that neither the template nor a LimitRange sets, was added by a webhook: it counts as it is now.
    ///
    /// # Errors
    /// When a quantity is invalid.
    pub fn next_requests(
        &self,
        template: Option<&ReadShape>,
        recommendation: Option<&Recommendation>,
        ranges: &[LimitRange],
    ) -> Result<ResourceList, ConvertError> {
        let made = template.map(|template| &template.spec);
        let namespace = template.map_or("", |template| &template.shape.pod.namespace);
        let (of_ranges, _) = defaults(ranges, namespace);
        let of_template = |container: &Container, role: Role| made.and_then(|made| role.find(made, &container.name));
        let before = |container: &Container, role: Role, field: &str| {
            requests::of_manifest(of_template(container, role).unwrap_or(container), field)
        };
        let after = |container: &Container, role: Role, field: &str| {
            let of_template = of_template(container, role);
            let mut requests = match of_template {
                Some(of_template) => requests::filled(requests::of_manifest(of_template, field)?, &of_ranges),
                None => ResourceList::new(),
            };
            requests = requests::filled(requests, &requests::of_manifest(container, field)?);
            if let Some(given) = recommendation.and_then(|all| all.0.get(&container.name)) {
                let limits = &of_template.unwrap_or(container).resources.limits;
                given.admit(&mut requests, &resource_list(limits, &format!("{field}.limits"))?);
            }
            Ok(requests)
        };
        requests::of_admitted(&self.spec_of_next(made), before, after).map_err(|error| error.for_object("Pod"))
    }

    /// Its spec, with the containers that only the template has.
    fn spec_of_next(&self, template: Option<&PodSpec>) -> PodSpec {
        let mut spec = self.spec.clone();
        let Some(template) = template else { return spec };
        let new = |role: Role, container: &&Container| role.find(&self.spec, &container.name).is_none();
        spec.containers.extend(template.containers.iter().filter(|it| new(Role::Main, it)).cloned());
        spec.init_containers.extend(template.init_containers.iter().filter(|it| new(Role::Init, it)).cloned());
        if template.resources.is_some() {
            spec.resources.clone_from(&template.resources);
        }
        spec
    }
}
