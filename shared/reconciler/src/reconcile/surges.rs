//! Changes the Deployments of pods that get their successors before their node is drained.

use super::Reconciler;
use nodeless_model::NodeClaim;
use nodeless_model::object::PodRef;
use nodeless_model::surge::{DeploymentChange, Surge, SurgeState};
use nodeless_operations::log_lines::{Failed, SurgeBegun, SurgeEnded};
use nodeless_ports::{ErrorKind, PortError};

impl Reconciler {
    /// Has the successor created. Returns why that is not possible, if an immediate retry does not help: a missing right, or a policy
    /// of the cluster.
    pub(super) async fn begin_surge(
        &self,
        claim: &NodeClaim,
        surge: &Surge,
        change: &DeploymentChange,
        delete_first: Option<&PodRef>,
    ) -> Result<Option<String>, PortError> {
        let Surge { namespace, pod, deployment, mode, .. } = surge;
        let changed = self.cluster.change_deployment(namespace, deployment, change).await;
        // Not before: of several pods that ask at once, only the one of the raise is to be deleted first.
        if let (Ok(_), Some(pod)) = (&changed, delete_first) {
            match self.cluster.delete_first(pod).await {
                // The successor comes first all the same. It is reported when the replicas are lowered.
                Err(error) if !is_refused(&error) => return Err(error),
                _ => {}
            }
        }
        match changed {
            Ok(false) => Ok(None),
            Ok(true) => {
                let (pod, mode) = (&format!("{namespace}/{pod}"), mode.as_str());
                self.context.log(&SurgeBegun { claim: &claim.name, pod, deployment, mode });
                Ok(None)
            }
            Err(error) if is_refused(&error) => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Lowers the replicas again, so that this pod is deleted if it is still there. Returns why the pod cannot be deleted so: it is
    /// evicted then, and the replicas are lowered afterwards. If they cannot be, because a right was withdrawn, the end of the claim
    /// does not wait for it.
    pub(super) async fn end_surge(
        &self,
        claim: &NodeClaim,
        surge: &Surge,
        change: &DeploymentChange,
        delete_first: Option<&PodRef>,
    ) -> Result<Option<String>, PortError> {
        let Surge { namespace, pod, deployment, .. } = surge;
        let lowered = async {
            if let Some(pod) = delete_first {
                self.cluster.delete_first(pod).await?;
            }
            self.cluster.change_deployment(namespace, deployment, change).await
        };
        match lowered.await {
            Ok(false) => {}
            Ok(true) => {
                let pod = &format!("{namespace}/{pod}");
                self.context.log(&SurgeEnded { claim: &claim.name, pod, deployment });
            }
            Err(error) if is_refused(&error) && delete_first.is_some() => return Ok(Some(error.to_string())),
            Err(error) if is_refused(&error) => {
                self.context.log(&Failed { what: "lower the replicas of a Deployment", why: &error.to_string() });
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Records why surges cannot be carried out, so that the next step evicts the pods without them. A later step attempts them again,
    /// as long as a pod is there.
    pub(super) async fn record_refusals(
        &self,
        claim: &NodeClaim,
        refused: Vec<(String, String)>,
    ) -> Result<(), PortError> {
        let mut claim = claim.clone();
        let now = self.context.now();
        for (pod_uid, why) in refused {
            let surges = claim.status.surges.iter_mut();
            surges.filter(|surge| surge.pod_uid == pod_uid).for_each(|surge| {
                surge.state = SurgeState::denied(&why, now);
            });
        }
        self.claims.update(&claim, None).await.map(drop)
    }
}

fn is_refused(error: &PortError) -> bool {
    matches!(error.kind, ErrorKind::Denied | ErrorKind::Invalid)
}
