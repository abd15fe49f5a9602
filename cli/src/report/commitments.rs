//! What commitments cover of the recorded hours.

use super::clusters::Clusters;
use super::times::Times;
use crate::commitments::Exported;
use crate::error::CliError;
use crate::plural::counted;
use jiff::Timestamp;
use nodeless_bill::OfferingCost;
use nodeless_catalog::facts::region_of_zone;
use nodeless_commitments::{Bill, Usage, apply};
use nodeless_model::{CapacityType, Dollars};
use std::collections::{BTreeMap, BTreeSet};

/// Commitments, applied to each hour of a report that has ended, in dollars.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Committed {
    /// The number of hours.
    pub(crate) hours: usize,
    /// What the commitments cost, used or not.
    pub(crate) committed: f64,
    /// The part of on-demand prices that they cover.
    pub(crate) covered: f64,
    /// What is paid besides them.
    pub(crate) uncovered: f64,
    /// The part of them that no node used.
    pub(crate) unused: f64,
    /// Which commitments did not count in the last hour, and what is assumed.
    pub(crate) notes: Vec<String>,
}

impl Committed {
    /// The sums over the hours of a time that have records, of all clusters together.
    ///
    /// # Errors
    /// If there are no records of the time, or the rates of a commitment are missing.
    pub(crate) fn new(clusters: &Clusters, times: Times, exported: &Exported) -> Result<Self, CliError> {
        let (from, to, _) = clusters.resolve(times)?;
        let mut hours: BTreeMap<Timestamp, Vec<&OfferingCost>> = BTreeMap::new();
        for record in clusters.hours().filter(|record| record.hour >= from && record.hour < to) {
            hours.entry(record.hour).or_default().extend(&record.offerings);
        }
        let (mut sums, mut others) = (Self::default(), BTreeSet::new());
        let region_of = |cost: &OfferingCost| region_of_zone(&cost.zone).map(str::to_owned);
        let Some(region) = hours.values().flatten().find_map(|cost| region_of(cost)) else { return Ok(sums) };
        for (hour, offerings) in hours {
            let (own, elsewhere): (Vec<&OfferingCost>, Vec<&OfferingCost>) =
                offerings.into_iter().partition(|cost| region_of(cost).as_deref() == Some(&region));
            others.extend(elsewhere.into_iter().filter_map(region_of));
            let commitments = exported.at(&region, hour)?;
            sums.add(&apply(&own.into_iter().map(usage).collect::<Vec<_>>(), &commitments));
            sums.notes = commitments.notes;
        }
        let left_out =
            |other| format!("instances in {other} are left out: commitments are applied to those in {region}");
        sums.notes.extend(others.into_iter().map(left_out));
        Ok(sums)
    }

    fn add(&mut self, bill: &Bill) {
        self.hours += 1;
        self.committed += bill.committed();
        self.covered += bill.covered();
        self.uncovered += bill.uncovered();
        self.unused += bill.unused();
    }

    /// The line of the text output.
    pub(crate) fn text(&self) -> String {
        format!(
            "commitments in {}: {} committed, which cover on-demand prices of {}; {} uncovered, {} of the commitments unused",
            counted(self.hours, "hour"),
            Dollars(self.committed),
            Dollars(self.covered),
            Dollars(self.uncovered),
            Dollars(self.unused)
        )
    }
}

/// Instances of an offering in an hour. Records do not have the operating system, so all count as Linux.
fn usage(cost: &OfferingCost) -> Usage<'_> {
    let hours = (cost.seconds - cost.unpriced_seconds) / 3600.0;
    let dollars = match cost.capacity_type {
        CapacityType::Spot => cost.dollars,
        CapacityType::OnDemand | CapacityType::Reserved => cost.on_demand_dollars,
    };
    Usage {
        instance_type: &cost.instance_type,
        zone: &cost.zone,
        capacity_type: cost.capacity_type,
        linux: true,
        hours: hours.max(0.0),
        price: (hours > 0.0).then(|| dollars / hours),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(capacity_type: CapacityType, seconds: f64, dollars: f64) -> OfferingCost {
        OfferingCost {
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            capacity_type,
            seconds,
            dollars,
            on_demand_dollars: seconds / 3600.0 * 0.096,
            unpriced_seconds: 0.0,
        }
    }

    #[test]
    fn an_offering_has_the_price_of_an_hour() {
        let half = cost(CapacityType::OnDemand, 5400.0, 0.144);
        let of = usage(&half);
        assert!((of.hours - 1.5).abs() < 1e-9 && (of.price.unwrap() - 0.096).abs() < 1e-9, "{of:?}");
        let spot = cost(CapacityType::Spot, 3600.0, 0.03);
        assert_eq!(usage(&spot).price, Some(0.03));
        assert_eq!(usage(&cost(CapacityType::Spot, 0.0, 0.0)).price, None);
    }
}
