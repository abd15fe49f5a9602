//! Money as all messages and tables show it.

use crate::Quantity;
use std::fmt::{Display, Formatter, Result};

/// The mean number of hours of a month, as in the pricing of AWS: 8,760 hours of a year by twelve.
pub const HOURS_PER_MONTH: f64 = 730.0;

/// Dollars an hour, the unit of EC2's prices: `$0.0960/h`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct DollarsPerHour(pub f64);

impl Display for DollarsPerHour {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}/h", Dollars(self.0))
    }
}

/// A price in dollars an hour, by the month: `$70.08/month`, and in whole dollars from one hundred on: `$1402/month`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ByMonth(pub f64);

impl Display for ByMonth {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let dollars = self.0 * HOURS_PER_MONTH;
        let digits = if dollars.abs() < 100.0 { 2 } else { 0 };
        write!(f, "${dollars:.digits$}/month")
    }
}

/// An amount in dollars: `$0.0960`, and in cents from one hundred dollars on: `$1234.50`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Dollars(pub f64);

impl Display for Dollars {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let sign = if self.0 < 0.0 { "-" } else { "" };
        write!(f, "{sign}${}", amount(self.0.abs()))
    }
}

/// An amount for a column whose heading has the sign and the unit: `0.0960`, `1234.50`.
#[must_use]
pub fn amount(dollars: f64) -> String {
    if dollars.abs() < 100.0 { format!("{dollars:.4}") } else { format!("{dollars:.2}") }
}

/// Dollars an hour as a Kubernetes quantity, as in `limits` and `status.resources` of a NodePool: `0.096`.
#[must_use]
pub fn quantity_of(dollars_per_hour: f64) -> String {
    // Prices have six decimal places. Adding zero makes minus zero positive.
    ((dollars_per_hour * 1e6).round() / 1e6 + 0.0).to_string()
}

/// An amount of dollars, written as a quantity such as `12.50`; `None` if it is none, or negative.
#[must_use]
pub fn parse_dollars(text: &str) -> Option<f64> {
    let millionths = Quantity::parse_millionths(text).ok().filter(|millionths| *millionths >= 0)?;
    #[expect(clippy::cast_precision_loss, reason = "amounts of money stay far below 2^53 millionths")]
    let dollars = millionths as f64 / 1e6;
    Some(dollars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_have_four_decimals_and_large_amounts_two() {
        assert_eq!(DollarsPerHour(0.096).to_string(), "$0.0960/h");
        assert_eq!([0.096, 1.92].map(|price| ByMonth(price).to_string()), ["$70.08/month", "$1402/month"]);
        assert_eq!(Dollars(1_234.5).to_string(), "$1234.50");
        assert_eq!(Dollars(-0.25).to_string(), "-$0.2500");
        assert_eq!(DollarsPerHour(0.0).to_string(), "$0.0000/h");
        assert_eq!([0.096, 1_234.5, -0.25].map(amount), ["0.0960", "1234.50", "-0.2500"]);
    }

    #[test]
    fn a_price_as_a_quantity_has_no_more_digits_than_prices_have() {
        assert_eq!(quantity_of(0.1 + 0.2), "0.3");
        assert_eq!(quantity_of(-0.0), "0");
        assert_eq!(quantity_of(1_000.000_001), "1000.000001");
    }
}
