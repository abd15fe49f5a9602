//! ProvisioningRequests and their PodTemplates.

use crate::api;
use crate::connection::Connection;
use nodeless_api::{ProvisioningRequestStatus, slim};
use nodeless_model::{BufferShape, Pod, ProvisioningRequest, RequestError};
use nodeless_ports::PortError;
use nodeless_ports::cluster::RequestView;
use serde_json::Value;

/// The active requests among these, each with its PodTemplates. One call for each PodTemplate; most clusters have none.
pub(crate) async fn templates(
    connection: &Connection,
    requests: Vec<(ProvisioningRequest, ProvisioningRequestStatus)>,
) -> Result<Vec<RequestView>, PortError> {
    let active = requests.into_iter().filter(|(request, _)| request.is_active());
    let read = active.map(|(request, status)| async {
        let templates = of_request(connection, &request).await?;
        Ok(RequestView { request, status, templates })
    });
    futures::future::try_join_all(read).await
}

async fn of_request(
    connection: &Connection,
    request: &ProvisioningRequest,
) -> Result<Result<Vec<Pod>, RequestError>, PortError> {
    let mut templates = Vec::new();
    for set in &request.pod_sets {
        let path = api::object(&api::within("/api/v1/podtemplates", &request.namespace), &set.template);
        let object = connection.get("Kubernetes get PodTemplate", &path).await?;
        match template(object, &request.namespace, &set.template) {
            Ok(pod) => templates.push(pod),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(templates))
}

fn template(object: Option<Value>, namespace: &str, name: &str) -> Result<Pod, RequestError> {
    let missing = || RequestError::TemplateNotFound { name: name.to_owned(), namespace: namespace.to_owned() };
    let invalid = |error: String| RequestError::Invalid(format!("PodTemplate {name} cannot be decoded: {error}"));
    let stored: slim::StoredPodTemplate =
        serde_json::from_value(object.ok_or_else(missing)?).map_err(|error| invalid(error.to_string()))?;
    let shape = BufferShape::try_from(&stored).map_err(|error| invalid(error.to_string()))?;
    Ok(shape.pod)
}
