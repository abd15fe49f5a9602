//! The usage of each NodePool, and how a charge is checked against limits.

use crate::State;
use crate::items::{number, read_number, read_text, text};
use crate::limits::PoolLimits;
use crate::state::conflict;
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{ClusterLimits, Quantity, ResourceList};
use nodeless_ports::PortError;
use nodeless_ports::table::{Attributes, Change, Condition, Item, Key, Value, Write};
use std::collections::{BTreeMap, BTreeSet};

/// Dollars are summed as whole micro-dollars, so that released charges leave exactly zero.
const MICRODOLLARS: &str = "microdollars";
/// The name of the limit on dollars in reports.
const DOLLARS_LIMIT: &str = "dollars-per-hour";
const RECOUNTED: &str = "recounted";
const REVISION: &str = "revision";
const RESOURCE_PREFIX: &str = "r:";
const PREFIX: &str = "nodepool#";

/// A charge, or a difference of charges, in the units of the table: whole numbers by attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(pub(crate) BTreeMap<String, i64>);

impl Amounts {
    pub(crate) fn new(charge: &Charge) -> Self {
        Self::from_parts(&charge.resources, charge.dollars_per_hour)
    }

    fn from_parts(resources: &ResourceList, dollars: f64) -> Self {
        let mut amounts: BTreeMap<String, i64> =
            resources.iter().map(|(name, quantity)| (format!("{RESOURCE_PREFIX}{name}"), quantity.milli())).collect();
        amounts.insert(MICRODOLLARS.to_owned(), to_microdollars(dollars));
        Self(amounts)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.0.clone();
        for (attribute, amount) in &other.0 {
            *sum.entry(attribute.clone()).or_default() += amount;
        }
        Self(sum)
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        let mut left = self.0.clone();
        for (attribute, amount) in &other.0 {
            *left.entry(attribute.clone()).or_default() -= amount;
        }
        Self(left)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.values().all(|amount| *amount == 0)
    }

    /// The write that adds the amounts to a NodePool's usage, on condition that no limit is exceeded.
    pub(crate) fn charge(&self, node_pool: &str, limits: Option<&PoolLimits>) -> Write {
        let limits = limits.map(|limits| limits_by_attribute(&limits.resources, limits.dollars_per_hour));
        let limits = limits.unwrap_or_default();
        let limited = self.0.iter().filter(|(_, amount)| **amount > 0);
        let conditions = limited.filter_map(|(attribute, amount)| {
            let left = limits.get(attribute)? - amount;
            Some(Condition::Any(vec![Condition::Lacks(attribute.clone()), Condition::AtMost(attribute.clone(), left)]))
        });
        let mut add = self.0.clone();
        add.insert(REVISION.to_owned(), 1);
        Write::new(pool_key(node_pool), Change::Add(add)).on(Condition::All(conditions.collect()))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a price in micro-dollars is far below 2^63, and `as` saturates")]
fn to_microdollars(dollars: f64) -> i64 {
    (dollars * 1e6).round() as i64
}

#[expect(clippy::cast_precision_loss, reason = "sums of prices stay far below 2^53 micro-dollars")]
fn to_dollars(microdollars: i64) -> f64 {
    microdollars as f64 / 1e6
}

/// Limits by attribute, in the table's units.
fn limits_by_attribute(resources: &ResourceList, dollars: Option<f64>) -> BTreeMap<String, i64> {
    let mut by_attribute: BTreeMap<String, i64> =
        resources.iter().map(|(name, quantity)| (format!("{RESOURCE_PREFIX}{name}"), quantity.milli())).collect();
    if let Some(dollars) = dollars {
        by_attribute.insert(MICRODOLLARS.to_owned(), to_microdollars(dollars));
    }
    by_attribute
}

/// The name of the limit on an attribute.
fn limit_name(attribute: &str) -> String {
    attribute.strip_prefix(RESOURCE_PREFIX).unwrap_or(DOLLARS_LIMIT).to_owned()
}

/// The first limit that a usage (the NodePool's item, or none yet) and the amounts together would exceed.
pub(crate) fn first_limit_passed(usage: Option<&Item>, amounts: &Amounts, limits: &PoolLimits) -> Option<String> {
    let used = |attribute: &str| usage.and_then(|item| read_number::<i64>(item, attribute).ok()).unwrap_or_default();
    first_passed(used, amounts, &limits_by_attribute(&limits.resources, limits.dollars_per_hour))
}

/// The first limit of the cluster that the usage of all NodePools and the amounts together would exceed.
pub(crate) fn first_cluster_limit_passed(
    usage: &BTreeMap<String, PoolUsage>,
    amounts: &Amounts,
    limits: &ClusterLimits,
) -> Option<String> {
    let all = PoolUsage::sum(usage.values());
    let all = Amounts::from_parts(&all.resources, all.dollars_per_hour);
    let used = |attribute: &str| all.0.get(attribute).copied().unwrap_or_default();
    first_passed(used, amounts, &limits_by_attribute(&limits.resources, limits.dollars_per_hour))
}

fn first_passed(used: impl Fn(&str) -> i64, amounts: &Amounts, limits: &BTreeMap<String, i64>) -> Option<String> {
    limits.iter().find_map(|(attribute, limit)| {
        let charged = amounts.0.get(attribute).copied().unwrap_or_default();
        (charged > 0 && used(attribute).saturating_add(charged) > *limit).then(|| limit_name(attribute))
    })
}

impl State {
    /// The usage of each NodePool: the sum of the charges of its claims.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn usage(&self) -> Result<BTreeMap<String, PoolUsage>, PortError> {
        let items = self.items_of("claims usage", PREFIX).await?;
        items
            .iter()
            .map(|item| Ok((item.key.sort.trim_start_matches(PREFIX).to_owned(), decode_usage(item)?)))
            .collect()
    }

    /// Corrects a NodePool's usage to the computed sum, if it is still what was read.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when it changed meanwhile.
    pub async fn correct_usage(&self, node_pool: &str, read: &PoolUsage, counted: &PoolUsage) -> Result<(), PortError> {
        const OPERATION: &str = "claims correct usage";
        let before = Amounts::from_parts(&read.resources, read.dollars_per_hour);
        let after = Amounts::from_parts(&counted.resources, counted.dollars_per_hour);
        let names: BTreeSet<&String> = before.0.keys().chain(after.0.keys()).collect();
        let (mut set, mut conditions) = (Attributes::new(), Vec::new());
        for name in names {
            let was = before.0.get(name).copied().unwrap_or_default();
            conditions.push(is_or_lacks(name, was));
            set.insert(name.clone(), Value::Number(after.0.get(name).copied().unwrap_or_default()));
        }
        // Charges that cancel each other out leave the same sums, but the revision differs.
        conditions.push(match read.revision {
            0 => Condition::Lacks(REVISION.to_owned()),
            revision => Condition::Is(REVISION.to_owned(), number(revision)),
        });
        set.insert(REVISION.to_owned(), number(read.revision + 1));
        if let Some(at) = counted.recounted {
            set.insert(RECOUNTED.to_owned(), text(at.to_string()));
        }
        let write = Write::new(pool_key(node_pool), Change::Set(set)).on(Condition::All(conditions));
        if self.write_one(OPERATION, write).await? { Ok(()) } else { Err(conflict(OPERATION, node_pool)) }
    }
}

/// The condition that a number is as it was read; a missing one was read as zero.
fn is_or_lacks(name: &str, was: i64) -> Condition {
    let is = Condition::Is(name.to_owned(), Value::Number(was));
    if was == 0 { Condition::Any(vec![Condition::Lacks(name.to_owned()), is]) } else { is }
}

fn decode_usage(item: &Item) -> Result<PoolUsage, PortError> {
    let mut usage = PoolUsage::default();
    for attribute in item.attributes.keys() {
        if let Some(resource) = attribute.strip_prefix(RESOURCE_PREFIX) {
            usage.resources.set(resource, Quantity::from_milli(read_number(item, attribute)?));
        } else if attribute == REVISION {
            usage.revision = read_number(item, attribute)?;
        } else if attribute == MICRODOLLARS {
            usage.dollars_per_hour = to_dollars(read_number(item, attribute)?);
        } else if attribute == RECOUNTED {
            usage.recounted = read_text(item, attribute)?.parse().ok();
        }
    }
    Ok(usage)
}

fn pool_key(node_pool: &str) -> Key {
    Key::of_cluster(format!("{PREFIX}{node_pool}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(cpu: i64, dollars: f64) -> Amounts {
        Amounts::new(&Charge {
            resources: ResourceList::from([("cpu", Quantity::from_units(cpu)), ("nodes", Quantity::from_units(1))]),
            dollars_per_hour: dollars,
        })
    }

    #[test]
    fn finds_the_limit_that_would_be_passed() {
        let limits = PoolLimits {
            resources: ResourceList::from([("cpu", Quantity::from_units(10))]),
            dollars_per_hour: Some(0.5),
        };
        let attributes = crate::items::attributes([("r:cpu", number(8000)), (MICRODOLLARS, number(300_000))]);
        let used = Item { key: pool_key("default"), attributes };
        assert_eq!(first_limit_passed(Some(&used), &charge(2, 0.1), &limits), None);
        assert_eq!(first_limit_passed(Some(&used), &charge(3, 0.1), &limits), Some("cpu".to_owned()));
        assert_eq!(first_limit_passed(Some(&used), &charge(2, 0.3), &limits), Some("dollars-per-hour".to_owned()));
        assert_eq!(first_limit_passed(None, &charge(11, 0.1), &limits), Some("cpu".to_owned()));
    }

    #[test]
    fn the_limits_of_the_cluster_bound_all_node_pools_together() {
        let limits = ClusterLimits {
            resources: ResourceList::from([("cpu", Quantity::from_units(10)), ("nodes", Quantity::from_units(3))]),
            dollars_per_hour: Some(0.5),
        };
        let used = |cpu: i64, dollars: f64| PoolUsage {
            resources: ResourceList::from([("cpu", Quantity::from_units(cpu)), ("nodes", Quantity::from_units(1))]),
            dollars_per_hour: dollars,
            ..PoolUsage::default()
        };
        let usage = BTreeMap::from([("a".to_owned(), used(3, 0.1)), ("b".to_owned(), used(4, 0.2))]);
        let passed = |cpu, dollars| first_cluster_limit_passed(&usage, &charge(cpu, dollars), &limits);
        assert_eq!(passed(3, 0.2), None, "exactly the limits");
        assert_eq!(passed(4, 0.2), Some("cpu".to_owned()));
        assert_eq!(passed(3, 0.200_001), Some("dollars-per-hour".to_owned()));
        let more = BTreeMap::from([("a".to_owned(), used(1, 0.0)), ("b".to_owned(), used(1, 0.0))]);
        let two = charge(1, 0.0).plus(&charge(1, 0.0));
        assert_eq!(first_cluster_limit_passed(&more, &two, &limits), Some("nodes".to_owned()));
        assert_eq!(first_cluster_limit_passed(&more, &two, &ClusterLimits::default()), None);
    }

    #[test]
    fn a_charge_given_back_leaves_nothing() {
        assert!(charge(3, 0.1).minus(&charge(3, 0.1)).is_zero());
        assert!(!charge(3, 0.1).minus(&charge(2, 0.1)).is_zero());
    }
}
