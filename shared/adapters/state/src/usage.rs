//! The usage of each NodePool, and how a charge is checked against limits.

use crate::items::{Item, number, read_number, read_text, text};
use crate::table::DynamoClaims;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use nodeless_aws::port_error;
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{ClusterLimits, Quantity, ResourceList};
use nodeless_ports::claims::PoolLimits;
use nodeless_ports::{ErrorKind, PortError};
use std::collections::{BTreeMap, BTreeSet};

/// Dollars are summed as whole micro-dollars, so that released charges leave exactly zero.
pub(crate) const MICRODOLLARS: &str = "microdollars";
/// The name of the limit on dollars in reports.
const DOLLARS_LIMIT: &str = "dollars-per-hour";
const RECOUNTED: &str = "recounted";
const REVISION: &str = "revision";
const RESOURCE_PREFIX: &str = "r:";

/// A charge, or a difference of charges, in the units of the table: whole numbers by attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(pub(crate) BTreeMap<String, i64>);

impl Amounts {
    pub(crate) fn of(charge: &Charge) -> Self {
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

impl DynamoClaims {
    /// Adds the amounts to a NodePool's usage, on condition that no limit is exceeded.
    pub(crate) fn charge(
        &self,
        node_pool: &str,
        amounts: &Amounts,
        limits: Option<&PoolLimits>,
    ) -> Result<Update, PortError> {
        let limits = limits.map(|limits| limits_by_attribute(&limits.resources, limits.dollars_per_hour));
        let limits = limits.unwrap_or_default();
        let mut update = Update::builder().table_name(&self.table).set_key(Some(self.key(&pool_key(node_pool))));
        let mut additions = Vec::new();
        let mut conditions = Vec::new();
        for (index, (attribute, amount)) in amounts.0.iter().enumerate() {
            update = update
                .expression_attribute_names(format!("#a{index}"), attribute)
                .expression_attribute_values(format!(":a{index}"), number(amount));
            additions.push(format!("#a{index} :a{index}"));
            if let Some(limit) = limits.get(attribute).filter(|_| *amount > 0) {
                update = update.expression_attribute_values(format!(":left{index}"), number(limit - amount));
                conditions.push(format!("(attribute_not_exists(#a{index}) OR #a{index} <= :left{index})"));
            }
        }
        if !conditions.is_empty() {
            update = update.condition_expression(conditions.join(" AND "));
        }
        update =
            update.expression_attribute_names("#revision", REVISION).expression_attribute_values(":one", number(1));
        additions.push("#revision :one".to_owned());
        finish(update.update_expression(format!("ADD {}", additions.join(", "))))
    }

    pub(crate) async fn read_usage(&self) -> Result<BTreeMap<String, PoolUsage>, PortError> {
        let mut usages = BTreeMap::new();
        for item in self.items("nodepool#", None).await? {
            let name = read_text(&item, "sk")?.trim_start_matches("nodepool#").to_owned();
            usages.insert(name, decode_usage(&item)?);
        }
        Ok(usages)
    }

    pub(crate) async fn write_usage(
        &self,
        node_pool: &str,
        read: &PoolUsage,
        counted: &PoolUsage,
    ) -> Result<(), PortError> {
        let before = Amounts::from_parts(&read.resources, read.dollars_per_hour);
        let after = Amounts::from_parts(&counted.resources, counted.dollars_per_hour);
        let attributes: BTreeSet<&String> = before.0.keys().chain(after.0.keys()).collect();
        let mut update =
            self.client.update_item().table_name(&self.table).set_key(Some(self.key(&pool_key(node_pool))));
        let (mut settings, mut conditions) = (Vec::new(), Vec::new());
        for (index, attribute) in attributes.into_iter().enumerate() {
            let was = before.0.get(attribute).copied().unwrap_or_default();
            let is = after.0.get(attribute).copied().unwrap_or_default();
            update = update
                .expression_attribute_names(format!("#a{index}"), attribute)
                .expression_attribute_values(format!(":was{index}"), number(was))
                .expression_attribute_values(format!(":is{index}"), number(is));
            let absent = if was == 0 { format!("attribute_not_exists(#a{index}) OR ") } else { String::new() };
            conditions.push(format!("({absent}#a{index} = :was{index})"));
            settings.push(format!("#a{index} = :is{index}"));
        }
        // Charges that cancel each other out leave the same sums, but the revision differs.
        let unchanged = if read.revision == 0 { "attribute_not_exists(#revision)" } else { "#revision = :read" };
        conditions.push(unchanged.to_owned());
        settings.push("#revision = :next".to_owned());
        update = update
            .expression_attribute_names("#revision", REVISION)
            .expression_attribute_values(":next", number(read.revision + 1));
        if read.revision != 0 {
            update = update.expression_attribute_values(":read", number(read.revision));
        }
        if let Some(at) = counted.recounted {
            settings.push(format!("{RECOUNTED} = :recounted"));
            update = update.expression_attribute_values(":recounted", text(at.to_string()));
        }
        update
            .update_expression(format!("SET {}", settings.join(", ")))
            .condition_expression(conditions.join(" AND "))
            .send()
            .await
            .map_err(|error| port_error("DynamoDB UpdateItem (usage)", &error))?;
        Ok(())
    }
}

fn decode_usage(item: &Item) -> Result<PoolUsage, PortError> {
    let mut usage = PoolUsage::default();
    for (attribute, value) in item {
        if let Some(resource) = attribute.strip_prefix(RESOURCE_PREFIX) {
            usage.resources.set(resource, Quantity::from_milli(read_number(item, attribute)?));
        } else if attribute == REVISION {
            usage.revision = read_number(item, attribute)?;
        } else if attribute == MICRODOLLARS {
            usage.dollars_per_hour = to_dollars(read_number(item, attribute)?);
        } else if let (RECOUNTED, AttributeValue::S(at)) = (attribute.as_str(), value) {
            usage.recounted = at.parse().ok();
        }
    }
    Ok(usage)
}

fn pool_key(node_pool: &str) -> String {
    format!("nodepool#{node_pool}")
}

pub(crate) fn finish(update: UpdateBuilder) -> Result<Update, PortError> {
    update.build().map_err(|error| PortError::new(ErrorKind::Invalid, "DynamoDB build Update", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(cpu: i64, dollars: f64) -> Amounts {
        Amounts::of(&Charge {
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
        let used = Item::from([("r:cpu".to_owned(), number(8000)), (MICRODOLLARS.to_owned(), number(300_000))]);
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
