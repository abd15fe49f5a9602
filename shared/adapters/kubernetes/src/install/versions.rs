//! Which version of nodeless applied the objects of a cluster. Nothing is changed.

use super::apply::{VERSION, present, title};
use super::{InstallError, definitions, manifests};
use crate::connection::Connection;
use nodeless_cluster::merge::string;
use nodeless_ports::ErrorKind;
use serde_json::Value;

/// An object that an installation applies, and what the cluster has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The kind and name.
    pub object: String,
    /// Whether nodeless works without it: the webhook, and definitions that other autoscalers may install.
    pub optional: bool,
    /// What the cluster has.
    pub found: Found,
}

/// What the cluster has of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Absent,
    /// The object as this version of nodeless applied it; none if it states none.
    Applied(Option<String>),
    /// A definition of another tool.
    Foreign {
        /// Whether it has every field that this version uses.
        complete: bool,
        /// Who manages it, and what it lacks.
        note: String,
    },
    /// It may not be read.
    Unread(String),
}

/// The version of an object that nodeless applied.
fn stated(object: &Value) -> Found {
    Found::Applied(string(object, VERSION).map(str::to_owned))
}

/// The objects of an installation, in the order in which they are applied, with what the cluster has of each.
///
/// # Errors
/// When the API server does not answer. An object that may not be read is [`Found::Unread`].
pub async fn versions(connection: &Connection) -> Result<Vec<Installed>, InstallError> {
    let mut all = Vec::new();
    for crd in definitions::ours()? {
        let optional = definitions::is_optional(&crd);
        let of = |present: &Value| match definitions::foreign(present, &crd) {
            Some((complete, note)) => Found::Foreign { complete, note },
            None => stated(present),
        };
        all.push(Installed { object: title(&crd), optional, found: found(connection, &crd, of).await? });
    }
    for object in manifests::rbac()? {
        all.push(Installed {
            object: title(&object),
            optional: false,
            found: found(connection, &object, stated).await?,
        });
    }
    let webhook = manifests::webhook_template()?;
    all.push(Installed { object: title(&webhook), optional: true, found: found(connection, &webhook, stated).await? });
    Ok(all)
}

async fn found(connection: &Connection, object: &Value, of: impl Fn(&Value) -> Found) -> Result<Found, InstallError> {
    match present(connection, object).await {
        Ok(present) => Ok(present.as_ref().map_or(Found::Absent, of)),
        Err(InstallError::Api(error)) if error.kind == ErrorKind::Denied => Ok(Found::Unread(error.to_string())),
        Err(error) => Err(error),
    }
}
