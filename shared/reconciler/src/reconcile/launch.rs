//! Launches the members of a group with one call, and assigns an instance to each.

use super::AT_ONCE;
use super::Reconciler;
use super::SOON;
use super::batch::Progress;
use futures::stream::{self, StreamExt as _};
use nodeless_api::{Condition, ConditionStatus, NodeOverlayStatus};
use nodeless_catalog::overlay::{self, Plain};
use nodeless_catalog::{Catalog, NodeClassSettings, ReportedMemory, UnavailableOfferings};
use nodeless_launch::{fleet, launch_budget};
use nodeless_lifecycle::group::lacks_instance;
use nodeless_lifecycle::{Effect, LaunchResult, Step, absorb, charge_when_written, result_for};
use nodeless_model::instance::LaunchOutcome;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{Instance, InstanceType, InstanceTypes, NodeClaim, Phase, labels};
use nodeless_operations::{
    log_lines::{Failed, LaunchAnswered, LaunchFailed},
    node_class,
    offers::{candidates, learn, shortages},
    reported_memory, zonal_shift,
};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{ErrorKind, PortError};
use nodeless_state::RecordKind;
use nodeless_state::claims::{ChangedClaim, MAX_TOGETHER};
use nodeless_telemetry::Metric;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many times a run records the answer to a launch if the claims table fails.
const RECORD_ATTEMPTS: u32 = 3;

/// The offerings to launch from.
struct Offer {
    node_class: nodeless_api::EC2NodeClass,
    types: Vec<InstanceType>,
}

impl Reconciler {
    /// Launches the claim's group. Returns whether records were written.
    pub(super) async fn launch(&self, claim: &NodeClaim, progress: &mut Progress) -> Result<bool, PortError> {
        let (offer, outdated) = match futures::try_join!(self.offer(claim, &[]), self.outdated(claim)) {
            Ok(read) => read,
            Err(error) => return self.failed(claim, &error, progress).await,
        };
        if let Some(message) = outdated {
            return self.apply_result(claim, &LaunchResult::NoOffering { message }, progress).await;
        }
        let candidates = candidates(claim, &offer.types);
        if candidates.is_empty() {
            let message = "none of its offerings is available now".to_owned();
            return self.apply_result(claim, &LaunchResult::NoOffering { message }, progress).await;
        }
        if let Some(message) = fleet::min_values_missed(claim, &candidates).filter(|_| self.min_values_strict) {
            return self.apply_result(claim, &LaunchResult::NoOffering { message }, progress).await;
        }
        let request = LaunchRequest { claim, node_class: &offer.node_class, candidates: &candidates };
        let mut outcome = match self.cloud.launch(request).await {
            Ok(outcome) => outcome,
            Err(error) => return self.failed(claim, &error, progress).await,
        };
        if self.is_late(claim) {
            self.read_tags(&mut outcome).await;
        }
        // Only the instance types that were launched are needed while the results are written.
        drop(candidates);
        let mut types = offer.types;
        types.retain(|kind| outcome.instances.iter().any(|instance| instance.instance_type == kind.name));
        self.report_outcome(claim, &outcome);
        progress.has_instance.store(true, Ordering::Relaxed);
        // The records of the claims do not wait for those of the budgets.
        let records = self.record_answer(claim, &outcome, &types, progress);
        futures::join!(records, self.note_budgets(&outcome)).0
    }

    /// Adds the tags of the instances, which the answer of EC2 does not have: it may have launched them long ago, for nodes that have
    /// registered. Without the tags, a member of the group may get the instance of another one.
    async fn read_tags(&self, outcome: &mut LaunchOutcome) {
        let ids: Vec<String> = outcome.instances.iter().map(|instance| instance.id.clone()).collect();
        if ids.is_empty() {
            return;
        }
        let described = self.cloud.instances(&ids).await.unwrap_or_else(|error| {
            self.context.log(&Failed { what: "read the tags of launched instances", why: &error.to_string() });
            Vec::new()
        });
        for Instance { id, tags, .. } in described {
            if let Some(own) = outcome.instances.iter_mut().find(|instance| instance.id == id) {
                own.tags = tags;
            }
        }
    }

    /// Records the answer of EC2, and tries again if the claims table fails: the next run may be much later, for example if the API server
    /// throttles all calls.
    async fn record_answer(
        &self,
        claim: &NodeClaim,
        outcome: &LaunchOutcome,
        types: &[InstanceType],
        progress: &mut Progress,
    ) -> Result<bool, PortError> {
        for _ in 1..RECORD_ATTEMPTS {
            match self.record_members(claim, outcome, types, progress).await {
                Err(error) if error.is_retryable() => {
                    self.context.log(&Failed { what: "record the answer to a launch", why: &error.to_string() });
                }
                ended => return ended,
            }
        }
        self.record_members(claim, outcome, types, progress).await
    }

    /// Assigns instances that were found by the tag of a group to the members that own them. A member without an instance waits.
    pub(super) async fn recover(
        &self,
        claim: &NodeClaim,
        instances: &[Instance],
        progress: &mut Progress,
    ) -> Result<bool, PortError> {
        progress.has_instance.store(true, Ordering::Relaxed);
        let (offer, shared) = futures::join!(self.offer(claim, instances), self.share(claim, instances));
        // The price of an instance counts until it is gone. If the catalog cannot be read, the charge of the claim is unchanged.
        let types = offer.map(|offer| offer.types).unwrap_or_default();
        let shared = shared?;
        let found = LaunchOutcome { instances: instances.to_vec(), failures: Vec::new() };
        let mut moved_on = false;
        for member in shared.without_instance() {
            let result = result_for(member, &found, &shared.owners, |instance| learn(instance, &types));
            if matches!(result, LaunchResult::Launched { .. }) {
                moved_on |= self.record_member(claim, member, &result, progress).await?;
            }
        }
        Ok(moved_on)
    }

    /// The EC2NodeClass of a claim, and the instance types of the claim and of instances that were found.
    async fn offer(&self, claim: &NodeClaim, found: &[Instance]) -> Result<Offer, PortError> {
        let invalid = |message: String| PortError::new(ErrorKind::Invalid, "launch", message);
        let name = &claim.node_class;
        let now = self.context.now();
        // All at once: each call may take seconds while a service is slow, and the claim has less than a minute for all its steps.
        let (node_class, catalog, short, shifted, reported) = futures::try_join!(
            self.cluster.node_class(name),
            self.current_catalog(),
            self.claims.unavailable(now),
            zonal_shift::in_effect(&self.claims, self.zonal_shift, now),
            self.reported_memory(),
        )?;
        let node_class = node_class.ok_or_else(|| invalid(format!("the EC2NodeClass {name} does not exist")))?;
        let unavailable = shortages(&short, &shifted, now);
        let mut settings = node_class::settings_with(&node_class, &catalog)
            .map_err(|problems| invalid(format!("EC2NodeClass {name}: {problems}")))?;
        reported_memory::apply(&mut settings, &node_class, &reported, now);
        let settings = node_class::for_claim(settings, &node_class, claim);
        let types = types_of(&claim.spec.instance_types, found, &catalog, &settings, &unavailable);
        let types = self.overlaid(claim, types).await?;
        Ok(Offer { types, node_class })
    }

    async fn current_catalog(&self) -> Result<Arc<Catalog>, PortError> {
        self.catalog.current(&self.claims).await.map_err(|error| match error {
            nodeless_operations::CatalogError::Port(error) => error,
            other => PortError::new(ErrorKind::Unavailable, "read the catalog", other.to_string()),
        })
    }

    /// The memory that nodes reported, for the expected capacity of the node until it joins. The launch is the same if it is
    /// unknown, so that is no error.
    async fn reported_memory(&self) -> Result<ReportedMemory, PortError> {
        let read = self.claims.record(RecordKind::ReportedMemory, "").await;
        let decoded = read.and_then(|stored| Ok(reported_memory::decode(&stored.unwrap_or_default())?));
        Ok(decoded.unwrap_or_else(|why| {
            self.context.log(&Failed { what: "read how much memory nodes reported", why: &why.to_string() });
            ReportedMemory::default()
        }))
    }

    /// The instance types with NodeOverlays, if the plan used any.
    ///
    /// Only the planner, which reads all NodePools, can detect conflicts between overlays. The planner reports
    /// conflicts in the status of the overlays.
    async fn overlaid(&self, claim: &NodeClaim, types: Vec<InstanceType>) -> Result<Vec<InstanceType>, PortError> {
        let marks = [labels::PRICE_OVERLAY_APPLIED, labels::CAPACITY_OVERLAY_APPLIED];
        if !marks.iter().any(|mark| claim.spec.annotations.contains_key(*mark)) {
            return Ok(types);
        }
        let Some(name) = &claim.node_pool else { return Ok(types) };
        let Some(pool) = self.cluster.node_pool(name).await? else { return Ok(types) };
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

    /// Records the result of every member of the group that has no instance yet, so that one call serves all. If the process ends
    /// first, the remaining members repeat the call and find their instances.
    async fn record_members(
        &self,
        claim: &NodeClaim,
        outcome: &LaunchOutcome,
        types: &[InstanceType],
        progress: &mut Progress,
    ) -> Result<bool, PortError> {
        let shared = self.share_answer(claim, outcome).await?;
        let (mut launched, mut others) = (Vec::new(), Vec::new());
        for member in shared.without_instance() {
            let result = result_for(member, outcome, &shared.owners, |instance| learn(instance, types));
            if matches!(result, LaunchResult::Launched { .. }) {
                launched.push((member, result));
            } else if member.client_token() == claim.client_token() {
                // For the others, the answer to their own call counts.
                others.push((member, result));
            }
        }
        let mut moved_on = self.write_launched(claim, &launched, progress).await?;
        for (member, result) in others {
            moved_on |= self.record_member(claim, member, &result, progress).await?;
        }
        Ok(moved_on)
    }

    /// Writes the members of a claim's group that have instances now in one transaction, or one by one if another process wrote
    /// one of them.
    async fn write_launched(
        &self,
        claim: &NodeClaim,
        launched: &[(&NodeClaim, LaunchResult)],
        progress: &mut Progress,
    ) -> Result<bool, PortError> {
        let now = self.context.now();
        let steps = launched.iter().map(|(member, result)| (*member, absorb(member, result, now, &self.settings)));
        let steps: Vec<(&NodeClaim, Step)> = steps.filter(|(member, step)| step.claim != **member).collect();
        let changes: Vec<ChangedClaim> = steps
            .iter()
            .map(|(_, step)| ChangedClaim {
                claim: step.claim.clone(),
                charge: charge_when_written(&step.claim, step.charge.as_ref()),
            })
            .collect();
        let alone = steps.len() < 2 || steps.len() > MAX_TOGETHER;
        if alone || self.claims.update_together(&changes).await.is_err() {
            let mut moved_on = false;
            for (member, result) in launched {
                moved_on |= self.record_member(claim, member, result, progress).await?;
            }
            return Ok(moved_on);
        }
        let written = steps.into_iter().zip(changes).map(|((member, step), change)| {
            let mut written = NodeClaim { version: change.claim.version + 1, ..change.claim };
            written.spec.charge = change.charge.unwrap_or(written.spec.charge);
            self.report(member, &written, &mut progress.metrics);
            if written.name != claim.name {
                progress.others.push((written.name.clone(), SOON));
            }
            (step, written)
        });
        let follow = written.map(async |(step, written)| {
            let mut own = Progress::default();
            let done = self.follow(&step, &written, &mut own).await;
            (own, done)
        });
        let follow: Vec<_> = follow.collect();
        let mut results = stream::iter(follow).buffered(AT_ONCE);
        let mut failed = None;
        while let Some((own, done)) = results.next().await {
            progress.events.extend(own.events);
            progress.metrics.merge(&own.metrics);
            failed = failed.or(done.err());
        }
        failed.map_or(Ok(true), Err)
    }

    /// Records the result of a member of the claim's group. Schedules the member if it is another claim, because its node has to
    /// be waited for.
    async fn record_member(
        &self,
        claim: &NodeClaim,
        member: &NodeClaim,
        result: &LaunchResult,
        progress: &mut Progress,
    ) -> Result<bool, PortError> {
        let moved_on = self.apply_result(member, result, progress).await?;
        if moved_on && member.name != claim.name {
            progress.others.push((member.name.clone(), SOON));
        }
        Ok(moved_on)
    }

    /// Writes the result of a launch, and executes its effects. Returns whether the record was written.
    async fn apply_result(
        &self,
        claim: &NodeClaim,
        result: &LaunchResult,
        progress: &mut Progress,
    ) -> Result<bool, PortError> {
        let step = absorb(claim, result, self.context.now(), &self.settings);
        if step.claim == *claim {
            return Ok(false);
        }
        let Some(written) = self.write(claim, &step, progress).await? else { return Ok(true) };
        self.follow(&step, &written, progress).await?;
        // A failed launch is tried again after its delay, not at once.
        Ok(written.phase >= Phase::Launched)
    }

    /// Executes the effects of a launch result that is written.
    pub(super) async fn follow(
        &self,
        step: &Step,
        written: &NodeClaim,
        progress: &mut Progress,
    ) -> Result<(), PortError> {
        let mut events = step.events.clone();
        let mut done = Ok(());
        for effect in &step.effects {
            if *effect == Effect::MirrorClaim {
                let uid = self.mirror_record(written).await.unwrap_or_default();
                let own = |event: &&mut ObjectEvent| event.object.kind == "NodeClaim" && event.object.uid.is_empty();
                events.iter_mut().filter(own).for_each(|event| event.object.uid.clone_from(&uid));
                continue;
            }
            done = self.run_effect(written, effect, progress).await;
            if done.is_err() {
                break;
            }
        }
        // The events need the NodeClaim object, which now exists.
        progress.events.extend(events);
        done
    }

    async fn failed(&self, claim: &NodeClaim, error: &PortError, progress: &mut Progress) -> Result<bool, PortError> {
        self.context.log(&LaunchFailed { claim: &claim.name, why: &error.to_string() });
        progress.metrics.count(Metric::LaunchFailures, 1);
        let retryable = error.is_retryable();
        let result = LaunchResult::Failed { code: error.code.clone(), message: error.to_string(), retryable };
        let moved_on = self.apply_result(claim, &result, progress).await?;
        if !retryable {
            // All members share the failed offerings of one call, so none of them has to ask again.
            let members = self.members(claim).await?;
            let same = members.iter().filter(|it| it.name != claim.name && it.client_token() == claim.client_token());
            for member in same.filter(|it| lacks_instance(it)) {
                self.apply_result(member, &result, progress).await?;
            }
        }
        Ok(moved_on)
    }

    /// Records the launch budgets that follow from the answer. If that fails, the next plan uses the previous budgets, which is
    /// harmless.
    async fn note_budgets(&self, outcome: &LaunchOutcome) {
        let now = self.context.now();
        let (raised, reset) = launch_budget::changes(outcome, now);
        let written = async {
            if !raised.is_empty() {
                self.claims.raise_launch_budgets(&raised, launch_budget::INITIAL, now).await?;
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

    fn report_outcome(&self, claim: &NodeClaim, outcome: &LaunchOutcome) {
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

/// The instance types with these names and those of instances that were found, and no others: sixteen launches at a time must not
/// each hold all instance types of the region.
fn types_of(
    names: &[String],
    found: &[Instance],
    catalog: &Catalog,
    settings: &NodeClassSettings,
    unavailable: &UnavailableOfferings,
) -> Vec<InstanceType> {
    let found = found.iter().map(|instance| &instance.instance_type);
    catalog.instance_types_named(names.iter().chain(found).map(String::as_str), settings, unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use nodeless_catalog::Facts;
    use nodeless_catalog::node_class::AmiFamily;
    use nodeless_model::{CapacityType, InstanceState, StringMap};

    fn instance(instance_type: &str) -> Instance {
        Instance {
            id: format!("i-{instance_type}"),
            state: InstanceState::Running,
            instance_type: instance_type.into(),
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::OnDemand,
            image_id: "ami-1".into(),
            subnet_id: None,
            security_group_ids: Vec::new(),
            private_dns_name: None,
            reservation_id: None,
            partition: None,
            launched: Timestamp::UNIX_EPOCH,
            tags: StringMap::new(),
        }
    }

    #[test]
    fn a_launch_makes_the_instance_types_of_its_claim_only() {
        let catalog = Catalog::synthetic(1, Facts::embedded().unwrap());
        let settings = NodeClassSettings::new(AmiFamily::Al2023, catalog.zones.clone());
        let names = ["m5.large", "c5.large", "x0.unknown"].map(str::to_owned);
        let made = |found: &[Instance]| {
            let types = types_of(&names, found, &catalog, &settings, &UnavailableOfferings::default());
            types.into_iter().map(|kind| kind.name).collect::<Vec<_>>()
        };
        assert!(catalog.types.len() > 500, "the catalog has {}", catalog.types.len());
        assert_eq!(made(&[]), ["c5.large", "m5.large"]);
        assert_eq!(made(&[instance("m5.large"), instance("r5.large")]), ["c5.large", "m5.large", "r5.large"]);
    }
}
