//! The Deployments of pods that get their successors before their node is drained, and the DaemonSets that new nodes wait for.

use crate::kinds::{DaemonSets, DisruptionBudgets, Kind as _, ReplicaSets, StoredDeployments, StoredPods};
use crate::object_cluster::ObjectCluster;
use crate::objects::{ObjectAt, Objects, Part, PatchKind, Selector, read, refuse_doubt};
use async_trait::async_trait;
use nodeless_api::deployment;
use nodeless_model::{DaemonSet, DaemonSetName, PodDisruptionBudget, labels};
use nodeless_ports::cluster::{DeploymentChange, OwningDeployment, PodRef, RaisedDeployment};
use nodeless_ports::{ErrorKind, PortError, Workloads};
use serde_json::Value;

const DEPLOYMENTS: &str = StoredDeployments::PATH;

#[async_trait]
impl<O: Objects> Workloads for ObjectCluster<O> {
    async fn owning_deployment(
        &self,
        namespace: &str,
        replica_set: &str,
    ) -> Result<Option<OwningDeployment>, PortError> {
        let at = ObjectAt { path: ReplicaSets::PATH, namespace, name: replica_set };
        let Some(set) = read(&self.objects, "Kubernetes get ReplicaSet", at).await? else { return Ok(None) };
        let Some(name) = deployment::owner(&set) else { return Ok(None) };
        let at = ObjectAt { path: DEPLOYMENTS, namespace, name };
        let Some(found) = read(&self.objects, "Kubernetes get Deployment", at).await? else { return Ok(None) };
        let pods = self.pods_of(namespace, &found).await?;
        Ok(Some(deployment::owning(&found, &set, pods.iter())))
    }

    async fn raised_deployments(&self) -> Result<Vec<RaisedDeployment>, PortError> {
        // The API server selects them by their label.
        let (found, _) = self.objects.list::<StoredDeployments>(Selector::labels(labels::SURGE)).await?;
        Ok(found.iter().filter_map(deployment::raised).collect())
    }

    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, PortError> {
        let (budgets, invalid) = self.objects.list::<DisruptionBudgets>(Selector::default()).await?;
        refuse_doubt(true, &invalid)?;
        Ok(budgets)
    }

    async fn daemon_set(&self, name: &DaemonSetName) -> Result<Option<DaemonSet>, PortError> {
        Ok(self.get_in::<DaemonSets>(&name.namespace, &name.name).await?.map(|read| read.set))
    }

    async fn change_deployment(
        &self,
        namespace: &str,
        name: &str,
        change: &DeploymentChange,
    ) -> Result<bool, PortError> {
        let operation = "Kubernetes patch Deployment";
        let at = ObjectAt { path: DEPLOYMENTS, namespace, name };
        let Some(object) = read(&self.objects, operation, at).await? else { return Ok(false) };
        let body = deployment::patch(&object, change).map_err(|unexpected| {
            let message = format!("Deployment {namespace}/{name}: {unexpected}");
            PortError::new(ErrorKind::Conflict, operation, message)
        })?;
        let Some(body) = body else { return Ok(false) };
        self.objects.patch(operation, Part::Object(at), PatchKind::Merge, &body).await?;
        Ok(true)
    }

    async fn delete_first(&self, pod: &PodRef) -> Result<(), PortError> {
        self.lower_deletion_cost(pod).await
    }
}

impl<O: Objects> ObjectCluster<O> {
    /// The pods that a Deployment selects.
    async fn pods_of(&self, namespace: &str, found: &Value) -> Result<Vec<Value>, PortError> {
        let selector = deployment::selector(found).ok_or_else(|| {
            let name = found["metadata"]["name"].as_str().unwrap_or_default();
            let message = format!("the selector of Deployment {namespace}/{name} cannot be read");
            PortError::new(ErrorKind::Invalid, "Kubernetes list Pod", message)
        })?;
        let selector = Selector { namespace, labels: &selector, ..Selector::default() };
        Ok(self.objects.list::<StoredPods>(selector).await?.0)
    }
}
