//! Launch budgets: how many launches of one offering may be in progress at once.
//!
//! EC2 launches of an offering are requested in rounds. The first round is [`INITIAL`]; if all of them succeeded, the next one
//! may be twice as large. After a shortage, the round is [`AFTER_SHORTAGE`] once the shortage is over, so that a plan for
//! thousands of nodes does not fail again every three minutes. Records expire after [`KEPT_FOR`].

use crate::shortage;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::CapacityType;
use nodeless_model::claim::{LaunchBudget, OfferingKey};
use nodeless_model::instance::LaunchOutcome;
use std::collections::BTreeMap;

/// The initial number of launches of an offering that may be in progress: as many as one CreateFleet call requests, so that an
/// ordinary scale-up does not wait.
pub const INITIAL: u32 = 100;
/// The number after a shortage: enough for the usual launches of a NodePool, and few enough that a rejection costs little.
pub const AFTER_SHORTAGE: u32 = 8;
/// How long a result is used.
pub const KEPT_FOR: SignedDuration = SignedDuration::from_mins(30);
/// The maximum price ratio to the cheapest offering of an offering that replaces it when its budget is used up: waiting for the
/// next round takes seconds, and a node costs for hours.
const DEARER: f64 = 1.25;

/// The changes of the budgets after the answer to a launch: those to raise, and those to reset.
#[must_use]
pub fn changes(outcome: &LaunchOutcome, now: Timestamp) -> (Vec<LaunchBudget>, Vec<LaunchBudget>) {
    let until = now.checked_add(KEPT_FOR).unwrap_or(Timestamp::MAX);
    let budget = |offering, size| LaunchBudget { offering, size, until };
    let mut came: BTreeMap<OfferingKey, u32> = BTreeMap::new();
    for instance in &outcome.instances {
        let key = OfferingKey {
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            capacity_type: instance.capacity_type,
        };
        *came.entry(key).or_default() += 1;
    }
    let mut short: Vec<LaunchBudget> = Vec::new();
    for failure in outcome.failures.iter().filter(|failure| failure.lacks_capacity) {
        let key = OfferingKey {
            instance_type: failure.instance_type.clone(),
            zone: failure.zone.clone(),
            capacity_type: failure.capacity_type,
        };
        came.remove(&key);
        // Other launches of the offering are not affected by what a placement group lacks.
        let of_group = shortage::shortage(failure).is_some_and(|shortage| shortage.placement_group.is_some());
        if !of_group && !short.iter().any(|known| known.offering == key) {
            short.push(budget(key, AFTER_SHORTAGE));
        }
    }
    let raised = came.into_iter().map(|(offering, count)| budget(offering, count.saturating_mul(2)));
    (raised.filter(|budget| budget.size > AFTER_SHORTAGE).collect(), short)
}

/// An offering that a launch may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usable<'a> {
    /// The instance type.
    pub instance_type: &'a str,
    /// The zone, by name.
    pub zone: &'a str,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// Dollars per hour.
    pub price: f64,
}

impl Usable<'_> {
    fn key(&self) -> OfferingKey {
        let (instance_type, zone) = (self.instance_type.to_owned(), self.zone.to_owned());
        OfferingKey { instance_type, zone, capacity_type: self.capacity_type }
    }
}

/// Equal launches that may be requested now, together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of launches.
    pub count: usize,
    /// The offerings whose budget is smaller than this number; they must not be used.
    pub avoided: Vec<OfferingKey>,
}

/// The remaining budgets in one plan.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    /// The remaining budgets, by instance type; an offering that is missing has all of [`INITIAL`].
    left: BTreeMap<String, BTreeMap<(String, CapacityType), u32>>,
}

impl Budgets {
    /// These budgets, and the initial ones of all other offerings.
    #[must_use]
    pub fn new(written: Vec<LaunchBudget>) -> Self {
        let mut budgets = Self::default();
        for LaunchBudget { offering, size, .. } in written {
            let of_type = budgets.left.entry(offering.instance_type).or_default();
            of_type.insert((offering.zone, offering.capacity_type), size);
        }
        budgets
    }

    fn left(&self, offering: &Usable<'_>) -> u32 {
        // The available capacity of a reservation is known exactly.
        if offering.capacity_type == CapacityType::Reserved {
            return u32::MAX;
        }
        let of_type = self.left.get(offering.instance_type);
        let written = of_type.and_then(|all| all.get(&(offering.zone.to_owned(), offering.capacity_type)));
        written.copied().unwrap_or(INITIAL)
    }

    fn take(&mut self, offering: &Usable<'_>, count: u32) {
        let left = self.left(offering).saturating_sub(count);
        if offering.capacity_type != CapacityType::Reserved {
            let of_type = self.left.entry(offering.instance_type.to_owned()).or_default();
            of_type.insert((offering.zone.to_owned(), offering.capacity_type), left);
        }
    }

    /// Subtracts what launches in progress may use: from the offering that EC2 is most likely to choose.
    pub fn charge(&mut self, count: usize, offerings: &[Usable<'_>], avoided: &[OfferingKey]) {
        let mut rest = u32::try_from(count).unwrap_or(u32::MAX);
        for offering in preferred(offerings) {
            if rest == 0 {
                return;
            }
            let taken = self.left(&offering).min(rest);
            if taken > 0 && !avoided.contains(&offering.key()) {
                self.take(&offering, taken);
                rest -= taken;
            }
        }
    }

    /// Divides equal launches into those that may be requested now, at most `together` at a time, and subtracts them from the
    /// budgets. The remainder waits for the next round.
    pub fn shares(&mut self, count: usize, offerings: &[Usable<'_>], together: usize) -> Vec<Share> {
        let of_kind = preferred(offerings);
        let most = of_kind.first().map_or(0.0, |cheapest| cheapest.price * DEARER);
        let mut rest = count;
        let mut shares = Vec::new();
        while rest > 0 {
            let may = |offering: &&Usable<'_>| offering.price <= most && self.left(offering) > 0;
            let Some(chosen) = of_kind.iter().find(may).copied() else { break };
            let most = u32::try_from(rest.min(together.max(1))).unwrap_or(u32::MAX);
            let taken = self.left(&chosen).min(most);
            let lacks = |offering: &&Usable<'_>| self.left(offering) < taken;
            let avoided = of_kind.iter().filter(lacks).map(Usable::key).collect();
            self.take(&chosen, taken);
            let taken = usize::try_from(taken).unwrap_or(rest);
            shares.push(Share { count: taken, avoided });
            rest = rest.saturating_sub(taken);
        }
        shares
    }
}

/// The offerings of the capacity type that a launch uses, reserved first and then spot, the cheapest first.
fn preferred<'a>(offerings: &[Usable<'a>]) -> Vec<Usable<'a>> {
    let Some(kind) = offerings.iter().map(|offering| offering.capacity_type).min() else { return Vec::new() };
    let mut preferred: Vec<Usable<'_>> =
        offerings.iter().filter(|offering| offering.capacity_type == kind).copied().collect();
    preferred.sort_by(|a, b| {
        a.price.total_cmp(&b.price).then_with(|| (a.instance_type, a.zone).cmp(&(b.instance_type, b.zone)))
    });
    preferred
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::instance::{Instance, InstanceState, OfferingFailure};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn usable(instance_type: &'static str, zone: &'static str, price: f64) -> Usable<'static> {
        Usable { instance_type, zone, capacity_type: CapacityType::OnDemand, price }
    }

    fn budget(offering: &Usable<'_>, size: u32) -> LaunchBudget {
        LaunchBudget { offering: offering.key(), size, until: NOW }
    }

    fn counts(shares: &[Share]) -> Vec<usize> {
        shares.iter().map(|share| share.count).collect()
    }

    fn outcome(instances: usize, short: bool) -> LaunchOutcome {
        let instance = |number: usize| Instance {
            id: format!("i-{number}"),
            state: InstanceState::Pending,
            instance_type: "m5.large".into(),
            zone: "a".into(),
            capacity_type: CapacityType::OnDemand,
            image_id: String::new(),
            subnet_id: None,
            security_group_ids: Vec::new(),
            private_dns_name: None,
            reservation_id: None,
            partition: None,
            launched: NOW,
            tags: nodeless_model::StringMap::new(),
        };
        let failure = OfferingFailure {
            instance_type: "m5.large".into(),
            zone: "a".into(),
            capacity_type: CapacityType::OnDemand,
            code: "InsufficientInstanceCapacity".into(),
            message: String::new(),
            lacks_capacity: true,
            placement_group: None,
            partition: None,
            reservation_id: None,
        };
        LaunchOutcome {
            instances: (0..instances).map(instance).collect(),
            failures: short.then_some(failure).into_iter().collect(),
        }
    }

    #[test]
    fn success_doubles_and_shortage_resets() {
        let sizes = |(raised, reset): (Vec<LaunchBudget>, Vec<LaunchBudget>)| {
            let size = |budgets: Vec<LaunchBudget>| budgets.first().map(|budget| budget.size);
            (size(raised), size(reset))
        };
        assert_eq!(sizes(changes(&outcome(100, false), NOW)), (Some(200), None));
        assert_eq!(sizes(changes(&outcome(8, false), NOW)), (Some(16), None));
        // A few successful launches do not raise the budget, and a partial launch is a shortage.
        assert_eq!(sizes(changes(&outcome(3, false), NOW)), (None, None));
        assert_eq!(sizes(changes(&outcome(60, true), NOW)), (None, Some(AFTER_SHORTAGE)));
        assert_eq!(changes(&outcome(0, true), NOW).1[0].until, NOW + KEPT_FOR);
    }

    #[test]
    fn a_shortage_in_a_placement_group_leaves_the_budget_of_the_offering() {
        let mut outcome = outcome(60, true);
        outcome.failures[0].placement_group = Some("pg-1".into());
        assert_eq!(changes(&outcome, NOW), (Vec::new(), Vec::new()));
    }

    #[test]
    fn an_ordinary_scale_up_is_one_call() {
        let offerings = [usable("m5.large", "a", 0.1), usable("m5.xlarge", "a", 0.2)];
        let shares = Budgets::default().shares(100, &offerings, 100);
        assert_eq!(shares, [Share { count: 100, avoided: Vec::new() }]);
    }

    #[test]
    fn launches_beyond_a_budget_use_offerings_of_about_the_same_price_or_wait() {
        let (a, b, dear) =
            (usable("m5.large", "a", 0.1), usable("m5a.large", "a", 0.11), usable("m5.4xlarge", "a", 0.8));
        let mut budgets = Budgets::default();
        let shares = budgets.shares(250, &[dear, b, a], 100);
        assert_eq!(counts(&shares), [100, 100], "50 wait");
        assert!(shares[0].avoided.is_empty());
        assert_eq!(shares[1].avoided, [a.key()]);
        assert!(budgets.shares(1, &[a, b], 100).is_empty());
        // The budget of a reservation is its available capacity.
        let reserved = Usable { capacity_type: CapacityType::Reserved, ..a };
        assert_eq!(counts(&budgets.shares(150, &[a, reserved], 100)), [100, 50]);
    }

    #[test]
    fn after_a_shortage_a_few_launches_are_tried_and_the_others_use_other_offerings() {
        let (a, b) = (usable("m5.large", "a", 0.1), usable("m5.large", "b", 0.1));
        let mut budgets = Budgets::new(vec![budget(&a, AFTER_SHORTAGE)]);
        let shares = budgets.shares(50, &[a, b], 100);
        assert_eq!(counts(&shares), [8, 42]);
        assert_eq!((shares[0].avoided.len(), shares[1].avoided.clone()), (0, vec![a.key()]));
        let mut alone = Budgets::new(vec![budget(&a, 16)]);
        assert_eq!(counts(&alone.shares(50, &[a], 100)), [16]);
    }

    #[test]
    fn launches_in_progress_reduce_the_budget() {
        let (a, b) = (usable("m5.large", "a", 0.1), usable("m5.large", "b", 0.1));
        let mut budgets = Budgets::new(vec![budget(&a, 16)]);
        budgets.charge(10, &[a, b], &[]);
        budgets.charge(95, &[a, b], &[a.key()]);
        assert_eq!(counts(&budgets.shares(50, &[a, b], 100)), [6, 5]);
    }
}
