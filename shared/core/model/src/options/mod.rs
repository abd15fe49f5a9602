//! The annotations of nodeless on NodePools and on the Namespace `kube-system`.

mod values;
mod windows;

pub use values::{OnDemandMinimum, Pause, TerminateFirst};
pub use windows::Windows;

use crate::amounts::cluster_limits::{MAX_CPU, MAX_DOLLARS_PER_HOUR, MAX_NODES};
use crate::amounts::resources::name;
use crate::setting::{Setting, options};
use crate::{
    ClusterLimits, DaemonSetName, InvalidAnnotation, Quantity, ResourceList, RootVolumeSize, StringMap, labels,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::time::Duration;
use values::{count, dollars, duration, on_demand_minimum, pause, positive_dollars, quantity, root_volume, text};

options! {
    /// The options of a NodePool: its annotations.
    NodePoolOptions {
        /// [`labels::PAUSE`].
        pub pause: Pause = labels::PAUSE, pause,
            "`true`, `false` or a time such as `2026-01-31T18:00:00Z`", "which pauses disruption until it is corrected";
        /// [`labels::SLEEP`].
        pub sleep: Windows = labels::SLEEP, Windows::parse,
            "windows such as `0 20 * * mon-fri for 11h`, several separated by `;`, in UTC or after `CRON_TZ=` in a time zone",
            "so the NodePool keeps its nodes";
        /// [`labels::CHURN_EVICTIONS`].
        pub churn_evictions: u32 = labels::CHURN_EVICTIONS, count,
            "a whole number of pods, or `0` for no breaker", "which is ignored";
        /// [`labels::MIN_SAVINGS`], in dollars per hour.
        pub min_savings: f64 = labels::MIN_SAVINGS, dollars,
            "dollars per hour such as `\"0.05\"`", "and no node is consolidated until it is corrected";
        /// [`labels::BALANCE_ZONES`], in dollars per hour.
        pub balance_zones: f64 = labels::BALANCE_ZONES, dollars,
            "dollars per hour such as `\"0.05\"`, or `\"0\"`", "and no pods are balanced over zones until it is corrected";
        /// [`labels::GRACEFUL_EXPIRATION`].
        pub graceful_expiration: Duration = labels::GRACEFUL_EXPIRATION, duration,
            "a duration such as `24h`", "so nodes expire by force only";
        /// [`labels::REBALANCE`]: whether nodes are replaced.
        pub rebalance: bool = labels::REBALANCE, values::replace,
            "`replace` or `ignore`", "and nothing is replaced for it";
        /// [`labels::MIN_ON_DEMAND`]; [`NodePool::min_on_demand`](crate::NodePool::min_on_demand) compares it with the other fields.
        pub(crate) min_on_demand: OnDemandMinimum = labels::MIN_ON_DEMAND, on_demand_minimum,
            "a number of nodes such as `\"2\"`, or a percentage of the CPUs such as `\"30%\"`", "which is ignored";
        /// [`labels::SPOT_INTERRUPTIONS`]: whether interrupted offerings are avoided.
        pub spot_interruptions: bool = labels::SPOT_INTERRUPTIONS, values::avoid,
            "`avoid` or `ignore`", "and no offering is avoided";
        /// [`labels::AMI_CANARY`].
        pub ami_canary: Duration = labels::AMI_CANARY, duration,
            "a duration such as `30m`", "and no node is replaced because of its AMI until it is corrected";
        /// [`labels::TERMINATE_FIRST`].
        pub terminate_first: TerminateFirst = labels::TERMINATE_FIRST, values::terminate_first,
            "`drift`, `repair`, `drift,repair` or `ignore`", "and no node is terminated before its replacement is launched";
        /// [`labels::ROOT_VOLUME`].
        pub root_volume: RootVolumeSize = labels::ROOT_VOLUME, root_volume,
            "sizes that are added, such as `50Gi`, `20Gi+4Gi/vcpu` or `20Gi+pods max 500Gi`",
            "and nodes have the volume that their EC2NodeClass states";
        /// [`labels::WAIT_FOR_DAEMON_SETS`].
        pub wait_for_daemon_sets: BTreeSet<DaemonSetName> = labels::WAIT_FOR_DAEMON_SETS, values::daemon_sets,
            "up to 20 DaemonSets as namespace/name, separated by commas, such as `kube-system/ebs-csi-node`",
            "and nodes wait for no DaemonSet";
        /// [`labels::WARM`]; [`NodePool::warm_nodes`](crate::NodePool::warm_nodes) compares it with the other fields.
        pub(crate) warm: usize = labels::WARM, values::warm,
            "a number from `0` to `100`", "and no further warm nodes are made or removed";
        /// [`labels::DOLLARS_PER_MONTH`].
        pub dollars_per_month: f64 = labels::DOLLARS_PER_MONTH, positive_dollars,
            "a number of dollars such as `1500`", "so there is no budget";
        /// [`labels::DOLLARS_PER_HOUR`]. An invalid limit is zero.
        pub dollars_per_hour: f64 = labels::DOLLARS_PER_HOUR, dollars,
            "dollars as a quantity such as `\"12.50\"`", "and no node is launched until it is corrected";
    }
}

options! {
    /// The options of the whole cluster: annotations of the Namespace `kube-system`.
    ClusterOptions {
        /// [`labels::PAUSE`].
        pub pause: Pause = labels::PAUSE, pause,
            "`true`, `false` or a time such as `2026-01-31T18:00:00Z`", "which pauses disruption until it is corrected";
        /// [`labels::MAINTENANCE_WINDOWS`].
        pub maintenance_windows: Windows = labels::MAINTENANCE_WINDOWS, Windows::parse,
            "windows such as `CRON_TZ=Europe/Berlin 0 2 * * sat for 4h`, several separated by `;`, in UTC or after `CRON_TZ=` in a time zone",
            "so no node is disrupted voluntarily until it is corrected";
        /// [`MAX_NODES`].
        max_nodes: Quantity = MAX_NODES, quantity,
            "a quantity that is not negative, such as `\"200\"`", "and no node is launched until it is corrected";
        /// [`MAX_CPU`].
        max_cpu: Quantity = MAX_CPU, quantity,
            "a quantity that is not negative, such as `\"400\"`", "and no node is launched until it is corrected";
        /// [`MAX_DOLLARS_PER_HOUR`].
        max_dollars_per_hour: f64 = MAX_DOLLARS_PER_HOUR, dollars,
            "dollars as a quantity such as `\"12.50\"`", "and no node is launched until it is corrected";
        /// [`labels::DOLLARS_PER_MONTH`].
        pub dollars_per_month: f64 = labels::DOLLARS_PER_MONTH, positive_dollars,
            "a number of dollars such as `1500`", "so there is no budget";
        /// [`labels::TABLE`].
        pub table: String = labels::TABLE, text, "the name of a DynamoDB table such as `nodeless-production`", "";
    }
}

impl ClusterOptions {
    /// The limits of all NodePools together. An invalid limit is zero, because the user meant to prevent launches beyond an amount that
    /// is unknown.
    #[must_use]
    pub fn limits(&self) -> ClusterLimits {
        let mut resources = ResourceList::new();
        for (resource, limit) in [(name::NODES, &self.max_nodes), (name::CPU, &self.max_cpu)] {
            if let Some(limit) = limit.or_zero(Quantity::ZERO) {
                resources.set(resource, limit);
            }
        }
        ClusterLimits { resources, dollars_per_hour: self.max_dollars_per_hour.or_zero(0.0) }
    }

    /// What is wrong with the first invalid limit.
    #[must_use]
    pub fn invalid_limit(&self) -> Option<&InvalidAnnotation> {
        self.max_nodes.invalid().or(self.max_cpu.invalid()).or(self.max_dollars_per_hour.invalid())
    }
}

impl<T: Copy> Setting<T> {
    /// The limit; zero if it is invalid.
    #[must_use]
    pub fn or_zero(&self, zero: T) -> Option<T> {
        match self {
            Self::Unset => None,
            Self::Valid(limit) => Some(*limit),
            Self::Invalid(_) => Some(zero),
        }
    }
}

/// As the annotations, from which they are parsed again.
macro_rules! stored_as_annotations {
    ($($name:ident),+) => {
        $(impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.annotations.serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                StringMap::deserialize(deserializer).map(|annotations| Self::new(&annotations))
            }
        })+
    };
}
stored_as_annotations!(NodePoolOptions, ClusterOptions);

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn pool(key: &str, value: &str) -> NodePoolOptions {
        NodePoolOptions::new(&[(key.to_owned(), value.to_owned())].into())
    }

    fn cluster(all: &[(&str, &str)]) -> ClusterOptions {
        ClusterOptions::new(&all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    /// The key, the value and the effect are in the message of an invalid value.
    fn is_refused<T>(setting: &Setting<T>, value: &str, effect: &str) {
        let why = setting.invalid().unwrap().to_string();
        assert!(why.contains(&format!("{value:?}, {effect}")), "{why}");
    }

    #[test]
    fn annotations_of_others_are_left_out_and_what_is_not_read_is_kept() {
        let mut options = pool("example.com/team", "a");
        assert_eq!(options, NodePoolOptions::default());
        options.set("nodeless.sh/colour", Some("red"));
        options.set(labels::WARM, Some("2"));
        assert_eq!(options.unknown().collect::<Vec<_>>(), ["nodeless.sh/colour"]);
        let stored = serde_json::to_string(&options).unwrap();
        assert_eq!(stored, r#"{"nodeless.sh/colour":"red","nodeless.sh/warm":"2"}"#);
        assert_eq!(serde_json::from_str::<NodePoolOptions>(&stored).unwrap(), options);
        options.set(labels::WARM, None);
        assert_eq!(options.warm, Setting::Unset);
    }

    #[test]
    fn a_pause_lasts_for_ever_or_until_a_time() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let in_effect = |value: &str| pool(labels::PAUSE, value).pause.in_effect(now);
        assert_eq!(NodePoolOptions::default().pause.in_effect(now), None);
        assert_eq!((in_effect("false"), in_effect("true")), (None, Some(Pause::Always)));
        assert_eq!(in_effect("2026-01-31T12:00:00Z"), None);
        let until = "2026-01-31T13:00:00Z".parse().unwrap();
        assert_eq!(in_effect("2026-01-31T13:00:00Z"), Some(Pause::Until(until)));
        assert_eq!((Pause::Until(until).until(), Pause::Always.until()), (Some(until), None));
        assert_eq!(in_effect("tomorrow"), Some(Pause::Always));
        is_refused(&pool(labels::PAUSE, "tomorrow").pause, "tomorrow", "which pauses disruption until it is corrected");
    }

    #[test]
    fn amounts_are_dollars() {
        for (value, expected) in [("0.05", 0.05), ("0", 0.0), ("50m", 0.05)] {
            assert_eq!(pool(labels::MIN_SAVINGS, value).min_savings, Setting::Valid(expected));
        }
        for wrong in ["", "$1", "-1", "1 dollar", "true", "{{ .Values.saving }}"] {
            is_refused(&pool(labels::MIN_SAVINGS, wrong).min_savings, wrong, "and no node is consolidated");
            is_refused(&pool(labels::BALANCE_ZONES, wrong).balance_zones, wrong, "and no pods are balanced");
        }
        let budget = |value: &str| pool(labels::DOLLARS_PER_MONTH, value).dollars_per_month;
        assert_eq!((budget("1500"), budget("0.5")), (Setting::Valid(1500.0), Setting::Valid(0.5)));
        for wrong in ["", "0", "-1", "much", "NaN", "inf", "1,500", "$5"] {
            is_refused(&budget(wrong), wrong, "so there is no budget: write a number of dollars such as 1500");
        }
    }

    #[test]
    fn limits_are_quantities_and_zero_if_they_are_invalid() {
        assert!(cluster(&[(labels::PAUSE, "true")]).limits().are_none());
        let options = cluster(&[(MAX_NODES, "20"), (MAX_CPU, "1500m"), (MAX_DOLLARS_PER_HOUR, "12.50")]);
        let limits = options.limits();
        assert_eq!(limits.resources.get("nodes"), Quantity::from_units(20));
        assert_eq!(limits.resources.get("cpu"), Quantity::from_milli(1500));
        assert_eq!((limits.dollars_per_hour, options.invalid_limit()), (Some(12.5), None));
        for (key, value) in [(MAX_NODES, "many"), (MAX_NODES, "-1"), (MAX_CPU, ""), (MAX_DOLLARS_PER_HOUR, "$5")] {
            let options = cluster(&[(key, value)]);
            let limits = options.limits();
            assert!(!limits.are_none() && limits.resources.iter().all(|(_, limit)| limit.is_zero()), "{key} {value}");
            assert_eq!(limits.dollars_per_hour.unwrap_or(0.0), 0.0, "{key} {value}");
            let why = options.invalid_limit().unwrap();
            assert!(
                why.key() == key && why.to_string().contains(&format!("{value:?}, and no node is launched")),
                "{why}"
            );
        }
    }

    #[test]
    fn words_durations_and_lists_are_read() {
        assert_eq!(
            pool(labels::GRACEFUL_EXPIRATION, "24h").graceful_expiration,
            Setting::Valid(Duration::from_hours(24))
        );
        is_refused(
            &pool(labels::GRACEFUL_EXPIRATION, "soon").graceful_expiration,
            "soon",
            "so nodes expire by force only",
        );
        assert_eq!(pool(labels::REBALANCE, "replace").rebalance, Setting::Valid(true));
        assert_eq!(pool(labels::REBALANCE, "ignore").rebalance, Setting::Valid(false));
        is_refused(&pool(labels::REBALANCE, "Replace").rebalance, "Replace", "and nothing is replaced for it");
        is_refused(&pool(labels::SPOT_INTERRUPTIONS, "yes").spot_interruptions, "yes", "and no offering is avoided");
        for (value, drift, repair) in
            [("drift", true, false), ("repair", false, true), ("drift, repair", true, true), ("ignore", false, false)]
        {
            let expected = Setting::Valid(TerminateFirst { drift, repair });
            assert_eq!(pool(labels::TERMINATE_FIRST, value).terminate_first, expected, "{value}");
        }
        is_refused(
            &pool(labels::TERMINATE_FIRST, "drift,").terminate_first,
            "drift,",
            "and no node is terminated before",
        );
        is_refused(&pool(labels::TERMINATE_FIRST, "true").terminate_first, "true", "and no node is terminated before");
        let size = |text: &str| pool(labels::ROOT_VOLUME, text).root_volume;
        assert_eq!(size("20Gi+4Gi/vcpu").valid().map(ToString::to_string).as_deref(), Some("20Gi+4Gi/vcpu"));
        is_refused(
            &size("20Gi+pods"),
            "20Gi+pods",
            "and nodes have the volume that their EC2NodeClass states: with pods",
        );
        is_refused(&pool(labels::CHURN_EVICTIONS, "few").churn_evictions, "few", "which is ignored");
        is_refused(&pool(labels::WAIT_FOR_DAEMON_SETS, "csi").wait_for_daemon_sets, "csi", "and nodes wait for no");
        let sleep = pool(labels::SLEEP, "at night").sleep;
        is_refused(
            &sleep,
            "at night",
            "so the NodePool keeps its nodes: \"at night\" is not a window: the duration is missing;",
        );
    }
}
