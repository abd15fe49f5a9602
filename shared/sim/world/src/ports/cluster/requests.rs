//! ProvisioningRequests and their PodTemplates.

use super::objects;
use nodeless_api::admission::Admission;
use nodeless_api::pod_shapes::ReadShape;
use nodeless_api::{ProvisioningRequestStatus, slim};
use nodeless_fake_kubernetes::ApiServer;
use nodeless_fake_kubernetes::resource::POD_TEMPLATES;
use nodeless_model::{PodShape, ProvisioningRequest, RequestError};
use nodeless_ports::PortError;
use nodeless_ports::cluster::RequestView;
use serde::Deserialize as _;
use serde_json::Value;

/// These requests, each with the pods that its PodTemplates define.
pub(super) fn templates(
    api: &ApiServer,
    requests: Vec<(ProvisioningRequest, ProvisioningRequestStatus)>,
    admission: &Admission,
) -> Result<Vec<RequestView>, PortError> {
    let view =
        |(request, status)| Ok(RequestView { templates: of_request(api, &request, admission)?, request, status });
    requests.into_iter().map(view).collect()
}

fn of_request(
    api: &ApiServer,
    request: &ProvisioningRequest,
    admission: &Admission,
) -> Result<Result<Vec<PodShape>, RequestError>, PortError> {
    let mut templates = Vec::new();
    for set in &request.pod_sets {
        let found = objects::get(api, "Kubernetes get PodTemplate", &POD_TEMPLATES, &request.namespace, &set.template)?;
        let Some(object) = found else {
            let (name, namespace) = (set.template.clone(), request.namespace.clone());
            return Ok(Err(RequestError::TemplateNotFound { name, namespace }));
        };
        match template(&object, admission) {
            Ok(shape) => templates.push(shape),
            Err(error) => {
                let problem = format!("PodTemplate {} cannot be decoded: {error}", set.template);
                return Ok(Err(RequestError::Invalid(problem)));
            }
        }
    }
    Ok(Ok(templates))
}

fn template(object: &Value, admission: &Admission) -> Result<PodShape, String> {
    let stored = slim::StoredPodTemplate::deserialize(object).map_err(|error| error.to_string())?;
    let shape = ReadShape::try_from(&stored).and_then(|read| read.admitted(admission));
    shape.map_err(|error| error.to_string())
}
