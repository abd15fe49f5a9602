//! The annotations of nodeless on NodePools and on the Namespace `kube-system`, and what is wrong with them.

use crate::churn;
use crate::drift::ami_canary::{AMI_CANARY, ami_canary};
use crate::forceful::{expiration, rebalance, spot_interruptions};
use crate::policy::balance_zones::{BALANCE_ZONES, balance_zones};
use crate::policy::min_savings::{MIN_SAVINGS, min_savings};
use crate::policy::on_demand_minimum::{MIN_ON_DEMAND, on_demand_minimum};
use crate::policy::pause::{self, Pause};
use crate::policy::warm_nodes::warm_nodes;
use crate::policy::{maintenance, schedules};
use jiff::Timestamp;
use nodeless_model::cluster_limits::{MAX_CPU, MAX_DOLLARS_PER_HOUR, MAX_NODES};
use nodeless_model::monthly_budget::{DOLLARS_PER_MONTH, dollars_per_month};
use nodeless_model::node_pool::DOLLARS_PER_HOUR;
use nodeless_model::object::ObjectRef;
use nodeless_model::workload::DaemonSetName;
use nodeless_model::{ClusterLimits, NodePool, StringMap, labels};

/// The annotations of a NodePool.
const NODE_POOL: [&str; 14] = [
    DOLLARS_PER_MONTH,
    labels::WAIT_FOR_DAEMON_SETS,
    labels::WARM,
    AMI_CANARY,
    BALANCE_ZONES,
    DOLLARS_PER_HOUR,
    MIN_ON_DEMAND,
    MIN_SAVINGS,
    churn::EVICTIONS,
    expiration::GRACEFUL_BEFORE,
    pause::PAUSE,
    rebalance::RECOMMENDATIONS,
    schedules::SLEEP,
    spot_interruptions::SPOT_INTERRUPTIONS,
];
/// The annotations of the Namespace `kube-system`, for the whole cluster.
const CLUSTER: [&str; 7] = [
    DOLLARS_PER_MONTH,
    labels::TABLE,
    MAX_CPU,
    MAX_DOLLARS_PER_HOUR,
    MAX_NODES,
    maintenance::MAINTENANCE_WINDOWS,
    pause::PAUSE,
];
/// How different a key may be from one that was meant, as a part of the letters that are equal.
const SIMILAR: f64 = 0.75;

/// The annotations about which other parts publish events.
const REPORTED_ELSEWHERE: [&str; 5] =
    [DOLLARS_PER_MONTH, labels::WAIT_FOR_DAEMON_SETS, MAX_CPU, MAX_DOLLARS_PER_HOUR, MAX_NODES];

/// What is wrong with an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionFault {
    /// The NodePool or Namespace.
    pub object: ObjectRef,
    /// The annotation.
    pub key: String,
    /// The problem, what happens instead, and the fix.
    pub message: String,
    /// Whether no annotation of this name is read from the object, so that it has no effect.
    pub is_unknown: bool,
}

impl OptionFault {
    /// Whether the methods of disruption publish an event about it.
    pub(crate) fn has_event(&self) -> bool {
        self.is_unknown || !REPORTED_ELSEWHERE.contains(&self.key.as_str())
    }
}

/// The annotations of a NodePool that are invalid, contradict its spec, or have no effect.
#[must_use]
pub fn node_pool_faults(pool: &NodePool, now: Timestamp) -> Vec<OptionFault> {
    let all = &pool.disruption.annotations;
    let invalid = [
        churn::max_evictions(all).err(),
        expiration::graceful_before(all).err(),
        rebalance::replaces(all).err(),
        spot_interruptions::avoids(all).err(),
        ami_canary(all).err(),
        on_demand_minimum(pool).err(),
        min_savings(all).err(),
        balance_zones(all).err(),
        warm_nodes(pool).err(),
        DaemonSetName::awaited(all).err(),
        dollars_per_month(all).err(),
    ];
    let invalid = invalid.into_iter().flatten().map(|invalid| (invalid.key(), invalid.to_string()));
    let sleep = all.get(schedules::SLEEP).and_then(|text| schedules::scheduled_off_by(text, now).err());
    let sleep = sleep.map(|why| (schedules::SLEEP, why.to_string()));
    let invalid = pause_fault(all, now).into_iter().chain(sleep).chain(invalid).collect();
    faults(
        &pool.into(),
        all,
        invalid,
        &ReadKeys { read: &NODE_POOL, other: &CLUSTER, elsewhere: "Namespace kube-system" },
    )
}

/// The annotations of the Namespace `kube-system` that are invalid or have no effect.
#[must_use]
pub fn cluster_faults(annotations: &StringMap, now: Timestamp) -> Vec<OptionFault> {
    let windows = maintenance::fault(annotations, now).map(|why| (maintenance::MAINTENANCE_WINDOWS, why));
    let limits = ClusterLimits::of(annotations).1.into_iter().map(|invalid| (invalid.annotation, invalid.message));
    let budget = dollars_per_month(annotations).err().map(|invalid| (invalid.key(), invalid.to_string()));
    let invalid = pause_fault(annotations, now).into_iter().chain(windows).chain(limits).chain(budget).collect();
    let keys = ReadKeys { read: &CLUSTER, other: &NODE_POOL, elsewhere: "a NodePool" };
    faults(&ObjectRef::namespace("kube-system"), annotations, invalid, &keys)
}

fn pause_fault(annotations: &StringMap, now: Timestamp) -> Option<(&'static str, String)> {
    match pause::pause(annotations, now) {
        Pause::Invalid(why) => Some((pause::PAUSE, why)),
        Pause::None | Pause::Paused { .. } => None,
    }
}

/// The keys that are read from an object, and those that are read from another one only.
struct ReadKeys {
    read: &'static [&'static str],
    other: &'static [&'static str],
    elsewhere: &'static str,
}

fn faults(
    object: &ObjectRef,
    annotations: &StringMap,
    invalid: Vec<(&'static str, String)>,
    keys: &ReadKeys,
) -> Vec<OptionFault> {
    let fault = |key: &str, message, is_unknown| OptionFault {
        object: object.clone(),
        key: key.to_owned(),
        message,
        is_unknown,
    };
    let unknown = annotations.keys().filter(|key| !keys.read.contains(&key.as_str()));
    let unknown = unknown.map(|key| fault(key, unknown_message(key, keys), true));
    invalid.into_iter().map(|(key, message)| fault(key, message, false)).chain(unknown).collect()
}

fn unknown_message(key: &str, keys: &ReadKeys) -> String {
    let remedy = if keys.other.contains(&key) {
        format!("set it on {}", keys.elsewhere)
    } else {
        match nearest(key, keys.read) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "remove it".to_owned(),
        }
    };
    format!("annotation {key} has no effect, because nodeless does not read it from this object: {remedy}")
}

/// The key that was probably meant.
fn nearest(key: &str, read: &[&'static str]) -> Option<&'static str> {
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_lowercase();
    let similarity = |known: &str| strsim::normalized_damerau_levenshtein(&name(known), &name(key));
    let similar = read.iter().map(|known| (similarity(known), *known)).filter(|(similarity, _)| *similarity >= SIMILAR);
    similar.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::test_support::node_pool;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn annotations(all: &[(&str, &str)]) -> StringMap {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn of_pool(all: &[(&str, &str)]) -> Vec<OptionFault> {
        let mut pool = node_pool("default");
        pool.disruption.annotations = annotations(all);
        node_pool_faults(&pool, NOW)
    }

    #[test]
    fn valid_annotations_have_no_faults() {
        let pool = [
            (pause::PAUSE, "false"),
            (schedules::SLEEP, "0 20 * * * for 11h"),
            (churn::EVICTIONS, "10"),
            (MIN_SAVINGS, "0.05"),
            (BALANCE_ZONES, "0"),
            (expiration::GRACEFUL_BEFORE, "24h"),
            (rebalance::RECOMMENDATIONS, "ignore"),
            (spot_interruptions::SPOT_INTERRUPTIONS, "ignore"),
            (MIN_ON_DEMAND, "2"),
            (AMI_CANARY, "30m"),
            (labels::WAIT_FOR_DAEMON_SETS, "kube-system/a"),
            (labels::WARM, "2"),
            (DOLLARS_PER_MONTH, "5"),
            (DOLLARS_PER_HOUR, "5"),
        ];
        assert_eq!(pool.len(), NODE_POOL.len());
        assert_eq!(of_pool(&pool), []);
        let cluster = [
            (pause::PAUSE, "true"),
            (DOLLARS_PER_MONTH, "5"),
            (labels::TABLE, "nodeless"),
            (MAX_CPU, "5"),
            (MAX_DOLLARS_PER_HOUR, "5"),
            (MAX_NODES, "5"),
            (maintenance::MAINTENANCE_WINDOWS, "0 2 * * sat for 4h"),
        ];
        assert_eq!(cluster.len(), CLUSTER.len());
        assert_eq!(cluster_faults(&annotations(&cluster), NOW), []);
    }

    #[test]
    fn each_invalid_value_is_a_fault() {
        // An invalid limit is a fault of the whole NodePool.
        let any = NODE_POOL.into_iter().filter(|key| *key != DOLLARS_PER_HOUR);
        for key in any {
            let found = of_pool(&[(key, "maybe?")]);
            assert!(matches!(&found[..], [fault] if fault.key == key && !fault.is_unknown), "{key}: {found:?}");
        }
        for key in [pause::PAUSE, maintenance::MAINTENANCE_WINDOWS, MAX_CPU, MAX_DOLLARS_PER_HOUR, MAX_NODES] {
            let found = cluster_faults(&annotations(&[(key, "maybe?")]), NOW);
            assert!(matches!(&found[..], [fault] if fault.key == key && !fault.is_unknown), "{key}: {found:?}");
        }
    }

    #[test]
    fn a_key_that_is_not_read_has_no_effect_and_the_nearest_is_named() {
        for (key, remedy) in [
            ("nodeless.sh/pause-disrupton", "did you mean nodeless.sh/pause-disruption?"),
            ("nodeless.sh/Sleep", "did you mean nodeless.sh/sleep?"),
            ("nodeless.sh/min-ondemand", "did you mean nodeless.sh/min-on-demand?"),
            ("nodeless.sh/dollars-per-hours", "did you mean nodeless.sh/dollars-per-hour?"),
            ("nodeless.sh/maintenance-windows", "set it on Namespace kube-system"),
            ("nodeless.sh/color", "remove it"),
        ] {
            let found = of_pool(&[(key, "true")]);
            let expected =
                format!("annotation {key} has no effect, because nodeless does not read it from this object: {remedy}");
            assert!(matches!(&found[..], [fault] if fault.is_unknown && fault.message == expected), "{found:?}");
        }
        let found = cluster_faults(&annotations(&[("nodeless.sh/sleep", "")]), NOW);
        assert!(found[0].message.ends_with("object: set it on a NodePool"), "{found:?}");
    }
}
