//! ProvisioningRequests and their PodTemplates.

use super::objects;
use nodeless_api::{ProvisioningRequestStatus, slim};
use nodeless_fake_kubernetes::ApiServer;
use nodeless_fake_kubernetes::resource::POD_TEMPLATES;
use nodeless_model::{BufferShape, Pod, ProvisioningRequest, RequestError};
use nodeless_ports::PortError;
use nodeless_ports::cluster::RequestView;
use serde::Deserialize as _;
use serde_json::Value;

/// The active requests among these, each with the pods that its PodTemplates define.
pub(super) fn templates(
    api: &ApiServer,
    requests: Vec<(ProvisioningRequest, ProvisioningRequestStatus)>,
) -> Result<Vec<RequestView>, PortError> {
    let active = requests.into_iter().filter(|(request, _)| request.is_active());
    active.map(|(request, status)| Ok(RequestView { templates: of_request(api, &request)?, request, status })).collect()
}

fn of_request(api: &ApiServer, request: &ProvisioningRequest) -> Result<Result<Vec<Pod>, RequestError>, PortError> {
    let mut templates = Vec::new();
    for set in &request.pod_sets {
        let found = objects::get(api, "Kubernetes get PodTemplate", &POD_TEMPLATES, &request.namespace, &set.template)?;
        let Some(object) = found else {
            let (name, namespace) = (set.template.clone(), request.namespace.clone());
            return Ok(Err(RequestError::TemplateNotFound { name, namespace }));
        };
        match template(&object) {
            Ok(pod) => templates.push(pod),
            Err(error) => {
                let problem = format!("PodTemplate {} cannot be decoded: {error}", set.template);
                return Ok(Err(RequestError::Invalid(problem)));
            }
        }
    }
    Ok(Ok(templates))
}

fn template(object: &Value) -> Result<Pod, String> {
    let stored = slim::StoredPodTemplate::deserialize(object).map_err(|error| error.to_string())?;
    let shape = BufferShape::try_from(&stored).map_err(|error| error.to_string())?;
    Ok(shape.pod)
}
