//! Recent answers and notices of EC2: unavailable offerings, interruptions, launch budgets, and dry runs.

use crate::State;
use crate::items::{
    attributes, key_parts, number, read_json, read_number, read_text, read_time, text, ttl, unusable, write_json,
};
use crate::state::after;
use jiff::Timestamp;
use nodeless_model::CapacityType;
pub use nodeless_model::claim::LaunchBudget;
use nodeless_model::claim::OfferingKey;
pub use nodeless_model::launch_check::{LaunchAnswer, LaunchCheck, Refusal};
use nodeless_model::shortage::Shortage;
pub use nodeless_model::spot_interruption::SpotInterruption;
use nodeless_ports::PortError;
use nodeless_ports::table::{Change, Condition, EXPIRES, Item, Key, Value, Write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Offerings for which EC2 lacked capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnavailableOffering {
    /// What lacked capacity.
    pub shortage: Shortage,
    /// Until when no launch uses it.
    pub until: Timestamp,
    /// EC2's code, such as `InsufficientInstanceCapacity`.
    pub reason: String,
}

/// How long an answer of EC2 to a dry run is kept: longer than the interval between validations.
const LAUNCH_CHECK_KEPT: Duration = Duration::from_hours(7 * 24);
const UNAVAILABLE: &str = "unavailable#";
const BUDGET: &str = "budget#";
const INTERRUPTED: &str = "interrupted#";

impl State {
    /// Records offerings for which EC2 lacked capacity.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn mark_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), PortError> {
        // A call must not contain an item twice; the later of two marks on an offering counts.
        let mut latest = BTreeMap::new();
        for offering in offerings {
            let known = latest.entry(unavailable_key(&offering.shortage)).or_insert(offering);
            if known.until < offering.until {
                *known = offering;
            }
        }
        let item = |(key, offering): (String, &UnavailableOffering)| {
            item_until(key, offering.until, [("reason", text(&offering.reason))])
        };
        self.table.put_all("claims mark unavailable", latest.into_iter().map(item).collect()).await
    }

    /// The offerings that no launch uses at this time.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn unavailable(&self, now: Timestamp) -> Result<Vec<UnavailableOffering>, PortError> {
        let mut offerings = Vec::new();
        for item in self.items_of("claims unavailable", UNAVAILABLE).await? {
            let (shortage, until) = (shortage(&item)?, read_time(&item, "until")?);
            // DynamoDB may delete expired items hours later.
            if until > now {
                offerings.push(UnavailableOffering { shortage, until, reason: read_text(&item, "reason")?.to_owned() });
            }
        }
        Ok(offerings)
    }

    /// Records interruptions of spot instances, each until its time. Earlier records of them are replaced.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn record_interruptions(&self, interruptions: &[SpotInterruption]) -> Result<(), PortError> {
        // A call must not contain an item twice.
        let by_key: BTreeMap<String, &SpotInterruption> = interruptions
            .iter()
            .map(|one| (format!("{INTERRUPTED}{}#{}#{}", one.instance_type, one.zone, one.instance_id), one))
            .collect();
        let item =
            |(key, one): (String, &SpotInterruption)| item_until(key, one.until, [("at", text(one.at.to_string()))]);
        self.table.put_all("claims record interruptions", by_key.into_iter().map(item).collect()).await
    }

    /// The interruptions of spot instances that are remembered at this time, in the order of types, zones and instances.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn interruptions(&self, now: Timestamp) -> Result<Vec<SpotInterruption>, PortError> {
        let items = self.items_of("claims interruptions", INTERRUPTED).await?;
        let mut interruptions: Vec<SpotInterruption> = items.iter().map(interruption).collect::<Result<_, _>>()?;
        // DynamoDB may delete expired items hours later.
        interruptions.retain(|one| one.until > now);
        interruptions.sort();
        Ok(interruptions)
    }

    /// The launch budgets in effect at this time. An offering that is missing has the initial budget.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn launch_budgets(&self, now: Timestamp) -> Result<Vec<LaunchBudget>, PortError> {
        let mut budgets = Vec::new();
        for item in self.items_of("claims launch budgets", BUDGET).await? {
            let (offering, until) = offering_until(&item)?;
            if until > now {
                budgets.push(LaunchBudget { offering, size: read_number(&item, "size")?, until });
            }
        }
        Ok(budgets)
    }

    /// Writes the budgets that are greater than the stored ones. A missing one counts as `initial`. If two launches end at the same
    /// time, the larger budget is kept, and a reset between the two is detected.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn raise_launch_budgets(
        &self,
        budgets: &[LaunchBudget],
        initial: u32,
        now: Timestamp,
    ) -> Result<(), PortError> {
        for budget in budgets {
            let Item { key, attributes } = budget_item(budget);
            let expires = || EXPIRES.to_owned();
            let smaller = Condition::Below("size".to_owned(), budget.size.into());
            // If nothing is written, the initial budget is in effect.
            let condition = if budget.size > initial {
                Condition::Any(vec![Condition::Missing, Condition::AtMost(expires(), now.as_second()), smaller])
            } else {
                Condition::All(vec![Condition::Above(expires(), now.as_second()), smaller])
            };
            let write = Write::new(key, Change::Put(attributes)).on(condition);
            self.write_one("claims raise launch budgets", write).await?;
        }
        Ok(())
    }

    /// Replaces the stored budgets with these.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn reset_launch_budgets(&self, budgets: &[LaunchBudget]) -> Result<(), PortError> {
        self.table.put_all("claims reset launch budgets", budgets.iter().map(budget_item).collect()).await
    }

    /// The last dry runs for an EC2NodeClass; `None` if there are none, or they have expired.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn launch_check(&self, node_class: &str) -> Result<Option<LaunchCheck>, PortError> {
        let item = self.item("claims launch check", &launch_check_key(node_class)).await?;
        item.map(|item| read_json(&item, "record")).transpose()
    }

    /// Replaces the recorded dry runs for an EC2NodeClass. The record expires after a week.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn put_launch_check(&self, check: &LaunchCheck) -> Result<(), PortError> {
        const OPERATION: &str = "claims put launch check";
        let record = write_json(OPERATION, check)?;
        let attributes = attributes([("record", record), ("expires", ttl(after(check.asked_at, LAUNCH_CHECK_KEPT)))]);
        self.put(OPERATION, &launch_check_key(&check.node_class), attributes).await
    }
}

/// A value that is not set is empty in the key: it covers all values.
fn unavailable_key(shortage: &Shortage) -> String {
    let Shortage { instance_type, zone, capacity_type, placement_group, partition, reservation_id } = shortage;
    let part = |value: &Option<String>| value.clone().unwrap_or_default();
    let parts = [
        part(instance_type),
        part(zone),
        capacity_type.map_or_else(String::new, |kind| kind.to_string()),
        part(placement_group),
        partition.map_or_else(String::new, |number| number.to_string()),
        part(reservation_id),
    ];
    format!("{UNAVAILABLE}{}", parts.join("#"))
}

fn shortage(item: &Item) -> Result<Shortage, PortError> {
    let parts: [&str; 6] = key_parts(item)?;
    let [instance_type, zone, kind, placement_group, partition, reservation_id] =
        parts.map(|part| (!part.is_empty()).then(|| part.to_owned()));
    let capacity_type = kind.map(|kind| capacity_type(item, &kind)).transpose()?;
    let number = |text: String| text.parse().map_err(|_| unusable(item, "it names a partition that is no number"));
    let partition = partition.map(number).transpose()?;
    Ok(Shortage { instance_type, zone, capacity_type, placement_group, partition, reservation_id })
}

fn capacity_type(item: &Item, label: &str) -> Result<CapacityType, PortError> {
    CapacityType::from_label(label).ok_or_else(|| unusable(item, "it names an unknown capacity type"))
}

fn budget_item(budget: &LaunchBudget) -> Item {
    let OfferingKey { instance_type, zone, capacity_type } = &budget.offering;
    let key = format!("{BUDGET}{instance_type}#{zone}#{capacity_type}");
    item_until(key, budget.until, [("size", number(budget.size))])
}

fn item_until<const N: usize>(key: String, until: Timestamp, others: [(&str, Value); N]) -> Item {
    let mut attributes = attributes(others);
    attributes.insert("until".to_owned(), text(until.to_string()));
    attributes.insert(EXPIRES.to_owned(), ttl(until));
    Item { key: Key::of_cluster(key), attributes }
}

fn launch_check_key(node_class: &str) -> String {
    format!("launchcheck#{node_class}")
}

fn interruption(item: &Item) -> Result<SpotInterruption, PortError> {
    let [instance_type, zone, instance_id] = key_parts(item)?.map(str::to_owned);
    let (at, until) = (read_time(item, "at")?, read_time(item, "until")?);
    Ok(SpotInterruption { instance_type, zone, instance_id, at, until })
}

/// The offering of an item, and its expiry.
fn offering_until(item: &Item) -> Result<(OfferingKey, Timestamp), PortError> {
    let [instance_type, zone, kind] = key_parts(item)?;
    let capacity_type = capacity_type(item, kind)?;
    let offering = OfferingKey { instance_type: instance_type.to_owned(), zone: zone.to_owned(), capacity_type };
    Ok((offering, read_time(item, "until")?))
}
