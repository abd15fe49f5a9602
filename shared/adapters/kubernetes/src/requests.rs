//! ProvisioningRequests and their PodTemplates.

use crate::api;
use crate::connection::Connection;
use nodeless_api::admission::Admission;
use nodeless_api::pod_shapes::ReadShape;
use nodeless_api::{ProvisioningRequestStatus, slim};
use nodeless_model::{PodShape, ProvisioningRequest, RequestError};
use nodeless_ports::PortError;
use nodeless_ports::cluster::RequestView;
use serde_json::Value;

/// These requests, each with its PodTemplates. One call for each PodTemplate; most clusters have none.
pub(crate) async fn templates(
    connection: &Connection,
    requests: Vec<(ProvisioningRequest, ProvisioningRequestStatus)>,
    admission: &Admission,
) -> Result<Vec<RequestView>, PortError> {
    let read = requests.into_iter().map(|(request, status)| async {
        let templates = of_request(connection, &request, admission).await?;
        Ok(RequestView { request, status, templates })
    });
    futures::future::try_join_all(read).await
}

async fn of_request(
    connection: &Connection,
    request: &ProvisioningRequest,
    admission: &Admission,
) -> Result<Result<Vec<PodShape>, RequestError>, PortError> {
    let mut templates = Vec::new();
    for set in &request.pod_sets {
        let path = api::object(&api::within("/api/v1/podtemplates", &request.namespace), &set.template);
        let object = connection.get("Kubernetes get PodTemplate", &path).await?;
        match template(object, &request.namespace, &set.template, admission) {
            Ok(shape) => templates.push(shape),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(templates))
}

fn template(
    object: Option<Value>,
    namespace: &str,
    name: &str,
    admission: &Admission,
) -> Result<PodShape, RequestError> {
    let missing = || RequestError::TemplateNotFound { name: name.to_owned(), namespace: namespace.to_owned() };
    let invalid = |error: String| RequestError::Invalid(format!("PodTemplate {name} cannot be decoded: {error}"));
    let stored: slim::StoredPodTemplate =
        serde_json::from_value(object.ok_or_else(missing)?).map_err(|error| invalid(error.to_string()))?;
    let shape = ReadShape::try_from(&stored).and_then(|read| read.admitted(admission));
    shape.map_err(|error| invalid(error.to_string()))
}
