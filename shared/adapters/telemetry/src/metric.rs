//! Metrics in CloudWatch's embedded metric format.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The CloudWatch namespace.
pub const NAMESPACE: &str = "nodeless";
/// The maximum number of metric names. CloudWatch charges for each one monthly; details belong in logs.
pub const METRIC_LIMIT: usize = 40;

/// The unit of a metric, with CloudWatch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count.
    Count,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// No unit, for values that CloudWatch has no unit for.
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
        /// All metrics.
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

            /// The unit.
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

/// How several values of one operation are combined.
#[derive(Clone, Copy)]
enum Fold {
    /// The sum, for events. A sum of zero is not published: CloudWatch charges for each hour in which a metric has values.
    Sum,
    /// The sum, published even if it is zero, for an alarm that has to distinguish zero from a missing value.
    SumOrZero,
    /// The last value, for states.
    Last,
    /// All values, for percentiles of durations.
    Each,
}

metrics! {
    /// Plans that started and did not finish, as the next plan detected.
    PlansUnfinished: Count, Sum;
    /// Pods that waited for a node when a plan was made. Published with every plan: its number of samples is the number of plans that
    /// finished. An alarm fires if there are none.
    PendingPods: Count, Last;
    /// Calls of the webhook that led to a plan. Published only if there are any, or pods are pending.
    WebhookCalls: Count, SumOrZero;
    /// Requests for a plan by the webhook that were only about pods that the last plan has seen, or about none. An alarm fires above 1,000
    /// an hour.
    PlansWithoutNewPods: Count, Sum;
    /// Pods that no NodePool can schedule. Published only if there are any.
    UnschedulablePods: Count, Last;
    /// Owners of pods, such as ReplicaSets, for which nothing is launched for a time, because their pods took none of the nodes that were
    /// launched for them. Published only if there are any. An alarm fires.
    UnusedLaunches: Count, Last;
    /// Expected pods that were created.
    ExpectedPodsCame: Count, Sum;
    /// Expected pods that are not expected any more.
    ExpectedPodsMissing: Count, Sum;
    /// The ages of nodes that are removed without any of the expected pods that they were launched for.
    ExpectedPodsUnusedNodeSeconds: Seconds, Sum;
    /// NodeClaims that were written.
    ClaimsCreated: Count, Sum;
    /// Instances that were launched.
    NodesLaunched: Count, Sum;
    /// Launches that failed for a reason other than capacity.
    LaunchFailures: Count, Sum;
    /// Claims for which EC2 had no capacity.
    InsufficientCapacity: Count, Sum;
    /// Nodes that joined and were registered.
    NodesRegistered: Count, Sum;
    /// Nodes that were initialized.
    NodesInitialized: Count, Sum;
    /// Instances that were terminated.
    NodesTerminated: Count, Sum;
    /// Pods that were evicted or deleted to drain a node.
    Evictions: Count, Sum;
    /// NodePools whose voluntary disruption is stopped because it evicted many pods without reducing the price.
    ChurnStopped: Count, Last;
    /// NodePools where no node is replaced by one with a new AMI, because the first one fails. Published only if there are any.
    AmiCanariesFailed: Count, Last;
    /// Claims that are not being terminated. Published with every sweep: its number of samples is the number of sweeps that finished. An
    /// alarm fires if there are none.
    NodeCount: Count, Last;
    /// The price of the instances of all claims in dollars per hour.
    HourlySpendDollars: None, Last;
    /// The use of the cluster limit that is used most, in percent. Published only if the Namespace kube-system has such limits.
    ClusterLimitUsedPercent: None, Last;
    /// Budgets (`nodeless.sh/dollars-per-month`) that nodes exceed this month, or will at the present pace. Published only if there are
    /// any.
    BudgetsExceeded: Count, Last;
    /// Claims that are terminated because EC2 interrupts their instance, each counted once. The log line `interruption-received`
    /// contains the kind.
    Interruptions: Count, Sum;
    /// Messages about interruptions that were deleted because they could not be handled in four attempts. An alarm fires.
    InterruptionsLost: Count, Sum;
    /// Instances, nodes and records that belonged to no claim.
    OrphansCollected: Count, Sum;
    /// Claims or objects that could not be processed.
    ReconcileErrors: Count, Sum;
    /// The time since the last refresh that read the catalog and all EC2NodeClasses. Published only from a quarter of an hour on. An alarm
    /// fires after an hour.
    CatalogAgeSeconds: Seconds, Last;
    /// The time from a claim's creation to its launch.
    LaunchLatencyMilliseconds: Milliseconds, Each;
    /// The time from a claim's launch to its node's registration.
    RegistrationLatencyMilliseconds: Milliseconds, Each;
}

type Values = BTreeMap<Metric, Vec<f64>>;

/// The values of one operation. Written once, at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    values: Values,
    /// The part of some values that concerns a NodePool. It is published on request, because CloudWatch charges for each NodePool.
    by_node_pool: BTreeMap<String, Values>,
}

impl Metrics {
    /// Metrics without values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    pub fn record(&mut self, metric: Metric, value: f64) {
        add(&mut self.values, metric, value);
    }

    /// Adds a value of a NodePool. It is not part of the value of the cluster, which is [recorded](Self::record) separately.
    pub fn record_of(&mut self, node_pool: &str, metric: Metric, value: f64) {
        // Most operations concern few NodePools, whose names exist already.
        match self.by_node_pool.get_mut(node_pool) {
            Some(values) => add(values, metric, value),
            None => add(self.by_node_pool.entry(node_pool.to_owned()).or_default(), metric, value),
        }
    }

    /// Adds to a count.
    pub fn count(&mut self, metric: Metric, number: usize) {
        // A count beyond 2^52 would lose precision; nothing here comes near.
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        self.record(metric, number as f64);
    }

    /// Adds the values of another operation.
    pub fn merge(&mut self, other: &Self) {
        for (metric, values) in &other.values {
            for value in values {
                self.record(*metric, *value);
            }
        }
        for (node_pool, values) in &other.by_node_pool {
            for (metric, value) in
                values.iter().flat_map(|(metric, values)| values.iter().map(move |it| (*metric, *it)))
            {
                self.record_of(node_pool, metric, value);
            }
        }
    }

    /// The recorded values of a metric.
    #[must_use]
    pub fn get(&self, metric: Metric) -> &[f64] {
        self.values.get(&metric).map_or(&[], Vec::as_slice)
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All values as one document in the embedded metric format; `None` if there are none, or only sums of zero.
    ///
    /// A metric may have at most 100 values in a document, so only the first 100 are written.
    #[must_use]
    pub fn render(&self, cluster: &str, at: Timestamp) -> Option<String> {
        document(&self.values, &[("Cluster", cluster)], at)
    }

    /// The values of each NodePool as a document, with the dimensions `Cluster` and `NodePool`.
    #[must_use]
    pub fn render_by_node_pool(&self, cluster: &str, at: Timestamp) -> Vec<String> {
        let of_pool =
            |(pool, values): (&String, &Values)| document(values, &[("Cluster", cluster), ("NodePool", pool)], at);
        self.by_node_pool.iter().filter_map(of_pool).collect()
    }
}

fn add(values: &mut Values, metric: Metric, value: f64) {
    let values = values.entry(metric).or_default();
    match (metric.fold(), values.first_mut()) {
        (Fold::Sum | Fold::SumOrZero, Some(sum)) => *sum += value,
        (Fold::Last, Some(last)) => *last = value,
        _ => values.push(value),
    }
}

/// Whether CloudWatch gets the values of a metric.
fn is_published(metric: &Metric, values: &[f64]) -> bool {
    !(matches!(metric.fold(), Fold::Sum) && values.iter().all(|value| *value == 0.0))
}

fn document(values: &Values, dimensions: &[(&str, &str)], at: Timestamp) -> Option<String> {
    let published: Vec<(&Metric, &Vec<f64>)> =
        values.iter().filter(|(metric, values)| is_published(metric, values)).collect();
    if published.is_empty() {
        return None;
    }
    let definitions: Vec<Value> =
        published.iter().map(|(metric, _)| json!({ "Name": metric.name(), "Unit": metric.unit().as_str() })).collect();
    let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
    let mut document = Map::new();
    document.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": at.as_millisecond(),
            "CloudWatchMetrics": [{ "Namespace": NAMESPACE, "Dimensions": [names], "Metrics": definitions }],
        }),
    );
    document.extend(dimensions.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    for (metric, values) in published {
        let value = match values.as_slice() {
            [one] => json!(one),
            several => json!(several.iter().take(100).collect::<Vec<_>>()),
        };
        document.insert(metric.name().to_owned(), value);
    }
    Some(Value::Object(document).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn metrics_are_few_and_have_distinct_names() {
        assert!(Metric::ALL.len() <= METRIC_LIMIT, "{} metrics cost too much", Metric::ALL.len());
        let names: BTreeSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(names.len(), Metric::ALL.len());
    }

    #[test]
    fn counts_are_added_gauges_keep_the_last_value_and_times_are_all_kept() {
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
    fn sums_of_zero_are_not_published_and_gauges_of_zero_are() {
        let mut metrics = Metrics::new();
        metrics.count(Metric::OrphansCollected, 0);
        assert_eq!(metrics.render("prod", Timestamp::UNIX_EPOCH), None);
        metrics.count(Metric::PendingPods, 0);
        metrics.count(Metric::WebhookCalls, 0);
        metrics.count(Metric::NodesLaunched, 1);
        let document: Value = serde_json::from_str(&metrics.render("prod", Timestamp::UNIX_EPOCH).unwrap()).unwrap();
        let defined = document["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
        let defined: BTreeSet<&str> = defined.iter().map(|metric| metric["Name"].as_str().unwrap()).collect();
        let known: BTreeSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        let published: BTreeSet<&str> = known.into_iter().filter(|name| document.get(*name).is_some()).collect();
        assert_eq!(defined, BTreeSet::from(["NodesLaunched", "PendingPods", "WebhookCalls"]));
        assert_eq!(published, defined);
    }

    #[test]
    fn the_grafana_dashboard_shows_every_metric_and_no_other() {
        let dashboard: Value = serde_json::from_str(include_str!("../../../../infra/grafana/dashboard.json")).unwrap();
        let panels = dashboard["panels"].as_array().unwrap().iter();
        let targets = panels
            .flat_map(|panel| panel["targets"].as_array().unwrap())
            .filter(|target| target["queryMode"] != "Logs");
        let shown: BTreeSet<&str> = targets.map(|target| target["metricName"].as_str().unwrap()).collect();
        let known: BTreeSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(shown, known);
    }

    #[test]
    fn node_pools_have_documents_of_their_own() {
        let mut metrics = Metrics::new();
        metrics.record(Metric::NodeCount, 5.0);
        metrics.record_of("web", Metric::NodesLaunched, 2.0);
        let mut all = Metrics::new();
        for one in [&metrics, &metrics] {
            all.merge(one);
        }
        assert_eq!(all.get(Metric::NodesLaunched), [0.0; 0]);
        let [document] = all.render_by_node_pool("prod", Timestamp::UNIX_EPOCH).try_into().unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([["Cluster", "NodePool"]]));
        assert_eq!((&document["NodePool"], &document["NodesLaunched"]), (&json!("web"), &json!(4.0)));
        assert!(document.get("NodeCount").is_none());
    }

    #[test]
    fn one_document_with_one_dimension() {
        assert_eq!(Metrics::new().render("prod", Timestamp::UNIX_EPOCH), None);
        let mut metrics = Metrics::new();
        metrics.count(Metric::OrphansCollected, 1);
        metrics.record(Metric::LaunchLatencyMilliseconds, 12.5);
        metrics.record(Metric::LaunchLatencyMilliseconds, 7.5);
        let text = metrics.render("prod", Timestamp::from_millisecond(1234).unwrap()).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            document,
            json!({
                "_aws": { "Timestamp": 1234, "CloudWatchMetrics": [{
                    "Namespace": "nodeless", "Dimensions": [["Cluster"]],
                    "Metrics": [
                        { "Name": "OrphansCollected", "Unit": "Count" },
                        { "Name": "LaunchLatencyMilliseconds", "Unit": "Milliseconds" },
                    ],
                }] },
                "Cluster": "prod", "OrphansCollected": 1.0, "LaunchLatencyMilliseconds": [12.5, 7.5],
            })
        );
    }
}
