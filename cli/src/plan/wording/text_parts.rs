//! Functions that several parts of the text output of a plan use.

use super::parts::PricedType;
use nodeless_model::DollarsPerHour;

/// The maximum number of names in a list; further names are counted.
pub(crate) const SHOWN: usize = 4;

/// The other instance types that may be launched.
pub(crate) fn alternatives(kinds: &[PricedType]) -> String {
    let others = kinds.get(1..).unwrap_or_default();
    let Some(dearest) = others.last() else { return "no other instance type is compatible".to_owned() };
    let shown = others.iter().take(SHOWN).map(|kind| format!("{} {}", kind.name, dollars(kind.price_per_hour)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match others.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more, up to {}", dollars(dearest.price_per_hour)),
    }
}

pub(crate) fn shortened(names: &[&str]) -> String {
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

pub(crate) fn dollars(price: f64) -> String {
    DollarsPerHour(price).to_string()
}
