//! The churn breaker: voluntary disruption of a NodePool stops when it evicts many pods without a lower price.

pub mod unready;

use crate::churn::unready::UnreadyReplacements;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::labels::CHURN_EVICTIONS;
use nodeless_model::{NodePoolOptions, Pod, Setting, resources};
use serde::{Deserialize, Serialize};

/// The voluntary disruption of a NodePool within the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastHour {
    /// The number of evicted pods.
    pub evictions: u32,
    /// The number of pods that were evicted without a lower price: since their commands, neither the price of the nodes nor the
    /// price for each unit of load has fallen by 1%.
    pub useless: u32,
    /// The NodePool now.
    pub now: PoolState,
    /// The hourly price of its nodes an hour ago in dollars, for each unit of the requests of their pods, so that a growing load
    /// does not look like churn. See [`price_per_load`].
    pub price_before: f64,
}

/// The nodes of a NodePool after all commands in progress, and their pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolState {
    /// The number of nodes.
    pub nodes: u32,
    /// The number of pods on them that would have to move.
    pub pods: u32,
    /// The price of the nodes in dollars per hour.
    pub dollars: f64,
    /// The requests of the pods: see [`load`].
    pub load: f64,
}

impl PoolState {
    /// The price of the nodes for each unit of load: see [`price_per_load`].
    #[must_use]
    pub fn price(&self) -> f64 {
        price_per_load(self.dollars, self.load)
    }
}

/// The period that is evaluated.
const WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// The maximum number of entries of a NodePool. Beyond that the oldest are merged.
const MAX_ENTRIES: usize = 200;

/// The recent voluntary disruption of a NodePool, by command, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Churn {
    /// An entry for each command that evicted pods.
    pub entries: Vec<Entry>,
    /// The last command whose replacements from this NodePool did not become ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unready: Option<UnreadyReplacements>,
}

/// The effect of one command on a NodePool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The command's id.
    pub command: String,
    /// When it was validated.
    pub at: Timestamp,
    /// The number of evicted pods.
    pub evictions: u32,
    /// The price of the NodePool's nodes before, for each unit of load: see [`price_per_load`].
    pub price: f64,
    /// The price of the NodePool's nodes before, in dollars per hour; zero, which no later price is below, if it is not recorded.
    #[serde(default)]
    pub dollars: f64,
}

impl Entry {
    /// Whether the price of the nodes or the price for each unit of load has fallen since. Only the first falls when the load
    /// shrinks, and only the second when the load grows.
    fn lowered(&self, now: &PoolState) -> bool {
        let fell = |before: f64, now: f64| before > 0.0 && now <= before * (1.0 - MIN_PRICE_DROP);
        fell(self.price, now.price()) || fell(self.dollars, now.dollars)
    }
}

impl Churn {
    /// Adds a command that is about to be executed, once however often it is called, and removes expired entries.
    pub fn note(&mut self, entry: Entry, now: Timestamp) {
        self.entries.retain(|old| is_recent(old, now));
        if self.entries.iter().all(|old| old.command != entry.command) {
            self.entries.push(entry);
        }
        while self.entries.len() > MAX_ENTRIES {
            // The merged entry has the prices of the older one and the expiry of the younger one.
            let older = self.entries.remove(0);
            if let Some(younger) = self.entries.first_mut() {
                younger.evictions = younger.evictions.saturating_add(older.evictions);
                (younger.price, younger.dollars) = (older.price, older.dollars);
            }
        }
    }

    /// The last hour of a NodePool.
    #[must_use]
    pub fn last_hour(&self, at: Timestamp, now: PoolState) -> LastHour {
        let recent = || self.entries.iter().filter(|entry| is_recent(entry, at));
        let add = |sum: u32, entry: &Entry| sum.saturating_add(entry.evictions);
        LastHour {
            evictions: recent().fold(0, add),
            useless: recent().filter(|entry| !entry.lowered(&now)).fold(0, add),
            now,
            price_before: recent().next().map_or(0.0, |entry| entry.price),
        }
    }

    /// When it expires.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        let entries = self.entries.iter().filter_map(|entry| entry.at.checked_add(WINDOW).ok());
        entries.chain(self.unready.as_ref().map(|one| one.remembered_until())).max()
    }
}

fn is_recent(entry: &Entry, now: Timestamp) -> bool {
    now.duration_since(entry.at) < WINDOW
}

/// The requests of pods as one number: vCPUs, plus a tenth for each GiB of memory, which is about the price ratio in EC2
/// (c6i.large and r6i.large, on-demand in us-east-1).
#[must_use]
pub fn load<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> f64 {
    let of = |pod: &Pod| {
        let cpus = pod.template.requests.get(resources::name::CPU).as_f64();
        cpus + pod.template.requests.get(resources::name::MEMORY).as_f64() / (10.0 * 1024.0 * 1024.0 * 1024.0)
    };
    // So that the sum does not depend on the order of the pods, not even in its last digit.
    let mut each: Vec<f64> = pods.into_iter().map(of).collect();
    each.sort_unstable_by(f64::total_cmp);
    each.into_iter().sum()
}

/// The decrease of a price that justifies evictions: one per cent.
const MIN_PRICE_DROP: f64 = 0.01;

/// The number of pods that voluntary disruption may evict in an hour from a NodePool without a lower price; `None` if the breaker
/// is disabled. An invalid annotation leaves the default: half of the NodePool's pods, and at least those of two average nodes,
/// because a round of consolidation evicts the pods of one node or more. A NodePool of up to five equal nodes therefore stops
/// after the third round that lowers no price.
#[must_use]
pub fn threshold(options: &NodePoolOptions, now: &PoolState) -> Option<u32> {
    match options.churn_evictions {
        Setting::Valid(0) => None,
        Setting::Valid(most) => Some(most),
        Setting::Unset | Setting::Invalid(_) => {
            let of_two_nodes = u64::from(now.pods) * 2 / u64::from(now.nodes.max(1));
            let half = u64::from(now.pods / 2);
            // A NodePool whose nodes have at most one pod each may replace one of them.
            Some(u32::try_from(half.max(of_two_nodes).max(1)).unwrap_or(u32::MAX))
        }
    }
}

/// The price of nodes for each unit of load, in dollars per hour; zero without load. `load` may be in any unit that is the same
/// both times, such as the price of the pods' requests.
#[must_use]
pub fn price_per_load(price: f64, load: f64) -> f64 {
    if load > 0.0 { price / load } else { 0.0 }
}

/// Why voluntary disruption of a NodePool stops, if it does; for [`crate::Cluster::stopped`]. It resumes once fewer evictions of
/// the last hour were useless, because the hour is over or a price has fallen.
#[must_use]
pub fn stopped(node_pool: &str, options: &NodePoolOptions, hour: &LastHour) -> Option<String> {
    let most = threshold(options, &hour.now)?;
    (hour.useless > most).then(|| {
        format!(
            "disruption of NodePool {node_pool} evicted {} pods within an hour, more than {most}, and its nodes cost no \
             less; it resumes when the hour is over, or set {CHURN_EVICTIONS}",
            hour.useless
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::PodTemplate;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn entry(number: i64, second: i64, evictions: u32) -> Entry {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let price = number as f64;
        Entry { command: format!("command-{number}"), at: at(second), evictions, price, dollars: price }
    }

    /// A NodePool with one unit of load for each pod, and nodes of a dollar.
    fn pool(nodes: u32, pods: u32) -> PoolState {
        PoolState { nodes, pods, dollars: f64::from(nodes), load: f64::from(pods) }
    }

    /// A command that evicts pods of a NodePool in this state.
    fn round(second: i64, before: PoolState, evictions: u32) -> Entry {
        let (price, dollars) = (before.price(), before.dollars);
        Entry { command: second.to_string(), at: at(second), evictions, price, dollars }
    }

    fn stops(rounds: &[Entry], now: PoolState) -> Option<String> {
        let churn = Churn { entries: rounds.to_vec(), ..Churn::default() };
        let latest = rounds.last().map_or(at(0), |round| round.at);
        stopped("default", &NodePoolOptions::default(), &churn.last_hour(latest, now))
    }

    #[test]
    fn an_hour_is_remembered_and_each_command_once() {
        let now = PoolState { nodes: 3, pods: 6, dollars: 1.0, load: 1.0 };
        let mut churn = Churn::default();
        assert_eq!(churn.last_hour(at(0), now), LastHour { now, ..LastHour::default() });
        for _ in 0..2 {
            churn.note(entry(1, 100, 20), at(100));
        }
        churn.note(entry(2, 200, 5), at(200));
        let hour = LastHour { evictions: 25, useless: 20, now, price_before: 1.0 };
        assert_eq!(churn.last_hour(at(3699), now), hour, "the price has fallen since the second");
        assert_eq!(churn.last_hour(at(3700), now), LastHour { evictions: 5, useless: 0, price_before: 2.0, ..hour });
        assert_eq!(churn.expires(), Some(at(3800)));
        churn.note(entry(3, 3750, 1), at(3750));
        assert_eq!(churn.entries.len(), 2, "what is over is forgotten");
        for number in 0..500 {
            churn.note(entry(1000 + number, 3751, 1), at(3751));
        }
        assert_eq!(churn.entries.len(), MAX_ENTRIES);
        let hour = churn.last_hour(at(3751), now);
        assert_eq!((hour.evictions, hour.price_before), (506, 2.0), "nothing is lost of what is put together");
        assert_eq!(churn.entries[0].dollars.to_bits(), 2.0_f64.to_bits());
    }

    #[test]
    fn three_rounds_of_five_nodes_that_lower_no_price_stop() {
        let cluster = pool(5, 40);
        let rounds = [round(0, cluster, 8), round(75, cluster, 8), round(170, cluster, 8)];
        assert_eq!(stops(&rounds[..2], cluster), None);
        let why = stops(&rounds, cluster).unwrap();
        assert!(why.contains("evicted 24 pods within an hour, more than 20"), "{why}");
        // A round before that lowered the price hides nothing.
        let useful = round(-600, pool(8, 40), 30);
        assert!(stops(&[&[useful][..], &rounds].concat(), cluster).is_some());
        for nodes in 1..=4 {
            let cluster = pool(nodes, 8 * nodes);
            assert_eq!(stops(&[round(0, cluster, 8), round(75, cluster, 8)], cluster), None, "{nodes}");
            let rounds = [round(0, cluster, 8), round(75, cluster, 8), round(170, cluster, 8)];
            assert!(stops(&rounds, cluster).is_some(), "{nodes}");
        }
    }

    #[test]
    fn a_cluster_that_becomes_smaller_or_larger_does_not_stop() {
        // The load falls for an hour, and the nodes follow it: the price for each unit of load stays the same.
        let falling: Vec<Entry> =
            (0..8_u32).map(|gone| round(i64::from(gone) * 400, pool(10 - gone, 80 - 8 * gone), 8)).collect();
        assert_eq!(stops(&falling, pool(2, 16)), None);
        // The load grows, and nodes are replaced by larger ones that cost less for it.
        let growing = [round(0, pool(4, 16), 16), round(600, pool(6, 30), 16)];
        assert_eq!(stops(&growing, pool(8, 64)), None);
        // A burst is consolidated once.
        assert_eq!(stops(&[round(0, pool(10, 30), 24)], pool(4, 30)), None);
        // All nodes are gone.
        assert_eq!(stops(&[round(0, pool(1, 3), 3)], pool(0, 0)), None);
    }

    #[test]
    fn load_counts_cpu_and_a_tenth_for_each_gibibyte() {
        use nodeless_model::{Quantity, ResourceList};
        let requests =
            ResourceList::from([("cpu", Quantity::from_milli(1500)), ("memory", Quantity::from_mebibytes(5 * 1024))]);
        let pod = Pod { template: PodTemplate { requests, ..PodTemplate::default() }.into(), ..Pod::default() };
        assert!((load([&pod, &pod]) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn stops_what_evicts_and_saves_nothing() {
        let none = NodePoolOptions::default();
        let hour = LastHour { evictions: 130, useless: 121, now: pool(30, 240), price_before: 1.0 };
        assert!(stopped("default", &none, &hour).unwrap().contains("evicted 121 pods within an hour, more than 120"));
        assert_eq!(stopped("default", &none, &LastHour { useless: 120, ..hour }), None);
        let stated = |text: &str| NodePoolOptions::new(&[(CHURN_EVICTIONS.into(), text.into())].into());
        assert_eq!(stopped("default", &stated("0"), &hour), None);
        assert_eq!(stopped("default", &stated("200"), &hour), None);
        assert!(stopped("default", &stated("100"), &hour).is_some());
        assert!(stopped("default", &stated("few"), &hour).is_some(), "the default holds");
        assert!((price_per_load(2.0, 4.0) - 0.5).abs() < 1e-9 && price_per_load(2.0, 0.0) == 0.0);
    }

    #[test]
    fn a_price_has_fallen_from_one_per_cent_on() {
        let before = entry(1, 0, 5);
        let lowered = |dollars: f64, load: f64| before.lowered(&PoolState { dollars, load, ..pool(3, 6) });
        assert!(!lowered(0.995, 1.0), "hardly");
        assert!(lowered(0.98, 0.5), "the nodes cost less");
        assert!(lowered(2.0, 2.1), "the nodes cost less for each unit of load");
        assert!(!lowered(2.0, 2.0));
    }
}
