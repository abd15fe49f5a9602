//! What admission gives to pods that are made: the defaults of LimitRanges, what a RuntimeClass adds, and the priority.
//!
//! Templates of workloads are without it, so whatever counts the pods that a template makes asks [`Admission`].

use crate::convert::{ConvertError, FieldError, requests};
use crate::limit_ranges::{LimitRange, defaults};
use crate::slim;
use nodeless_model as model;
use nodeless_model::{PodShape, PodTemplate, ResourceList};
use std::collections::BTreeMap;

/// The built-in priority classes.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The objects by which admission changes pods.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// The LimitRanges of all namespaces.
    pub ranges: Vec<LimitRange>,
    /// The RuntimeClasses by name.
    pub runtime_classes: BTreeMap<String, RuntimeClass>,
    /// The PriorityClasses.
    pub priority_classes: Vec<slim::PriorityClass>,
}

impl From<Vec<LimitRange>> for Admission {
    fn from(ranges: Vec<LimitRange>) -> Self {
        Self { ranges, ..Self::default() }
    }
}

impl Admission {
    /// A new pod of a template with this spec, and its limits. `pod` is that of the template.
    pub(crate) fn shape(&self, pod: &model::Pod, spec: &slim::PodSpec) -> Result<PodShape, FieldError> {
        let mut shape = PodShape { pod: pod.clone(), ..PodShape::default() };
        let (_, default_limits) = defaults(&self.ranges, &pod.namespace);
        shape.limits = requests::limits_of_template(spec, &default_limits)?;
        if let Some(class) = self.class_to_admit(spec) {
            let overhead = class.template.requests.iter().filter(|(name, _)| shape.limits.contains(name));
            let limited: ResourceList = overhead.map(|(name, quantity)| (name.to_owned(), quantity)).collect();
            shape.limits.add(&limited);
        }
        self.change(&pod.namespace, shape.pod.template_mut(), spec)?;
        Ok(shape)
    }

    /// Gives the template of a new pod what admission gives to a pod with this spec in a namespace.
    ///
    /// # Errors
    /// When a quantity is invalid.
    pub fn admit(&self, namespace: &str, template: &mut PodTemplate, spec: &slim::PodSpec) -> Result<(), ConvertError> {
        self.change(namespace, template, spec).map_err(|error| error.for_object("Pod"))
    }

    fn change(&self, namespace: &str, template: &mut PodTemplate, spec: &slim::PodSpec) -> Result<(), FieldError> {
        let (default_requests, _) = defaults(&self.ranges, namespace);
        template.requests = requests::of_template(spec, &default_requests)?;
        if let Some(class) = self.class_to_admit(spec) {
            class.admit(template);
        }
        if let Some(priority) = self.priority(spec.priority_class_name.as_deref()).filter(|_| spec.priority.is_none()) {
            template.priority = priority;
        }
        Ok(())
    }

    /// The RuntimeClass that changes a pod. One with an overhead has been admitted.
    fn class_to_admit(&self, spec: &slim::PodSpec) -> Option<&RuntimeClass> {
        self.runtime_classes.get(spec.runtime_class_name.as_deref()?).filter(|_| spec.overhead.is_empty())
    }

    /// The priority of a pod of this class; `None` for an unknown class.
    #[must_use]
    pub fn priority(&self, class: Option<&str>) -> Option<i32> {
        let known = &self.priority_classes;
        match class.filter(|class| !class.is_empty()) {
            Some(name) => {
                let given = known.iter().find(|class| class.metadata.name.as_deref() == Some(name));
                let built_in = || BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
                given.map(|class| class.value).or_else(built_in)
            }
            // The default class with the lowest value is used, as in the API server.
            None => Some(known.iter().filter(|class| class.global_default).map(|class| class.value).min().unwrap_or(0)),
        }
    }
}

/// What a RuntimeClass adds to a pod: the overhead, and where it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeClass {
    template: PodTemplate,
}

impl TryFrom<&slim::RuntimeClass> for RuntimeClass {
    type Error = ConvertError;

    fn try_from(class: &slim::RuntimeClass) -> Result<Self, ConvertError> {
        // The fields are those of pods, so a pod with nothing else is converted.
        let mut pod = slim::Pod { metadata: class.metadata.clone(), ..slim::Pod::default() };
        pod.spec.overhead.clone_from(&class.overhead.pod_fixed);
        pod.spec.node_selector.clone_from(&class.scheduling.node_selector);
        pod.spec.tolerations.clone_from(&class.scheduling.tolerations);
        let mut template = (*model::Pod::try_from(&pod)?.template).clone();
        template.requests.remove("pods");
        Ok(Self { template })
    }
}

impl RuntimeClass {
    fn admit(&self, template: &mut PodTemplate) {
        template.requests.add(&self.template.requests);
        let own = self.template.node_selector.iter().map(|(key, value)| (key.clone(), value.clone()));
        template.node_selector.extend(own);
        template.tolerations.extend(self.template.tolerations.iter().cloned());
    }
}
