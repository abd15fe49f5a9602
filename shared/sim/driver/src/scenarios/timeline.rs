//! The timeline of a run: drawn from the seed before the run begins, so that nothing in the run changes it.

use super::action::DENIABLE;
use super::{
    Action, BadMachines, ChangePrices, Denial, Misconfiguration, Misconfigure, OneZone, Outage, Quota, Recreate,
    Restore, Scale, Scenario, ScenarioError, Shortage, SlowCalls, SlowDetachments, SomePods, durations,
};
use jiff::{SignedDuration, Timestamp};
use nodeless_world::random::Random;
use std::collections::BTreeMap;

/// A change from outside.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Scale {
        kind: String,
        namespace: String,
        name: String,
        to: Size,
    },
    Action(Action),
    /// The claims table is backed up, because it will be restored to this time.
    BackUpTable,
}

/// What a workload is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// So many replicas.
    Replicas(u32),
    /// Work for so many CPUs.
    Load(u32),
}

/// Entries by time, and by number for equal times.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    entries: BTreeMap<(Timestamp, usize), Entry>,
}

impl Timeline {
    pub(crate) fn new(scenario: &Scenario, seed: u64, hours: u32) -> Result<Self, ScenarioError> {
        let mut timeline = Self::default();
        let end = after(scenario.start, SignedDuration::from_hours(i64::from(hours)));
        let scale = scenario.scale.iter().map(|scale| ("scale", scale));
        let sizes: Vec<(&str, &Scale)> = scale.chain(scenario.load.iter().map(|load| ("load", load))).collect();
        let shares = sizes.iter().map(|(what, scale)| (*what, &scale.name, scale.jitter));
        let shares = shares.chain(scenario.jobs.iter().map(|jobs| ("jobs", &jobs.name, jobs.jitter)));
        for (what, name, jitter) in shares {
            if !(0.0..=1.0).contains(&jitter) {
                return Err(value(
                    &format!("{what} {name}"),
                    &format!("jitter is {jitter}; it is a share, from 0 to 1"),
                ));
            }
        }
        for (what, scale) in sizes {
            let mut random = Random::for_purpose(seed, &format!("{what} {}", scale.name));
            let size = if what == "load" { Size::Load } else { Size::Replicas };
            timeline.add_scale(scenario, scale, size, &mut random, end)?;
        }
        for jobs in &scenario.jobs {
            let mut random = Random::for_purpose(seed, &format!("jobs {}", jobs.name));
            if jobs.every < SignedDuration::from_secs(1) {
                return Err(value(&format!("jobs {}", jobs.name), "every must be at least 1s"));
            }
            let mut at = scenario.start;
            for number in 0.. {
                at = after(at, spread(jobs.every, jobs.jitter, &mut random));
                if at >= end {
                    break;
                }
                timeline.add(at, Entry::Action(Action::Apply(jobs.object(number))));
            }
        }
        for action in &scenario.actions {
            if let Action::RestoreTable(Restore { ago }) = &action.action {
                timeline.add(after(scenario.start, action.after - *ago), Entry::BackUpTable);
            }
            timeline.add(after(scenario.start, action.after), Entry::Action(action.action.clone()));
        }
        timeline.add_faults(scenario, seed, hours);
        timeline.entries.retain(|(at, _), _| *at < end);
        Ok(timeline)
    }

    fn add(&mut self, at: Timestamp, what: Entry) {
        self.entries.insert((at, self.entries.len()), what);
    }

    /// When the next entry is due.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.entries.keys().next().map(|(at, _)| *at)
    }

    /// Takes the entries that are due.
    pub(crate) fn take(&mut self, now: Timestamp) -> Vec<Entry> {
        let mut due = Vec::new();
        while let Some(first) = self.entries.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        due
    }

    fn add_scale(
        &mut self,
        scenario: &Scenario,
        scale: &Scale,
        size: fn(u32) -> Size,
        random: &mut Random,
        end: Timestamp,
    ) -> Result<(), ScenarioError> {
        if !matches!(scale.kind.as_str(), "Deployment" | "StatefulSet") {
            return Err(value(&format!("scale {}", scale.name), "kind must be Deployment or StatefulSet"));
        }
        let add = |timeline: &mut Self, at: Timestamp, number: u32, random: &mut Random| {
            let late = spread(SignedDuration::from_hours(1), scale.jitter, random) - SignedDuration::from_hours(1);
            let entry = Entry::Scale {
                kind: scale.kind.clone(),
                namespace: scale.namespace.clone(),
                name: scale.name.clone(),
                to: size(jittered(number, scale.jitter, random)),
            };
            let at = if scale.jitter > 0.0 && !scale.daily.is_empty() { after(at, late) } else { at };
            timeline.add(at.max(scenario.start), entry);
        };
        for (text, number) in &scale.daily {
            let of_day = time_of_day(text).ok_or_else(|| {
                value(&format!("scale {}", scale.name), &format!("{text} is no time of day; write it like \"07:30\""))
            })?;
            let day = SignedDuration::from_hours(24);
            let since = i64::rem_euclid(scenario.start.as_second(), day.as_secs());
            let mut at = after(scenario.start, of_day - SignedDuration::from_secs(since));
            while at < end {
                if at >= scenario.start {
                    add(self, at, *number, random);
                }
                at = after(at, day);
            }
        }
        for (text, number) in &scale.after {
            let delay = durations::parse(text).map_err(|why| value(&format!("scale {}", scale.name), &why))?;
            add(self, after(scenario.start, delay), *number, random);
        }
        Ok(())
    }

    fn add_faults(&mut self, scenario: &Scenario, seed: u64, hours: u32) {
        let faults = &scenario.faults;
        let rates: [(&str, f64, Draw); 23] = [
            ("spot", faults.spot_interruptions_per_hour, |_, _| Action::InterruptSpot(1)),
            ("rebalance", faults.rebalances_per_hour, |_, _| Action::RebalanceSpot(1)),
            ("shortage", faults.shortages_per_hour, shortage),
            ("outage", faults.outages_per_hour, outage),
            ("slow calls", faults.slow_calls_per_hour, slow_calls),
            ("denial", faults.denials_per_hour, denial),
            ("quota", faults.quotas_per_hour, quota),
            ("zone", faults.zone_failures_per_hour, zone_failure),
            ("machine", faults.machine_failures_per_hour, |_, _| Action::KillMachines(1)),
            ("silent machine", faults.silent_machines_per_hour, |_, _| Action::SilenceMachines(1)),
            ("impaired machine", faults.impaired_machines_per_hour, |_, _| Action::ImpairMachines(1)),
            ("untagged machine", faults.untagged_machines_per_hour, |_, _| Action::UntagMachines(1)),
            ("bad machine", faults.bad_machines_per_hour, bad_machines),
            ("claim", faults.deleted_claims_per_hour, |_, _| Action::DeleteNodeClaims(1)),
            ("node", faults.deleted_nodes_per_hour, |_, _| Action::DeleteNodes(1)),
            ("misconfiguration", faults.misconfigurations_per_hour, misconfigure),
            ("recreated node pool", faults.recreated_node_pools_per_hour, recreate),
            ("unready pod", faults.unready_pods_per_hour, |_, random| Action::UnreadyPods(a_pod(random))),
            ("hanging pod", faults.hanging_pods_per_hour, |_, random| Action::HangingPods(a_pod(random))),
            ("detachments", faults.slow_detachments_per_hour, slow_detachments),
            ("spot prices", faults.spot_price_changes_per_hour, |_, _| change_prices("spot")),
            ("prices", faults.on_demand_price_changes_per_day / 24.0, |_, _| change_prices("on-demand")),
            ("image", faults.new_images_per_day / 24.0, |_, _| Action::NewImages(1)),
        ];
        for (purpose, per_hour, action) in rates {
            let mut random = Random::for_purpose(seed, purpose);
            for minute in 0..i64::from(hours) * 60 {
                // A probability above one per minute counts as one. No rate here is that high.
                if random.happens(per_hour / 60.0) {
                    let seconds = i64::try_from(random.below(60)).unwrap_or(0);
                    let at = after(scenario.start, SignedDuration::from_secs(minute * 60 + seconds));
                    let what = action(scenario, &mut random);
                    self.add(at, Entry::Action(what));
                }
            }
        }
    }
}

/// Draws the details of an action.
type Draw = fn(&Scenario, &mut Random) -> Action;

fn shortage(scenario: &Scenario, random: &mut Random) -> Action {
    const SIZES: [&str; 4] = ["large", "xlarge", "2xlarge", "4xlarge"];
    const FAMILIES: [&str; 6] = ["m6i", "c6i", "r6i", "m7i", "c7i", "m7g"];
    let families: Vec<String> = if scenario.instance_families.is_empty() {
        FAMILIES.map(str::to_owned).to_vec()
    } else {
        scenario.instance_families.clone()
    };
    let instance_type = match (random.pick(&families), random.pick(&SIZES)) {
        (Some(family), Some(size)) => Some(format!("{family}.{size}")),
        _ => None,
    };
    let zone = random.pick(&scenario.zones).cloned();
    let lasts = some_minutes(random);
    // No machine, or one or two more: then a launch of several gets fewer than it requested.
    let left = u64::try_from(lasts.as_secs() % 3).unwrap_or(0);
    match random.below(3) {
        0 => Action::Shortage(Shortage { instance_type, zone, capacity_type: None, left, lasts }),
        1 => Action::Shortage(Shortage {
            instance_type: None,
            zone,
            capacity_type: Some("spot".to_owned()),
            left,
            lasts,
        }),
        _ => Action::Shortage(Shortage { instance_type, zone: None, capacity_type: None, left, lasts }),
    }
}

fn outage(_: &Scenario, random: &mut Random) -> Action {
    const SERVICES: [&str; 6] = ["claims", "cluster", "cloud", "cloud launch", "cluster evict", "queue"];
    let of = random.pick(&SERVICES).copied().unwrap_or("cloud").to_owned();
    let lasts = SignedDuration::from_secs(i64::try_from(20 + random.below(160)).unwrap_or(20));
    Action::Outage(Outage { of, lasts, throttled: random.happens(0.5) })
}

fn slow_calls(_: &Scenario, random: &mut Random) -> Action {
    const SERVICES: [&str; 6] = ["claims", "cluster", "cloud", "cloud launch", "cluster evict", "queue"];
    let of = random.pick(&SERVICES).copied().unwrap_or("cluster").to_owned();
    let take = SignedDuration::from_secs(i64::try_from(1 + random.below(20)).unwrap_or(1));
    let lasts = SignedDuration::from_secs(i64::try_from(20 + random.below(160)).unwrap_or(20));
    Action::SlowCalls(SlowCalls { of, take, lasts })
}

fn denial(_: &Scenario, random: &mut Random) -> Action {
    let api = random.pick(&DENIABLE).copied().unwrap_or("CreateFleet").to_owned();
    let lasts = SignedDuration::from_secs(i64::try_from(30 + random.below(240)).unwrap_or(30));
    Action::Denial(Denial { api, lasts })
}

fn quota(_: &Scenario, random: &mut Random) -> Action {
    let capacity_type = random.pick(&["spot", "on-demand"]).copied().unwrap_or("spot").to_owned();
    Action::Quota(Quota { capacity_type, vcpus: random.below(12), lasts: some_minutes(random) })
}

fn zone_failure(scenario: &Scenario, random: &mut Random) -> Action {
    let zone = random.pick(&scenario.zones).cloned().unwrap_or_default();
    Action::ZoneFailure(OneZone { zone, lasts: some_minutes(random) })
}

fn change_prices(capacity_type: &str) -> Action {
    Action::ChangePrices(ChangePrices { capacity_type: capacity_type.to_owned(), share: 0.3 })
}

fn a_pod(random: &mut Random) -> SomePods {
    SomePods { count: 1, lasts: some_minutes(random) }
}

fn slow_detachments(_: &Scenario, random: &mut Random) -> Action {
    let take = SignedDuration::from_secs(i64::try_from(60 + random.below(360)).unwrap_or(60));
    Action::SlowDetachments(SlowDetachments { take, lasts: some_minutes(random) })
}

fn bad_machines(_: &Scenario, random: &mut Random) -> Action {
    const FAULTS: [&str; 3] = ["neverStarts", "neverJoins", "failsToStart"];
    Action::BadMachines(BadMachines {
        fault: random.pick(&FAULTS).copied().unwrap_or("neverJoins").to_owned(),
        count: 1,
    })
}

fn misconfigure(_: &Scenario, random: &mut Random) -> Action {
    const FAULTS: [Misconfiguration; 5] = [
        Misconfiguration::UnknownInstanceType,
        Misconfiguration::NoInstanceType,
        Misconfiguration::NoSubnets,
        Misconfiguration::NoSecurityGroups,
        Misconfiguration::NoAmis,
    ];
    let fault = random.pick(&FAULTS).copied().unwrap_or(Misconfiguration::UnknownInstanceType);
    Action::Misconfigure(Misconfigure { fault, lasts: some_minutes(random) })
}

fn recreate(_: &Scenario, random: &mut Random) -> Action {
    Action::RecreateNodePools(Recreate { count: 1, lasts: some_minutes(random) })
}

/// Two to seventeen minutes.
fn some_minutes(random: &mut Random) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(120 + random.below(900)).unwrap_or(120))
}

fn value(field: &str, why: &str) -> ScenarioError {
    ScenarioError::Value { field: field.to_owned(), why: why.to_owned() }
}

pub(crate) fn after(at: Timestamp, duration: SignedDuration) -> Timestamp {
    at.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// A duration that varies at random by up to a fraction of itself.
fn spread(duration: SignedDuration, share: f64, random: &mut Random) -> SignedDuration {
    if share <= 0.0 {
        return duration;
    }
    let factor = 1.0 + share.min(1.0) * (2.0 * random.fraction() - 1.0);
    SignedDuration::try_from_secs_f64((duration.as_secs_f64() * factor).round()).unwrap_or(duration)
}

fn jittered(number: u32, share: f64, random: &mut Random) -> u32 {
    if share <= 0.0 {
        return number;
    }
    let factor = 1.0 + share.min(1.0) * (2.0 * random.fraction() - 1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most twice a u32, and never negative"
    )]
    let number = (f64::from(number) * factor).round() as u32;
    number
}

/// Parses `07:30` as the time since midnight.
fn time_of_day(text: &str) -> Option<SignedDuration> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let valid = (0..24).contains(&hours) && (0..60).contains(&minutes);
    valid.then(|| SignedDuration::from_secs(hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_entries() {
        let scenario = Scenario::built_in("faults").unwrap();
        let text = |seed| format!("{:?}", Timeline::new(&scenario, seed, 3).unwrap());
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn schedules_by_day_repeat_and_start_within_the_run() {
        let yaml = "name: a\nstart: 2026-03-02T12:00:00Z\nscale: [{name: web, daily: {\"06:00\": 3, \"18:00\": 5}}]\n";
        let scenario = Scenario::parse(yaml).unwrap();
        let mut timeline = Timeline::new(&scenario, 0, 36).unwrap();
        assert_eq!(timeline.next(), Some("2026-03-02T18:00:00Z".parse().unwrap()));
        assert_eq!(timeline.take(Timestamp::MAX).len(), 3);
        let wrong = Scenario::parse("name: a\nscale: [{name: web, daily: {\"6 am\": 3}}]\n").unwrap();
        assert!(Timeline::new(&wrong, 0, 1).unwrap_err().to_string().contains("6 am"));
    }
}
