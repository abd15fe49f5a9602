//! The rates of a Savings Plan, as `aws savingsplans describe-savings-plan-rates` writes them.

use crate::size::family;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// <https://docs.aws.amazon.com/savingsplans/latest/APIReference/API_SavingsPlanRate.html>
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rate<'a> {
    #[serde(borrow)]
    rate: Cow<'a, str>,
    #[serde(default, borrow)]
    unit: Cow<'a, str>,
    #[serde(default, borrow)]
    product_type: Cow<'a, str>,
    #[serde(default, borrow)]
    usage_type: Cow<'a, str>,
    #[serde(default = "usd")]
    currency: Cow<'a, str>,
    #[serde(default, borrow)]
    properties: Vec<Property<'a>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Property<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    value: Cow<'a, str>,
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
    pub(super) fn of(&self, region: &str, of_family: Option<&str>) -> BTreeMap<String, f64> {
        let all = self.by_type.get(region).into_iter().flatten();
        let own = all.filter(|(name, _)| of_family.is_none_or(|of_family| family(name) == of_family));
        own.map(|(name, rate)| (name.clone(), *rate)).collect()
    }
}
