//! Shards of claims: when each claim is due, and which messages have to be sent.
//!
//! The functions over a [`StoredShard`] are pure. [`enqueue`] writes their result over the version that it read, and then sends
//! the required message. If a process ends in between, or a message is lost, the claims of the shard become overdue, and the
//! sweep sends another message.

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use nodeless_ports::queue::ShardMessage;
use nodeless_ports::{ErrorKind, PortError, Queue};
use nodeless_state::{State, StoredShard};
use std::collections::BTreeMap;
use std::time::Duration;

/// The maximum number of claims of a shard, so that a shard is read and written as one small item.
pub const CLAIMS_PER_SHARD: usize = 256;
/// Claims that are due within this time are reconciled together with those that are due now.
const TOGETHER: Duration = Duration::from_secs(1);
/// How long a process leases the claims that it takes. If it has not returned them by then, it is assumed to have ended. The
/// lease is much longer than a claim needs and than EC2 takes to answer CreateFleet.
pub const TAKEN_FOR: Duration = Duration::from_mins(1);
/// How late a message may be before another one is sent.
const MESSAGE_LATE: Duration = Duration::from_secs(2);
/// After this time, due claims are assumed to have no message.
const OVERDUE: Duration = Duration::from_secs(10);
/// No claim is scheduled later than this, the longest delay of a message in SQS. If one is, the clock of its writer is wrong.
const LATEST: Duration = Duration::from_mins(15);
/// How many times a write of a shard is retried when other processes write it too.
const ATTEMPTS: u32 = 16;

/// The due time of a claim after it was reconciled, if it has one.
pub type Requeued = (String, Option<Duration>);

/// The shard of a claim, for this number of shards.
pub fn shard_of(claim: &str, shards: u32) -> u32 {
    // FNV-1a: it is stable and needs no dependency.
    let hash = claim.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    // The lowest bits alone depend little on the last characters of a name.
    (hash ^ (hash >> 16)) % shards.max(1)
}

/// How many shards this number of claims needs.
fn shards_for(claims: usize) -> u32 {
    u32::try_from(claims.div_ceil(CLAIMS_PER_SHARD)).unwrap_or(u32::MAX).max(1)
}

/// Makes claims due at these times, or earlier if they are already due earlier.
fn add(shard: &mut StoredShard, claims: &BTreeMap<String, Timestamp>) {
    for (name, at) in claims {
        let due = shard.due.entry(name.clone()).or_insert(*at);
        *due = (*due).min(*at);
    }
}

/// The delay of the message to send, so that the shard is reconciled when its first claim is due; `None` if a message arrives in
/// time or no claim is due.
fn next_message(shard: &mut StoredShard, now: Timestamp) -> Option<Duration> {
    let Some(first) = shard.due.values().min().copied() else {
        shard.message = None;
        return None;
    };
    let at = first.max(now);
    let arrives = |message: Timestamp| after(message, MESSAGE_LATE) > now && message <= after(at, TOGETHER / 2);
    if shard.message.is_some_and(arrives) {
        return None;
    }
    shard.message = Some(at);
    shard.messages += 1;
    Some(until(now, at))
}

/// The delay of the message that replaces one that arrived before a claim is due; `None` if the arrived message is not the
/// shard's last one, or no claim is due.
///
/// The last message arrives early if the clock of its writer is ahead of this one, or if the claims that it was sent for are
/// reconciled already. Only the last message is replaced, and the replacement has another number. So copies of a message, and
/// messages that others replaced, cause no messages.
fn replace_early(shard: &mut StoredShard, number: u64, now: Timestamp) -> Option<Duration> {
    if shard.message.is_none() || shard.messages != number {
        return None;
    }
    let latest = after(now, LATEST);
    shard.due.values_mut().for_each(|at| *at = (*at).min(latest));
    shard.message = None;
    next_message(shard, now)
}

/// Leases the claims that are due, so that no other process takes them. Returns them with the end of the lease.
fn take(shard: &mut StoredShard, now: Timestamp) -> BTreeMap<String, Timestamp> {
    let (soon, taken_until) = (after(now, TOGETHER), after(now, TAKEN_FOR));
    let due = shard.due.iter_mut().filter(|(_, at)| **at <= soon);
    let taken: BTreeMap<String, Timestamp> = due
        .map(|(name, at)| {
            *at = taken_until;
            (name.clone(), taken_until)
        })
        .collect();
    if !taken.is_empty() {
        shard.message = None;
    }
    taken
}

/// Returns leased claims after they were reconciled. A claim that another process made due meanwhile keeps that due time. Claims
/// that exceed the size of the shard are returned, for other shards.
fn put_back(
    shard: &mut StoredShard,
    taken: &BTreeMap<String, Timestamp>,
    reconciled: &[Requeued],
    now: Timestamp,
) -> BTreeMap<u32, BTreeMap<String, Timestamp>> {
    for (name, requeued) in reconciled {
        let asked_again = shard.due.get(name).copied().filter(|at| taken.get(name) != Some(at));
        let next = requeued.map(|delay| after(now, delay));
        match [asked_again, next].into_iter().flatten().min() {
            Some(at) => drop(shard.due.insert(name.clone(), at)),
            None => drop(shard.due.remove(name)),
        }
    }
    let mut others: BTreeMap<u32, BTreeMap<String, Timestamp>> = BTreeMap::new();
    if shard.due.len() > CLAIMS_PER_SHARD {
        let shards = shards_for(shard.due.len());
        for (name, _) in reconciled {
            let other = shard_of(name, shards);
            if other != shard.shard
                && let Some(at) = shard.due.remove(name)
            {
                others.entry(other).or_default().insert(name.clone(), at);
            }
        }
    }
    others
}

/// Whether claims of a shard are overdue, so that its message must have been lost or its process must have ended.
fn is_overdue(shard: &StoredShard, now: Timestamp) -> bool {
    shard.due.values().min().is_some_and(|first| after(*first, OVERDUE) <= now)
}

/// Schedules claims, each after its delay.
///
/// # Errors
/// If a shard cannot be written or its message cannot be sent. The sweep then finds the claims.
pub async fn enqueue(
    table: &State,
    queue: &dyn Queue,
    now: Timestamp,
    claims: &[(String, Duration)],
) -> Result<(), PortError> {
    let shards = shards_for(claims.len());
    let mut by_shard: BTreeMap<u32, BTreeMap<String, Timestamp>> = BTreeMap::new();
    for (name, delay) in claims {
        by_shard.entry(shard_of(name, shards)).or_default().insert(name.clone(), after(now, *delay));
    }
    for (shard, claims) in by_shard {
        // If other claims have filled the shard, for example when many instances are interrupted at once, only some fit.
        let there = table.shard(shard).await?.map_or(0, |stored| stored.due.len());
        let needed = shards_for(there + claims.len());
        let mut spread: BTreeMap<u32, BTreeMap<String, Timestamp>> = BTreeMap::new();
        for (name, at) in claims {
            let number = if needed > shards { shard_of(&name, needed) } else { shard };
            spread.entry(number).or_default().insert(name, at);
        }
        for (number, claims) in spread {
            enqueue_in(table, queue, now, number, &claims).await?;
        }
    }
    Ok(())
}

async fn enqueue_in(
    table: &State,
    queue: &dyn Queue,
    now: Timestamp,
    shard: u32,
    claims: &BTreeMap<String, Timestamp>,
) -> Result<(), PortError> {
    for _ in 0..ATTEMPTS {
        let mut stored = read(table, shard).await?;
        let before = stored.clone();
        add(&mut stored, claims);
        let message = next_message(&mut stored, now);
        if write(table, &before, &mut stored).await? {
            return send(queue, &stored, message).await;
        }
    }
    Err(contended(shard))
}

/// Claims that a process has leased from a shard.
pub struct Taken {
    /// The shard as this process last wrote it.
    shard: StoredShard,
    /// The claims, and the end of the lease.
    pub claims: BTreeMap<String, Timestamp>,
}

impl Taken {
    /// The claims that are scheduled in the shard, taken or not.
    pub fn scheduled(&self) -> impl Iterator<Item = &String> {
        self.shard.due.keys()
    }
}

/// Leases the due claims of a shard. `None` if there are none, because the message was delivered twice, another process was
/// earlier, or the message arrived early; then it is sent again for the remaining time.
///
/// # Errors
/// If the shard cannot be read or written, or the message cannot be sent again.
pub async fn take_due(
    table: &State,
    queue: &dyn Queue,
    now: Timestamp,
    message: ShardMessage,
) -> Result<Option<Taken>, PortError> {
    for _ in 0..ATTEMPTS {
        let Some(mut stored) = table.shard(message.shard).await? else { return Ok(None) };
        let before = stored.clone();
        let claims = take(&mut stored, now);
        let again = if claims.is_empty() { replace_early(&mut stored, message.number, now) } else { None };
        if write(table, &before, &mut stored).await? {
            send(queue, &stored, again).await?;
            return Ok((!claims.is_empty()).then_some(Taken { shard: stored, claims }));
        }
    }
    Err(contended(message.shard))
}

/// Returns leased claims to a shard, or adds claims that follow from them, and sends the next message of the shard.
///
/// # Errors
/// If a shard cannot be written or its message cannot be sent. The sweep then finds the claims.
pub async fn put_reconciled(
    table: &State,
    queue: &dyn Queue,
    now: Timestamp,
    taken: &mut Taken,
    reconciled: &[Requeued],
) -> Result<(), PortError> {
    let number = taken.shard.shard;
    for attempt in 0..ATTEMPTS {
        // Usually no other process has written it since.
        let before = if attempt == 0 { taken.shard.clone() } else { read(table, number).await? };
        let mut stored = before.clone();
        let others = put_back(&mut stored, &taken.claims, reconciled, now);
        // The other shards are written first, so that each claim is in at least one shard at any time.
        for (other, claims) in others {
            enqueue_in(table, queue, now, other, &claims).await?;
        }
        let message = next_message(&mut stored, now);
        if write(table, &before, &mut stored).await? {
            taken.shard = stored;
            return send(queue, &taken.shard, message).await;
        }
    }
    Err(contended(number))
}

/// Sends messages to shards whose claims are overdue, and returns the claims that are scheduled in any shard.
///
/// # Errors
/// If the shards cannot be read or written, or a message cannot be sent.
pub async fn repair(
    table: &State,
    queue: &dyn Queue,
    now: Timestamp,
) -> Result<BTreeMap<String, Timestamp>, PortError> {
    let mut due: BTreeMap<String, Timestamp> = BTreeMap::new();
    for mut shard in table.shards().await? {
        for (name, at) in &shard.due {
            let first = due.entry(name.clone()).or_insert(*at);
            *first = (*first).min(*at);
        }
        if is_overdue(&shard, now) {
            let before = shard.clone();
            shard.message = None;
            let message = next_message(&mut shard, now);
            // If another process writes the shard, that process sends the message.
            if write(table, &before, &mut shard).await? {
                send(queue, &shard, message).await?;
            }
        }
    }
    Ok(due)
}

async fn read(table: &State, shard: u32) -> Result<StoredShard, PortError> {
    Ok(table.shard(shard).await?.unwrap_or_else(|| StoredShard { shard, ..StoredShard::default() }))
}

/// Writes a shard if it changed. Returns whether the stored shard is current; it is not if another process wrote first.
async fn write(table: &State, before: &StoredShard, shard: &mut StoredShard) -> Result<bool, PortError> {
    if before == shard {
        return Ok(true);
    }
    match table.put_shard(shard).await {
        Ok(version) => {
            shard.version = version;
            Ok(true)
        }
        Err(error) if error.kind == ErrorKind::Conflict => Ok(false),
        Err(error) => Err(error),
    }
}

async fn send(queue: &dyn Queue, shard: &StoredShard, message: Option<Duration>) -> Result<(), PortError> {
    match message {
        Some(delay) => queue.wake_shard(ShardMessage { shard: shard.shard, number: shard.messages }, delay).await,
        None => Ok(()),
    }
}

fn contended(shard: u32) -> PortError {
    let message = format!("shard {shard} was written by other processes {ATTEMPTS} times in a row");
    PortError::new(ErrorKind::Unavailable, "write a shard of claims", message)
}

/// The time after this duration, in whole milliseconds, as it is stored. It is rounded up: a claim that is looked at a moment before its
/// time has come waits for less than a millisecond, which rounded down is no wait.
fn after(start: Timestamp, delay: Duration) -> Timestamp {
    let whole = TimestampRound::new().smallest(Unit::Millisecond).mode(RoundMode::Ceil);
    start.checked_add(delay).and_then(|at| at.round(whole)).unwrap_or(Timestamp::MAX)
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn due(claims: &[(&str, i64)]) -> BTreeMap<String, Timestamp> {
        claims.iter().map(|(name, seconds)| ((*name).to_owned(), at(*seconds))).collect()
    }

    fn shard(claims: &[(&str, i64)], message: Option<i64>) -> StoredShard {
        StoredShard { due: due(claims), message: message.map(at), ..StoredShard::default() }
    }

    fn seconds(delay: Option<Duration>) -> Option<u64> {
        delay.map(|delay| delay.as_secs())
    }

    #[test]
    fn a_claim_is_due_at_the_earliest_time_that_was_asked_for() {
        let mut stored = shard(&[("a", 5), ("b", 5)], None);
        add(&mut stored, &due(&[("a", 9), ("b", 1), ("c", 7)]));
        assert_eq!(stored.due, due(&[("a", 5), ("b", 1), ("c", 7)]));
    }

    #[test]
    fn no_claim_is_due_before_its_delay_has_passed() {
        let now = at(0).checked_add(Duration::from_nanos(123_456_789)).unwrap();
        for nanoseconds in [0, 1, 456_789, 1_000_000, 5_000_000_000] {
            let delay = Duration::from_nanos(nanoseconds);
            let late = Duration::try_from(after(now, delay).duration_since(now + delay)).unwrap();
            assert!(late < Duration::from_millis(1), "{delay:?}: {late:?}");
            assert_eq!(after(now, delay).subsec_nanosecond() % 1_000_000, 0, "{delay:?}");
        }
        assert_eq!(after(at(0), Duration::from_secs(5)), at(5), "a whole time stays");
        assert_eq!(after(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
    }

    #[test]
    fn a_message_is_sent_unless_one_arrives_in_time() {
        let message = |claims: &[(&str, i64)], sent: Option<i64>, now: i64| {
            let mut stored = shard(claims, sent);
            let delay = seconds(next_message(&mut stored, at(now)));
            (delay, stored.message)
        };
        assert_eq!(message(&[("a", 5), ("b", 3)], None, 0), (Some(3), Some(at(3))), "for the first that is due");
        assert_eq!(message(&[("a", 5)], Some(5), 0), (None, Some(at(5))));
        assert_eq!(message(&[("a", 5), ("b", 2)], Some(5), 0), (Some(2), Some(at(2))), "an earlier one");
        assert_eq!(
            message(&[("a", 5)], Some(2), 0),
            (None, Some(at(2))),
            "that one finds the claim and sends the next"
        );
        assert_eq!(message(&[("a", 0)], Some(0), 1), (None, Some(at(0))), "it arrives at any moment");
        assert_eq!(message(&[("a", 0)], Some(0), 2), (Some(0), Some(at(2))), "it is late");
        assert_eq!(message(&[], Some(5), 0), (None, None));
    }

    #[test]
    fn a_message_that_arrives_early_is_replaced_once() {
        let early = |claims: &[(&str, i64)], message: Option<i64>, number: u64| {
            let mut stored = StoredShard { messages: 4, ..shard(claims, message) };
            let delay = replace_early(&mut stored, number, at(0));
            (seconds(delay), stored.messages, stored)
        };
        let (delay, number, stored) = early(&[("a", 15), ("b", 20)], Some(15), 4);
        assert_eq!((delay, number, stored.message), (Some(15), 5, Some(at(15))));
        let mut copied = stored.clone();
        assert_eq!(replace_early(&mut copied, 4, at(0)), None, "a copy of the replaced message");
        assert_eq!(copied, stored);
        let (delay, number, stored) = early(&[("a", 60)], Some(0), 4);
        assert_eq!((delay, number, stored.message), (Some(60), 5, Some(at(60))), "its claims were put back meanwhile");
        assert_eq!(early(&[("a", 15)], Some(15), 3).0, None, "another message replaced it");
        assert_eq!(early(&[("a", 60)], None, 4).0, None, "a process has taken the claims and sends the next message");
        assert_eq!(early(&[], Some(15), 4).0, None, "no claim is due");
        let (delay, _, stored) = early(&[("a", 86_400)], Some(86_400), 4);
        assert_eq!((delay, stored.due), (Some(900), due(&[("a", 900)])), "a claim is due when the message arrives");
    }

    #[test]
    fn claims_are_taken_once_with_those_that_are_due_a_moment_later() {
        let mut stored = shard(&[("a", 0), ("b", 1), ("c", 2)], Some(0));
        assert_eq!(take(&mut stored, at(0)), due(&[("a", 60), ("b", 60)]));
        assert_eq!(stored, shard(&[("a", 60), ("b", 60), ("c", 2)], None));
        assert!(take(&mut stored, at(0)).is_empty(), "another message finds nothing");
        assert_eq!(take(&mut stored, at(61)).len(), 3, "the process ended");
        let mut waits = shard(&[("a", 9)], Some(9));
        assert!(take(&mut waits, at(0)).is_empty());
        assert_eq!(waits, shard(&[("a", 9)], Some(9)), "nothing is written");
    }

    #[test]
    fn claims_are_put_back_until_nothing_is_expected_of_them() {
        let mut stored = shard(&[("a", 60), ("b", 60), ("c", 4), ("d", 60)], None);
        let taken = due(&[("a", 60), ("b", 60), ("c", 60), ("d", 60)]);
        let second = Duration::from_secs(1);
        let reconciled =
            [("a".into(), Some(second)), ("b".into(), None), ("c".into(), None), ("member".into(), Some(2 * second))];
        assert!(put_back(&mut stored, &taken, &reconciled, at(3)).is_empty());
        let expected = [("a", 4), ("c", 4), ("d", 60), ("member", 5)];
        assert_eq!(stored.due, due(&expected), "c was asked for meanwhile, and d is not reconciled yet");
    }

    #[test]
    fn too_many_claims_are_spread_over_shards() {
        let names: Vec<String> = (0..1000).map(|number| format!("default-{number:05}")).collect();
        let taken = BTreeMap::from([(names[0].clone(), at(60))]);
        let mut stored = StoredShard { due: taken.clone(), ..StoredShard::default() };
        let reconciled: Vec<Requeued> = names.iter().map(|name| (name.clone(), Some(Duration::ZERO))).collect();
        let others = put_back(&mut stored, &taken, &reconciled, at(0));
        assert_eq!(others.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        let sizes: Vec<usize> = [&stored.due].into_iter().chain(others.values()).map(BTreeMap::len).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 1000);
        assert!(sizes.iter().all(|size| *size > 150), "{sizes:?}");
    }

    #[test]
    fn a_shard_is_overdue_when_its_first_claim_is() {
        assert!(!is_overdue(&shard(&[("a", 0)], Some(0)), at(9)));
        assert!(is_overdue(&shard(&[("a", 0), ("b", 60)], Some(0)), at(10)));
        assert!(!is_overdue(&shard(&[], None), at(10)));
    }
}
