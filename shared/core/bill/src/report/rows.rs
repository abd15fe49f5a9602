//! The rows of a report.

use crate::hour::{Amounts, Group, HourRecord};
use crate::open::{day_of, hours, start_of};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::CapacityType;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The row of what no pod requested on initialized nodes.
pub const IDLE: &str = "(idle)";
/// The row of nodes until they are initialized.
pub const STARTING: &str = "(starting)";
/// The row of nodes that terminate.
pub const LEAVING: &str = "(terminating)";

/// By what rows are formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A row for each cluster.
    Cluster,
    /// A row for each NodePool.
    NodePool,
    /// A row for each namespace.
    Namespace,
    /// A row for each controller of pods.
    Controller,
    /// A row for each value of a label of pods.
    Label(String),
    /// A row for each instance type, zone and capacity type.
    Type,
}

/// A text that is not a [`By`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not cluster, nodepool, namespace, controller, type or label=KEY, such as label=app.kubernetes.io/name"
)]
pub struct ByError(String);

impl FromStr for By {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, ByError> {
        match text {
            "cluster" => Ok(Self::Cluster),
            "nodepool" => Ok(Self::NodePool),
            "namespace" => Ok(Self::Namespace),
            "controller" => Ok(Self::Controller),
            "type" => Ok(Self::Type),
            "label" => Ok(Self::Label("app.kubernetes.io/name".to_owned())),
            other => match other.strip_prefix("label=") {
                Some(key) if !key.is_empty() => Ok(Self::Label(key.to_owned())),
                _ => Err(ByError(other.to_owned())),
            },
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::NodePool => f.write_str("nodepool"),
            Self::Namespace => f.write_str("namespace"),
            Self::Controller => f.write_str("controller"),
            Self::Type => f.write_str("type"),
            Self::Label(key) => write!(f, "label={key}"),
        }
    }
}

/// The costs of a row, or of all rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Costs {
    /// Hours of instances; zero for pods.
    pub node_hours: f64,
    /// Dollars.
    pub dollars: f64,
    /// Dollars at on-demand prices; for pods the same share of them as of the dollars.
    pub on_demand_dollars: f64,
    /// The part of the dollars for what no pod requested on initialized nodes.
    pub idle_dollars: f64,
    /// The part of the dollars of nodes that were not yet initialized.
    pub starting_dollars: f64,
    /// The part of the dollars of nodes that terminated.
    pub terminating_dollars: f64,
    /// The requests of pods.
    pub requested: Amounts,
    /// Hours of instances whose price is not known: they are not in the dollars.
    #[serde(skip)]
    pub unpriced_hours: f64,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// A cluster, a NodePool, a namespace, a controller (`namespace/Kind/name`), the value of a label, or an instance type. In parentheses what none of them requested.
    pub name: String,
    /// The availability zone of instances of a type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The capacity type of instances of a type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<CapacityType>,
    /// The costs.
    #[serde(flatten)]
    pub costs: Costs,
    /// The costs in the time of equal length before the report, if they are known. Rows of hours and days have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars_before: Option<f64>,
}

/// The instances in capacity reservations of a NodePool, instance type and zone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservedRow {
    /// The NodePool.
    pub node_pool: String,
    /// The instance type.
    pub instance_type: String,
    /// The availability zone.
    pub zone: String,
    /// Hours.
    pub node_hours: f64,
    /// The costs of the same instances at on-demand prices.
    pub on_demand_dollars: f64,
}

/// The rows of an hour or a day.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Period {
    /// The start.
    pub start: Timestamp,
    /// The end, exclusive.
    pub end: Timestamp,
    /// The rows, the dearest first.
    pub rows: Vec<Row>,
}

/// A record of a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordOfCluster<'a> {
    pub(super) cluster: &'a str,
    pub(super) record: &'a HourRecord,
}

/// A record before the report, and the part of its hour that counts, from 0 to 1.
pub(super) type Earlier<'a> = (RecordOfCluster<'a>, f64);

type Key = (String, Option<String>, Option<CapacityType>);

impl Costs {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.node_hours += other.node_hours;
        self.dollars += other.dollars;
        self.on_demand_dollars += other.on_demand_dollars;
        self.idle_dollars += other.idle_dollars;
        self.starting_dollars += other.starting_dollars;
        self.terminating_dollars += other.terminating_dollars;
        self.requested.add(other.requested);
        self.unpriced_hours += other.unpriced_hours;
    }

    /// Whether the price of no instance is known, so that the dollars are not either.
    #[must_use]
    pub fn is_unpriced(&self) -> bool {
        self.node_hours > 0.0 && self.unpriced_hours >= self.node_hours - 1e-9
    }

    /// The costs of a record.
    #[must_use]
    pub fn new(record: &HourRecord) -> Self {
        Self {
            node_hours: record.seconds() / 3600.0,
            dollars: record.dollars(),
            on_demand_dollars: record.on_demand_dollars(),
            idle_dollars: record.idle,
            starting_dollars: record.starting,
            terminating_dollars: record.leaving,
            requested: record.requested,
            unpriced_hours: record.offerings.iter().map(|it| it.unpriced_seconds / 3600.0).sum(),
        }
    }
}

/// The rows of records, the dearest first, with those of an earlier time beside them.
pub(super) fn rows(entries: &[RecordOfCluster<'_>], earlier: Option<&[Earlier<'_>]>, by: &By) -> Vec<Row> {
    let mut all: BTreeMap<Key, (Costs, f64)> = BTreeMap::new();
    for (key, costs) in entries.iter().flat_map(|entry| parts(entry, by)) {
        all.entry(key).or_default().0.add(costs);
    }
    for (entry, share) in earlier.unwrap_or_default() {
        for (key, costs) in parts(entry, by).into_iter().filter(|(_, costs)| costs.dollars > 0.0) {
            all.entry(key).or_default().1 += costs.dollars * share;
        }
    }
    let row = |((name, zone, capacity_type), (costs, before))| Row {
        name,
        zone,
        capacity_type,
        costs,
        dollars_before: earlier.map(|_| before),
    };
    let mut rows: Vec<Row> = all.into_iter().map(row).collect();
    // The sort is stable: rows that cost the same stay in the order of their names.
    rows.sort_by(|a, b| {
        let before = |row: &Row| row.dollars_before.unwrap_or_default();
        b.costs.dollars.total_cmp(&a.costs.dollars).then_with(|| before(b).total_cmp(&before(a)))
    });
    rows
}

/// The instances in capacity reservations, by NodePool, instance type and zone.
pub(super) fn reserved(entries: &[RecordOfCluster<'_>]) -> Vec<ReservedRow> {
    let mut all: BTreeMap<(&str, &str, &str), (f64, f64)> = BTreeMap::new();
    for record in entries.iter().map(|entry| entry.record) {
        for it in record.offerings.iter().filter(|it| it.capacity_type == CapacityType::Reserved) {
            let (hours, dollars) = all.entry((&record.node_pool, &it.instance_type, &it.zone)).or_default();
            *hours += it.seconds / 3600.0;
            *dollars += it.on_demand_dollars;
        }
    }
    let row =
        |((node_pool, instance_type, zone), (node_hours, on_demand_dollars)): ((&str, &str, &str), _)| ReservedRow {
            node_pool: node_pool.to_owned(),
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            node_hours,
            on_demand_dollars,
        };
    all.into_iter().map(row).collect()
}

/// The rows of each hour or day in a time.
pub(super) fn periods(
    entries: &[RecordOfCluster<'_>],
    by: &By,
    from: Timestamp,
    to: Timestamp,
    by_hours: bool,
) -> Vec<Period> {
    let start = |record: &HourRecord| if by_hours { record.hour } else { start_of(day_of(record.hour)) };
    let mut all: BTreeMap<Timestamp, Vec<RecordOfCluster<'_>>> = BTreeMap::new();
    for entry in entries {
        all.entry(start(entry.record)).or_default().push(*entry);
    }
    let length = SignedDuration::from_hours(if by_hours { 1 } else { 24 });
    let period = |(start, entries): (Timestamp, Vec<RecordOfCluster<'_>>)| {
        let end = start.checked_add(length).unwrap_or(to);
        Period { start: start.max(from), end: end.min(to).max(start), rows: rows(&entries, None, by) }
    };
    all.into_iter().map(period).filter(|period| hours(period.start, period.end) > 0.0).collect()
}

/// The parts of a record.
fn parts(entry: &RecordOfCluster<'_>, by: &By) -> Vec<(Key, Costs)> {
    let record = entry.record;
    let named = |name: &str| (name.to_owned(), None, None);
    match by {
        By::Cluster => vec![(named(entry.cluster), Costs::new(record))],
        By::NodePool => vec![(named(&record.node_pool), Costs::new(record))],
        By::Type => record
            .offerings
            .iter()
            .map(|it| {
                let key = (it.instance_type.clone(), Some(it.zone.clone()), Some(it.capacity_type));
                let costs = Costs {
                    node_hours: it.seconds / 3600.0,
                    dollars: it.dollars,
                    on_demand_dollars: it.on_demand_dollars,
                    unpriced_hours: it.unpriced_seconds / 3600.0,
                    ..Costs::default()
                };
                (key, costs)
            })
            .collect(),
        By::Namespace => groups(record, &record.namespaces, None),
        By::Controller => groups(record, &record.controllers, Some("(no controller)")),
        By::Label(key) => {
            let nothing = BTreeMap::new();
            groups(record, record.labels.get(key).unwrap_or(&nothing), Some(&format!("(no label {key})")))
        }
    }
}

/// The costs of the pods of each group, and the rest of the price of the nodes. `without` names the row of pods in none of the groups.
fn groups(record: &HourRecord, groups: &BTreeMap<String, Group>, without: Option<&str>) -> Vec<(Key, Costs)> {
    let dollars = record.dollars();
    let on_demand = if dollars > 0.0 { record.on_demand_dollars() / dollars } else { 1.0 };
    let of = |name: &str, dollars: f64, requested: Amounts| {
        let costs = Costs { dollars, on_demand_dollars: dollars * on_demand, requested, ..Costs::default() };
        ((name.to_owned(), None, None), costs)
    };
    let mut parts: Vec<(Key, Costs)> =
        groups.iter().map(|(name, group)| of(name, group.dollars, group.requested)).collect();
    let grouped: f64 = groups.values().map(|group| group.dollars).sum();
    if let Some(without) = without {
        // Amounts have six decimal places: what is left may be no more than what was rounded.
        let rounded = 1e-6 * f64::from(u32::try_from(groups.len() + 5).unwrap_or(u32::MAX));
        let left = |amount: f64| if amount > rounded { amount } else { 0.0 };
        let mut rest = record.requested;
        groups.values().for_each(|group| rest.add(group.requested.times(-1.0)));
        let requested = Amounts { cpu: left(rest.cpu), memory: left(rest.memory), gpu: left(rest.gpu) };
        let dollars = left(dollars - record.idle - record.starting - record.leaving - grouped);
        parts.push(of(without, dollars, requested));
    }
    let idle = Costs { idle_dollars: record.idle, ..of(IDLE, record.idle, Amounts::default()).1 };
    let starting = Costs { starting_dollars: record.starting, ..of(STARTING, record.starting, Amounts::default()).1 };
    let leaving = Costs { terminating_dollars: record.leaving, ..of(LEAVING, record.leaving, Amounts::default()).1 };
    parts.extend(
        [(IDLE, idle), (STARTING, starting), (LEAVING, leaving)].map(|(name, it)| ((name.to_owned(), None, None), it)),
    );
    parts.retain(|(_, costs)| costs.dollars > 0.0 || costs.requested != Amounts::default());
    parts
}
