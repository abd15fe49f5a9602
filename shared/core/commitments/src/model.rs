//! The commitments that apply at a time in a region.

use crate::size::family;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// The commitments that are in effect, for Linux instances of shared tenancy of one region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commitments {
    /// Reserved Instances.
    pub reserved: Vec<ReservedInstances>,
    /// Savings Plans.
    pub plans: Vec<SavingsPlan>,
    /// The commitments of the exports that are left out, each with the reason, and what is assumed.
    pub notes: Vec<String>,
}

/// Reserved Instances that were purchased together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservedInstances {
    /// The ID.
    pub id: String,
    /// The instance type.
    pub instance_type: String,
    /// Their number. A part of a commitment may count, so this is no integer.
    pub count: f64,
    /// The availability zone; `None` for the whole region.
    pub zone: Option<String>,
    /// What all of them cost, used or not, in dollars an hour. An upfront payment is divided evenly among the hours of the term.
    pub dollars_per_hour: f64,
}

/// A Savings Plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavingsPlan {
    /// The ID.
    pub id: String,
    /// The instance family of an EC2 Instance Savings Plan; `None` for a Compute Savings Plan.
    pub family: Option<String>,
    /// The commitment, in dollars an hour.
    pub dollars_per_hour: f64,
    /// The rates of Linux instances of shared tenancy in the region, in dollars an hour, by instance type.
    pub rates: BTreeMap<String, f64>,
}

/// The part of the commitments that counts: above 0, and at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    /// All of the commitments.
    pub const ALL: Self = Self(1.0);

    /// The part.
    #[must_use]
    pub const fn of_one(self) -> f64 {
        self.0
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(given: &str) -> Result<Self, ShareError> {
        let share = given.parse().ok().filter(|share: &f64| *share > 0.0 && *share <= 1.0);
        share.map(Self).ok_or(ShareError)
    }
}

/// The text is no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is a number above 0 and at most 1, such as 0.5")]
pub struct ShareError;

impl Commitments {
    /// Whether nothing is in effect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reserved.is_empty() && self.plans.is_empty()
    }

    /// What all of them cost, used or not, in dollars an hour.
    #[must_use]
    pub fn dollars_per_hour(&self) -> f64 {
        let reserved = self.reserved.iter().map(|one| one.dollars_per_hour);
        reserved.chain(self.plans.iter().map(|plan| plan.dollars_per_hour)).fold(0.0, |sum, one| sum + one)
    }
}

impl ReservedInstances {
    /// What it is, such as `2 Reserved Instances m5.large in us-east-1a`.
    #[must_use]
    pub fn described(&self) -> String {
        let (kind, count) = (&self.instance_type, (self.count * 100.0).round() / 100.0);
        let noun = if count == 1.0 { "Reserved Instance" } else { "Reserved Instances" };
        match &self.zone {
            Some(zone) => format!("{count} {noun} {kind} in {zone}"),
            None => format!("{count} regional {noun} {kind}"),
        }
    }
}

impl SavingsPlan {
    /// What it is, such as `EC2 Instance Savings Plan m5`.
    #[must_use]
    pub fn described(&self) -> String {
        match &self.family {
            Some(family) => format!("EC2 Instance Savings Plan {family}"),
            None => "Compute Savings Plan".to_owned(),
        }
    }

    /// Whether instances of a type are among those that the plan is for, whether or not its rates contain the type.
    #[must_use]
    pub fn should_cover(&self, instance_type: &str) -> bool {
        self.family.as_deref().is_none_or(|of_family| family(instance_type) == of_family)
    }

    /// The rate of an instance type, if the plan covers it.
    #[must_use]
    pub fn rate(&self, instance_type: &str) -> Option<f64> {
        self.rates.get(instance_type).copied().filter(|rate| *rate > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_above_zero_and_at_most_one() {
        assert_eq!("0.5".parse(), Ok(Share(0.5)));
        assert_eq!("1".parse(), Ok(Share::ALL));
        for wrong in ["0", "-1", "1.1", "50%", "NaN", "inf", ""] {
            assert_eq!(wrong.parse::<Share>(), Err(ShareError), "{wrong}");
        }
    }
}
