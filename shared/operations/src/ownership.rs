//! Whether the deployment of these operations serves the cluster ([`nodeless_model::ownership`]). Each operation that launches,
//! terminates or deletes asks first.

use nodeless_model::{OtherTable, check_owner};
use nodeless_ports::{Cluster, ErrorKind, PortError};
use nodeless_state::State;

/// Reads which deployment serves the cluster.
///
/// # Errors
/// When it is another one, or the cluster cannot be read.
pub async fn check(cluster: &dyn Cluster, claims: &State) -> Result<(), PortError> {
    let system = cluster.system_namespace().await?;
    check_owner(system.table.as_deref(), claims.table_name()).map_err(|other| denied(&other))
}

/// The error of an operation of a deployment that does not serve the cluster. A person has to decide which one does.
pub fn denied(other: &OtherTable) -> PortError {
    PortError::new(ErrorKind::Denied, "work on the cluster", other.to_string())
}
