//! CapacityBuffers and the objects that they refer to.

use crate::kinds::{Kind as _, PodTemplates, ReplicaSets, StatefulSets, StoredDeployments};
use crate::objects::{ObjectAt, Objects, read};
use nodeless_api::admission::Admission;
use nodeless_api::pod_shapes::ReadShape;
use nodeless_api::{CapacityBufferStatus, ConvertError, slim};
use nodeless_model::{BufferError, BufferSource, CapacityBuffer, PodShape};
use nodeless_ports::PortError;
use nodeless_ports::cluster::BufferView;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// These buffers, each with its source. One call for each buffer; most clusters have none.
pub(crate) async fn shapes(
    objects: &impl Objects,
    buffers: Vec<(CapacityBuffer, CapacityBufferStatus)>,
    admission: &Admission,
) -> Result<Vec<BufferView>, PortError> {
    let read = buffers.into_iter().map(|(buffer, status)| async {
        let shape = shape(objects, &buffer, admission).await?;
        Ok(BufferView { buffer, status, shape })
    });
    futures::future::try_join_all(read).await
}

async fn shape(
    objects: &impl Objects,
    buffer: &CapacityBuffer,
    admission: &Admission,
) -> Result<Result<PodShape, BufferError>, PortError> {
    let source = match buffer.source() {
        Ok(source) => source,
        Err(error) => return Ok(Err(error)),
    };
    let (path, name) = match source {
        BufferSource::PodTemplate { name } => (PodTemplates::PATH, name),
        BufferSource::Workload { kind, name, .. } => match kind.as_str() {
            "Deployment" => (StoredDeployments::PATH, name),
            "StatefulSet" => (StatefulSets::PATH, name),
            _ => (ReplicaSets::PATH, name),
        },
    };
    let kind = match source {
        BufferSource::PodTemplate { .. } => PodTemplates::NAME,
        BufferSource::Workload { kind, .. } => kind,
    };
    let at = ObjectAt { path, namespace: &buffer.namespace, name };
    let Some(object) = read(objects, &format!("Kubernetes get {kind}"), at).await? else {
        return Ok(Err(buffer.missing_source(source)));
    };
    let shape = match source {
        BufferSource::PodTemplate { .. } => decode::<slim::StoredPodTemplate>(&object, admission),
        BufferSource::Workload { .. } => decode::<slim::Scalable>(&object, admission),
    };
    Ok(shape.map_err(|error| BufferError::Resolution(format!("{kind} cannot be decoded: {error}"))))
}

fn decode<S: DeserializeOwned>(object: &Value, admission: &Admission) -> Result<PodShape, String>
where
    for<'a> ReadShape: TryFrom<&'a S, Error = ConvertError>,
{
    let decoded = S::deserialize(object).map_err(|error| error.to_string())?;
    let shape = ReadShape::try_from(&decoded).and_then(|read| read.admitted(admission));
    shape.map_err(|error| error.to_string())
}
