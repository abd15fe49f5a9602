//! The rates of a Savings Plan, as AWS lists them.

use crate::size::family;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A rate of a Savings Plan: <https://docs.aws.amazon.com/savingsplans/latest/APIReference/API_SavingsPlanRate.html>
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate<'a> {
    /// A decimal number of units of the currency.
    #[serde(borrow)]
    pub rate: Cow<'a, str>,
    /// What it is for, such as `Hrs`.
    #[serde(default, borrow)]
    pub unit: Cow<'a, str>,
    /// The product, such as `EC2`.
    #[serde(default, borrow)]
    pub product_type: Cow<'a, str>,
    /// The usage type of the bill.
    #[serde(default, borrow)]
    pub usage_type: Cow<'a, str>,
    /// The currency.
    #[serde(default = "usd")]
    pub currency: Cow<'a, str>,
    /// The region, the instance type and others.
    #[serde(default, borrow)]
    pub properties: Vec<RateProperty<'a>>,
}

/// A property of a rate.
#[derive(Clone, Debug, Deserialize)]
pub struct RateProperty<'a> {
    /// The name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// The value.
    #[serde(borrow)]
    pub value: Cow<'a, str>,
}

fn usd() -> Cow<'static, str> {
    Cow::Borrowed("USD")
}

/// The rates of one plan that may apply to nodes, from one or several files.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// By region and instance type.
    by_type: BTreeMap<String, BTreeMap<String, f64>>,
    /// The number of files, and how many of them have no further page.
    files: usize,
    last: usize,
}

impl Rate<'_> {
    fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|one| one.name == name).map(|one| &*one.value)
    }

    /// The region and the type if it is the rate of running Linux instances of shared tenancy. `BoxUsage` is their usage; capacity
    /// reservations without an instance have `UnusedBox`.
    fn of_nodes(&self) -> Option<(&str, &str)> {
        let of_instances = self.product_type == "EC2" && self.unit == "Hrs" && self.currency == "USD";
        let running = self.usage_type.is_empty() || self.usage_type.contains("BoxUsage");
        let linux = self.property("productDescription") == Some("Linux/UNIX");
        let shared = self.property("tenancy") == Some("shared");
        let named = self.property("region").zip(self.property("instanceType"));
        named.filter(|_| of_instances && running && linux && shared)
    }
}

impl Rates {
    /// Adds the rates of a file. `more` states that it has a further page.
    pub(super) fn add(&mut self, rates: &[Rate<'_>], more: bool) -> Result<(), String> {
        self.files += 1;
        self.last += usize::from(!more);
        for rate in rates {
            let Some((region, instance_type)) = rate.of_nodes() else { continue };
            let dollars = rate.rate.parse().ok().filter(|dollars: &f64| dollars.is_finite() && *dollars >= 0.0);
            let Some(dollars) = dollars else {
                return Err(format!(
                    "the rate {:?} of {instance_type} in {region} is no number of dollars",
                    rate.rate.as_ref()
                ));
            };
            let known =
                self.by_type.entry(region.to_owned()).or_default().entry(instance_type.to_owned()).or_insert(dollars);
            // Of two rates, that which covers less.
            *known = known.max(dollars);
        }
        Ok(())
    }

    /// Whether a file without a further page is among the files.
    pub(super) const fn is_complete(&self) -> bool {
        self.last > 0
    }

    /// The rates of a region, and of a family if one is given, by instance type.
    pub(super) fn by_instance_type(&self, region: &str, of_family: Option<&str>) -> BTreeMap<String, f64> {
        let all = self.by_type.get(region).into_iter().flatten();
        let own = all.filter(|(name, _)| of_family.is_none_or(|of_family| family(name) == of_family));
        own.map(|(name, rate)| (name.clone(), *rate)).collect()
    }
}
