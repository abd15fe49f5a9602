//! The rate at which a controller creates pods: the client of each controller of kube-controller-manager makes 20 requests a second, and 30
//! at once, by default (`--kube-api-qps`, `--kube-api-burst`), in the order in which they are requested.
//!
//! Five workers create the pods of one owner each (`--concurrent-replicaset-syncs` and the like), in batches of 1, 2, 4, 8 and so on
//! (`slowStartBatch`), each with one other request, for Events and the status. So the first pod of an owner may wait for a large batch of
//! another one.

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeSet, VecDeque};

const PER_SECOND: f64 = 20.0;
const AT_ONCE: f64 = 30.0;
const WORKERS: usize = 5;
/// A worker creates this number of pods at most before it serves another owner (`BurstReplicas`).
const OF_A_WORKER: usize = 500;
/// For how many requests the simulation waits until it continues.
const STEP: f64 = 5.0;

/// The pods that a controller may create now. Without a limit it creates all at once.
#[derive(Debug, Default)]
pub(in crate::controllers) struct Creations {
    limit: Option<Bucket>,
    workers: Vec<Worker>,
    /// The owners that wait for a worker, by uid.
    waiting: VecDeque<String>,
    /// The requests that wait: for each batch the uid of the owner and the number of pods.
    requested: VecDeque<(String, usize)>,
}

/// Requests that may be made at once, when that was last counted.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Timestamp,
}

#[derive(Debug)]
struct Worker {
    owner: String,
    batch: usize,
    created: usize,
}

impl Creations {
    /// Limits the rate from now on, or does not.
    pub(in crate::controllers) fn set_limited(&mut self, limited: bool, now: Timestamp) {
        *self = Self { limit: limited.then_some(Bucket { tokens: AT_ONCE, at: now }), ..Self::default() };
    }

    /// Forgets the owners that exist no more.
    pub(in crate::controllers) fn retain(&mut self, owners: impl Iterator<Item = String>) {
        if self.workers.is_empty() && self.waiting.is_empty() {
            return;
        }
        let owners: BTreeSet<String> = owners.collect();
        self.forget(|owner| owners.contains(owner));
    }

    /// The API server refused a pod of this owner: its worker ends, and begins again with one pod.
    pub(in crate::controllers) fn refused(&mut self, owner: &str) {
        self.forget(|other| other != owner);
    }

    /// How many of the pods that an owner lacks it gets now.
    pub(in crate::controllers) fn take(&mut self, owner: &str, lacking: usize, now: Timestamp) -> usize {
        let Some(bucket) = &mut self.limit else { return lacking };
        bucket.fill(now);
        if lacking == 0 {
            if !(self.workers.is_empty() && self.waiting.is_empty()) {
                self.forget(|other| other != owner);
            }
            return 0;
        }
        let mut granted = 0;
        while granted < lacking && self.is_requested(owner, lacking - granted) && self.tokens() >= 1.0 {
            let Some((_, pods)) = self.requested.front_mut().filter(|(first, _)| first == owner) else { break };
            *pods -= 1;
            granted += 1;
            self.spend();
            if self.requested.front().is_some_and(|(_, pods)| *pods == 0) {
                self.requested.pop_front();
                // The other request of the batch.
                self.spend();
            }
        }
        granted
    }

    /// When more pods may be created, if any wait.
    pub(in crate::controllers) fn next(&self) -> Option<Timestamp> {
        let bucket = self.limit.as_ref()?;
        let waits: usize = self.requested.iter().map(|(_, pods)| pods).sum();
        if waits == 0 {
            // A worker became free after the turn of an owner that waits for one.
            return (!self.waiting.is_empty()).then_some(bucket.at);
        }
        #[expect(clippy::cast_precision_loss, reason = "no controller creates 2^53 pods")]
        let missing = STEP.min(waits as f64) - bucket.tokens;
        #[expect(clippy::cast_possible_truncation, reason = "a bucket is filled in seconds")]
        let milliseconds = (missing.max(0.0) / PER_SECOND * 1000.0).ceil() as i64;
        bucket.at.checked_add(SignedDuration::from_millis(milliseconds)).ok()
    }

    /// Has a worker request the next batch of an owner, if one is free and the last batch is done. Returns whether any is requested.
    fn is_requested(&mut self, owner: &str, lacking: usize) -> bool {
        if self.requested.iter().any(|(other, _)| other == owner) {
            return true;
        }
        let position = self.workers.iter().position(|worker| worker.owner == owner);
        if let Some(ended) = position.filter(|position| self.workers[*position].created >= OF_A_WORKER) {
            self.workers.remove(ended);
            return self.is_requested(owner, lacking);
        }
        let Some(position) = position.or_else(|| self.employ(owner)) else { return false };
        let worker = &mut self.workers[position];
        worker.batch = (worker.batch * 2).max(1).min(lacking);
        worker.created += worker.batch;
        self.requested.push_back((owner.to_owned(), worker.batch));
        true
    }

    /// Gives an owner a worker once it is its turn.
    fn employ(&mut self, owner: &str) -> Option<usize> {
        if !self.waiting.iter().any(|other| other == owner) {
            self.waiting.push_back(owner.to_owned());
        }
        let turn = self.waiting.iter().position(|other| other == owner)?;
        if turn >= WORKERS.saturating_sub(self.workers.len()) {
            return None;
        }
        self.waiting.remove(turn);
        self.workers.push(Worker { owner: owner.to_owned(), batch: 0, created: 0 });
        Some(self.workers.len() - 1)
    }

    fn forget(&mut self, stays: impl Fn(&str) -> bool) {
        self.workers.retain(|worker| stays(&worker.owner));
        self.waiting.retain(|owner| stays(owner));
        self.requested.retain(|(owner, _)| stays(owner));
    }

    fn tokens(&self) -> f64 {
        self.limit.as_ref().map_or(f64::MAX, |bucket| bucket.tokens)
    }

    fn spend(&mut self) {
        if let Some(bucket) = &mut self.limit {
            bucket.tokens -= 1.0;
        }
    }
}

impl Bucket {
    fn fill(&mut self, now: Timestamp) {
        let elapsed = now.duration_since(self.at).as_secs_f64();
        *self = Self { tokens: (self.tokens + elapsed * PER_SECOND).min(AT_ONCE), at: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    /// How many pods each of these owners has at the end of each second, if each is to have so many.
    fn pods(desired: &[usize], seconds: i64) -> Vec<Vec<usize>> {
        let mut creations = Creations::default();
        creations.set_limited(true, at(0));
        let mut have = vec![0; desired.len()];
        let mut found = Vec::new();
        let mut now = at(0);
        for second in 0..seconds {
            while now < at((second + 1) * 1000) {
                loop {
                    let mut moved = 0;
                    for (owner, count) in desired.iter().enumerate() {
                        let granted = creations.take(&format!("owner-{owner}"), count - have[owner], now);
                        (have[owner], moved) = (have[owner] + granted, moved + granted);
                    }
                    if moved == 0 {
                        break;
                    }
                }
                now = creations.next().unwrap_or_else(|| at((second + 1) * 1000));
            }
            found.push(have.clone());
        }
        found
    }

    #[test]
    fn a_controller_creates_less_than_twenty_pods_a_second_and_thirty_at_first() {
        let of_one: Vec<usize> = pods(&[300], 15).into_iter().map(|pods| pods[0]).collect();
        assert!((24..=45).contains(&of_one[0]), "{of_one:?}");
        for (before, after) in of_one.iter().zip(&of_one[1..]).take(12) {
            assert!((15..=25).contains(&(after - before)), "{of_one:?}");
        }
        assert!((270..300).contains(&of_one[12]), "{of_one:?}");
    }

    #[test]
    fn five_owners_share_the_rate_and_the_others_wait() {
        let shared = pods(&[100; 7], 60);
        assert!(shared[0][..5].iter().all(|pods| *pods > 0) && shared[0][5..] == [0, 0], "{shared:?}");
        assert_eq!(shared[59], [100; 7]);
    }

    #[test]
    fn the_first_pod_of_an_owner_waits_for_the_batches_of_another() {
        let mut creations = Creations::default();
        creations.set_limited(true, at(0));
        assert_eq!(creations.take("large", 300, at(0)), 26);
        assert_eq!(creations.take("small", 1, at(0)), 0);
        assert_eq!(creations.take("small", 1, at(1000)), 0, "it waits behind the others of 16");
        assert_eq!(creations.take("large", 274, at(1000)), 5);
        assert_eq!(creations.take("small", 1, at(1000)), 1, "the next 32 come after it");
        assert_eq!(creations.next(), Some(at(1000)));
    }

    #[test]
    fn an_owner_whose_pod_is_refused_begins_again_and_one_that_lacks_none_waits_no_more() {
        let mut creations = Creations::default();
        creations.set_limited(true, at(0));
        assert_eq!(creations.take("web", 7, at(0)), 7);
        creations.refused("web");
        assert_eq!(creations.next(), None);
        creations.take("web", 100, at(0));
        assert!(creations.next().is_some());
        assert_eq!(creations.take("web", 0, at(0)), 0);
        assert_eq!(creations.next(), None);
        assert_eq!(Creations::default().take("web", 1_000, at(0)), 1_000, "no limit");
    }
}
