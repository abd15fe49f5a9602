//! ProvisioningRequests and their PodTemplates.

use crate::kinds::{Kind as _, PodTemplates};
use crate::objects::{ObjectAt, Objects, read};
use nodeless_api::admission::Admission;
use nodeless_api::pod_shapes::ReadShape;
use nodeless_api::{ProvisioningRequestStatus, slim};
use nodeless_model::{PodShape, ProvisioningRequest, RequestError};
use nodeless_ports::PortError;
use nodeless_ports::cluster::RequestView;
use serde::Deserialize;
use serde_json::Value;

/// These requests, each with its PodTemplates. One call for each PodTemplate; most clusters have none.
pub(crate) async fn templates(
    objects: &impl Objects,
    requests: Vec<(ProvisioningRequest, ProvisioningRequestStatus)>,
    admission: &Admission,
) -> Result<Vec<RequestView>, PortError> {
    let read = requests.into_iter().map(|(request, status)| async {
        let templates = of_request(objects, &request, admission).await?;
        Ok(RequestView { request, status, templates })
    });
    futures::future::try_join_all(read).await
}

async fn of_request(
    objects: &impl Objects,
    request: &ProvisioningRequest,
    admission: &Admission,
) -> Result<Result<Vec<PodShape>, RequestError>, PortError> {
    let mut templates = Vec::new();
    for set in &request.pod_sets {
        let at = ObjectAt { path: PodTemplates::PATH, namespace: &request.namespace, name: &set.template };
        let object = read(objects, "Kubernetes get PodTemplate", at).await?;
        match template(object.as_deref(), &request.namespace, &set.template, admission) {
            Ok(shape) => templates.push(shape),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(templates))
}

fn template(
    object: Option<&Value>,
    namespace: &str,
    name: &str,
    admission: &Admission,
) -> Result<PodShape, RequestError> {
    let missing = || RequestError::TemplateNotFound { name: name.to_owned(), namespace: namespace.to_owned() };
    let invalid = |error: String| RequestError::Invalid(format!("PodTemplate {name} cannot be decoded: {error}"));
    let stored: slim::StoredPodTemplate =
        Deserialize::deserialize(object.ok_or_else(missing)?).map_err(|error| invalid(error.to_string()))?;
    let shape = ReadShape::try_from(&stored).and_then(|read| read.admitted(admission));
    shape.map_err(|error| invalid(error.to_string()))
}
