//! The clusters that share the functions of another deployment, as Terraform registers them.

use crate::items::read_json;
use nodeless_ports::PortError;
use nodeless_ports::table::{Item, Partition, Query, Range, Table};
use std::collections::BTreeMap;

/// The partition key of the registered clusters, in place of the name of a cluster, which contains no `#`.
pub const CLUSTERS: &str = "#clusters";
const PREFIX: &str = "cluster#";

/// A cluster that shares the functions of another deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedCluster {
    /// The name of the cluster.
    pub name: String,
    /// The ARN of the queue of each function, by the name of the function.
    pub queues: BTreeMap<String, String>,
    /// The environment variables that the functions would have if they were of this cluster alone.
    pub environment: BTreeMap<String, String>,
}

/// All registered clusters in the table of [`CLUSTERS`], read consistently, and the errors of items that cannot be read: one of them
/// affects its own cluster only.
///
/// # Errors
/// When the table cannot be read, or the role may not read the registry.
pub async fn served_clusters(table: &dyn Table) -> Result<(Vec<ServedCluster>, Vec<PortError>), PortError> {
    let (mut clusters, mut unreadable) = (Vec::new(), Vec::new());
    let query =
        Query { partition: Partition::Cluster, keys: Range::Prefix(PREFIX.to_owned()), last: None, consistent: true };
    for item in table.query("registered clusters", &[query]).await? {
        match decode(&item) {
            Ok(cluster) => clusters.push(cluster),
            Err(error) => unreadable.push(error),
        }
    }
    Ok((clusters, unreadable))
}

fn decode(item: &Item) -> Result<ServedCluster, PortError> {
    Ok(ServedCluster {
        name: item.key.sort.trim_start_matches(PREFIX).to_owned(),
        queues: read_json(item, "queues")?,
        environment: read_json(item, "environment")?,
    })
}
