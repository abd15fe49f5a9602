//! Deployments that stay raised although no claim holds the raise: the record of the claim was lost with the table.

use super::{Read, SweepReport, Sweeper};
use nodeless_model::NodeClaim;
use nodeless_model::surge::{Raise, SurgeMode};
use nodeless_operations::log_lines::Collected;
use nodeless_ports::ErrorKind;
use nodeless_ports::cluster::{DeploymentChange, RaisedDeployment};

impl Sweeper {
    /// The Deployments that are as a raise left them. One that another party has changed since stays as it is, whatever its annotation
    /// states.
    pub(super) async fn left_as_raised(&self, report: &mut SweepReport) -> Vec<RaisedDeployment> {
        let read = self.cluster.raised_deployments().await.unwrap_or_else(|error| {
            report.problems.push(format!("Deployments whose replicas are raised: {error}"));
            Vec::new()
        });
        read.into_iter().filter(|deployment| deployment.is_as_raised).collect()
    }

    /// Lowers the Deployments whose raise is on the record of no claim. The claims were read after the Deployments, and a claim is written
    /// before its Deployment is raised.
    pub(super) async fn lower_left_behind(
        &self,
        claims: &[NodeClaim],
        raised: &[RaisedDeployment],
        read: &Read,
        report: &mut SweepReport,
    ) {
        for deployment in raised.iter().filter(|deployment| !is_held(claims, &deployment.raise, read)) {
            let RaisedDeployment { namespace, name, raise, .. } = deployment;
            let change = DeploymentChange::LowerLeftBehind(raise.clone());
            let name_of_both = format!("{namespace}/{name}");
            match self.cluster.change_deployment(namespace, name, &change).await {
                Ok(true) => {
                    let why =
                        format!("it was raised to {} for NodeClaim {}, whose record is lost", raise.to, raise.claim);
                    self.context.log(&Collected { what: "Deployment lowered", name: &name_of_both, why: &why });
                }
                Ok(false) => {}
                // It changed meanwhile.
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => report.problems.push(error.to_string()),
            }
        }
    }
}

/// Whether the drain of a claim knows of the raise, and undoes it. One that is about to begin takes it over for the same pod.
fn is_held(claims: &[NodeClaim], raise: &Raise, read: &Read) -> bool {
    let surge = |claim: &NodeClaim| claim.status.surge_for(&raise.pod).is_some_and(|it| it.mode == SurgeMode::Scale);
    claims.iter().any(|claim| claim.name == raise.claim && (drains(claim, read) || surge(claim)))
}

/// Whether the node of a claim is drained, or will be because its Node or NodeClaim was deleted.
fn drains(claim: &NodeClaim, read: &Read) -> bool {
    let id = claim.status.instance.as_ref().map(|instance| instance.id.as_str());
    let mut nodes = read.nodes.iter().filter(|node| node.instance_id().is_some_and(|own| Some(own) == id));
    claim.phase.is_leaving()
        || nodes.any(|node| node.deletion_timestamp.is_some())
        || read.mirror(&claim.name).is_some_and(|mirror| mirror.deletion_timestamp.is_some())
}
