//! Objects as the API server returns them, for callers that decode them themselves.

use crate::connection::Connection;
use crate::watch;
use kube::core::params::ListParams;
use nodeless_cluster::CallError;
use nodeless_ports::PortError;
use serde_json::value::RawValue;

/// Lists the objects of a path, page by page. Errors contain `kind`.
///
/// # Errors
/// When the list cannot be read; [`NotFound`](nodeless_ports::ErrorKind::NotFound) when the CRD of the kind is not installed.
pub async fn list(connection: &Connection, kind: &str, path: &str) -> Result<Vec<Box<RawValue>>, PortError> {
    list_selected(connection, kind, path, &ListParams::default(), |object| Some(object.to_owned())).await
}

/// Lists the objects of a kind at a path, page by page, and returns the results of `select`, so that other objects take no memory.
/// `select` is called again for objects that are listed twice.
pub(crate) async fn list_selected<T: Send>(
    connection: &Connection,
    kind: &str,
    path: &str,
    params: &ListParams,
    mut select: impl FnMut(&RawValue) -> Option<T> + Send,
) -> Result<Vec<T>, PortError> {
    let operation = format!("Kubernetes list {kind}");
    let mut once = async || {
        let mut objects = Vec::new();
        watch::list(connection, &operation, path, params, |object| objects.extend(select(object))).await?;
        Ok::<_, CallError>(objects)
    };
    match once().await {
        // The continue token expired during the list. A second list starts at the current resourceVersion.
        Err(failed) if failed.is(410) => Ok(once().await?),
        Err(failed) => Err(explain_missing(failed, kind).into()),
        Ok(objects) => Ok(objects),
    }
}

/// Adds what to do to the error of a kind that the API server does not serve.
pub(crate) fn explain_missing(mut failed: CallError, kind: &str) -> CallError {
    if failed.is(404) {
        let message = &failed.error.message;
        failed.error.message =
            format!("the API server does not serve {kind}; install the CRDs with `nodeless install` ({message})");
    }
    failed
}
