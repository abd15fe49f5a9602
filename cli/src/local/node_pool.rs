//! The NodePool and the default StorageClass that a local cluster begins with, if requested.

use super::LocalWorld;
use crate::error::CliError;
use nodeless_fake_kubernetes::CreateOptions;
use nodeless_fake_kubernetes::resource::STORAGE_CLASSES;
use nodeless_world::WorldError;
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};

/// The example that README applies.
const EXAMPLE: &str = include_str!("../../../infra/nodepools/default.yaml");

impl LocalWorld {
    /// Creates the example NodePool and its EC2NodeClass, for this cluster, and a default StorageClass of EBS.
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
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": "gp3", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
            "provisioner": "ebs.csi.aws.com",
            "parameters": { "type": "gp3" },
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        self.api.create(&STORAGE_CLASSES, class, &CreateOptions::default()).map_err(WorldError::ControlPlane)?;
        Ok(())
    }
}
