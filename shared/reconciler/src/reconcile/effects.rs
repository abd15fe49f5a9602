//! Executes the effects of a step.

use super::Reconciler;
use super::batch::Progress;
use super::view::ObservedClaim;
use nodeless_launch::node_class::check;
use nodeless_launch::shortage;
use nodeless_lifecycle::Effect;
use nodeless_model::events::{disrupted, evicted, failed_draining, launch_refused};
use nodeless_model::instance::OfferingFailure;
use nodeless_model::object::{ObjectRef, PodRef};
use nodeless_model::surge::DeploymentChange;
use nodeless_model::{EndedNode, NodeClaim, Phase};
use nodeless_operations::at_once;
use nodeless_operations::log_lines::{EvictionBlocked, Failed, Rebooting};
use nodeless_ports::cluster::Eviction;
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{ErrorKind, PortError};
use nodeless_state::capacity::UnavailableOffering;
use nodeless_telemetry::Metric;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Reconciler {
    /// Executes effects in order, up to the first required effect that fails. Returns whether the record changed meanwhile, so
    /// that the claim has to be read again.
    pub(super) async fn run_effects(
        &self,
        claim: &NodeClaim,
        effects: &[Effect],
        observed: &mut ObservedClaim,
        progress: &mut Progress,
    ) -> Result<bool, PortError> {
        let mut moved_on = false;
        let mut failed_pod = None;
        let mut refused = Vec::new();
        for effect in effects {
            match effect {
                Effect::Launch => moved_on |= self.launch(claim, progress).await?,
                Effect::Recover { instances } => moved_on |= self.recover(claim, instances, progress).await?,
                // A pod whose eviction is blocked, for example by a webhook, does not block others.
                Effect::Evict { .. } | Effect::DeletePod { .. } => {
                    failed_pod = self.run_effect(claim, effect, progress).await.err().or(failed_pod);
                }
                // Replicas that are not lowered do not block the drain. The record of the raise must not be deleted before, though.
                Effect::ChangeDeployment { surge, change: change @ DeploymentChange::Lower { .. }, delete_first } => {
                    match self.end_surge(claim, surge, change, delete_first.as_ref()).await {
                        Ok(why) => refused.extend(why.map(|why| (surge.pod_uid.clone(), why))),
                        Err(error) if claim.phase == Phase::Gone => return Err(error),
                        Err(error) => failed_pod = Some(error),
                    }
                }
                Effect::ChangeDeployment { surge, change, delete_first } => {
                    match self.begin_surge(claim, surge, change, delete_first.as_ref()).await {
                        Ok(why) => refused.extend(why.map(|why| (surge.pod_uid.clone(), why))),
                        Err(error) => failed_pod = Some(error),
                    }
                }
                // The next sweep retries it. The node works without the tags.
                Effect::TagInstance { .. } => {
                    if progress.shared.tags_throttled.load(Ordering::Relaxed) {
                        continue;
                    }
                    if let Err(error) = self.run_effect(claim, effect, progress).await {
                        if error.kind == ErrorKind::Throttled {
                            progress.shared.tags_throttled.store(true, Ordering::Relaxed);
                        }
                        progress.metrics.count(Metric::ReconcileErrors, 1);
                        self.context.log(&Failed { what: "tag the instance", why: &error.to_string() });
                        continue;
                    }
                }
                // The record changed and was mirrored in its current state.
                Effect::MirrorClaim if moved_on => {}
                other => self.run_effect(claim, other, progress).await?,
            }
            observed.after(effect);
        }
        if !refused.is_empty() {
            self.record_refusals(claim, refused).await?;
            moved_on = true;
        }
        failed_pod.map_or(Ok(moved_on), Err)
    }

    pub(super) async fn run_effect(
        &self,
        claim: &NodeClaim,
        effect: &Effect,
        progress: &mut Progress,
    ) -> Result<(), PortError> {
        match effect {
            Effect::TagInstance { id, tags } => self.cloud.tag(id, tags).await,
            Effect::PatchNode { name, uid, patch } => gone_is_fine(self.cluster.patch_node(name, uid, patch).await),
            Effect::DeleteNode { name, uid } => self.cluster.delete_node(name, uid).await,
            Effect::DeletePod { pod, grace_seconds } => {
                self.cluster.delete_pod(pod, *grace_seconds).await?;
                progress.metrics.count(Metric::Evictions, 1);
                let message =
                    format!("Deleted with a grace period of {grace_seconds} s: the node's terminationGracePeriod ends");
                progress.events.push(disrupted(pod, &message));
                Ok(())
            }
            // Together with those of other claims, by one call.
            Effect::StartInstance => {
                progress.start = Some(claim.clone());
                Ok(())
            }
            Effect::StopInstance => {
                progress.stop = Some(claim.clone());
                Ok(())
            }
            Effect::RebootInstance { id } => {
                let why = claim.rebooting().map_or("", |reboot| reboot.why.as_str());
                self.context.log(&Rebooting { claim: &claim.name, instance: id, why });
                self.cloud.reboot(id).await
            }
            Effect::TerminateInstance { id } => {
                progress.terminate = Some(id.clone());
                Ok(())
            }
            Effect::MarkUnavailable { failures, until } => {
                self.claims.mark_unavailable(&unavailable(failures, *until)).await
            }
            Effect::ReportRefusal { message } => {
                self.report_refusal(claim, message, progress).await;
                Ok(())
            }
            Effect::MirrorClaim => {
                self.mirror_record(claim).await;
                Ok(())
            }
            Effect::RemoveMirror => {
                let uid = claim.is_standalone().then_some(claim.uid.as_str());
                self.cluster.remove_claim(&claim.name, uid).await
            }
            Effect::DeleteRecord => {
                let ended = EndedNode::new(claim, self.context.now());
                self.claims.delete_ended(claim, ended.as_ref()).await
            }
            Effect::WakePlanner | Effect::PlanAtOnce => {
                // The heartbeat replaces a lost wake-up within a minute.
                if let Err(error) = self.wake_planner(*effect == Effect::PlanAtOnce).await {
                    self.context.log(&Failed { what: "wake the planner", why: &error.to_string() });
                }
                Ok(())
            }
            Effect::Evict { pod, node } => self.evict(claim, pod, node, progress).await,
            Effect::Launch | Effect::Recover { .. } | Effect::ChangeDeployment { .. } => Ok(()),
        }
    }

    async fn wake_planner(&self, is_at_once: bool) -> Result<(), PortError> {
        if is_at_once {
            at_once::plan(&self.claims, self.queue.as_ref(), WakeSource::Lifecycle, self.context.now()).await
        } else {
            self.queue.wake_planner(WakeSource::Lifecycle).await
        }
    }

    /// Reports a rejected launch on the EC2NodeClass and requests its validation. Only if EC2 rejects all launches from the class
    /// does it become not ready. Nothing depends on either: the class is validated every half hour anyway.
    async fn report_refusal(&self, claim: &NodeClaim, message: &str, progress: &mut Progress) {
        let name = &claim.node_class;
        progress.events.push(launch_refused(ObjectRef::node_class(name, ""), &claim.name, message));
        if let Err(error) = self.doubt(name).await {
            self.context.log(&Failed { what: "request the validation of the EC2NodeClass", why: &error.to_string() });
        }
    }

    async fn doubt(&self, node_class: &str) -> Result<(), PortError> {
        if let Some(check) = self.claims.launch_check(node_class).await? {
            self.claims.put_launch_check(&check::to_be_confirmed(check)).await?;
        }
        self.queue.check_node_class(node_class, Duration::ZERO).await
    }

    /// Writes the NodeClaim object to match the record, and returns its uid. If that fails the claim continues, and the sweep
    /// updates the object later.
    pub(super) async fn mirror_record(&self, claim: &NodeClaim) -> Option<String> {
        match self.cluster.mirror_claim(claim).await {
            Ok(uid) => Some(uid),
            Err(error) => {
                self.context.log(&Failed { what: "mirror the NodeClaim", why: &error.to_string() });
                None
            }
        }
    }

    async fn evict(
        &self,
        claim: &NodeClaim,
        pod: &PodRef,
        node: &str,
        progress: &mut Progress,
    ) -> Result<(), PortError> {
        let key = format!("{}/{}", pod.namespace, pod.name);
        match self.cluster.evict(pod).await? {
            Eviction::Accepted => {
                progress.metrics.count(Metric::Evictions, 1);
                let why = match (&claim.status.termination, claim.rebooting()) {
                    (Some(end), _) => format!("{:?} (node {node} is terminated: {})", end.reason, end.message),
                    (None, Some(reboot)) => format!("Unhealthy (node {node} is rebooted: {})", reboot.why),
                    (None, None) => format!("node {node} is terminated"),
                };
                progress.events.push(evicted(pod, &why));
            }
            Eviction::AlreadyGone => {}
            Eviction::Blocked { message } => {
                self.context.log(&EvictionBlocked { claim: &claim.name, pod: &key, why: &message });
                let message = format!("Failed to drain node, pod {key} cannot be evicted: {message}");
                progress.events.push(failed_draining(ObjectRef::node(node, ""), &message));
            }
        }
        Ok(())
    }
}

/// A deleted node needs no patch. The next step finds that it is gone.
fn gone_is_fine(result: Result<(), PortError>) -> Result<(), PortError> {
    match result {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Failures as records of unavailable offerings.
pub(super) fn unavailable(failures: &[OfferingFailure], until: jiff::Timestamp) -> Vec<UnavailableOffering> {
    let of = |failure: &OfferingFailure| {
        Some(UnavailableOffering { shortage: shortage::shortage(failure)?, until, reason: failure.code.clone() })
    };
    let mut offerings: Vec<UnavailableOffering> = failures.iter().filter_map(of).collect();
    offerings.sort();
    offerings.dedup();
    offerings
}
