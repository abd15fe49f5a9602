//! The churn breaker: voluntary disruption of a NodePool stops when it evicts many pods without a lower price.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::{InvalidAnnotation, Pod, StringMap, resources};
use serde::{Deserialize, Serialize};

/// The annotation of a NodePool: how many pods voluntary disruption may evict within an hour before a falling price has to
/// justify it. [`MAX_EVICTIONS`] if it is not set; `0` disables the breaker.
pub const EVICTIONS: &str = "nodeless.sh/churn-evictions-per-hour";

/// The default number of evictions per hour and node that need no lower price.
pub const MAX_EVICTIONS: u32 = 30;

/// What voluntary disruption did to a NodePool within the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastHour {
    /// The number of evicted pods.
    pub evictions: u32,
    /// The number of nodes of the NodePool.
    pub nodes: u32,
    /// The hourly price of its nodes an hour ago in dollars, for each unit of the requests of their pods, so that a growing load
    /// does not look like churn. See [`price_per_load`].
    pub price_before: f64,
    /// The same now.
    pub price_now: f64,
}

/// The period that is evaluated.
const WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// The maximum number of entries of a NodePool. Beyond that the oldest are merged.
const MAX_ENTRIES: usize = 200;

/// What voluntary disruption did to a NodePool recently, by command, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Churn {
    /// One for each command that evicted pods.
    pub entries: Vec<Entry>,
}

/// The effect of one command on a NodePool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The command's id.
    pub command: String,
    /// When it was validated.
    pub at: Timestamp,
    /// How many pods it evicts.
    pub evictions: u32,
    /// The price of the NodePool's nodes before, for each unit of load: see [`price_per_load`].
    pub price: f64,
}

impl Churn {
    /// Adds a command that is about to be executed, once however often it is called, and removes expired entries.
    pub fn note(&mut self, entry: Entry, now: Timestamp) {
        self.entries.retain(|old| is_recent(old, now));
        if self.entries.iter().all(|old| old.command != entry.command) {
            self.entries.push(entry);
        }
        while self.entries.len() > MAX_ENTRIES {
            // The merged entry has the price of the older one and the expiry of the younger one.
            let older = self.entries.remove(0);
            if let Some(younger) = self.entries.first_mut() {
                younger.evictions = younger.evictions.saturating_add(older.evictions);
                younger.price = older.price;
            }
        }
    }

    /// The last hour of a NodePool with a number of nodes and a price for each unit of load.
    #[must_use]
    pub fn last_hour(&self, now: Timestamp, nodes: u32, price_now: f64) -> LastHour {
        let recent = || self.entries.iter().filter(|entry| is_recent(entry, now));
        LastHour {
            evictions: recent().fold(0, |sum, entry| sum.saturating_add(entry.evictions)),
            nodes,
            price_before: recent().next().map_or(0.0, |entry| entry.price),
            price_now,
        }
    }

    /// When it expires.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        self.entries.iter().filter_map(|entry| entry.at.checked_add(WINDOW).ok()).max()
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
        let cpus = pod.requests.get(resources::name::CPU).as_f64();
        cpus + pod.requests.get(resources::name::MEMORY).as_f64() / (10.0 * 1024.0 * 1024.0 * 1024.0)
    };
    // So that the sum does not depend on the order of the pods, not even in its last digit.
    let mut each: Vec<f64> = pods.into_iter().map(of).collect();
    each.sort_unstable_by(f64::total_cmp);
    each.into_iter().sum()
}

/// The decrease of the price that justifies many evictions: one per cent.
const MIN_PRICE_DROP: f64 = 0.01;

/// The maximum number of evictions per hour that a NodePool's annotation allows; `None` if the breaker is disabled.
///
/// # Errors
/// When the annotation is not a whole number; the default applies then.
pub fn max_evictions(annotations: &StringMap) -> Result<Option<u32>, InvalidAnnotation> {
    let Some(text) = annotations.get(EVICTIONS) else { return Ok(None) };
    text.parse::<u32>().map(Some).map_err(|_| InvalidAnnotation::Value {
        key: EVICTIONS,
        value: text.clone(),
        effect: "which is ignored",
        valid: "a whole number of pods, or 0 for no breaker",
    })
}

/// How many pods voluntary disruption may evict in an hour from a NodePool with this number of nodes before a falling price has
/// to justify it; `None` if its breaker is disabled. An invalid annotation leaves the default.
#[must_use]
pub fn threshold(annotations: &StringMap, nodes: u32) -> Option<u32> {
    match max_evictions(annotations) {
        Ok(Some(0)) => None,
        Ok(Some(most)) => Some(most),
        // At least as many as one node may run, so that a small NodePool can be consolidated at all.
        Ok(None) | Err(_) => Some(MAX_EVICTIONS.saturating_mul(nodes.max(4))),
    }
}

/// The price of nodes for each unit of load, in dollars per hour; zero without load. `load` may be in any unit that is the same
/// both times, such as the price of the pods' requests.
#[must_use]
pub fn price_per_load(price: f64, load: f64) -> f64 {
    if load > 0.0 { price / load } else { 0.0 }
}

/// Why voluntary disruption of a NodePool stops, if it does; for [`crate::Cluster::stopped`]. It resumes once the last
/// hour has fewer evictions or a lower price.
#[must_use]
pub fn stopped(node_pool: &str, annotations: &StringMap, hour: &LastHour) -> Option<String> {
    let most = threshold(annotations, hour.nodes)?;
    let fell = hour.price_before > 0.0 && hour.price_now <= hour.price_before * (1.0 - MIN_PRICE_DROP);
    (hour.evictions > most && !fell).then(|| {
        format!(
            "disruption of NodePool {node_pool} evicted {} pods within an hour, more than {most}, and its nodes cost no \
             less; it resumes when the hour is over, or set {EVICTIONS}",
            hour.evictions
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: i64, at: i64, evictions: u32) -> Entry {
        let at = Timestamp::from_second(at).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "small")]
        Entry { command: format!("command-{number}"), at, evictions, price: number as f64 }
    }

    #[test]
    fn an_hour_is_remembered_and_each_command_once() {
        let (mut churn, at) = (Churn::default(), |second| Timestamp::from_second(second).unwrap());
        assert_eq!(churn.last_hour(at(0), 3, 1.0), LastHour { nodes: 3, price_now: 1.0, ..LastHour::default() });
        for _ in 0..2 {
            churn.note(entry(1, 100, 20), at(100));
        }
        churn.note(entry(2, 200, 5), at(200));
        let hour = LastHour { evictions: 25, nodes: 3, price_before: 1.0, price_now: 0.5 };
        assert_eq!(churn.last_hour(at(3699), 3, 0.5), hour);
        assert_eq!(churn.last_hour(at(3700), 3, 0.5), LastHour { evictions: 5, price_before: 2.0, ..hour });
        assert_eq!(churn.expires(), Some(at(3800)));
        churn.note(entry(3, 3750, 1), at(3750));
        assert_eq!(churn.entries.len(), 2, "what is over is forgotten");
        for number in 0..500 {
            churn.note(entry(1000 + number, 3751, 1), at(3751));
        }
        assert_eq!(churn.entries.len(), MAX_ENTRIES);
        let hour = churn.last_hour(at(3751), 3, 0.5);
        assert_eq!((hour.evictions, hour.price_before), (506, 2.0), "nothing is lost of what is put together");
    }

    #[test]
    fn load_counts_cpu_and_a_tenth_for_each_gibibyte() {
        use nodeless_model::{Quantity, ResourceList};
        let requests =
            ResourceList::from([("cpu", Quantity::from_milli(1500)), ("memory", Quantity::from_mebibytes(5 * 1024))]);
        let pod = Pod { requests, ..Pod::default() };
        assert!((load([&pod, &pod]) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn stops_what_evicts_and_saves_nothing() {
        let none = StringMap::new();
        let hour = LastHour { evictions: 121, nodes: 3, price_before: 1.0, price_now: 1.0 };
        assert!(stopped("default", &none, &hour).unwrap().contains("evicted 121 pods within an hour, more than 120"));
        assert_eq!(stopped("default", &none, &LastHour { evictions: 120, ..hour }), None);
        assert_eq!(stopped("default", &none, &LastHour { price_now: 0.98, ..hour }), None, "the price fell");
        assert!(stopped("default", &none, &LastHour { price_now: 0.995, ..hour }).is_some(), "hardly");
        assert_eq!(stopped("default", &none, &LastHour { nodes: 50, ..hour }), None);
        let stated = |text: &str| StringMap::from([(EVICTIONS.to_owned(), text.to_owned())]);
        assert_eq!(stopped("default", &stated("0"), &hour), None);
        assert_eq!(stopped("default", &stated("200"), &hour), None);
        assert!(stopped("default", &stated("100"), &hour).is_some());
        assert!(stopped("default", &stated("few"), &hour).is_some(), "the default holds");
        assert!(max_evictions(&stated("few")).unwrap_err().to_string().contains("\"few\""));
        assert!((price_per_load(2.0, 4.0) - 0.5).abs() < 1e-9 && price_per_load(2.0, 0.0) == 0.0);
    }
}
