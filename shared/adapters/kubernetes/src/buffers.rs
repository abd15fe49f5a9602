//! CapacityBuffers and the objects that they refer to.

use crate::api;
use crate::connection::Connection;
use nodeless_api::{CapacityBufferStatus, ConvertError, slim};
use nodeless_model::{BufferError, BufferShape, BufferSource, CapacityBuffer};
use nodeless_ports::PortError;
use nodeless_ports::cluster::BufferView;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The active buffers among these, each with its source. One call for each buffer; most clusters have none.
pub(crate) async fn shapes(
    connection: &Connection,
    buffers: Vec<(CapacityBuffer, CapacityBufferStatus)>,
) -> Result<Vec<BufferView>, PortError> {
    let active = buffers.into_iter().filter(|(buffer, _)| buffer.is_active());
    let read = active.map(|(buffer, status)| async {
        let shape = shape(connection, &buffer).await?;
        Ok(BufferView { buffer, status, shape })
    });
    futures::future::try_join_all(read).await
}

async fn shape(
    connection: &Connection,
    buffer: &CapacityBuffer,
) -> Result<Result<BufferShape, BufferError>, PortError> {
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
        BufferSource::PodTemplate { .. } => decode::<slim::StoredPodTemplate>(object),
        BufferSource::Workload { .. } => decode::<slim::Scalable>(object),
    };
    Ok(shape.map_err(|error| BufferError::Resolution(format!("{kind} cannot be decoded: {error}"))))
}

fn decode<S: DeserializeOwned>(object: Value) -> Result<BufferShape, String>
where
    for<'a> BufferShape: TryFrom<&'a S, Error = ConvertError>,
{
    let decoded = serde_json::from_value::<S>(object).map_err(|error| error.to_string())?;
    BufferShape::try_from(&decoded).map_err(|error| error.to_string())
}
