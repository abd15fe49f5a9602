//! What admission adds to pods with a RuntimeClass: the overhead, and where they run.

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodeless_api::convert::ConvertError;
use nodeless_api::slim;
use nodeless_model as model;
use nodeless_model::PodTemplate;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A RuntimeClass as it is written.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Written {
    pub(crate) metadata: ObjectMeta,
    overhead: Overhead,
    scheduling: Scheduling,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Overhead {
    pod_fixed: nodeless_api::ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Scheduling {
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
}

/// What is added to a pod.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeClass {
    template: PodTemplate,
}

impl TryFrom<&Written> for RuntimeClass {
    type Error = ConvertError;

    fn try_from(class: &Written) -> Result<Self, ConvertError> {
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
    /// Adds the overhead, the node selector and the tolerations.
    pub(crate) fn admit(&self, template: &mut PodTemplate) {
        template.requests.add(&self.template.requests);
        let own = self.template.node_selector.iter().map(|(key, value)| (key.clone(), value.clone()));
        template.node_selector.extend(own);
        template.tolerations.extend(self.template.tolerations.iter().cloned());
    }
}
