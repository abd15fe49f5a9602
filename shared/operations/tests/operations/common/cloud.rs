//! EC2, small: client tokens, capacity, states.

use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::instance::{Instance, InstanceFault, InstanceState, LaunchOutcome, OfferingFailure};
use nodeless_model::{CapacityType, StringMap, labels};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{Cloud, ErrorKind, PortError, Refusal};
use nodeless_world::WorldClock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Clone)]
pub struct TestCloud {
    state: Arc<Mutex<State>>,
    clock: WorldClock,
}

#[derive(Default)]
struct State {
    /// What EC2 reports about unhealthy instances.
    against: Vec<InstanceFault>,
    instances: BTreeMap<String, Instance>,
    answers: BTreeMap<String, LaunchOutcome>,
    capacity: Option<usize>,
    /// Instances that EC2 does not list yet.
    unlisted: BTreeSet<String>,
    /// Launch templates, and when each was last used.
    templates: BTreeMap<String, Timestamp>,
    how: Answering,
    /// What dry runs are answered.
    refusal: Option<Refusal>,
    /// How many instances were ever launched.
    launched: usize,
    calls: usize,
}

/// How CreateFleet is answered.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Answering {
    /// As EC2 does.
    #[default]
    Well,
    /// The answer to a launch has neither instances nor errors.
    Empty,
    /// A client token that was used before comes with other parameters, as when prices have changed.
    TokenUsed,
}

impl TestCloud {
    pub fn new(clock: WorldClock) -> Self {
        Self { state: Arc::default(), clock }
    }

    fn inner(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// EC2 has only so many instances left.
    pub fn set_capacity(&self, left: Option<usize>) {
        self.inner().capacity = left;
    }

    /// Dry runs are refused like this, or not any more.
    pub fn refuse_dry_runs(&self, refusal: Option<Refusal>) {
        self.inner().refusal = refusal;
    }

    /// What EC2 reports about unhealthy instances from now on.
    pub fn set_against(&self, faults: Vec<InstanceFault>) {
        self.inner().against = faults;
    }

    /// CreateFleet is answered so from now on.
    pub fn answer(&self, how: Answering) {
        self.inner().how = how;
    }

    /// EC2 lists none of its instances any more, as if all had just been launched.
    pub fn hide_all(&self) {
        let mut state = self.inner();
        state.unlisted = state.instances.keys().cloned().collect();
    }

    /// EC2 lists this instance from now on.
    pub fn show(&self, id: &str) {
        self.inner().unlisted.remove(id);
    }

    /// Adds a launch template that was last used at a time.
    pub fn put_template(&self, name: &str, used: Timestamp) {
        self.inner().templates.insert(name.to_owned(), used);
    }

    pub fn templates(&self) -> Vec<String> {
        self.inner().templates.keys().cloned().collect()
    }

    pub fn launched(&self) -> usize {
        self.inner().launched
    }

    /// How often CreateFleet was called.
    pub fn launch_calls(&self) -> usize {
        self.inner().calls
    }

    pub fn alive(&self) -> Vec<Instance> {
        self.inner().instances.values().filter(|instance| instance.is_alive()).cloned().collect()
    }

    pub fn running(&self) -> Vec<Instance> {
        self.inner().instances.values().filter(|instance| instance.state == InstanceState::Running).cloned().collect()
    }

    /// Adds an instance, as if another program had launched it.
    pub fn put(&self, instance: Instance) {
        self.inner().instances.insert(instance.id.clone(), instance);
    }

    pub fn set_state(&self, id: &str, state: InstanceState) {
        self.inner().instances.get_mut(id).unwrap().state = state;
    }

    /// What is pending runs, and what is shutting down ends.
    pub fn boot(&self) {
        for instance in self.inner().instances.values_mut() {
            instance.state = match instance.state {
                InstanceState::Pending => InstanceState::Running,
                InstanceState::ShuttingDown => InstanceState::Terminated,
                other => other,
            };
        }
    }
}

impl State {
    fn launch(&mut self, request: &LaunchRequest<'_>, now: Timestamp) -> LaunchOutcome {
        self.calls += 1;
        let token = request.claim.client_token().unwrap();
        if let Some(answer) = self.answers.get(&token) {
            return answer.clone();
        }
        let group = request.claim.spec.launch_group.clone().unwrap();
        let wanted = usize::try_from(group.size).unwrap();
        let granted = self.capacity.map_or(wanted, |left| left.min(wanted));
        if let Some(left) = &mut self.capacity {
            *left -= granted;
        }
        let first = &request.candidates[0];
        let mut outcome = LaunchOutcome::default();
        for _ in 0..granted {
            self.launched += 1;
            let id = format!("i-{:04}", self.launched);
            let instance = Instance {
                id: id.clone(),
                state: InstanceState::Pending,
                instance_type: first.instance_type.clone(),
                zone: first.zone.clone(),
                capacity_type: first.capacity_type,
                image_id: "ami-1".into(),
                subnet_id: None,
                security_group_ids: Vec::new(),
                private_dns_name: Some(format!("ip-{id}.ec2.internal")),
                reservation_id: first.reservation_id.clone(),
                launched: now,
                tags: StringMap::from([
                    (labels::NODE_POOL.into(), request.claim.node_pool.clone()),
                    (labels::EC2_NODE_CLASS.into(), request.claim.node_class.clone()),
                    (labels::LAUNCH_GROUP_TAG.into(), group.id.clone()),
                ]),
            };
            self.instances.insert(id, instance.clone());
            outcome.instances.push(instance);
        }
        if granted < wanted {
            outcome.failures = request
                .candidates
                .iter()
                .map(|candidate| OfferingFailure {
                    instance_type: candidate.instance_type.clone(),
                    zone: candidate.zone.clone(),
                    capacity_type: candidate.capacity_type,
                    code: "InsufficientInstanceCapacity".into(),
                    message: "no capacity".into(),
                    lacks_capacity: true,
                })
                .collect();
        }
        self.answers.insert(token, outcome.clone());
        outcome
    }
}

#[async_trait]
impl Cloud for TestCloud {
    async fn launch(&self, request: LaunchRequest<'_>) -> Result<LaunchOutcome, PortError> {
        const OPERATION: &str = "EC2 CreateFleet";
        let now = self.clock.time();
        let mut state = self.inner();
        let used = state.answers.contains_key(&request.claim.client_token().unwrap());
        match state.how {
            Answering::TokenUsed if used => {
                let error = PortError::new(ErrorKind::Invalid, OPERATION, "the parameters differ");
                Err(error.with_code("IdempotentParameterMismatch"))
            }
            Answering::Empty => {
                state.launch(&request, now);
                Ok(LaunchOutcome::default())
            }
            _ => Ok(state.launch(&request, now)),
        }
    }

    async fn dry_run(&self, request: LaunchRequest<'_>) -> Result<Option<Refusal>, PortError> {
        // EC2's own words: RunInstances without market options asks for no spot instance.
        let spot = request.candidates.iter().any(|candidate| candidate.capacity_type == CapacityType::Spot);
        let of_spot = spot.then(|| Refusal {
            reason: "RequestRefused".into(),
            message: "You cannot specify tags for Spot instances requests if there are no Spot instances requests"
                .into(),
        });
        Ok(of_spot.or_else(|| self.inner().refusal.clone()))
    }

    async fn instances(&self, ids: &[String]) -> Result<Vec<Instance>, PortError> {
        let state = self.inner();
        let listed = ids.iter().filter(|id| !state.unlisted.contains(*id));
        Ok(listed.filter_map(|id| state.instances.get(id)).cloned().collect())
    }

    async fn all_instances(&self) -> Result<Vec<Instance>, PortError> {
        let state = self.inner();
        let listed = |instance: &&Instance| {
            instance.state != InstanceState::Terminated && !state.unlisted.contains(&instance.id)
        };
        Ok(state.instances.values().filter(listed).cloned().collect())
    }

    async fn group_instances(&self, group: &str) -> Result<Vec<Instance>, PortError> {
        let mut instances = self.all_instances().await?;
        instances.retain(|it| it.tags.get(labels::LAUNCH_GROUP_TAG).is_some_and(|theirs| theirs == group));
        Ok(instances)
    }

    async fn instance_faults(&self) -> Result<Vec<InstanceFault>, PortError> {
        Ok(self.inner().against.clone())
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), PortError> {
        let mut state = self.inner();
        for id in ids {
            if let Some(instance) = state.instances.get_mut(id).filter(|instance| instance.is_alive()) {
                instance.state = InstanceState::ShuttingDown;
            }
        }
        Ok(())
    }

    async fn tag(&self, id: &str, tags: &StringMap) -> Result<(), PortError> {
        if let Some(instance) = self.inner().instances.get_mut(id) {
            instance.tags.extend(tags.clone());
        }
        Ok(())
    }

    async fn delete_unused_launch_templates(&self, since: Timestamp, most: usize) -> Result<Vec<String>, PortError> {
        let mut state = self.inner();
        let unused = state.templates.iter().filter(|(_, used)| **used < since).map(|(name, _)| name.clone());
        let unused: Vec<String> = unused.take(most).collect();
        state.templates.retain(|name, _| !unused.contains(name));
        Ok(unused)
    }
}
