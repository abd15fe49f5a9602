//! Lists of resources by name, and their arithmetic.

use crate::Quantity;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Resource names that Kubernetes itself defines.
pub mod name {
    /// Processor time, in cores.
    pub const CPU: &str = "cpu";
    /// Memory, in bytes.
    pub const MEMORY: &str = "memory";
    /// Local disk, in bytes.
    pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
    /// The number of pods; each pod takes one.
    pub const PODS: &str = "pods";
    /// The number of nodes, which a NodePool may limit.
    pub const NODES: &str = "nodes";
}

/// The VPC resource controller gives these resources, and no driver of devices.
const OF_VPC: &str = "vpc.amazonaws.com/";

/// Whether a DeviceClass may give a resource (KEP-5004): it is an extended resource of a device plugin or a driver.
#[must_use]
pub fn may_be_devices(name: &str) -> bool {
    name.contains('/') && !name.starts_with(OF_VPC)
}

/// Quantities by resource name. A resource that is not listed is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceList(BTreeMap<String, Quantity>);

impl ResourceList {
    /// The empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The quantity of a resource; zero when it is not listed.
    #[must_use]
    pub fn get(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Whether the resource is listed at all, even with zero.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets a resource, and returns the list, for building one.
    #[must_use]
    pub fn with(mut self, name: &str, quantity: Quantity) -> Self {
        self.set(name, quantity);
        self
    }

    /// Sets a resource.
    pub fn set(&mut self, name: &str, quantity: Quantity) {
        self.0.insert(name.to_owned(), quantity);
    }

    /// Removes a resource.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The resources in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, quantity)| (name.as_str(), *quantity))
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Changes the quantity of a resource, zero where it is not listed yet. Its name is copied only then, because the sums over all
    /// pods of a cluster have few names.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Quantity)) {
        match self.0.get_mut(name) {
            Some(known) => change(known),
            None => change(self.0.entry(name.to_owned()).or_default()),
        }
    }

    /// Adds every quantity of the other list.
    pub fn add(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            self.change(name, |mine| *mine += *quantity);
        }
    }

    /// Subtracts every quantity of the other list; the result may be negative.
    pub fn subtract(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            self.change(name, |mine| *mine -= *quantity);
        }
    }

    /// Takes, resource by resource, the larger quantity of the two.
    pub fn max_with(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            self.change(name, |mine| *mine = (*mine).max(*quantity));
        }
    }

    /// The first resource, by name, of which more is asked than there is. `None` means that the request fits.
    ///
    /// A negative quantity in `available` fits nothing, not even a request of zero for that resource, as in Karpenter.
    #[must_use]
    pub fn first_exceeding<'a>(&'a self, available: &'a Self) -> Option<&'a str> {
        if let Some((name, _)) = available.0.iter().find(|(_, quantity)| **quantity < Quantity::ZERO) {
            return Some(name);
        }
        self.0.iter().find(|(name, asked)| **asked > available.get(name)).map(|(name, _)| name.as_str())
    }

    /// Whether this request fits into what is available.
    #[must_use]
    pub fn fits(&self, available: &Self) -> bool {
        self.first_exceeding(available).is_none()
    }
}

impl FromIterator<(String, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (String, Quantity)>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

impl<const N: usize> From<[(&str, Quantity); N]> for ResourceList {
    fn from(entries: [(&str, Quantity); N]) -> Self {
        entries.into_iter().map(|(name, quantity)| (name.to_owned(), quantity)).collect()
    }
}

/// The canonical text of a quantity of the named resource: binary suffixes for what is counted in bytes.
#[must_use]
pub fn format_quantity(name: &str, quantity: Quantity) -> String {
    if is_bytes(name) { quantity.to_binary_string() } else { quantity.to_decimal_string() }
}

/// The text of a quantity for people: bytes are rounded to whole Mi, as in `kubectl top`, where that is less than 10% of the
/// quantity.
#[must_use]
pub fn shown_quantity(name: &str, quantity: Quantity) -> String {
    const MI: i64 = 1 << 20;
    let bytes = quantity.units();
    let rounded = if is_bytes(name) && bytes >= 10 * MI { (bytes + MI / 2) / MI * MI } else { bytes };
    if rounded == bytes { format_quantity(name, quantity) } else { Quantity::from_units(rounded).to_binary_string() }
}

/// The texts of amounts of a resource that one message compares, in one unit: cores, Gi, or where all amounts are small, thousandths
/// of a core, Mi and bytes. They have two decimals, and more only where different amounts would look equal.
#[must_use]
pub fn compared<const N: usize>(name: &str, amounts: [Quantity; N]) -> [String; N] {
    let unit = Unit::new(name, &amounts);
    let shown = |digits| amounts.map(|amount| unit.text(amount, digits, Rounding::Nearest));
    let distinct = |texts: &[String; N]| {
        let pairs = (0..N).flat_map(|one| (0..one).map(move |other| (one, other)));
        pairs.into_iter().all(|(one, other)| (amounts[one] == amounts[other]) == (texts[one] == texts[other]))
    };
    (DECIMALS..MAX_DECIMALS).map(shown).find(distinct).unwrap_or_else(|| shown(MAX_DECIMALS))
}

/// The text of the most of a resource that is possible, in the units of [`compared`], rounded down.
#[must_use]
pub fn at_most(name: &str, amount: Quantity) -> String {
    Unit::new(name, &[amount]).text(amount, DECIMALS, Rounding::Down)
}

/// The text of the least of a resource that is necessary, in the units of [`compared`], rounded up.
#[must_use]
pub fn at_least(name: &str, amount: Quantity) -> String {
    Unit::new(name, &[amount]).text(amount, DECIMALS, Rounding::Up)
}

/// The decimals of an amount in a message.
const DECIMALS: u32 = 2;
/// With this many decimals, no two amounts of a resource have the same text.
const MAX_DECIMALS: u32 = 12;

#[derive(Clone, Copy)]
enum Rounding {
    Down,
    Nearest,
    Up,
}

/// The unit of amounts in a message.
struct Unit {
    suffix: &'static str,
    /// In thousandths of the unit of the resource.
    size: i128,
}

impl Unit {
    /// The unit for amounts of a resource: the largest of which the greatest amount has one, or a tenth of a core.
    fn new(name: &str, amounts: &[Quantity]) -> Self {
        let unit = |suffix, size| Self { suffix, size };
        let greatest = amounts.iter().map(|amount| i128::from(amount.milli()).abs()).max().unwrap_or(0);
        let (cores, bytes) = (name == name::CPU, is_bytes(name));
        match greatest {
            0 => unit("", 1000),
            1..100 if cores => unit("m", 1),
            _ if bytes && greatest >= 1000 << 30 => unit("Gi", 1000 << 30),
            _ if bytes && greatest >= 1000 << 20 => unit("Mi", 1000 << 20),
            _ => unit("", 1000),
        }
    }

    fn text(&self, amount: Quantity, digits: u32, rounding: Rounding) -> String {
        let (fraction, milli) = (10_i128.pow(digits), i128::from(amount.milli()));
        let scaled = milli * fraction;
        let parts = match rounding {
            Rounding::Down => scaled.div_euclid(self.size),
            Rounding::Nearest => (scaled + self.size / 2).div_euclid(self.size),
            Rounding::Up => -(-scaled).div_euclid(self.size),
        };
        let (sign, parts) = (if parts < 0 { "-" } else { "" }, parts.abs());
        let decimals = format!("{:0width$}", parts % fraction, width = digits as usize);
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        format!("{sign}{}{point}{decimals}{}", parts / fraction, self.suffix)
    }
}

fn is_bytes(name: &str) -> bool {
    name == name::MEMORY || name == name::EPHEMERAL_STORAGE || name.starts_with("hugepages-")
}

impl fmt::Display for ResourceList {
    /// `cpu 2, memory 1Gi`; `nothing` for the empty list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (index, (name, quantity)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{name} {}", format_quantity(name, *quantity))?;
        }
        Ok(())
    }
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, quantity)| (name, format_quantity(name, *quantity))))
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(milli: i64) -> ResourceList {
        ResourceList::from([("cpu", Quantity::from_milli(milli))])
    }

    #[test]
    fn names_the_resource_that_does_not_fit() {
        let available = cpu(1000).with("memory", Quantity::from_mebibytes(64));
        assert!(cpu(1000).fits(&available));
        assert_eq!(cpu(1001).first_exceeding(&available), Some("cpu"));
        assert_eq!(
            cpu(1).with("nvidia.com/gpu", Quantity::from_units(1)).first_exceeding(&available),
            Some("nvidia.com/gpu")
        );
        assert_eq!(ResourceList::new().first_exceeding(&cpu(-1)), Some("cpu"));
    }

    #[test]
    fn people_see_bytes_in_whole_mi() {
        let memory = |bytes: i64| shown_quantity("memory", Quantity::from_units(bytes));
        assert_eq!([16 << 30, 15_076_684 << 10, 512].map(memory), ["16Gi", "14723Mi", "512"]);
        assert_eq!(memory((5 << 20) + 1), "5242881", "less than 10Mi is exact");
        assert_eq!(shown_quantity("cpu", Quantity::from_milli(10_485_761)), "10485761m");
    }

    #[test]
    fn a_message_has_one_unit_and_two_decimals() {
        let cores = |milli: [i64; 2]| compared("cpu", milli.map(Quantity::from_milli));
        assert_eq!(cores([900_000, 382_870]), ["900", "382.87"]);
        assert_eq!(cores([4_000, 3_999]), ["4", "3.999"], "different amounts do not look equal");
        assert_eq!(cores([100, 12_000]), ["0.1", "12"]);
        assert_eq!(cores([20, 5]), ["20m", "5m"]);
        assert_eq!(cores([1_000, -1_505]), ["1", "-1.5"]);
        let memory = |bytes: [i64; 2]| compared("memory", bytes.map(Quantity::from_units));
        assert_eq!(memory([64 << 30, 15_076_684 << 10]), ["64Gi", "14.38Gi"]);
        assert_eq!(memory([512 << 20, 100 << 20]), ["512Mi", "100Mi"]);
        assert_eq!(memory([0, 1 << 10]), ["0", "1024"]);
        assert_eq!(compared("nvidia.com/gpu", [8, 4].map(Quantity::from_units)), ["8", "4"]);
    }

    #[test]
    fn a_bound_is_rounded_to_the_side_on_which_it_holds() {
        let amount = Quantity::from_milli(63_927);
        assert_eq!([at_most("cpu", amount), at_least("cpu", amount)], ["63.92", "63.93"]);
        let amount = Quantity::from_units((3 << 30) + 1);
        assert_eq!([at_most("memory", amount), at_least("memory", amount)], ["3Gi", "3.01Gi"]);
        assert_eq!([at_most("cpu", Quantity::from_units(8)), at_least("pods", Quantity::from_units(8))], ["8", "8"]);
    }

    #[test]
    fn prints_each_resource_in_its_own_unit() {
        let list = cpu(1500).with("memory", Quantity::from_mebibytes(1024)).with("pods", Quantity::from_units(3));
        assert_eq!(list.to_string(), "cpu 1500m, memory 1Gi, pods 3");
        let json = serde_json::to_string(&list).unwrap();
        assert_eq!(json, r#"{"cpu":"1500m","memory":"1Gi","pods":"3"}"#);
        assert_eq!(serde_json::from_str::<ResourceList>(&json).unwrap(), list);
    }
}
