//! Reports as CSV, with the column names of FOCUS 1.2 where it has them. FOCUS names columns that it does not have with `x_`.

use super::rows::{Period, Row};
use super::{Division, Report};
use nodeless_catalog::facts::region_of_zone;
use nodeless_model::CapacityType;
use std::fmt::Write as _;

/// The columns. `docs/report.md` describes them.
const COLUMNS: [&str; 32] = [
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ChargeCategory",
    "ChargeFrequency",
    "ChargeDescription",
    "BillingCurrency",
    "EffectiveCost",
    "ListCost",
    "PricingCategory",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
    "RegionId",
    "AvailabilityZone",
    "ResourceType",
    "x_Division",
    "x_Cluster",
    "x_NodePool",
    "x_Namespace",
    "x_Controller",
    "x_Label",
    "x_LabelValue",
    "x_InstanceType",
    "x_IdleCost",
    "x_StartingCost",
    "x_TerminatingCost",
    "x_RequestedCpuHours",
    "x_RequestedMemoryGiBHours",
    "x_RequestedGpuHours",
];

/// Reports of a cluster each as CSV (RFC 4180): a row for each row of each period, of one division after another.
#[must_use]
pub fn csv(reports: &[Report]) -> String {
    let mut text = COLUMNS.join(",") + "\r\n";
    for report in reports {
        let cluster = report.clusters.iter().map(|cluster| cluster.name.as_str()).collect::<Vec<_>>().join(", ");
        for division in &report.divisions {
            let of = |period| move |row| (period, row);
            for (period, row) in division.periods.iter().flat_map(|period| period.rows.iter().map(of(period))) {
                let values = values(&cluster, division, period, row).map(|value| field(&value));
                let _ = write!(text, "{}\r\n", values.join(","));
            }
        }
    }
    text
}

fn values(cluster: &str, division: &Division, period: &Period, row: &Row) -> [String; 32] {
    let by = division.by.as_str();
    let costs = &row.costs;
    let only = |division: &str, value: &str| if by == division { value.to_owned() } else { String::new() };
    let label = by.strip_prefix("label=").unwrap_or_default();
    let (is_type, of_nodes) = (by == "type", costs.node_hours > 0.0);
    // Spot instances have a price that changes; those in a reservation are part of a commitment.
    let category = row.capacity_type.map_or("", |kind| match kind {
        CapacityType::Spot => "Dynamic",
        CapacityType::OnDemand => "Standard",
        CapacityType::Reserved => "Committed",
    });
    let known = |is_known: bool, value: f64| if is_known { amount(value) } else { String::new() };
    let priced = !costs.is_unpriced();
    // What pods use of an instance type is not recorded.
    let (parts, requests) = (priced && !is_type, !is_type);
    let zone = row.zone.clone().unwrap_or_default();
    let region = region_of_zone(&zone).unwrap_or_default().to_owned();
    [
        period.start.to_string(),
        period.end.to_string(),
        "Usage".into(),
        "Usage-Based".into(),
        format!("Nodes of cluster {cluster}: {by} {}", row.name),
        "USD".into(),
        known(priced, costs.dollars),
        known(priced, costs.on_demand_dollars),
        category.into(),
        known(of_nodes, costs.node_hours),
        if of_nodes { "Hours".into() } else { String::new() },
        "AWS".into(),
        "AWS".into(),
        "Compute".into(),
        "Amazon Elastic Compute Cloud".into(),
        region,
        zone,
        if is_type { "Instance".into() } else { String::new() },
        by.to_owned(),
        cluster.to_owned(),
        only("nodepool", &row.name),
        only("namespace", &row.name),
        only("controller", &row.name),
        label.to_owned(),
        if label.is_empty() { String::new() } else { row.name.clone() },
        only("type", &row.name),
        known(parts, costs.idle_dollars),
        known(parts, costs.starting_dollars),
        known(parts, costs.terminating_dollars),
        known(requests, costs.requested.cpu),
        known(requests, costs.requested.memory),
        known(requests, costs.requested.gpu),
    ]
}

/// Six decimal places, as prices have.
fn amount(value: f64) -> String {
    ((value * 1e6).round() / 1e6 + 0.0).to_string()
}

/// Quoted where it has to be.
fn field(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}
