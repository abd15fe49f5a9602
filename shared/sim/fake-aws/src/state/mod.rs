//! The account's state, how it changes with time, and the handle to it.

mod handle;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::error::Ec2Error;
use super::faults::{Faults, LaunchFault, RecordedCall};
use super::objects::account::Account;
use super::objects::addresses::Addresses;
use super::objects::fleet::Fleet;
use super::objects::instance::{Ec2Event, Instance, InstanceState};
use super::objects::offering::{CapacityType, Offering};
use super::objects::template::LaunchTemplate;
use super::throttling::Buckets;

/// EC2 in memory. Clones share one account.
#[derive(Debug, Clone)]
pub struct Ec2 {
    state: Arc<Mutex<AccountState>>,
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
pub(super) struct AccountState {
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
        let state = AccountState {
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

    pub(super) fn lock(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one API call: injected errors and throttling first, then the call, and the record of both.
    pub(super) fn call<T>(
        &self,
        service: &'static str,
        api: &str,
        parameters: &impl Serialize,
        run: impl FnOnce(&mut AccountState) -> Result<T, Ec2Error>,
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
        state.faults.record(RecordedCall { service, api: api.to_owned(), parameters, at, error });
        answer
    }
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

fn cost(instance: &Instance, until: Timestamp) -> f64 {
    let seconds = until.duration_since(instance.launched).as_secs_f64().max(60.0);
    instance.price * seconds / 3600.0
}

impl AccountState {
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

    /// Reboots a running instance.
    pub(super) fn reboot(&mut self, id: &str) {
        let running = self.instances.get_mut(id).filter(|instance| instance.state == InstanceState::Running);
        let Some(instance) = running else { return };
        instance.restarted = true;
        let instance = Box::new(instance.clone());
        self.events.push_back(Ec2Event::InstanceRebooted { instance });
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
