//! Recent answers of EC2: unavailable offerings, launch budgets, and dry runs.

use crate::items::{Item, number, read_json, read_number, read_text, text, ttl, write_json};
use crate::table::DynamoClaims;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_model::CapacityType;
use nodeless_model::claim::OfferingKey;
use nodeless_ports::capacity::{LaunchBudget, SpotInterruption, UnavailableOffering};
use nodeless_ports::{Capacity, ErrorKind, LaunchCheck, PortError};
use std::collections::BTreeMap;
use std::time::Duration;

const UNAVAILABLE: &str = "unavailable#";
const BUDGET: &str = "budget#";
const INTERRUPTED: &str = "interrupted#";

#[async_trait]
impl Capacity for DynamoClaims {
    async fn mark_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), PortError> {
        // A call must not contain an item twice; the later of two marks on an offering counts.
        let mut latest = BTreeMap::new();
        for offering in offerings {
            let UnavailableOffering { instance_type, zone, capacity_type, .. } = offering;
            let known =
                latest.entry(format!("{UNAVAILABLE}{instance_type}#{zone}#{capacity_type}")).or_insert(offering);
            if known.until < offering.until {
                *known = offering;
            }
        }
        let items = latest.into_iter().map(|(key, offering)| {
            let mut item = self.item_until(&key, offering.until);
            item.insert("reason".to_owned(), text(&offering.reason));
            item
        });
        self.put_all(items).await
    }

    async fn unavailable(&self, now: Timestamp) -> Result<Vec<UnavailableOffering>, PortError> {
        let mut offerings = Vec::new();
        for item in self.items(UNAVAILABLE, None).await? {
            let (OfferingKey { instance_type, zone, capacity_type }, until) = offering_until(&item)?;
            // DynamoDB may delete expired items hours later.
            if until > now {
                let reason = read_text(&item, "reason")?.to_owned();
                offerings.push(UnavailableOffering { instance_type, zone, capacity_type, until, reason });
            }
        }
        Ok(offerings)
    }

    async fn record_interruptions(&self, interruptions: &[SpotInterruption]) -> Result<(), PortError> {
        // A call must not contain an item twice.
        let by_key: BTreeMap<String, &SpotInterruption> = interruptions
            .iter()
            .map(|one| (format!("{INTERRUPTED}{}#{}#{}", one.instance_type, one.zone, one.instance_id), one))
            .collect();
        let items = by_key.into_iter().map(|(key, one)| {
            let mut item = self.item_until(&key, one.until);
            item.insert("at".to_owned(), text(one.at.to_string()));
            item
        });
        self.put_all(items).await
    }

    async fn interruptions(&self, now: Timestamp) -> Result<Vec<SpotInterruption>, PortError> {
        let mut interruptions = Vec::new();
        for item in self.items(INTERRUPTED, None).await? {
            let one = interruption(&item)?;
            // DynamoDB may delete expired items hours later.
            if one.until > now {
                interruptions.push(one);
            }
        }
        interruptions.sort();
        Ok(interruptions)
    }

    async fn launch_budgets(&self, now: Timestamp) -> Result<Vec<LaunchBudget>, PortError> {
        let mut budgets = Vec::new();
        for item in self.items(BUDGET, None).await? {
            let (offering, until) = offering_until(&item)?;
            if until > now {
                budgets.push(LaunchBudget { offering, size: read_number(&item, "size")?, until });
            }
        }
        Ok(budgets)
    }

    /// Writes each budget conditionally: if two launches end at the same time, the larger budget is kept, and a reset
    /// between the two is detected.
    async fn raise_launch_budgets(
        &self,
        budgets: &[LaunchBudget],
        initial: u32,
        now: Timestamp,
    ) -> Result<(), PortError> {
        for budget in budgets {
            // If nothing is written, the initial budget is in effect.
            let condition = if budget.size > initial {
                "attribute_not_exists(sk) OR expires <= :now OR size < :size"
            } else {
                "attribute_exists(sk) AND expires > :now AND size < :size"
            };
            let put = self
                .client
                .put_item()
                .table_name(&self.table)
                .set_item(Some(self.budget_item(budget)))
                .condition_expression(condition.replace("size <", "#size <"))
                .expression_attribute_names("#size", "size")
                .expression_attribute_values(":size", number(budget.size))
                .expression_attribute_values(":now", number(now.as_second()));
            match put.send().await.map_err(|error| port_error("DynamoDB PutItem (launch budget)", &error)) {
                Err(error) if error.kind != ErrorKind::Conflict => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    async fn reset_launch_budgets(&self, budgets: &[LaunchBudget]) -> Result<(), PortError> {
        self.put_all(budgets.iter().map(|budget| self.budget_item(budget))).await
    }

    async fn launch_check(&self, node_class: &str) -> Result<Option<LaunchCheck>, PortError> {
        self.item(&launch_check_key(node_class)).await?.map(|item| read_json(&item, "record")).transpose()
    }

    async fn put_launch_check(&self, check: &LaunchCheck, keep: Duration) -> Result<(), PortError> {
        let expires = check.asked_at.checked_add(keep).unwrap_or(Timestamp::MAX);
        let attributes = vec![("record", write_json(check, "launch check")?), ("expires", ttl(expires))];
        self.put(&launch_check_key(&check.node_class), attributes).await
    }
}

impl DynamoClaims {
    fn budget_item(&self, budget: &LaunchBudget) -> Item {
        let OfferingKey { instance_type, zone, capacity_type } = &budget.offering;
        let mut item = self.item_until(&format!("{BUDGET}{instance_type}#{zone}#{capacity_type}"), budget.until);
        item.insert("size".to_owned(), number(budget.size));
        item
    }

    fn item_until(&self, key: &str, until: Timestamp) -> Item {
        let mut item = self.key(key);
        item.insert("until".to_owned(), text(until.to_string()));
        item.insert("expires".to_owned(), ttl(until));
        item
    }
}

fn launch_check_key(node_class: &str) -> String {
    format!("launchcheck#{node_class}")
}

fn damaged(key: &str, why: &str) -> PortError {
    PortError::new(ErrorKind::Invalid, "DynamoDB read", format!("item {key:?} {why}; delete it"))
}

fn interruption(item: &Item) -> Result<SpotInterruption, PortError> {
    let key = read_text(item, "sk")?;
    let parts: Vec<&str> = key.split('#').skip(1).collect();
    let [instance_type, zone, instance_id] = parts[..] else { return Err(damaged(key, "does not name an instance")) };
    let time = |attribute: &str| {
        let why = format!("has no time in its attribute {attribute}");
        read_text(item, attribute)?.parse().map_err(|_| damaged(key, &why))
    };
    Ok(SpotInterruption {
        instance_type: instance_type.to_owned(),
        zone: zone.to_owned(),
        instance_id: instance_id.to_owned(),
        at: time("at")?,
        until: time("until")?,
    })
}

/// The offering of an item, and its expiry.
fn offering_until(item: &Item) -> Result<(OfferingKey, Timestamp), PortError> {
    let key = read_text(item, "sk")?;
    let damaged = |why: &str| damaged(key, why);
    let parts: Vec<&str> = key.split('#').skip(1).collect();
    let [instance_type, zone, capacity_type] = parts[..] else { return Err(damaged("does not name an offering")) };
    let capacity_type =
        CapacityType::from_label(capacity_type).ok_or_else(|| damaged("names an unknown capacity type"))?;
    let until = read_text(item, "until")?.parse().map_err(|_| damaged("has no time in its attribute until"))?;
    Ok((OfferingKey { instance_type: instance_type.to_owned(), zone: zone.to_owned(), capacity_type }, until))
}
