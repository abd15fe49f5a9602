//! The objects of nodeless in a cluster: CustomResourceDefinitions, RBAC, and the webhook that wakes the planner.
//!
//! A repeated installation changes only what differs. Objects of users are not changed: definitions that another tool manages are
//! only extended, and uninstalling keeps every definition, because deleting a definition deletes all its objects.

mod apply;
mod definitions;
mod manifests;
mod owner;
mod removal;
mod versions;

pub use definitions::review;
pub use removal::remove_nodes;
pub use versions::{Found, Installed, versions};

use crate::connection::Connection;
use nodeless_model::OtherTable;
use nodeless_model::plural::counted;
use nodeless_ports::PortError;
use serde::Serialize;
use std::fmt;

/// Whether the API server wakes the planner, and its URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// Keep the webhook unchanged.
    #[default]
    Keep,
    /// Remove the webhook: only the heartbeat wakes the planner.
    Off,
    /// Call this URL, which contains the secret path.
    Url(String),
}

/// What an installation grants on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Whether lifecycle may nominate nodes for pods.
    pub nominations: bool,
    /// Whether the role `admin` of Kubernetes, which administrators of namespaces have, includes the role `nodeless:admin`.
    pub aggregate_to_admin: bool,
}

impl Default for Rights {
    fn default() -> Self {
        Self { nominations: true, aggregate_to_admin: false }
    }
}

/// The result for each object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The objects, in the order in which they were processed.
    pub steps: Vec<Step>,
}

/// The result for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The kind and name.
    pub object: String,
    /// What was done.
    pub outcome: Outcome,
    /// The reason, and notes for users; often empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What was done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The object was created.
    Created,
    /// The object existed and was changed.
    Updated,
    /// The object existed and was not changed.
    Unchanged,
    /// Another owner installed it, and it was not changed.
    Kept,
    /// The object was deleted.
    Removed,
    /// The object did not exist, and was not created.
    Absent,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
            Self::Removed => "removed",
            Self::Absent => "absent",
        })
    }
}

impl fmt::Display for Report {
    /// A line for each object, and a line for its note.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "{:9} {}", step.outcome, step.object)?;
            if !step.note.is_empty() {
                writeln!(f, "          {}", step.note)?;
            }
        }
        Ok(())
    }
}

/// Why the installation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The API server rejected a request.
    #[error("{0}")]
    Api(#[from] PortError),
    /// An existing object must not be overwritten. Nothing was changed.
    #[error("{object} conflicts with the installation: {reason}")]
    Refused {
        /// The kind and name.
        object: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The deployment with another table serves the cluster. Nothing was changed.
    #[error(transparent)]
    OtherTable(#[from] OtherTable),
    /// A definition was applied and is not served.
    #[error("the API server does not serve {object}: {reason}")]
    NotServed {
        /// The kind and name.
        object: String,
        /// The API server's message.
        reason: String,
    },
    /// Deleted objects still exist.
    #[error(
        "not deleted yet: {} of kind {kind}: {objects}; find out why with kubectl describe, and repeat this command",
        counted(*count, "object")
    )]
    Left {
        /// The number of objects.
        count: usize,
        /// The kind.
        kind: &'static str,
        /// Some of them, with the reasons why they still exist.
        objects: String,
    },
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// A built-in manifest is malformed.
    #[error("{object} as built in is malformed: {reason}; this is a bug in nodeless")]
    Embedded {
        /// The file or object.
        object: String,
        /// What is wrong.
        reason: String,
    },
}

/// Installs the objects of nodeless: definitions first, because the others need them, then RBAC, then the webhook. Rights that
/// are not among `rights` are taken away. `table` is that of the deployment, which then serves the cluster. Without it, the cluster is
/// served as before.
///
/// # Errors
/// When an existing CRD conflicts or the deployment with another table serves the cluster (then nothing was changed), or the API server
/// rejects a request.
pub async fn install(
    connection: &Connection,
    table: Option<&str>,
    wake: &Wake,
    rights: Rights,
) -> Result<Report, InstallError> {
    let webhook = manifests::webhook(wake)?;
    owner::check(connection, table).await??;
    let mut steps = definitions::install(connection).await?;
    if let Some(table) = table {
        steps.push(owner::name(connection, table).await?);
    }
    for object in manifests::rbac_with(rights)? {
        steps.push(apply::apply(connection, &apply::with_version(object), String::new()).await?);
    }
    match (webhook, wake) {
        (Some(webhook), _) => {
            steps.push(apply::apply(connection, &apply::with_version(webhook), String::new()).await?);
        }
        (None, Wake::Off) => steps.push(apply::remove(connection, &manifests::webhook_template()?).await?),
        (None, _) => {}
    }
    Ok(Report { steps })
}

/// Reverts [`install`] except for the definitions: the NodePools, NodeClaims and EC2NodeClasses are kept. Everything is kept if the
/// deployment with another table than `table` serves the cluster.
///
/// # Errors
/// When the API server refuses.
pub async fn uninstall(connection: &Connection, table: Option<&str>) -> Result<Report, InstallError> {
    if let Err(other) = owner::check(connection, table).await? {
        return Ok(owner::kept(&other));
    }
    let mut steps = vec![apply::remove(connection, &manifests::webhook_template()?).await?];
    // Bindings before roles: otherwise a binding would refer to a deleted role for a moment.
    for object in manifests::rbac()?.iter().rev() {
        steps.push(apply::remove(connection, object).await?);
    }
    steps.extend(owner::forget(connection).await?);
    for name in definitions::names()? {
        let note = "definitions are never removed, because with them would go every object; \
                    when you are sure: kubectl delete crd"
            .to_owned();
        let step = Step { object: format!("CustomResourceDefinition {name}"), outcome: Outcome::Kept, note };
        steps.push(step);
    }
    Ok(Report { steps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_printed_as_a_list() {
        let step = |outcome, note: &str| Step { object: "ClusterRole a".into(), outcome, note: note.into() };
        let report = Report { steps: vec![step(Outcome::Created, ""), step(Outcome::Kept, "why")] };
        assert_eq!(report.to_string(), "created   ClusterRole a\nkept      ClusterRole a\n          why\n");
    }
}
