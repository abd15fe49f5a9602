//! What instances cost: changes of prices, Reserved Instances and Savings Plans.

use super::capacity_type;
use crate::Driver;
use crate::scenarios::{BuyReservedInstances, BuySavingsPlan, ChangePrices, ScenarioError, after};
use nodeless_fake_aws::CapacityType;
use nodeless_model::listed_commitments::{ListedReservedInstances, ListedSavingsPlan};
use nodeless_world::random::Random;
use std::sync::Arc;

/// Running instances keep the price of their launch.
pub(super) fn change(driver: &Driver, change: &ChangePrices, random: &mut Random) -> Result<String, ScenarioError> {
    let spot = capacity_type("changePrices", &change.capacity_type)? == CapacityType::Spot;
    if !(0.0..1.0).contains(&change.share) {
        let why = format!("share is {}; it is at least 0 and below 1", change.share);
        return Err(ScenarioError::Value { field: "changePrices".to_owned(), why });
    }
    driver.world().ec2().change_account(|account| {
        for kind in Arc::make_mut(&mut account.facts).types.values_mut() {
            let prices = kind.spot_prices.values_mut().filter(|_| spot);
            for price in prices.chain(kind.on_demand_price.as_mut().filter(|_| !spot)) {
                *price *= 1.0 + change.share * (2.0 * random.fraction() - 1.0);
            }
        }
    });
    Ok(format!("prices of {} change by up to {:.0}%", change.capacity_type, change.share * 100.0))
}

/// The number of commitments of the account, with which the next one is named.
fn number(driver: &Driver) -> usize {
    let count = |account: &nodeless_fake_aws::Account| {
        account.commitments.as_ref().map_or(0, |all| all.reserved.len() + all.plans.len())
    };
    driver.world().ec2().with_account(count)
}

pub(super) fn buy_reserved_instances(driver: &Driver, bought: &BuyReservedInstances) -> Result<String, ScenarioError> {
    let BuyReservedInstances { instance_type, count, zone, lasts } = bought;
    if !driver.world().catalog().types.iter().any(|kind| kind.facts.name == *instance_type) {
        let why = format!("there is no instance type {instance_type} in instanceFamilies");
        return Err(ScenarioError::Value { field: "buyReservedInstances".to_owned(), why });
    }
    let now = driver.world().now();
    let reserved = ListedReservedInstances {
        id: format!("reserved-{}", number(driver)),
        instance_type: instance_type.clone(),
        instance_count: *count,
        availability_zone: zone.clone(),
        product_description: "Linux/UNIX".to_owned(),
        instance_tenancy: "default".to_owned(),
        currency_code: "USD".to_owned(),
        state: "active".to_owned(),
        start: now,
        end: after(now, *lasts),
        duration: lasts.as_secs_f64(),
        fixed_price: 0.0,
        usage_price: 0.0,
        recurring_charges: Vec::new(),
    };
    driver.world().ec2().change_account(|account| account.commitments.get_or_insert_default().reserved.push(reserved));
    Ok(format!("the account buys {count} Reserved Instances {instance_type} for {lasts:#}"))
}

pub(super) fn buy_savings_plan(driver: &Driver, bought: &BuySavingsPlan) -> Result<String, ScenarioError> {
    let BuySavingsPlan { dollars_per_hour, discount, family, lasts } = bought;
    if !(0.0..1.0).contains(discount) {
        let why = format!("discount is {discount}; it is at least 0 and below 1");
        return Err(ScenarioError::Value { field: "buySavingsPlan".to_owned(), why });
    }
    let (now, region) = (driver.world().now(), driver.world().options().region.clone());
    let covers = |name: &str| family.as_deref().is_none_or(|family| name.split('.').next() == Some(family));
    let facts = driver.world().ec2().facts();
    let covered = facts.types.iter().filter(|(name, _)| covers(name));
    let rates = covered.filter_map(|(name, kind)| Some((name.clone(), kind.on_demand_price? * (1.0 - discount))));
    let rates = rates.collect();
    let plan = ListedSavingsPlan {
        id: format!("plan-{}", number(driver)),
        savings_plan_type: if family.is_some() { "EC2Instance" } else { "Compute" }.to_owned(),
        commitment: dollars_per_hour.to_string(),
        currency: "USD".to_owned(),
        state: "active".to_owned(),
        start: now,
        end: after(now, *lasts),
        family: family.clone(),
        region: family.as_ref().map(|_| region),
    };
    driver.world().ec2().change_account(|account| account.commitments.get_or_insert_default().add_plan(plan, rates));
    let what = family.clone().unwrap_or_else(|| "any instance".to_owned());
    Ok(format!("the account buys a Savings Plan of {dollars_per_hour} dollars per hour for {what}, for {lasts:#}"))
}
