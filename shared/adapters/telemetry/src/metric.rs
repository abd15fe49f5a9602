//! Metrics in CloudWatch's embedded metric format.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The CloudWatch namespace.
pub const NAMESPACE: &str = "nodeless";
/// The greatest number of metric names. CloudWatch charges for each, every month; detail belongs into logs.
pub const METRIC_LIMIT: usize = 40;

/// In what a metric is measured, by CloudWatch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count.
    Count,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Something that CloudWatch has no unit for.
    None,
}

impl Unit {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Milliseconds => "Milliseconds",
            Self::Seconds => "Seconds",
            Self::None => "None",
        }
    }
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $name:ident: $unit:ident, $fold:ident;)+) => {
        /// Every metric that there is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Metric {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The name in CloudWatch.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// In what it is measured.
            #[must_use]
            pub const fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)+ }
            }

            const fn fold(self) -> Fold {
                match self { $(Self::$name => Fold::$fold,)+ }
            }
        }
    };
}

/// What becomes of several values within one operation.
#[derive(Clone, Copy)]
enum Fold {
    /// They are added up: things that happened.
    Sum,
    /// The last one holds: how things stand.
    Last,
    /// Each is kept, for percentiles: how long things took.
    Each,
}

metrics! {
    /// Plans that were made.
    PlansMade: Count, Sum;
    /// Plans that were begun and did not finish, as the next ones found out.
    PlansUnfinished: Count, Sum;
    /// How long a plan took, without the batching window.
    PlanDurationMilliseconds: Milliseconds, Each;
    /// Pods that waited for a node when a plan was made.
    PendingPods: Count, Last;
    /// Calls of the webhook that a plan answers. Published only where there are some, or pods wait.
    WebhookCalls: Count, Sum;
    /// Pods that no NodePool could serve.
    UnschedulablePods: Count, Last;
    /// NodeClaims that were written.
    ClaimsCreated: Count, Sum;
    /// Instances that were launched.
    NodesLaunched: Count, Sum;
    /// Launches that failed for another reason than capacity.
    LaunchFailures: Count, Sum;
    /// Claims for which EC2 had no capacity.
    InsufficientCapacity: Count, Sum;
    /// Nodes that joined and were recognised.
    NodesRegistered: Count, Sum;
    /// Nodes that became ready for pods.
    NodesInitialized: Count, Sum;
    /// Instances whose end is complete.
    NodesTerminated: Count, Sum;
    /// Pods that were evicted or deleted to empty a node.
    Evictions: Count, Sum;
    /// NodePools whose voluntary disruption has stopped because it evicted many pods and lowered no price.
    ChurnStopped: Count, Last;
    /// Claims that are not going away.
    NodeCount: Count, Last;
    /// What the instances of all claims cost in an hour, in dollars.
    HourlySpendDollars: None, Last;
    /// Claims that leave because EC2 takes their instance, once each. The log line `interruption-received` has
    /// the kind.
    Interruptions: Count, Sum;
    /// One for each sweep that ended. Its absence, or that of plans, is an alarm.
    Heartbeat: Count, Sum;
    /// Instances, nodes and records that belonged to no claim.
    OrphansCollected: Count, Sum;
    /// Claims or objects that could not be looked after.
    ReconcileErrors: Count, Sum;
    /// How old the catalog is.
    CatalogAgeSeconds: Seconds, Last;
    /// From a claim's creation to its launch.
    LaunchLatencyMilliseconds: Milliseconds, Each;
    /// From a claim's launch to its node's registration.
    RegistrationLatencyMilliseconds: Milliseconds, Each;
}

/// What one operation counted. Written once, at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    values: BTreeMap<Metric, Vec<f64>>,
}

impl Metrics {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    pub fn record(&mut self, metric: Metric, value: f64) {
        let values = self.values.entry(metric).or_default();
        match (metric.fold(), values.first_mut()) {
            (Fold::Sum, Some(sum)) => *sum += value,
            (Fold::Last, Some(last)) => *last = value,
            _ => values.push(value),
        }
    }

    /// Adds to a count.
    pub fn count(&mut self, metric: Metric, number: usize) {
        // A count beyond 2^52 would lose precision; nothing here comes near.
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        self.record(metric, number as f64);
    }

    /// Takes over what another operation counted.
    pub fn merge(&mut self, other: &Self) {
        for (metric, values) in &other.values {
            for value in values {
                self.record(*metric, *value);
            }
        }
    }

    /// What was recorded of a metric.
    #[must_use]
    pub fn get(&self, metric: Metric) -> &[f64] {
        self.values.get(&metric).map_or(&[], Vec::as_slice)
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All of it as one document in the embedded metric format; `None` when nothing was counted.
    ///
    /// A metric has at most 100 values in a document, so of more only the first 100 are kept.
    #[must_use]
    pub fn render(&self, cluster: &str, at: Timestamp) -> Option<String> {
        if self.values.is_empty() {
            return None;
        }
        let definitions: Vec<Value> =
            self.values.keys().map(|metric| json!({ "Name": metric.name(), "Unit": metric.unit().as_str() })).collect();
        let mut document = Map::new();
        document.insert(
            "_aws".to_owned(),
            json!({
                "Timestamp": at.as_millisecond(),
                "CloudWatchMetrics": [{
                    "Namespace": NAMESPACE,
                    "Dimensions": [["Cluster"]],
                    "Metrics": definitions,
                }],
            }),
        );
        document.insert("Cluster".to_owned(), json!(cluster));
        for (metric, values) in &self.values {
            let value = match values.as_slice() {
                [one] => json!(one),
                several => json!(several.iter().take(100).collect::<Vec<_>>()),
            };
            document.insert(metric.name().to_owned(), value);
        }
        Some(Value::Object(document).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_few_metrics_with_distinct_names() {
        assert!(Metric::ALL.len() <= METRIC_LIMIT, "{} metrics cost too much", Metric::ALL.len());
        let names: BTreeSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(names.len(), Metric::ALL.len());
    }

    #[test]
    fn counts_add_up_gauges_keep_the_last_and_times_are_kept() {
        let mut metrics = Metrics::new();
        for value in [1.0, 2.0] {
            metrics.record(Metric::NodesLaunched, value);
            metrics.record(Metric::NodeCount, value);
            metrics.record(Metric::LaunchLatencyMilliseconds, value);
        }
        let mut all = Metrics::new();
        all.merge(&metrics);
        assert_eq!(all.get(Metric::NodesLaunched), [3.0]);
        assert_eq!(all.get(Metric::NodeCount), [2.0]);
        assert_eq!(all.get(Metric::LaunchLatencyMilliseconds), [1.0, 2.0]);
    }

    #[test]
    fn one_document_with_one_dimension() {
        assert_eq!(Metrics::new().render("prod", Timestamp::UNIX_EPOCH), None);
        let mut metrics = Metrics::new();
        metrics.count(Metric::Heartbeat, 1);
        metrics.record(Metric::PlanDurationMilliseconds, 12.5);
        metrics.record(Metric::PlanDurationMilliseconds, 7.5);
        let text = metrics.render("prod", Timestamp::from_millisecond(1234).unwrap()).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            document,
            json!({
                "_aws": { "Timestamp": 1234, "CloudWatchMetrics": [{
                    "Namespace": "nodeless", "Dimensions": [["Cluster"]],
                    "Metrics": [
                        { "Name": "PlanDurationMilliseconds", "Unit": "Milliseconds" },
                        { "Name": "Heartbeat", "Unit": "Count" },
                    ],
                }] },
                "Cluster": "prod", "Heartbeat": 1.0, "PlanDurationMilliseconds": [12.5, 7.5],
            })
        );
    }
}
