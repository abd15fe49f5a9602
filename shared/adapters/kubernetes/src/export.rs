//! Objects as the API server has them, for those who read them themselves.

use crate::connection::Connection;
use crate::error::CallError;
use crate::watch;
use kube::core::params::ListParams;
use nodeless_ports::PortError;
use serde_json::value::RawValue;

/// Lists what a path has, page by page. `kind` names it in errors.
///
/// # Errors
/// When the list cannot be read; [`NotFound`](nodeless_ports::ErrorKind::NotFound) when the CRD of the kind is not installed.
pub async fn list(connection: &Connection, kind: &str, path: &str) -> Result<Vec<Box<RawValue>>, PortError> {
    let operation = format!("Kubernetes list {kind}");
    let once = async || {
        let mut objects = Vec::new();
        let params = ListParams::default();
        watch::list(connection, &operation, path, &params, |object| objects.push(object.to_owned())).await?;
        Ok::<_, CallError>(objects)
    };
    match once().await {
        // The list took longer than the API server remembers. A second one begins at the present.
        Err(failed) if failed.is(410) => Ok(once().await?),
        Err(mut failed) if failed.is(404) => {
            let message = &failed.error.message;
            failed.error.message =
                format!("the API server does not serve {kind}; install the CRDs with `nodeless install` ({message})");
            Err(failed.into())
        }
        done => Ok(done?),
    }
}
