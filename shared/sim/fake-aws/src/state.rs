//! The account's state and the handle to it: time, faults, events, metrics.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::error::Ec2Error;
use super::faults::{Call, Faults, LaunchFault, OfferingPattern};
use super::objects::account::Account;
use super::objects::addresses::Addresses;
use super::objects::facts::RegionFacts;
use super::objects::fleet::Fleet;
use super::objects::instance::{Ec2Event, Instance, InstanceState, PlannedEvent};
use super::objects::offering::{CapacityType, Offering};
use super::objects::template::LaunchTemplate;
use super::throttling::Buckets;

/// EC2 in memory. Clones share one account.
#[derive(Debug, Clone)]
pub struct Ec2 {
    state: Arc<Mutex<State>>,
}

/// A change of an instance that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Run,
    FailToStart,
    Interrupt,
    Stopped,
    Terminated,
    Forget,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) account: Account,
    pub(super) now: Timestamp,
    next_id: u64,
    pub(super) instances: BTreeMap<String, Instance>,
    pub(super) fleets: BTreeMap<String, Fleet>,
    pub(super) launch_templates: BTreeMap<String, LaunchTemplate>,
    /// Answers to calls with a client token: the request in JSON, the answer in JSON, and the time.
    pub(super) tokens: BTreeMap<(&'static str, String), (Value, Value, Timestamp)>,
    /// The remaining capacity; an absent offering is unlimited.
    pub(super) capacity: BTreeMap<Offering, u64>,
    pub(super) faults: Faults,
    pub(super) buckets: Buckets,
    schedule: BTreeSet<(Timestamp, String, Due)>,
    events: VecDeque<Ec2Event>,
    /// Dollars spent on terminated instances.
    spent: f64,
    /// The number of launched instances.
    launched: usize,
    /// Addresses by subnet.
    pub(super) addresses: BTreeMap<String, Addresses>,
}

impl Ec2 {
    /// An account at a time.
    pub fn new(account: Account, now: Timestamp) -> Self {
        let state = State {
            account,
            now,
            next_id: 1,
            instances: BTreeMap::new(),
            fleets: BTreeMap::new(),
            launch_templates: BTreeMap::new(),
            tokens: BTreeMap::new(),
            capacity: BTreeMap::new(),
            faults: Faults::default(),
            buckets: Buckets::default(),
            schedule: BTreeSet::new(),
            events: VecDeque::new(),
            spent: 0.0,
            launched: 0,
            addresses: BTreeMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one API call: injected errors and throttling first, then the call, and the record of both.
    pub(super) fn call<T>(
        &self,
        service: &'static str,
        api: &str,
        parameters: &impl Serialize,
        run: impl FnOnce(&mut State) -> Result<T, Ec2Error>,
    ) -> Result<T, Ec2Error> {
        let mut state = self.lock();
        let answer = match state.faults.next(service, api) {
            Some(error) => Err(error),
            None if !state.has_token(service, api) => Err(Ec2Error::throttled_by(service)),
            None => run(&mut state),
        };
        let parameters = serde_json::to_value(parameters).map_or(Value::Null, without_empty);
        let error = answer.as_ref().err().map(|error| error.code.clone());
        let at = state.now;
        state.faults.record(Call { service, api: api.to_owned(), parameters, at, error });
        answer
    }

    /// The virtual time.
    pub fn now(&self) -> Timestamp {
        self.lock().now
    }

    /// Advances time: everything that is due until `now` happens, in the order of its time. Time never decreases; an earlier
    /// `now` changes nothing.
    pub fn advance_to(&self, now: Timestamp) {
        self.lock().advance_to(now);
    }

    /// When the next change is due, if any is.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.lock().schedule.first().map(|(at, _, _)| *at)
    }

    /// Takes the events since the last call, oldest first.
    pub fn drain_events(&self) -> Vec<Ec2Event> {
        self.lock().events.drain(..).collect()
    }

    /// All instances that are still described, regardless of the visibility delay.
    pub fn instances(&self) -> Vec<Instance> {
        self.lock().instances.values().cloned().collect()
    }

    /// The number of launched instances.
    pub fn launched(&self) -> usize {
        self.lock().launched
    }

    /// Changes an instance directly, where no API call does: when describe calls start to return it, when it was launched,
    /// whether its kubelet joins. Returns whether the instance exists.
    pub fn change_instance(&self, instance_id: &str, change: impl FnOnce(&mut Instance)) -> bool {
        self.lock().instances.get_mut(instance_id).map(change).is_some()
    }

    /// Changes the account directly, as a user would in the console: subnets, images, profiles, timing, prices.
    pub fn change_account(&self, change: impl FnOnce(&mut Account)) {
        change(&mut self.lock().account);
    }

    /// A copy of the account in its current state.
    pub fn account(&self) -> Account {
        self.lock().account.clone()
    }

    /// Reads the account in its current state.
    pub fn with_account<T>(&self, read: impl FnOnce(&Account) -> T) -> T {
        read(&self.lock().account)
    }

    /// The facts about the account's region.
    pub fn facts(&self) -> Arc<RegionFacts> {
        self.lock().account.facts.clone()
    }

    /// Limits the remaining capacity of an offering; `None` removes the limit.
    pub fn set_capacity(&self, offering: Offering, available: Option<u64>) {
        let mut state = self.lock();
        match available {
            Some(count) => drop(state.capacity.insert(offering, count)),
            None => drop(state.capacity.remove(&offering)),
        }
    }

    /// Makes the offerings fail with `InsufficientInstanceCapacity` until [`Ec2::restore`] is called.
    pub fn exhaust(&self, pattern: impl Into<OfferingPattern>) {
        self.refuse(pattern, Ec2Error::new("InsufficientInstanceCapacity", ""));
    }

    /// Limits the total number of machines of the offerings, and makes further ones fail with `InsufficientInstanceCapacity`,
    /// until [`Ec2::restore`] is called.
    pub fn run_short(&self, pattern: impl Into<OfferingPattern>, left: u64) {
        self.lock().faults.scarce.push((pattern.into(), left));
    }

    /// Makes the offerings fail with any error, such as `VcpuLimitExceeded`, until [`Ec2::restore`] is called. An empty message
    /// is replaced by EC2's own about capacity.
    pub fn refuse(&self, pattern: impl Into<OfferingPattern>, error: Ec2Error) {
        self.lock().faults.refused.push((pattern.into(), error));
    }

    /// Removes every failure and every limit that was set with exactly this pattern.
    pub fn restore(&self, pattern: impl Into<OfferingPattern>) {
        let pattern = pattern.into();
        let faults = &mut self.lock().faults;
        faults.refused.retain(|(refused, _)| *refused != pattern);
        faults.scarce.retain(|(scarce, _)| *scarce != pattern);
    }

    /// The next `times` calls of an API get `RequestLimitExceeded`.
    pub fn throttle(&self, api: &str, times: u32) {
        self.lock().faults.script(api, None, times);
    }

    /// The next `times` calls of an API fail with this error, and change nothing.
    pub fn fail_next(&self, api: &str, error: &Ec2Error, times: u32) {
        self.lock().faults.script(api, Some(error), times);
    }

    /// Every call of an EC2 API is unauthorized until [`Ec2::allow`].
    pub fn deny(&self, api: &str) {
        let mut state = self.lock();
        let error = Ec2Error::unauthorized("ec2", api, &state.account.id);
        state.faults.stand(api, Some(error));
    }

    /// Reverts [`Ec2::deny`].
    pub fn allow(&self, api: &str) {
        self.lock().faults.stand(api, None);
    }

    /// Whether calls of an EC2 API are unauthorized because of [`Ec2::deny`].
    pub fn denies(&self, api: &str) -> bool {
        self.lock().faults.stands(api)
    }

    /// Injects a fault into the next `times` machines of these offerings.
    pub fn spoil_launches(&self, pattern: impl Into<OfferingPattern>, fault: LaunchFault, times: u32) {
        self.lock().faults.spoil_launches(pattern.into(), fault, times);
    }

    /// Removes the faults of machines that are launched from now on.
    pub fn end_launch_faults(&self) {
        self.lock().faults.end_launch_faults();
    }

    /// EC2 interrupts a spot instance: the warning is sent now, and the instance is terminated after the warning time.
    ///
    /// # Errors
    /// When there is no such running spot instance.
    pub fn interrupt_spot(&self, instance_id: &str) -> Result<Value, Ec2Error> {
        self.lock().interrupt_spot(instance_id)
    }

    /// The instance status check of a running instance fails from now on. Returns whether it passed before.
    pub fn impair(&self, instance_id: &str) -> bool {
        self.fail_check(instance_id, |instance| &mut instance.impaired_since)
    }

    /// The system status check of a running instance fails from now on. Returns whether it passed before.
    pub fn impair_system(&self, instance_id: &str) -> bool {
        self.fail_check(instance_id, |instance| &mut instance.system_impaired_since)
    }

    /// Both status checks of an instance pass again.
    pub fn pass_checks(&self, instance_id: &str) {
        self.change_instance(instance_id, |instance| {
            (instance.impaired_since, instance.system_impaired_since) = (None, None);
        });
    }

    fn fail_check(&self, instance_id: &str, check: impl Fn(&mut Instance) -> &mut Option<Timestamp>) -> bool {
        let mut state = self.lock();
        let now = state.now;
        let Some(instance) = state.instances.get_mut(instance_id) else { return false };
        let running = instance.state == InstanceState::Running;
        let since = check(instance);
        let passed = running && since.is_none();
        if passed {
            *since = Some(now);
        }
        passed
    }

    /// Schedules an event for a pending or running instance, such as `instance-retirement`. Returns whether the instance exists.
    pub fn plan_event(&self, instance_id: &str, code: &str, not_before: Timestamp) -> bool {
        let mut state = self.lock();
        let id = state.new_id("instance-event");
        let Some(instance) = state.instances.get_mut(instance_id).filter(|instance| instance.state.is_alive()) else {
            return false;
        };
        let description = format!("The instance is scheduled for {code}");
        instance.planned.push(PlannedEvent { id, code: code.to_owned(), description, not_before });
        true
    }

    /// Cancels the scheduled events of an instance. EC2 still lists them for a while.
    pub fn call_off_events(&self, instance_id: &str) {
        if let Some(instance) = self.lock().instances.get_mut(instance_id) {
            for event in &mut instance.planned {
                event.description = format!("[Canceled] {}", event.description);
            }
        }
    }

    /// EC2 recommends rebalancing a spot instance.
    ///
    /// # Errors
    /// When there is no such running spot instance.
    pub fn recommend_rebalance(&self, instance_id: &str) -> Result<Value, Ec2Error> {
        let mut state = self.lock();
        state.alive_spot(instance_id)?;
        let detail = json!({ "instance-id": instance_id });
        let event = state.event("EC2 Instance Rebalance Recommendation", instance_id, &detail);
        let instance_id = instance_id.to_owned();
        state.events.push_back(Ec2Event::RebalanceRecommendation { instance_id, event: event.clone() });
        Ok(event)
    }

    /// The owner of an interruptible capacity reservation reclaims the capacity of an instance: EC2 sends a warning, and terminates the
    /// instance as long afterwards as a spot instance.
    ///
    /// # Errors
    /// When there is no such running instance in an interruptible reservation.
    pub fn reclaim_capacity(&self, instance_id: &str) -> Result<Value, Ec2Error> {
        let mut state = self.lock();
        let id = state.instances.get(instance_id).and_then(|it| it.capacity_reservation_id.clone());
        let reservation = state.account.capacity_reservations.iter_mut().find(|it| Some(&it.id) == id.as_ref());
        let Some(reservation) = reservation.filter(|it| it.interruptible) else {
            return Err(Ec2Error::instance_not_found(&[instance_id.to_owned()]));
        };
        reservation.total = reservation.total.saturating_sub(1);
        let detail = json!({ "instance-id": instance_id, "instance-action": "terminate" });
        let event = state.event("EC2 Capacity Reservation Instance Interruption Warning", instance_id, &detail);
        let at = state.now.saturating_add(state.account.timing.spot_warning).unwrap_or(Timestamp::MAX);
        state.due(at, instance_id, Due::Interrupt);
        let instance_id = instance_id.to_owned();
        state.events.push_back(Ec2Event::CapacityReclaimed { instance_id, event: event.clone() });
        Ok(event)
    }

    /// The last calls, oldest first: at most 10,000.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().faults.calls()
    }

    /// The number of calls of each API, by `service:Api`.
    pub fn call_counts(&self) -> BTreeMap<String, u64> {
        self.lock().faults.counts()
    }

    /// The cost of the instances so far in dollars, billed by the second, at least a minute each.
    pub fn spent(&self) -> f64 {
        let state = self.lock();
        let alive = state.instances.values().filter(|instance| instance.stopped.is_none());
        state.spent + alive.map(|instance| cost(instance, state.now)).sum::<f64>()
    }

    /// The current hourly price of the running instances in dollars.
    pub fn hourly_price(&self) -> f64 {
        let state = self.lock();
        state.instances.values().filter(|i| i.state.is_alive()).map(|i| i.price).fold(0.0, |sum, price| sum + price)
    }
}

fn cost(instance: &Instance, until: Timestamp) -> f64 {
    let seconds = until.duration_since(instance.launched).as_secs_f64().max(60.0);
    instance.price * seconds / 3600.0
}

/// Drops members without a value, which are frequent in requests.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .map(|(name, member)| (name, without_empty(member)))
                .filter(|(_, member)| {
                    !member.is_null()
                        && *member != Value::Bool(false)
                        && member.as_array().is_none_or(|list| !list.is_empty())
                })
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.into_iter().map(without_empty).collect()),
        other => other,
    }
}

impl State {
    fn has_token(&mut self, service: &'static str, api: &str) -> bool {
        self.buckets.take(service, api, self.now)
    }

    /// Whether the account may launch this number of instances now, by the bucket that counts launched instances.
    ///
    /// # Errors
    /// EC2's own if it may not.
    pub(super) fn check_launch_rate(&mut self, instances: u32) -> Result<(), Ec2Error> {
        let allowed = self.buckets.may_launch(instances, self.account.launches_at_once, self.now);
        if allowed { Ok(()) } else { Err(Ec2Error::throttled()) }
    }

    /// Counts the instances of a call of an action that starts, stops or terminates them.
    ///
    /// # Errors
    /// EC2's own if there were too many; the state of none may be changed then.
    pub(super) fn count_instances(&mut self, action: &'static str, instances: usize) -> Result<(), Ec2Error> {
        if self.buckets.take_instances(action, instances, self.now) { Ok(()) } else { Err(Ec2Error::throttled()) }
    }

    /// A new id: prefix and seventeen hexadecimal digits.
    pub(super) fn new_id(&mut self, prefix: &str) -> String {
        let number = self.next_id;
        self.next_id += 1;
        format!("{prefix}-0{number:016x}")
    }

    fn event(&mut self, detail_type: &str, instance_id: &str, detail: &Value) -> Value {
        let number = self.next_id;
        self.next_id += 1;
        let id = format!("00000000-0000-4000-8000-{number:012x}");
        self.account.event(&id, detail_type, self.now, instance_id, detail)
    }

    fn due(&mut self, at: Timestamp, id: &str, due: Due) {
        self.schedule.insert((at, id.to_owned(), due));
    }

    /// Adds an instance that was just launched.
    pub(super) fn begin(&mut self, instance: Instance) {
        let id = instance.id.clone();
        let fault = self.faults.take_launch_fault(&instance.offering);
        let joins = !matches!(fault, Some(LaunchFault::NeverStarts | LaunchFault::NeverJoins));
        self.instances.insert(id.clone(), Instance { joins, ..instance });
        self.launched += 1;
        self.emit_state(&id, InstanceState::Pending);
        let at = self.now.saturating_add(self.account.timing.start_up).unwrap_or(Timestamp::MAX);
        match fault {
            Some(LaunchFault::NeverStarts) => {}
            Some(LaunchFault::FailsToStart) => self.due(at, &id, Due::FailToStart),
            Some(LaunchFault::NeverJoins) | None => self.due(at, &id, Due::Run),
        }
    }

    fn advance_to(&mut self, now: Timestamp) {
        while let Some((at, id, due)) = self.schedule.first().cloned().filter(|(at, _, _)| *at <= now) {
            self.schedule.pop_first();
            self.now = self.now.max(at);
            self.happen(&id, due);
        }
        self.now = self.now.max(now);
        let lifetime = self.account.timing.client_token;
        self.tokens.retain(|_, (_, _, at)| now.duration_since(*at) < lifetime);
    }

    fn happen(&mut self, id: &str, due: Due) {
        let Some(state) = self.instances.get(id).map(|instance| instance.state) else { return };
        match (due, state) {
            (Due::Run, InstanceState::Pending) => self.set_state(id, InstanceState::Running),
            (Due::FailToStart, InstanceState::Pending) => {
                let reason = ("Server.InternalError", "Server.InternalError: Internal error on launch");
                self.stop(id, reason.0, reason.1);
                self.finish(id);
            }
            (Due::Interrupt, state) if state.is_alive() => {
                let message = "Server.SpotInstanceTermination: Instance termination due to Spot interruption";
                self.stop(id, "Server.SpotInstanceTermination", message);
            }
            (Due::Stopped, InstanceState::Stopping) => {
                self.give_back(id);
                self.set_state(id, InstanceState::Stopped);
            }
            (Due::Terminated, InstanceState::ShuttingDown) => self.finish(id),
            (Due::Forget, InstanceState::Terminated) => {
                if let Some(instance) = self.instances.remove(id) {
                    self.account.tags.remove(&instance.volume_id);
                    self.account.tags.remove(&instance.network_interface_id);
                }
            }
            _ => {}
        }
    }

    /// Stops a pending or running instance.
    pub(super) fn halt(&mut self, id: &str) {
        let now = self.now;
        let Some(instance) = self.instances.get_mut(id).filter(|instance| instance.state.is_alive()) else { return };
        instance.stopped = Some(now);
        let code = "Client.UserInitiatedShutdown";
        instance.state_reason = Some((code.to_owned(), format!("{code}: User initiated shutdown")));
        self.spent += cost(instance, now);
        let at = now.saturating_add(self.account.timing.shut_down).unwrap_or(Timestamp::MAX);
        self.set_state(id, InstanceState::Stopping);
        self.due(at, id, Due::Stopped);
    }

    /// Starts a stopped instance, whose capacity was taken. It keeps its network interface and addresses.
    pub(super) fn restart(&mut self, id: &str) {
        let now = self.now;
        let Some(instance) = self.instances.get_mut(id) else { return };
        (instance.stopped, instance.state_reason) = (None, None);
        (instance.launched, instance.restarted, instance.uses_capacity) = (now, true, true);
        self.set_state(id, InstanceState::Pending);
        let at = now.saturating_add(self.account.timing.start_up).unwrap_or(Timestamp::MAX);
        self.due(at, id, Due::Run);
    }

    /// Starts the termination of an instance.
    pub(super) fn stop(&mut self, id: &str, code: &str, message: &str) {
        let now = self.now;
        let Some(instance) = self.instances.get_mut(id).filter(|instance| instance.state.exists()) else { return };
        let ran = instance.state.is_alive();
        instance.stopped = Some(now);
        instance.state_reason = Some((code.to_owned(), message.to_owned()));
        if ran {
            self.spent += cost(instance, now);
        }
        let at = now.saturating_add(self.account.timing.shut_down).unwrap_or(Timestamp::MAX);
        self.set_state(id, InstanceState::ShuttingDown);
        self.due(at, id, Due::Terminated);
    }

    fn finish(&mut self, id: &str) {
        self.set_state(id, InstanceState::Terminated);
        let at = self.now.saturating_add(self.account.timing.terminated_visible).unwrap_or(Timestamp::MAX);
        self.due(at, id, Due::Forget);
        let Some(instance) = self.instances.get(id) else { return };
        if let Some(subnet) = self.account.subnets.iter_mut().find(|subnet| subnet.id == instance.subnet_id) {
            subnet.free_addresses += 1;
        }
        if let Some(pool) = self.addresses.get_mut(&instance.subnet_id) {
            pool.free(&instance.private_ip);
        }
        self.give_back(id);
    }

    /// Gives back the capacity that an instance uses, if it uses any.
    fn give_back(&mut self, id: &str) {
        let Some(instance) = self.instances.get_mut(id).filter(|instance| instance.uses_capacity) else { return };
        instance.uses_capacity = false;
        if let Some(count) = self.capacity.get_mut(&instance.offering) {
            *count += 1;
        }
        let reservations = &mut self.account.capacity_reservations;
        if let Some(reservation) =
            reservations.iter_mut().find(|r| Some(&r.id) == instance.capacity_reservation_id.as_ref())
        {
            // Capacity that its owner reclaimed is not available again.
            reservation.available = (reservation.available + 1).min(reservation.total);
        }
    }

    fn set_state(&mut self, id: &str, state: InstanceState) {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.state = state;
        }
        self.emit_state(id, state);
    }

    fn emit_state(&mut self, id: &str, state: InstanceState) {
        let detail = json!({ "instance-id": id, "state": state.as_str() });
        let event = self.event("EC2 Instance State-change Notification", id, &detail);
        self.events.push_back(Ec2Event::StateChange { instance_id: id.to_owned(), event });
        let Some(instance) = self.instances.get(id).cloned().map(Box::new) else { return };
        match state {
            InstanceState::Pending | InstanceState::Stopped => {}
            InstanceState::Running => self.events.push_back(Ec2Event::InstanceRunning { instance }),
            InstanceState::Stopping => self.events.push_back(Ec2Event::InstanceStopping { instance }),
            InstanceState::ShuttingDown => self.events.push_back(Ec2Event::InstanceShuttingDown { instance }),
            InstanceState::Terminated => self.events.push_back(Ec2Event::InstanceTerminated { instance }),
        }
    }

    fn alive_spot(&self, id: &str) -> Result<(), Ec2Error> {
        let instance = self.instances.get(id).filter(|instance| instance.state.is_alive());
        match instance.map(|instance| instance.offering.capacity_type) {
            Some(CapacityType::Spot) => Ok(()),
            Some(CapacityType::OnDemand) => {
                Err(Ec2Error::new("IncorrectInstanceState", format!("The instance '{id}' is not a Spot instance")))
            }
            None => Err(Ec2Error::instance_not_found(&[id.to_owned()])),
        }
    }

    fn interrupt_spot(&mut self, id: &str) -> Result<Value, Ec2Error> {
        self.alive_spot(id)?;
        let detail = json!({ "instance-id": id, "instance-action": "terminate" });
        let event = self.event("EC2 Spot Instance Interruption Warning", id, &detail);
        let at = self.now.saturating_add(self.account.timing.spot_warning).unwrap_or(Timestamp::MAX);
        self.due(at, id, Due::Interrupt);
        self.events.push_back(Ec2Event::SpotInterruption { instance_id: id.to_owned(), event: event.clone() });
        Ok(event)
    }
}
