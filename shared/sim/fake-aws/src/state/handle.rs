//! What tests and scenarios do with an account besides calls: time, faults, events, metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Due, Ec2, cost};
use crate::error::Ec2Error;
use crate::faults::{LaunchFault, OfferingPattern, RecordedCall};
use crate::objects::account::Account;
use crate::objects::facts::RegionFacts;
use crate::objects::instance::{Ec2Event, Instance, InstanceState, PlannedEvent};
use crate::objects::offering::Offering;

impl Ec2 {
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
    pub fn calls(&self) -> Vec<RecordedCall> {
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
