//! CapacityBuffers and the objects that they refer to.

use crate::api;
use crate::connection::Connection;
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
    connection: &Connection,
    buffers: Vec<(CapacityBuffer, CapacityBufferStatus)>,
    admission: &Admission,
) -> Result<Vec<BufferView>, PortError> {
    let read = buffers.into_iter().map(|(buffer, status)| async {
        let shape = shape(connection, &buffer, admission).await?;
        Ok(BufferView { buffer, status, shape })
    });
    futures::future::try_join_all(read).await
}

async fn shape(
    connection: &Connection,
    buffer: &CapacityBuffer,
    admission: &Admission,
) -> Result<Result<PodShape, BufferError>, PortError> {
    let source = match buffer.source() {
        Ok(source) => source,
        Err(error) => return Ok(Err(error)),
    };
    let (kind, path) = match source {
        BufferSource::PodTemplate { name } => {
            ("PodTemplate", api::object(&api::within("/api/v1/podtemplates", &buffer.namespace), name))
        }
        BufferSource::Workload { kind, name, .. } => {
            let collection = format!("/apis/apps/v1/{}s", kind.to_lowercase());
            (kind.as_str(), api::object(&api::within(&collection, &buffer.namespace), name))
        }
    };
    let Some(object) = connection.get(&format!("Kubernetes get {kind}"), &path).await? else {
        return Ok(Err(buffer.missing_source(source)));
    };
    let shape = match source {
        BufferSource::PodTemplate { .. } => decode::<slim::StoredPodTemplate>(object, admission),
        BufferSource::Workload { .. } => decode::<slim::Scalable>(object, admission),
    };
    Ok(shape.map_err(|error| BufferError::Resolution(format!("{kind} cannot be decoded: {error}"))))
}

fn decode<S: DeserializeOwned>(object: Value, admission: &Admission) -> Result<PodShape, String>
where
    for<'a> ReadShape: TryFrom<&'a S, Error = ConvertError>,
{
    let decoded = serde_json::from_value::<S>(object).map_err(|error| error.to_string())?;
    let shape = ReadShape::try_from(&decoded).and_then(|read| read.admitted(admission));
    shape.map_err(|error| error.to_string())
}
