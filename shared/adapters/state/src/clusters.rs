//! The clusters that share the functions of another deployment, as Terraform registers them.

use crate::items::{Item, read_json, read_text};
use crate::table::DynamoClaims;
use aws_config::SdkConfig;
use nodeless_ports::PortError;
use std::collections::BTreeMap;

/// The partition key of the registered clusters. The name of a cluster contains no `#`.
const PARTITION: &str = "#clusters";
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

/// Reads the registered clusters.
#[derive(Clone, Debug)]
pub struct ClusterRegistry {
    table: DynamoClaims,
}

impl ClusterRegistry {
    /// The registry in the named table.
    #[must_use]
    pub fn new(config: &SdkConfig, table: impl Into<String>) -> Self {
        Self { table: DynamoClaims::new(config, table, PARTITION) }
    }

    /// All registered clusters, read consistently, and the errors of items that cannot be read: one of them affects its own cluster
    /// only.
    ///
    /// # Errors
    /// When DynamoDB does not answer, or the role may not read the registry.
    pub async fn clusters(&self) -> Result<(Vec<ServedCluster>, Vec<PortError>), PortError> {
        let (mut clusters, mut unreadable) = (Vec::new(), Vec::new());
        for item in self.table.items(PREFIX, None).await? {
            match decode(&item) {
                Ok(cluster) => clusters.push(cluster),
                Err(error) => unreadable.push(error),
            }
        }
        Ok((clusters, unreadable))
    }
}

fn decode(item: &Item) -> Result<ServedCluster, PortError> {
    Ok(ServedCluster {
        name: read_text(item, "sk")?.trim_start_matches(PREFIX).to_owned(),
        queues: read_json(item, "queues")?,
        environment: read_json(item, "environment")?,
    })
}
