//! Launching the members of a group with one call, and giving each its instance.

use super::Reconciler;
use crate::lines::{Failed, LaunchAnswered, LaunchFailed};
use crate::node_class;
use crate::offers::{candidates, learn, shortages};
use crate::zonal_shift;
use nodeless_api::{Condition, ConditionStatus, NodeOverlayStatus};
use nodeless_catalog::overlay::{self, Plain};
use nodeless_launch::{budget, fleet};
use nodeless_lifecycle::{LaunchResult, absorb, result_for};
use nodeless_model::instance::LaunchOutcome;
use nodeless_model::{Instance, InstanceType, InstanceTypes, NodeClaim, Phase, labels};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{ErrorKind, PortError};
use nodeless_telemetry::{Metric, Metrics};
use std::time::Duration;

/// How long the planner may take to write all claims of a group. One that is not whole by then will never be.
const GROUP_TIME: Duration = Duration::from_mins(1);

/// What there is to launch from.
struct Offer {
    node_class: nodeless_api::EC2NodeClass,
    types: Vec<InstanceType>,
}

impl Reconciler {
    /// Launches the claim's group. Says whether records were written.
    pub(super) async fn launch(&self, claim: &NodeClaim, metrics: &mut Metrics) -> Result<bool, PortError> {
        if !self.group_is_whole(claim).await? {
            let age = self.context.now().duration_since(claim.created);
            if Duration::try_from(age).is_ok_and(|age| age < GROUP_TIME) {
                return Ok(false);
            }
            let message = "its launch group was never completed".to_owned();
            return self.settle(claim, &LaunchResult::NoOffering { message }, metrics).await;
        }
        let offer = match self.offer(claim).await {
            Ok(offer) => offer,
            Err(error) => return self.failed(claim, &error, metrics).await,
        };
        let candidates = candidates(claim, &offer.types);
        if candidates.is_empty() {
            let message = "none of its offerings is available now".to_owned();
            return self.settle(claim, &LaunchResult::NoOffering { message }, metrics).await;
        }
        if let Some(message) = fleet::min_values_missed(claim, &candidates).filter(|_| self.min_values_strict) {
            return self.settle(claim, &LaunchResult::NoOffering { message }, metrics).await;
        }
        let request = LaunchRequest { claim, node_class: &offer.node_class, candidates: &candidates };
        match self.cloud.launch(request).await {
            Ok(outcome) => {
                self.tell_outcome(claim, &outcome);
                self.note_budgets(&outcome).await;
                self.settle_members(claim, &outcome, &offer.types, metrics).await
            }
            Err(error) => self.failed(claim, &error, metrics).await,
        }
    }

    /// Gives the members of a group that have no instance those that were found by its tag, which nobody has. Not by index as
    /// after an answer: instances that ended meanwhile, or are not listed yet, would shift it. A member for which there is none
    /// waits.
    pub(super) async fn recover(
        &self,
        claim: &NodeClaim,
        instances: &[Instance],
        metrics: &mut Metrics,
    ) -> Result<bool, PortError> {
        let types = self.offer(claim).await.map(|offer| offer.types).unwrap_or_default();
        let mut members = self.waiting_members(claim).await?;
        members.push(claim.clone());
        members.sort_by_key(|member| member.spec.launch_group.as_ref().map_or(0, |group| group.index));
        let mut moved_on = false;
        for (member, instance) in members.iter().zip(instances) {
            if self.claims.find_by_instance(&instance.id).await?.is_some() {
                continue;
            }
            let learned = Box::new(learn(instance, &types));
            let result = LaunchResult::Launched { instance: Box::new(instance.clone()), learned };
            if self.settle(member, &result, metrics).await? {
                moved_on = true;
                if member.name != claim.name {
                    self.queue.wake_claims(&[(member.name.clone(), Duration::from_secs(3))]).await?;
                }
            }
        }
        Ok(moved_on)
    }

    /// Writes an instance of its launch group on a claim that leaves without one. Says whether the record was written.
    pub(super) async fn take(
        &self,
        claim: &NodeClaim,
        instance: &Instance,
        metrics: &mut Metrics,
    ) -> Result<bool, PortError> {
        if self.claims.find_by_instance(&instance.id).await?.is_some_and(|other| other.name != claim.name) {
            return Ok(false);
        }
        // What it costs counts until it is gone; when the catalog cannot be read the claim is charged as before.
        let types = self.offer(claim).await.map(|offer| offer.types).unwrap_or_default();
        let learned = Box::new(learn(instance, &types));
        let result = LaunchResult::Launched { instance: Box::new(instance.clone()), learned };
        self.settle(claim, &result, metrics).await
    }

    /// A group is launched only once its first member is there, which the planner writes last: so a plan that was cut
    /// short launches nothing.
    async fn group_is_whole(&self, claim: &NodeClaim) -> Result<bool, PortError> {
        match &claim.spec.launch_group {
            Some(group) if group.index > 0 => {
                let all = self.claims.list().await?;
                let is_first = |other: &NodeClaim| {
                    other.spec.launch_group.as_ref().is_some_and(|theirs| theirs.id == group.id && theirs.index == 0)
                };
                Ok(all.iter().any(is_first))
            }
            _ => Ok(true),
        }
    }

    async fn offer(&self, claim: &NodeClaim) -> Result<Offer, PortError> {
        let invalid = |message: String| PortError::new(ErrorKind::Invalid, "launch", message);
        let name = &claim.node_class;
        let node_class = self
            .cluster
            .node_class(name)
            .await?
            .ok_or_else(|| invalid(format!("the EC2NodeClass {name} does not exist")))?;
        let catalog = self.catalog.current(self.claims.as_ref()).await.map_err(|error| match error {
            crate::CatalogError::Port(error) => error,
            other => PortError::new(ErrorKind::Unavailable, "read the catalog", other.to_string()),
        })?;
        let now = self.context.now();
        let (short, shifted) = futures::try_join!(
            self.claims.unavailable(now),
            zonal_shift::in_effect(self.claims.as_ref(), self.zonal_shift, now),
        )?;
        let unavailable = shortages(&short, &shifted, now);
        let settings = node_class::settings_with(&node_class, &catalog)
            .map_err(|problems| invalid(format!("EC2NodeClass {name}: {}", problems.join("; "))))?;
        let types = self.overlaid(claim, catalog.instance_types(&settings, &unavailable)).await?;
        Ok(Offer { types, node_class })
    }

    /// The instance types with what NodeOverlays make of them, where the plan went by any.
    ///
    /// Whether overlays contradict each other only the planner can tell, which sees all NodePools; it has said so in their
    /// status.
    async fn overlaid(&self, claim: &NodeClaim, types: Vec<InstanceType>) -> Result<Vec<InstanceType>, PortError> {
        let marks = [labels::PRICE_OVERLAY_APPLIED, labels::CAPACITY_OVERLAY_APPLIED];
        if !marks.iter().any(|mark| claim.spec.annotations.contains_key(*mark)) {
            return Ok(types);
        }
        let Some(pool) = self.cluster.node_pool(&claim.node_pool).await? else { return Ok(types) };
        let refused = |status: &NodeOverlayStatus| {
            let failed = |condition: &Condition| condition.status == ConditionStatus::False;
            status.conditions.iter().any(|condition| condition.type_ == "ValidationSucceeded" && failed(condition))
        };
        let overlays = self.cluster.node_overlays().await?.into_iter();
        let overlays: Vec<_> = overlays.filter(|(_, status)| !refused(status)).map(|(overlay, _)| overlay).collect();
        let plain = Plain { pool: &pool, instance_types: InstanceTypes::from(types) };
        let mut overlaid = overlay::apply(&overlays, &[plain]);
        Ok(overlaid.pools.remove(&pool.name).map(|types| types.instance_types.to_vec()).unwrap_or_default())
    }

    /// Settles every member of the group that still waits, so that one call serves all. What does not come to pass here,
    /// because the process ends, each member finds by repeating the call.
    async fn settle_members(
        &self,
        claim: &NodeClaim,
        outcome: &LaunchOutcome,
        types: &[InstanceType],
        metrics: &mut Metrics,
    ) -> Result<bool, PortError> {
        let mut moved_on = self.settle(claim, &self.result(claim, outcome, types).await?, metrics).await?;
        for member in self.waiting_members(claim).await? {
            let result = self.result(&member, outcome, types).await?;
            if self.settle(&member, &result, metrics).await? {
                moved_on = true;
                // Its node has to be waited for, so it has to be looked at again, as this one is.
                self.queue.wake_claims(&[(member.name.clone(), Duration::from_secs(3))]).await?;
            }
        }
        Ok(moved_on)
    }

    /// The other members of a claim's group that wait for the same answer.
    async fn waiting_members(&self, claim: &NodeClaim) -> Result<Vec<NodeClaim>, PortError> {
        let Some(group) = claim.spec.launch_group.as_ref().filter(|group| group.size > 1) else {
            return Ok(Vec::new());
        };
        let mut all = self.claims.list().await?;
        all.retain(|member| {
            member.name != claim.name
                && member.status.instance.is_none()
                && member.phase != Phase::Gone
                && member.client_token() == claim.client_token()
                && member.spec.launch_group.as_ref().is_some_and(|theirs| theirs.id == group.id)
        });
        Ok(all)
    }

    /// What the outcome means for one claim. An instance never gets a second claim.
    async fn result(
        &self,
        claim: &NodeClaim,
        outcome: &LaunchOutcome,
        types: &[InstanceType],
    ) -> Result<LaunchResult, PortError> {
        let result = result_for(claim, outcome, |instance| learn(instance, types));
        if let LaunchResult::Launched { instance, .. } = &result
            && let Some(other) = self.claims.find_by_instance(&instance.id).await?
            && other.name != claim.name
        {
            let message = format!("its instance {} already belongs to NodeClaim {}", instance.id, other.name);
            return Ok(LaunchResult::NoOffering { message });
        }
        Ok(result)
    }

    /// Writes what a launch came to, and runs what follows from it. Says whether the record was written.
    async fn settle(&self, claim: &NodeClaim, result: &LaunchResult, metrics: &mut Metrics) -> Result<bool, PortError> {
        let step = absorb(claim, result, self.context.now(), &self.settings);
        if step.claim == *claim {
            return Ok(false);
        }
        let Some(written) = self.write(claim, &step, metrics).await? else { return Ok(true) };
        let mut done = Ok(());
        for effect in &step.effects {
            done = self.run_effect(&written, effect, metrics).await;
            if done.is_err() {
                break;
            }
        }
        // Only now there is a NodeClaim object that the events can be about.
        self.publish(&step).await;
        done?;
        // A failed launch is tried again after its delay, not at once.
        Ok(written.phase != Phase::Reserved)
    }

    async fn failed(&self, claim: &NodeClaim, error: &PortError, metrics: &mut Metrics) -> Result<bool, PortError> {
        self.context.log(&LaunchFailed { claim: &claim.name, why: &error.to_string() });
        metrics.count(Metric::LaunchFailures, 1);
        let retryable = error.is_retryable();
        let result = LaunchResult::Failed { code: error.code.clone(), message: error.to_string(), retryable };
        let moved_on = self.settle(claim, &result, metrics).await?;
        if !retryable {
            // What one call was refused, all members were: none of them has to ask again.
            for member in self.waiting_members(claim).await? {
                self.settle(&member, &result, metrics).await?;
            }
        }
        Ok(moved_on)
    }

    /// Writes down what the answer says of how much may be asked for next. Without it the next plan is as bold or as careful
    /// as the last, which does no harm.
    async fn note_budgets(&self, outcome: &LaunchOutcome) {
        let now = self.context.now();
        let (raised, reset) = budget::changes(outcome, now);
        let written = async {
            if !raised.is_empty() {
                self.claims.raise_launch_budgets(&raised, budget::INITIAL, now).await?;
            }
            if !reset.is_empty() {
                self.claims.reset_launch_budgets(&reset).await?;
            }
            Ok::<(), PortError>(())
        };
        if let Err(error) = written.await {
            self.context.log(&Failed { what: "write launch budgets", why: &error.to_string() });
        }
    }

    fn tell_outcome(&self, claim: &NodeClaim, outcome: &LaunchOutcome) {
        let group = claim.spec.launch_group.as_ref();
        let failures = outcome
            .failures
            .iter()
            .map(|failure| {
                format!("{} {} {}: {}", failure.instance_type, failure.zone, failure.capacity_type, failure.code)
            })
            .collect();
        self.context.log(&LaunchAnswered {
            claim: &claim.name,
            group: group.map_or("", |group| &group.id),
            asked: group.map_or(1, |group| usize::try_from(group.size).unwrap_or(usize::MAX)),
            launched: outcome.instances.len(),
            failures,
        });
    }
}
