//! The time of instances that the cost records contain, against that of the account.

use crate::Driver;
use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use nodeless_bill::{HourRecord, Open, decode};
use nodeless_fake_aws::Instance;
use nodeless_model::NodeClaim;
use std::collections::{BTreeMap, BTreeSet};

/// The precision of the time of an instance, in seconds: launches and ends are known to the second.
const EXACT: f64 = 2.0;
/// By how much the time of a launch may differ between EC2 and a claim that has it.
const SAME_LAUNCH: SignedDuration = SignedDuration::from_secs(1);

/// The time of an instance.
#[derive(Clone, Debug)]
struct Life {
    /// When EC2 launched it, and since when its claim records it. The claim of an adopted instance is written much later.
    launched: Timestamp,
    claimed: Timestamp,
    /// When EC2 began to terminate it, if it has.
    stopped: Option<Timestamp>,
    /// When its claim was found to have ended or to be about to, if it was.
    released: Option<Timestamp>,
    /// Since when what was recorded of it is lost, if it is: it had ended when the table was restored to that time.
    lost_since: Option<Timestamp>,
}

/// The times of all instances that claims had, by id and by the time of the launch: EC2 reports another one after each start of an instance
/// that was stopped.
#[derive(Debug, Default)]
pub(crate) struct RecordedTime {
    lives: BTreeMap<(String, Timestamp), Life>,
}

impl RecordedTime {
    /// Observes claims and instances.
    pub(crate) fn observe(&mut self, claims: &[NodeClaim], instances: &[Instance], now: Timestamp) {
        let launched: BTreeMap<&str, &Instance> = instances.iter().map(|it| (it.id.as_str(), it)).collect();
        let mut claimed = BTreeSet::new();
        for claim in claims {
            let Some(own) = &claim.status.instance else { continue };
            claimed.insert(own.id.as_str());
            let of_account = launched.get(own.id.as_str()).map(|instance| instance.launched);
            let begun = of_account.or_else(|| self.latest(&own.id)).unwrap_or(own.launched);
            let life = self.lives.entry((own.id.clone(), begun)).or_insert_with(|| Life {
                launched: begun,
                claimed: now,
                stopped: None,
                released: None,
                lost_since: None,
            });
            if begun.duration_since(own.launched) > SAME_LAUNCH {
                // It was started again, and its claim does not have that yet.
                life.claimed = now;
            } else {
                life.released = life.released.or_else(|| claim.stopped_at());
                life.lost_since = None;
            }
        }
        for ((id, begun), life) in &mut self.lives {
            if life.stopped.is_none() {
                let same = launched.get(id.as_str()).filter(|instance| instance.launched == *begun);
                life.stopped = same.and_then(|instance| instance.stopped);
            }
            if !claimed.contains(id.as_str()) {
                life.released.get_or_insert(now);
            }
        }
    }

    /// The table was restored to this time, or created again. What claims and costs were recorded since is lost: an end that was recorded
    /// then is found again later, or never.
    pub(crate) fn table_replaced(&mut self, restored_to: Option<Timestamp>) {
        let Some(since) = restored_to else { return };
        let ended_since = |life: &&mut Life| life.released.is_some_and(|released| released > since);
        for life in self.lives.values_mut().filter(ended_since) {
            (life.released, life.lost_since) = (None, Some(since));
        }
    }

    /// The latest known launch of an instance that EC2 no longer lists.
    fn latest(&self, id: &str) -> Option<Timestamp> {
        self.lives.keys().filter(|(known, _)| known == id).map(|(_, begun)| *begun).max()
    }

    /// The error in the records, if there is one: their time differs from that of the account by more than is unknown about when claims got
    /// and lost their instances.
    pub(crate) fn wrong(&self, driver: &Driver) -> Option<String> {
        let claims = driver.claims();
        let stored = claims.open_costs().now_or_never()?.ok()?;
        if stored.version == 0 {
            return (!self.lives.is_empty()).then(|| "instances ran, and nothing is recorded".to_owned());
        }
        let open: Open = match decode(&stored.encoded) {
            Ok(open) => open,
            Err(error) => return Some(format!("the open record cannot be read: {error}")),
        };
        let hours = claims.hours(Timestamp::MIN, Timestamp::MAX).now_or_never()?.ok()?;
        let mut recorded: f64 = open.hours.iter().map(HourRecord::seconds).sum();
        for hour in &hours {
            match decode::<HourRecord>(&hour.encoded) {
                Ok(record) => recorded += record.seconds(),
                Err(error) => return Some(format!("the record of {} cannot be read: {error}", hour.key())),
            }
        }
        let (mut exact, mut doubt) = (0.0, EXACT);
        for life in self.lives.values() {
            let (seconds, unsure) = life.seconds(open.since, open.through);
            exact += seconds;
            doubt += unsure;
        }
        let difference = (recorded - exact).abs();
        (difference > doubt).then(|| {
            format!(
                "{recorded:.0} s of instances are recorded until {}, and they ran {exact:.0} s, give or take {doubt:.0} s",
                open.through
            )
        })
    }
}

impl Life {
    /// The seconds from the launch to the end in EC2 that should be recorded, and how many of them may be missing or too many: while
    /// nodeless did not know of the launch or the end, or knew of the end before EC2.
    fn seconds(&self, since: Timestamp, through: Timestamp) -> (f64, f64) {
        let within = |at: Timestamp| at.clamp(since, through);
        let between = |from: Timestamp, to: Timestamp| within(to).duration_since(within(from)).as_secs_f64();
        let end = self.stopped.unwrap_or(Timestamp::MAX);
        let seconds = between(self.launched, end).max(0.0);
        let released = self.released.unwrap_or(Timestamp::MAX);
        let late = between(end, released).abs();
        // A claim that was decided before the launch counts from it, one that adopts an instance from its first record on.
        let unknown = between(self.launched, self.claimed).max(0.0);
        let lost = self.lost_since.map_or(0.0, |since| between(since.max(self.launched), end).max(0.0));
        (seconds, EXACT + late + unknown + lost)
    }
}
