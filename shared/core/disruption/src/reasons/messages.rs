//! The parts of messages that depend on a value.

use super::KeptReason;
use super::drift::KeepsPlace;
use jiff::Timestamp;
use nodeless_model::{DisruptionReason, DollarsPerHour};

/// A smaller difference of prices, in dollars per hour, is none in a message.
const SMALLEST_DIFFERENCE: f64 = 0.000_05;

/// A message about a zonal shift. `Timestamp::MAX` means that its end is unknown.
pub(crate) fn zonal_shift(zone: &str, until: Timestamp) -> String {
    let end = if until == Timestamp::MAX { String::new() } else { format!(" until {until}") };
    format!("a zonal shift away from {zone} is in effect{end}")
}

pub(super) fn protected_until(until: Option<Timestamp>) -> String {
    until.map(|until| format!(", which protects it until {until:.0}")).unwrap_or_default()
}

pub(super) fn paused_until(until: Option<Timestamp>) -> String {
    until.map(|until| format!(" until {until:.0}")).unwrap_or_default()
}

pub(super) fn price_unknown(instance_type: &str) -> String {
    if instance_type.is_empty() {
        "its price is unknown, because its instance type, zone or capacity type is unknown".to_owned()
    } else {
        format!("the price of its instance type {instance_type} is unknown")
    }
}

pub(super) fn not_cheaper(price: f64, replacement: f64, instance_types: &[String]) -> String {
    let (own, other) = (DollarsPerHour(price), DollarsPerHour(replacement));
    let nodes = match instance_types {
        [] => format!("new nodes would cost at least {other}"),
        kinds => format!("{} would cost {other}", kinds.join(" and ")),
    };
    let difference = match replacement - price {
        more if more >= SMALLEST_DIFFERENCE => format!("{} more", DollarsPerHour(more)),
        _ => "which is no less".to_owned(),
    };
    format!("it costs {own}, and for the pods that fit on no other node {nodes}, {difference}")
}

pub(super) fn paid_no_less(saving: f64) -> String {
    match -saving {
        more if more >= SMALLEST_DIFFERENCE => {
            format!("{} more would be paid for all nodes without it", DollarsPerHour(more))
        }
        _ => "no less would be paid for all nodes without it".to_owned(),
    }
}

pub(super) fn min_savings(node_pool: &str, saving: f64, min_saving: Option<f64>) -> String {
    match min_saving {
        Some(min_saving) => format!(
            "at most {} would be saved, and NodePool {node_pool} requires at least {} (nodeless.sh/min-savings-per-hour)",
            DollarsPerHour(saving),
            DollarsPerHour(min_saving)
        ),
        None => format!(
            "annotation nodeless.sh/min-savings-per-hour of NodePool {node_pool} is invalid, so no node of it is consolidated"
        ),
    }
}

pub(super) fn and_place(place: Option<&KeepsPlace>) -> String {
    place.map(|place| format!("; {place}")).unwrap_or_default()
}

pub(super) fn instead_of_it(why: Option<&KeptReason>) -> String {
    why.map(|why| format!("; about an on-demand node instead: {why}")).unwrap_or_default()
}

pub(super) fn budget_field(index: Option<usize>) -> String {
    index.map(|index| format!(" (spec.disruption.budgets[{index}])")).unwrap_or_default()
}

/// Nodes that are not ready count for the budgets of every other reason.
pub(super) const fn or_not_ready(reason: DisruptionReason) -> &'static str {
    if matches!(reason, DisruptionReason::Unhealthy) { "" } else { " or not ready" }
}
