//! What a cluster needs of nodeless: custom resource definitions, RBAC, and the webhook that wakes the planner.
//!
//! Installing again changes nothing that is right already. Nothing that a user made is touched: definitions that another
//! tool manages are only ever extended, and uninstalling leaves every definition, because with a definition go all its
//! objects.

mod apply;
mod definitions;
mod manifests;
mod removal;

pub use removal::remove_nodes;

use crate::connection::Connection;
use crate::merge::string;
use nodeless_ports::{ErrorKind, PortError};
use serde::Serialize;
use std::fmt;

/// Whether the API server is to wake the planner, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// Leave the webhook as it is.
    #[default]
    Keep,
    /// Remove the webhook: the heartbeat alone drives.
    Off,
    /// Call this URL, its secret path included.
    Url(String),
}

/// What was done, object by object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The objects, in the order in which they were dealt with.
    pub steps: Vec<Step>,
}

/// What was done about one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its kind and name.
    pub object: String,
    /// What was done.
    pub outcome: Outcome,
    /// The reason, and notes for users; often empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What was done about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It was not there.
    Created,
    /// It was there and something about it was changed.
    Updated,
    /// It was right already.
    Unchanged,
    /// Another owner installed it, and it was left alone.
    Kept,
    /// It was there and is not any more.
    Removed,
    /// It was not there, and is not to be.
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
    /// A line an object, and a line for its note.
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

/// Why the cluster could not be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The API server did not do what was asked.
    #[error("{0}")]
    Api(#[from] PortError),
    /// What is there already must not be overwritten. Nothing was changed.
    #[error("{object} conflicts with the installation: {reason}")]
    Refused {
        /// Its kind and name.
        object: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A definition was applied and is not served.
    #[error("the API server does not serve {object}: {reason}")]
    NotServed {
        /// Its kind and name.
        object: String,
        /// The API server's message.
        reason: String,
    },
    /// Objects that were deleted are not gone yet.
    #[error(
        "{count} objects of kind {kind} are still there: {objects}; see what holds them up (kubectl describe), and do this again"
    )]
    Left {
        /// How many.
        count: usize,
        /// Their kind.
        kind: &'static str,
        /// Some of them, with what they wait for.
        objects: String,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// What is built in is faulty.
    #[error("{object} as built in is malformed: {reason}; this is a bug in nodeless")]
    Embedded {
        /// The file or object.
        object: String,
        /// What is wrong.
        reason: String,
    },
}

/// Prepares a cluster: definitions first, as nothing works without them, then RBAC, then the webhook.
///
/// # Errors
/// When an existing CRD conflicts (then nothing was changed), or the API server rejects a request.
pub async fn install(connection: &Connection, wake: &Wake) -> Result<Report, InstallError> {
    let webhook = manifests::webhook(wake)?;
    let mut steps = definitions::install(connection).await?;
    for object in manifests::rbac()? {
        steps.push(apply::apply(connection, &object, String::new()).await?);
    }
    match (webhook, wake) {
        (Some(webhook), _) => steps.push(apply::apply(connection, &webhook, String::new()).await?),
        (None, Wake::Off) => steps.push(apply::remove(connection, &manifests::webhook_template()?).await?),
        (None, _) => {}
    }
    Ok(Report { steps })
}

/// Takes back what [`install`] did, but for the definitions: the NodePools, NodeClaims and EC2NodeClasses stay.
///
/// # Errors
/// When the API server refuses.
pub async fn uninstall(connection: &Connection) -> Result<Report, InstallError> {
    let mut steps = vec![apply::remove(connection, &manifests::webhook_template()?).await?];
    // Bindings before roles: the other way round a binding names for a moment a role that is gone.
    for object in manifests::rbac()?.iter().rev() {
        let is_own = string(object, "/metadata/name") == Some(manifests::INSTALLER);
        match apply::remove(connection, object).await {
            // With its binding went the right to remove its role.
            Err(InstallError::Api(error)) if is_own && error.kind == ErrorKind::Denied => steps.push(Step {
                object: apply::title(object),
                outcome: Outcome::Kept,
                note: "the installer is not cluster-admin and cannot remove the last of its own rights; do it with kubectl delete"
                    .to_owned(),
            }),
            removed => steps.push(removed?),
        }
    }
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
    fn a_report_reads_as_a_list() {
        let step = |outcome, note: &str| Step { object: "ClusterRole a".into(), outcome, note: note.into() };
        let report = Report { steps: vec![step(Outcome::Created, ""), step(Outcome::Kept, "why")] };
        assert_eq!(report.to_string(), "created   ClusterRole a\nkept      ClusterRole a\n          why\n");
    }
}
