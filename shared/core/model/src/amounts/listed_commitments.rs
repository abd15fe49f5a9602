//! Savings Plans and Reserved Instances, as AWS lists them. The crate `nodeless-commitments` selects and applies them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A Savings Plan. The deserialized form is that of `DescribeSavingsPlans`:
/// <https://docs.aws.amazon.com/savingsplans/latest/APIReference/API_SavingsPlan.html>
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSavingsPlan {
    /// The ID.
    #[serde(rename = "savingsPlanId")]
    pub id: String,
    /// `Compute`, `EC2Instance`, or a kind for other services.
    pub savings_plan_type: String,
    /// The commitment, a decimal number of dollars an hour.
    pub commitment: String,
    /// The currency.
    #[serde(default = "dollars")]
    pub currency: String,
    /// The state, such as `active`.
    pub state: String,
    /// The beginning of the term.
    pub start: Timestamp,
    /// The end of the term.
    pub end: Timestamp,
    /// The instance family of an EC2 Instance Savings Plan.
    #[serde(default, rename = "ec2InstanceFamily")]
    pub family: Option<String>,
    /// The region of an EC2 Instance Savings Plan.
    #[serde(default)]
    pub region: Option<String>,
}

/// Reserved Instances that were purchased together. The deserialized form is that of `DescribeReservedInstances`:
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReservedInstances.html>
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListedReservedInstances {
    /// The ID.
    #[serde(rename = "ReservedInstancesId")]
    pub id: String,
    /// The instance type.
    pub instance_type: String,
    /// Their number.
    pub instance_count: u32,
    /// The zone of zonal ones.
    #[serde(default)]
    pub availability_zone: Option<String>,
    /// The platform.
    #[serde(default = "linux")]
    pub product_description: String,
    /// The tenancy.
    #[serde(default = "shared")]
    pub instance_tenancy: String,
    /// The currency.
    #[serde(default = "dollars")]
    pub currency_code: String,
    /// The state, such as `active`.
    pub state: String,
    /// The beginning of the term.
    pub start: Timestamp,
    /// The end of the term.
    pub end: Timestamp,
    /// The term in seconds.
    pub duration: f64,
    /// What was paid for each instance in advance.
    #[serde(default)]
    pub fixed_price: f64,
    /// What each hour costs in which an instance runs.
    #[serde(default)]
    pub usage_price: f64,
    /// What each instance costs, used or not.
    #[serde(default)]
    pub recurring_charges: Vec<RecurringCharge>,
}

/// A recurring charge of Reserved Instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RecurringCharge {
    /// Dollars for each period.
    pub amount: f64,
    /// The period, such as `Hourly`.
    #[serde(default)]
    pub frequency: String,
}

/// The commitments of an account that may apply to nodes of a region, with the rates of its Savings Plans.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountCommitments {
    /// The Savings Plans, each with the index of its rates.
    pub plans: Vec<(ListedSavingsPlan, usize)>,
    /// Rates of Linux instances of shared tenancy in the region, in dollars an hour, by instance type. Plans that were purchased alike
    /// share them.
    pub rates: Vec<BTreeMap<String, f64>>,
    /// The Reserved Instances of the region.
    pub reserved: Vec<ListedReservedInstances>,
}

impl AccountCommitments {
    /// Adds a Savings Plan with its rates.
    pub fn add_plan(&mut self, plan: ListedSavingsPlan, rates: BTreeMap<String, f64>) {
        let known = self.rates.iter().position(|known| *known == rates);
        let place = known.unwrap_or_else(|| {
            self.rates.push(rates);
            self.rates.len() - 1
        });
        self.plans.push((plan, place));
    }

    /// The Savings Plans with their rates.
    pub fn plans(&self) -> impl Iterator<Item = (&ListedSavingsPlan, Option<&BTreeMap<String, f64>>)> {
        self.plans.iter().map(|(plan, rates)| (plan, self.rates.get(*rates)))
    }
}

fn dollars() -> String {
    "USD".to_owned()
}

fn linux() -> String {
    "Linux/UNIX".to_owned()
}

fn shared() -> String {
    "default".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_with_equal_rates_share_them() {
        let plan = |id: &str| ListedSavingsPlan {
            id: id.to_owned(),
            savings_plan_type: "Compute".to_owned(),
            commitment: "1".to_owned(),
            currency: dollars(),
            state: "active".to_owned(),
            start: Timestamp::UNIX_EPOCH,
            end: Timestamp::MAX,
            family: None,
            region: None,
        };
        let rates = |rate: f64| BTreeMap::from([("m5.large".to_owned(), rate)]);
        let mut all = AccountCommitments::default();
        for (id, rate) in [("a", 0.06), ("b", 0.05), ("c", 0.06)] {
            all.add_plan(plan(id), rates(rate));
        }
        assert_eq!(all.rates, [rates(0.06), rates(0.05)]);
        let of_each: Vec<_> = all.plans().map(|(plan, rates)| (plan.id.as_str(), rates.unwrap()["m5.large"])).collect();
        assert_eq!(of_each, [("a", 0.06), ("b", 0.05), ("c", 0.06)]);
    }
}
