//! Savings Plans, as `aws savingsplans describe-savings-plans` writes them.

use crate::model::{SavingsPlan, Share};
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The states in which a plan is in effect between its start and its end. A queued plan becomes active at its start, an active one is
/// retired at its end, and one whose return is pending is still active.
const BY_TIME: [&str; 4] = ["active", "queued", "retired", "pending-return"];

/// <https://docs.aws.amazon.com/savingsplans/latest/APIReference/API_SavingsPlan.html>
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    #[serde(rename = "savingsPlanId")]
    pub(super) id: String,
    savings_plan_type: String,
    /// Dollars an hour.
    commitment: String,
    #[serde(default = "dollars")]
    currency: String,
    state: String,
    start: Timestamp,
    end: Timestamp,
    #[serde(default, rename = "ec2InstanceFamily")]
    family: Option<String>,
    #[serde(default)]
    region: Option<String>,
}

pub(super) fn dollars() -> String {
    "USD".to_owned()
}

impl Plan {
    /// The instance family of an EC2 Instance Savings Plan.
    pub(super) fn family(&self) -> Option<&str> {
        self.family.as_deref().filter(|_| self.savings_plan_type == "EC2Instance")
    }

    fn dollars_per_hour(&self) -> Option<f64> {
        self.commitment.parse().ok().filter(|dollars: &f64| dollars.is_finite() && *dollars >= 0.0)
    }

    /// Whether the values can be used.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.dollars_per_hour().is_none() {
            return Err(format!("its commitment {:?} is no number of dollars", self.commitment));
        }
        let is_of_family = self.savings_plan_type == "EC2Instance";
        if is_of_family && (self.family.is_none() || self.region.is_none()) {
            return Err("it is an EC2 Instance Savings Plan without ec2InstanceFamily and region".to_owned());
        }
        Ok(())
    }

    /// Whether it counts for a region at a time, or why not.
    pub(super) fn in_effect(&self, region: &str, at: Timestamp) -> Result<(), String> {
        let kind = self.savings_plan_type.as_str();
        if !matches!(kind, "EC2Instance" | "Compute") {
            return Err(format!("it is a {kind} Savings Plan, which does not cover EC2 instances"));
        }
        if !BY_TIME.contains(&self.state.as_str()) {
            return Err(format!("its state is {}", self.state));
        }
        within(self.start, self.end, at)?;
        if self.currency != "USD" {
            return Err(format!("its currency is {}, and prices are in USD", self.currency));
        }
        match &self.region {
            Some(other) if kind == "EC2Instance" && other != region => Err(format!("it is of region {other}")),
            _ => Ok(()),
        }
    }

    /// The plan with its rates.
    pub(super) fn with(&self, rates: BTreeMap<String, f64>, share: Share) -> SavingsPlan {
        SavingsPlan {
            id: self.id.clone(),
            family: self.family().map(str::to_owned),
            dollars_per_hour: self.dollars_per_hour().unwrap_or_default() * share.of_one(),
            rates,
        }
    }
}

/// Whether a time is in a term, or why not.
pub(super) fn within(start: Timestamp, end: Timestamp, at: Timestamp) -> Result<(), String> {
    if at < start {
        return Err(format!("it starts at {start}"));
    }
    if at >= end {
        return Err(format!("it ended at {end}"));
    }
    Ok(())
}
