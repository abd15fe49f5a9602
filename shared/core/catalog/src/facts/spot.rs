//! Synthetic spot prices.
//!
//! Real spot prices depend on the time and the zone, so none are embedded. Demonstrations, simulations and benchmarks use these
//! prices, which are constant and differ between types and zones. Do not use them to estimate real costs.

/// The lowest synthetic spot price, as a fraction of the on-demand price.
const LOWEST_SHARE: f64 = 0.25;
/// The range of synthetic spot prices, as a fraction of the on-demand price.
const BAND: f64 = 0.20;
/// The number of steps in the range.
const STEPS: u64 = 1_000;

/// A synthetic spot price in dollars per hour: 25% to 45% of the on-demand price, always the same for a type and a zone. It is
/// rounded to a ten-thousandth of a dollar, as EC2 prints spot prices, and at least that.
#[must_use]
pub fn synthetic_spot_price(instance_type: &str, zone: &str, on_demand_dollars_an_hour: f64) -> f64 {
    let step = fnv1a(instance_type.bytes().chain([b'/']).chain(zone.bytes())) % STEPS;
    #[allow(clippy::cast_precision_loss)]
    let share = LOWEST_SHARE + BAND * (step as f64) / (STEPS as f64);
    ((on_demand_dollars_an_hour * share * 10_000.0).round() / 10_000.0).max(0.000_1)
}

/// The 64-bit Fowler-Noll-Vo hash (variant 1a). Unlike the standard library's hasher, it is the same on every machine and in
/// every release, which replays depend on. The final mix separates names that differ only in their last letter.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synthetic_spot_price_is_in_its_range_and_constant() {
        for zone in ["us-east-1a", "us-east-1b", "us-east-1c"] {
            for instance_type in ["m5.large", "c7g.16xlarge", "p4d.24xlarge"] {
                let price = synthetic_spot_price(instance_type, zone, 10.0);
                assert!((2.5..=4.5).contains(&price), "{instance_type} in {zone}: {price}");
            }
        }
        // Constants, so that recorded plans can be replayed later.
        assert_eq!(synthetic_spot_price("m5.large", "us-east-1a", 0.096), 0.0317);
    }

    #[test]
    fn zones_differ() {
        let prices: Vec<f64> = ["us-east-1a", "us-east-1b", "us-east-1c"]
            .iter()
            .map(|z| synthetic_spot_price("m5.4xlarge", z, 0.768))
            .collect();
        assert!(prices[0] != prices[1] && prices[1] != prices[2] && prices[0] != prices[2], "{prices:?}");
    }

    #[test]
    fn the_lowest_price_is_above_zero() {
        assert!(synthetic_spot_price("t4g.nano", "us-east-1a", 0.000_01) > 0.0);
    }
}
