//! The annotation of the Namespace `kube-system` that names the table of the deployment that serves the cluster.

use super::{InstallError, Outcome, Report, Step};
use crate::api;
use crate::connection::Connection;
use nodeless_cluster::PatchKind;
use nodeless_cluster::merge::string;
use nodeless_model::labels::TABLE;
use nodeless_model::{OtherTable, check_owner};
use nodeless_ports::PortError;
use nodeless_ports::cluster::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

const OPERATION: &str = "Kubernetes install";
const NAMESPACES: &str = "/api/v1/namespaces";

/// The table that is named, if one is.
async fn named(connection: &Connection) -> Result<Option<String>, PortError> {
    let namespace = connection.find(OPERATION, &api::object(NAMESPACES, SYSTEM_NAMESPACE)).await?;
    let pointer = format!("/metadata/annotations/{}", TABLE.replace('/', "~1"));
    Ok(namespace.and_then(|namespace| string(&namespace, &pointer).map(str::to_owned)))
}

/// Whether the deployment with this table may change the cluster. A person with a kubeconfig, who has no table, may.
pub(super) async fn check(connection: &Connection, table: Option<&str>) -> Result<Result<(), OtherTable>, PortError> {
    match table {
        Some(table) => Ok(check_owner(named(connection).await?.as_deref(), table)),
        None => Ok(Ok(())),
    }
}

/// Names this table, unless one is named.
pub(super) async fn name(connection: &Connection, table: &str) -> Result<Step, InstallError> {
    let named = named(connection).await?;
    check_owner(named.as_deref(), table)?;
    if named.is_some() {
        return Ok(step(Outcome::Unchanged, format!("the annotation {TABLE} names the table {table}")));
    }
    annotate(connection, Some(table)).await?;
    let note = format!(
        "the annotation {TABLE} now names the table {table}: no deployment with another table changes the cluster"
    );
    Ok(step(Outcome::Updated, note))
}

/// Names no table, so that another deployment can be installed.
pub(super) async fn forget(connection: &Connection) -> Result<Option<Step>, InstallError> {
    if named(connection).await?.is_none() {
        return Ok(None);
    }
    annotate(connection, None).await?;
    Ok(Some(step(Outcome::Updated, format!("the annotation {TABLE} is removed"))))
}

/// The report of a removal by a deployment that does not serve the cluster.
pub(super) fn kept(other: &OtherTable) -> Report {
    Report { steps: vec![step(Outcome::Kept, other.to_string())] }
}

async fn annotate(connection: &Connection, table: Option<&str>) -> Result<(), PortError> {
    let patch: Value = json!({ "metadata": { "annotations": { TABLE: table } } });
    let path = api::object(NAMESPACES, SYSTEM_NAMESPACE);
    connection.patch(OPERATION, &path, PatchKind::Merge, &patch).await?;
    Ok(())
}

fn step(outcome: Outcome, note: String) -> Step {
    Step { object: format!("Namespace {SYSTEM_NAMESPACE}"), outcome, note }
}
