//! The NodePool that a local cluster begins with, if requested.

use super::LocalWorld;
use crate::error::CliError;
use nodeless_fake_kubernetes::CreateOptions;
use nodeless_world::WorldError;
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::Value;

/// The example that README applies.
const EXAMPLE: &str = include_str!("../../../infra/nodepools/default.yaml");

impl LocalWorld {
    /// Creates the example NodePool and its EC2NodeClass, for this cluster.
    ///
    /// # Errors
    /// When the embedded manifests are invalid.
    pub(crate) fn apply_node_pool(&self) -> Result<(), CliError> {
        let manifests = EXAMPLE.replace("CLUSTER", &self.options.cluster_name);
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&manifests).map_err(|error| CliError::Example(error.to_string()))?;
        for object in objects {
            let resource = if object["kind"] == "NodePool" { NODE_POOLS } else { NODE_CLASSES };
            self.api.create(&resource, object, &CreateOptions::default()).map_err(WorldError::ControlPlane)?;
        }
        Ok(())
    }
}
