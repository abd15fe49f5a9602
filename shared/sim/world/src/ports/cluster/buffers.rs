//! CapacityBuffers and the objects that they refer to.

use super::objects;
use nodeless_api::{CapacityBufferStatus, ConvertError, slim};
use nodeless_fake_kubernetes::ApiServer;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, POD_TEMPLATES, REPLICA_SETS, STATEFUL_SETS};
use nodeless_model::{BufferError, BufferShape, BufferSource, CapacityBuffer};
use nodeless_ports::PortError;
use nodeless_ports::cluster::BufferView;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The active buffers among these, each with the pod template and size of its source.
pub(super) fn shapes(
    api: &ApiServer,
    buffers: Vec<(CapacityBuffer, CapacityBufferStatus)>,
) -> Result<Vec<BufferView>, PortError> {
    let active = buffers.into_iter().filter(|(buffer, _)| buffer.is_active());
    active.map(|(buffer, status)| Ok(BufferView { shape: shape(api, &buffer)?, buffer, status })).collect()
}

fn shape(api: &ApiServer, buffer: &CapacityBuffer) -> Result<Result<BufferShape, BufferError>, PortError> {
    let source = match buffer.source() {
        Ok(source) => source,
        Err(error) => return Ok(Err(error)),
    };
    let (resource, name) = match source {
        BufferSource::PodTemplate { name } => (POD_TEMPLATES, name),
        BufferSource::Workload { kind, name, .. } => match kind.as_str() {
            "Deployment" => (DEPLOYMENTS, name),
            "StatefulSet" => (STATEFUL_SETS, name),
            _ => (REPLICA_SETS, name),
        },
    };
    let operation = format!("Kubernetes get {}", resource.kind);
    let Some(object) = objects::get(api, &operation, &resource, &buffer.namespace, name)? else {
        return Ok(Err(buffer.missing_source(source)));
    };
    let shape = match source {
        BufferSource::PodTemplate { .. } => decode::<slim::StoredPodTemplate>(&object),
        BufferSource::Workload { .. } => decode::<slim::Scalable>(&object),
    };
    Ok(shape.map_err(|error| BufferError::Resolution(format!("{} cannot be decoded: {error}", resource.kind))))
}

fn decode<S: DeserializeOwned>(object: &Value) -> Result<BufferShape, String>
where
    for<'a> BufferShape: TryFrom<&'a S, Error = ConvertError>,
{
    let decoded = S::deserialize(object).map_err(|error| error.to_string())?;
    BufferShape::try_from(&decoded).map_err(|error| error.to_string())
}
