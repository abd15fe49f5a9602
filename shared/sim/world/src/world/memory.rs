//! The actual memory of machines.

use nodeless_model::Quantity;
use std::collections::BTreeMap;

/// The maximum default difference of a machine from the estimate, in thousandths.
const MAX_DIFFERENCE: i64 = 15;

/// By how much the memory that nodes report differs from the estimate for their instance type. As in EC2, some types have more
/// memory and some less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealMemory {
    /// The difference in thousandths of the estimate, by instance type. Every other type has a constant difference of its own, at
    /// most 15 either way.
    pub by_type: BTreeMap<String, i64>,
}

impl RealMemory {
    /// The memory of a machine of this type, for this estimate.
    pub(super) fn of_type(&self, instance_type: &str, expected: Quantity) -> Quantity {
        let difference = self.by_type.get(instance_type).copied().unwrap_or_else(|| usual(instance_type));
        let mebibytes = expected.units() / (1 << 20);
        Quantity::from_mebibytes(mebibytes + mebibytes * difference / 1000)
    }
}

/// A difference that depends on the name only.
fn usual(instance_type: &str) -> i64 {
    let sum = instance_type.bytes().fold(7_i64, |sum, letter| (sum * 31 + i64::from(letter)) % 100_003);
    sum % (2 * MAX_DIFFERENCE + 1) - MAX_DIFFERENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_differ_from_the_estimate_by_chance_or_as_configured() {
        let memory = RealMemory { by_type: BTreeMap::from([("m6i.large".to_owned(), -50)]) };
        let expected = Quantity::from_mebibytes(8_000);
        assert_eq!(memory.of_type("m6i.large", expected), Quantity::from_mebibytes(7_600));
        let sizes = ["large", "xlarge", "2xlarge", "4xlarge", "8xlarge"];
        let others: Vec<Quantity> = sizes.iter().map(|size| memory.of_type(&format!("c6i.{size}"), expected)).collect();
        assert!(others.iter().any(|real| *real > expected) && others.iter().any(|real| *real < expected), "{others:?}");
    }
}
