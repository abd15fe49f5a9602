//! Validates EC2NodeClasses by EC2 dry runs.

use nodeless_api::EC2NodeClass;
use nodeless_launch::fleet::{self, FleetError};
use nodeless_launch::node_class::check;
use nodeless_model::{
    CapacityType, InstanceType, NodeClaim, NodeClaimSpec, NodeClaimStatus, NodePool, Phase, Requirement, labels,
};
use nodeless_operations::{
    events,
    log_lines::{Failed, LaunchChecked},
    node_class,
    offers::{CatalogCache, candidates, shortages},
    ownership,
};
use nodeless_ports::cloud::{LaunchCandidate, LaunchRequest};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Cloud, Cluster, ErrorKind, PortError, Queue};
use nodeless_state::{Refusal, State};
use nodeless_telemetry::Context;
use std::sync::Arc;
use std::time::Duration;

/// When a validation that EC2 did not answer is retried.
const AGAIN: Duration = Duration::from_secs(30);
/// The placeholder in names and tags of a launch that is only a dry run.
const PLACEHOLDER: &str = "dry-run";

/// Validates EC2NodeClasses. It runs with the permissions of lifecycle, because it validates them too.
pub struct Validator {
    /// Time and logs.
    pub context: Context,
    /// The claims table, which keeps the answers.
    pub claims: State,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// EC2.
    pub cloud: Arc<dyn Cloud>,
    /// The catalog, kept between runs.
    pub catalog: CatalogCache,
    /// Whether dry runs are enabled.
    pub dry_runs: bool,
}

/// The launches to validate, or why there are none.
enum Samples {
    /// These launches, at least one.
    Launches(Vec<Sample>),
    /// Nothing, because no AMI of the class supports the instance types that its NodePools allow.
    Impossible(Refusal),
}

/// A launch for a dry run.
struct Sample {
    claim: NodeClaim,
    /// The candidates of one instance type, and of another one for the case that a policy denies the first.
    types: Vec<Vec<LaunchCandidate>>,
}

impl Validator {
    /// Validates one EC2NodeClass, unless the last answer is still valid, and reports the result in its status. Returns whether
    /// the status changed.
    ///
    /// # Errors
    /// If the claims table or the cluster cannot be read or written, or another deployment serves the cluster. A failed dry run is not an error: it is retried.
    pub async fn run(&self, name: &str) -> Result<bool, PortError> {
        if !self.dry_runs {
            return Ok(false);
        }
        ownership::check(self.cluster.as_ref(), &self.claims).await?;
        let Some(class) = self.cluster.node_class(name).await? else { return Ok(false) };
        let Some(status) = class.status.clone() else { return Ok(false) };
        if class.metadata.deletion_timestamp.is_some() || !check::can_be_checked(&status) {
            return Ok(false);
        }
        let key = check::key(&class, &status);
        let mut known = self.claims.launch_check(name).await?;
        if check::is_due(known.as_ref(), &key, self.context.now()) {
            // A rejection of the launch of one NodePool is no problem of the class if another NodePool can launch from it.
            let most = if known.as_ref().is_some_and(check::needs_confirmation) { usize::MAX } else { 1 };
            let outcome = self.ask(&class, most).await;
            let asked = check::checked(known, name, &key, &outcome, self.context.now());
            self.claims.put_launch_check(&asked).await?;
            if asked.problem.is_some() {
                self.queue.check_node_class(name, AGAIN).await?;
            }
            known = Some(asked);
        }
        let checked = check::apply(&class, status.clone(), known.as_ref(), self.context.now());
        if checked == status {
            return Ok(false);
        }
        self.cluster.write_node_class_status(name, &checked, None).await?;
        let events = events::class_transitions(&class, &checked);
        if !events.is_empty()
            && let Err(error) = self.cluster.publish(&events).await
        {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
        self.queue.wake_planner(WakeSource::Catalog).await?;
        Ok(true)
    }

    /// Makes dry runs for up to `most` NodePools of the class, until one has a result for the class: EC2 accepts the launch, rejects
    /// it for a permission or a field of the class, or does not answer. Otherwise returns the last rejection.
    async fn ask(&self, class: &EC2NodeClass, most: usize) -> Result<Option<Refusal>, PortError> {
        let mut outcome = Ok(None);
        match self.samples(class, most).await {
            Ok(Samples::Launches(launches)) => {
                for sample in &launches {
                    outcome = self.ask_for(class, sample).await;
                    if !outcome.as_ref().is_ok_and(|refusal| refusal.as_ref().is_some_and(check::is_unclear)) {
                        break;
                    }
                }
                return outcome;
            }
            Ok(Samples::Impossible(refusal)) => outcome = Ok(Some(refusal)),
            Err(error) => outcome = Err(error),
        }
        self.report(class, &[], &outcome);
        outcome
    }

    /// Makes the dry run for one NodePool, and repeats it with another instance type if EC2 denies it: a class is only denied if
    /// both are.
    async fn ask_for(&self, class: &EC2NodeClass, sample: &Sample) -> Result<Option<Refusal>, PortError> {
        let mut denied = None;
        for candidates in &sample.types {
            let request = LaunchRequest { claim: &sample.claim, node_class: class, candidates };
            let outcome = self.cloud.dry_run(request).await;
            self.report(class, candidates, &outcome);
            match outcome {
                Ok(Some(refusal)) if check::may_depend_on_instance_type(&refusal) => denied = Some(refusal),
                Ok(Some(refusal)) if check::is_unclear(&refusal) => return Ok(denied.or(Some(refusal))),
                outcome => return outcome,
            }
        }
        Ok(denied)
    }

    fn report(
        &self,
        class: &EC2NodeClass,
        candidates: &[LaunchCandidate],
        outcome: &Result<Option<Refusal>, PortError>,
    ) {
        let problem = outcome.as_ref().err().map(ToString::to_string);
        self.context.log(&LaunchChecked {
            node_class: class.metadata.name.as_deref().unwrap_or_default(),
            instance_type: candidates.first().map_or("", |candidate| candidate.instance_type.as_str()),
            refusal: outcome.as_ref().ok().and_then(|refusal| refusal.as_ref()).map(|refusal| refusal.message.as_str()),
            problem: problem.as_deref(),
        });
    }

    /// Launches as up to `most` of the class's NodePools would make them, or any launch that the class allows if they allow none.
    async fn samples(&self, class: &EC2NodeClass, most: usize) -> Result<Samples, PortError> {
        const OPERATION: &str = "choose an instance type for dry runs";
        let invalid = |why: String| PortError::new(ErrorKind::Invalid, OPERATION, why);
        let catalog = self.catalog.current(&self.claims).await.map_err(|error| match error {
            nodeless_operations::CatalogError::Port(error) => error,
            other => PortError::new(ErrorKind::Unavailable, OPERATION, other.to_string()),
        })?;
        let settings = node_class::settings_with(class, &catalog).map_err(|problems| invalid(problems.to_string()))?;
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let pools = self.cluster.node_pools().await?.node_pools;
        // After the last read, so that they are in memory for as short a time as possible.
        let types = catalog.instance_types(&settings, &shortages(&[], &[], self.context.now()));
        let own = pools.iter().filter(|pool| pool.template.node_class == name).map(Some);
        let (mut launches, mut impossible) = (Vec::new(), None);
        for pool in own.chain([None]) {
            let has_any = !launches.is_empty() || impossible.is_some();
            if launches.len() == most || (pool.is_none() && has_any) {
                break;
            }
            let claim = self.claim(class, pool, &types);
            match fleet::samples(class, &claim, &candidates(&claim, &types)) {
                Ok(samples) => launches.push(Sample { claim, types: samples }),
                Err(error @ FleetError::NoImage { .. }) => impossible = Some(check::no_image(&error)),
                Err(_) => {}
            }
        }
        if !launches.is_empty() {
            return Ok(Samples::Launches(launches));
        }
        impossible.map(Samples::Impossible).ok_or_else(|| {
            invalid(format!(
                "EC2NodeClass {name}: no instance type has an offering in the zones of its subnets; change \
                 spec.subnetSelectorTerms"
            ))
        })
    }

    fn claim(&self, class: &EC2NodeClass, pool: Option<&NodePool>, types: &[InstanceType]) -> NodeClaim {
        let node_class = class.metadata.name.clone().unwrap_or_default();
        let node_pool = pool.map_or(PLACEHOLDER, |pool| pool.name.as_str()).to_owned();
        let template = pool.map(|pool| pool.template.clone()).unwrap_or_default();
        let allowed = |kind: &&InstanceType| {
            let mut required = template.requirements.iter();
            required.all(|(key, requirement)| kind.requirements.get(key).is_none_or(|has| has.intersects(requirement)))
        };
        // The result does not depend on the capacity type, and spot does not support dry runs.
        let mut requirements = template.requirements.clone();
        requirements.remove(labels::CAPACITY_TYPE);
        let bought = [CapacityType::OnDemand, CapacityType::Reserved].map(CapacityType::as_str);
        requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(bought));
        let mut node_labels = template.labels.clone();
        node_labels.insert(labels::NODE_POOL.to_owned(), node_pool.clone());
        node_labels.insert(labels::EC2_NODE_CLASS.to_owned(), node_class.clone());
        NodeClaim {
            name: PLACEHOLDER.to_owned(),
            uid: PLACEHOLDER.to_owned(),
            node_pool: Some(node_pool),
            node_class,
            created: self.context.now(),
            version: 0,
            spec: NodeClaimSpec {
                requirements,
                instance_types: types.iter().filter(allowed).map(|kind| kind.name.clone()).collect(),
                labels: node_labels,
                taints: template.taints,
                startup_taints: template.startup_taints,
                ..NodeClaimSpec::default()
            },
            phase: Phase::Reserved,
            status: NodeClaimStatus::default(),
        }
    }
}
