//! Which deployment serves a cluster. Two deployments have two tables, and each would terminate the instances that the other launches,
//! because its table has no record of them. So the annotation [`TABLE`] of the Namespace `kube-system` names the table of the deployment
//! that serves the cluster, and all others change nothing.

use crate::labels::TABLE;
use crate::text::shell::quoted;

/// The cluster is served by the deployment with another table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the annotation {TABLE} of the Namespace kube-system names the table {serving:?} of the deployment that serves the cluster, and this \
     deployment has the table {own:?}: it changes nothing, because two deployments would terminate each other's instances. If this one is \
     to serve the cluster, run `{}`",
    self.command()
)]
pub struct OtherTable {
    /// The table of the deployment that serves the cluster.
    pub serving: String,
    /// The table of this deployment.
    pub own: String,
}

impl OtherTable {
    /// The command after which this deployment serves the cluster.
    #[must_use]
    pub fn command(&self) -> String {
        format!("kubectl annotate namespace kube-system --overwrite {TABLE}={}", quoted(&self.own))
    }
}

/// Whether the deployment with the table `own` serves the cluster whose annotation is `serving`. Without the annotation, every deployment
/// does.
///
/// # Errors
/// When the annotation names another table.
pub fn check_owner(serving: Option<&str>, own: &str) -> Result<(), OtherTable> {
    match serving {
        Some(serving) if serving != own => Err(OtherTable { serving: serving.to_owned(), own: own.to_owned() }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_deployment_with_the_named_table_serves_the_cluster() {
        assert_eq!(check_owner(None, "a"), Ok(()), "nobody is named");
        assert_eq!(check_owner(Some("a"), "a"), Ok(()), "a table that was restored under its name is the same");
        let other = check_owner(Some("a"), "b").unwrap_err();
        let message = other.to_string();
        assert!(message.contains("\"a\"") && message.contains("\"b\""), "{message}");
        assert!(
            message.contains("`kubectl annotate namespace kube-system --overwrite nodeless.sh/table=b`"),
            "{message}"
        );
        assert!(check_owner(Some(""), "b").is_err(), "in doubt, nothing is changed");
    }
}
