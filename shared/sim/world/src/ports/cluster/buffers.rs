//! CapacityBuffers and the objects that they refer to.

use super::objects;
use nodeless_api::admission::Admission;
use nodeless_api::pod_shapes::ReadShape;
use nodeless_api::{CapacityBufferStatus, ConvertError, slim};
use nodeless_fake_kubernetes::ApiServer;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, POD_TEMPLATES, REPLICA_SETS, STATEFUL_SETS};
use nodeless_model::{BufferError, BufferSource, CapacityBuffer, PodShape};
use nodeless_ports::PortError;
use nodeless_ports::cluster::BufferView;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// These buffers, each with the pod template and size of its source.
pub(super) fn shapes(
    api: &ApiServer,
    buffers: Vec<(CapacityBuffer, CapacityBufferStatus)>,
    admission: &Admission,
) -> Result<Vec<BufferView>, PortError> {
    let view = |(buffer, status)| Ok(BufferView { shape: shape(api, &buffer, admission)?, buffer, status });
    buffers.into_iter().map(view).collect()
}

fn shape(
    api: &ApiServer,
    buffer: &CapacityBuffer,
    admission: &Admission,
) -> Result<Result<PodShape, BufferError>, PortError> {
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
        BufferSource::PodTemplate { .. } => decode::<slim::StoredPodTemplate>(&object, admission),
        BufferSource::Workload { .. } => decode::<slim::Scalable>(&object, admission),
    };
    Ok(shape.map_err(|error| BufferError::Resolution(format!("{} cannot be decoded: {error}", resource.kind))))
}

fn decode<S: DeserializeOwned>(object: &Value, admission: &Admission) -> Result<PodShape, String>
where
    for<'a> ReadShape: TryFrom<&'a S, Error = ConvertError>,
{
    let decoded = S::deserialize(object).map_err(|error| error.to_string())?;
    let shape = ReadShape::try_from(&decoded).and_then(|read| read.admitted(admission));
    shape.map_err(|error| error.to_string())
}
