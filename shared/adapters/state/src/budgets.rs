//! How many launches of an offering may be on their way at once.

use crate::items::{Item, number, read_number, read_text, text, ttl};
use crate::table::DynamoClaims;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_model::CapacityType;
use nodeless_model::claim::OfferingKey;
use nodeless_ports::claims::LaunchBudget;
use nodeless_ports::{ErrorKind, PortError};

const PREFIX: &str = "budget#";

impl DynamoClaims {
    pub(crate) async fn read_launch_budgets(&self, now: Timestamp) -> Result<Vec<LaunchBudget>, PortError> {
        let items = self.items(PREFIX, None).await?;
        let mut budgets = items.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
        // DynamoDB deletes expired items hours late.
        budgets.retain(|budget| budget.until > now);
        Ok(budgets)
    }

    /// One conditional write each, so that of two launches that end at once the greater success counts, and a reset that
    /// comes in between is seen.
    pub(crate) async fn write_raised_budgets(
        &self,
        budgets: &[LaunchBudget],
        initial: u32,
        now: Timestamp,
    ) -> Result<(), PortError> {
        for budget in budgets {
            // Where nothing holds, the initial budget does.
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

    pub(crate) async fn write_reset_budgets(&self, budgets: &[LaunchBudget]) -> Result<(), PortError> {
        self.put_all(budgets.iter().map(|budget| self.budget_item(budget))).await
    }

    fn budget_item(&self, budget: &LaunchBudget) -> Item {
        let OfferingKey { instance_type, zone, capacity_type } = &budget.offering;
        let mut item = self.key(&format!("{PREFIX}{instance_type}#{zone}#{capacity_type}"));
        item.insert("size".to_owned(), number(budget.size));
        item.insert("until".to_owned(), text(budget.until.to_string()));
        item.insert("expires".to_owned(), ttl(budget.until));
        item
    }
}

fn decode(item: &Item) -> Result<LaunchBudget, PortError> {
    let damaged = |why: String| PortError::new(ErrorKind::Invalid, "DynamoDB read launch budget", why);
    let key = read_text(item, "sk")?;
    let parts: Vec<&str> = key.trim_start_matches(PREFIX).split('#').collect();
    let [instance_type, zone, capacity_type] = parts[..] else {
        return Err(damaged(format!("{key} does not name an offering; delete that item")));
    };
    let capacity_type = CapacityType::from_label(capacity_type)
        .ok_or_else(|| damaged(format!("{key} names an unknown capacity type; delete that item")))?;
    let until = read_text(item, "until")?;
    Ok(LaunchBudget {
        offering: OfferingKey { instance_type: instance_type.to_owned(), zone: zone.to_owned(), capacity_type },
        size: read_number(item, "size")?,
        until: until.parse().map_err(|_| damaged(format!("{key}: `until` is no time: {until:?}; delete that item")))?,
    })
}
