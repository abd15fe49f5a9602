//! Reserved Instances, as `aws ec2 describe-reserved-instances` writes them.

use super::plans::{dollars, within};
use crate::model::{ReservedInstances, Share};
use jiff::Timestamp;
use serde::Deserialize;

/// The states in which they are in effect between start and end.
const BY_TIME: [&str; 3] = ["active", "queued", "retired"];

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReservedInstances.html>
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Reserved {
    #[serde(rename = "ReservedInstancesId")]
    pub(super) id: String,
    instance_type: String,
    instance_count: u32,
    #[serde(default)]
    availability_zone: Option<String>,
    #[serde(default = "linux")]
    product_description: String,
    #[serde(default = "shared")]
    instance_tenancy: String,
    #[serde(default = "dollars")]
    currency_code: String,
    state: String,
    start: Timestamp,
    end: Timestamp,
    /// The term in seconds.
    duration: f64,
    /// What was paid for each instance in advance.
    #[serde(default)]
    fixed_price: f64,
    /// What each hour costs in which an instance runs.
    #[serde(default)]
    usage_price: f64,
    #[serde(default)]
    recurring_charges: Vec<Charge>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Charge {
    amount: f64,
    #[serde(default)]
    frequency: String,
}

fn linux() -> String {
    "Linux/UNIX".to_owned()
}

fn shared() -> String {
    "default".to_owned()
}

/// Whether a zone is in a region, such as `us-west-2a` and the Local Zone `us-west-2-lax-1a` in `us-west-2`.
pub(super) fn is_in(zone: &str, region: &str) -> bool {
    let is_letter = |rest: &str| rest.len() == 1 && rest.bytes().all(|byte| byte.is_ascii_lowercase());
    zone.strip_prefix(region).is_some_and(|rest| rest.starts_with('-') || is_letter(rest))
}

impl Reserved {
    /// The zone of zonal ones.
    pub(super) fn zone(&self) -> Option<&str> {
        self.availability_zone.as_deref().filter(|zone| !zone.is_empty())
    }

    /// Whether the values can be used.
    pub(super) fn check(&self) -> Result<(), String> {
        let charges = self.recurring_charges.iter().map(|charge| charge.amount);
        let amounts: Vec<f64> = charges.chain([self.fixed_price, self.usage_price]).collect();
        if self.duration <= 0.0 || amounts.iter().any(|amount| !amount.is_finite() || *amount < 0.0) {
            return Err("its duration and prices are no positive numbers".to_owned());
        }
        Ok(())
    }

    /// Whether they count for a region at a time, or why not. `elsewhere` states that regional ones are of another region.
    pub(super) fn in_effect(&self, region: &str, at: Timestamp, elsewhere: bool) -> Result<(), String> {
        if !BY_TIME.contains(&self.state.as_str()) {
            return Err(format!("their state is {}", self.state));
        }
        within(self.start, self.end, at).map_err(|why| why.replacen("it ", "their term ", 1))?;
        if !matches!(self.product_description.as_str(), "Linux/UNIX" | "Linux/UNIX (Amazon VPC)") {
            return Err(format!("they are for {}", self.product_description));
        }
        if self.instance_tenancy != "default" {
            return Err(format!("their tenancy is {}", self.instance_tenancy));
        }
        if self.currency_code != "USD" {
            return Err(format!("their currency is {}, and prices are in USD", self.currency_code));
        }
        if self.usage_price > 0.0 {
            return Err("they have a price for each hour of use, which is not supported".to_owned());
        }
        match self.zone() {
            Some(zone) if !is_in(zone, region) => Err(format!("they are of zone {zone}")),
            None if elsewhere => Err(format!("their file has zones of another region than {region}")),
            _ => Ok(()),
        }
    }

    pub(super) fn with(&self, share: Share) -> ReservedInstances {
        let hourly = self.recurring_charges.iter().filter(|charge| charge.frequency == "Hourly");
        let recurring = hourly.fold(0.0, |sum, charge| sum + charge.amount);
        let count = f64::from(self.instance_count) * share.of_one();
        ReservedInstances {
            id: self.id.clone(),
            instance_type: self.instance_type.clone(),
            count,
            zone: self.zone().map(str::to_owned),
            dollars_per_hour: count * (self.fixed_price / (self.duration / 3600.0) + recurring),
        }
    }
}
