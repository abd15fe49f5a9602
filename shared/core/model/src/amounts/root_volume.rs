//! The size of the root volume that a NodePool asks for, by the instance type and by the pods of a node.

use crate::Quantity;
use crate::amounts::resources::format_quantity;
use crate::amounts::resources::name::MEMORY;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The bytes of a GiB, in which EC2 counts volumes.
const GIB: i64 = 1 << 30;
/// The largest volume that EBS has, in GiB.
const LARGEST_GIB: i64 = 65_536;

/// The value of [`ROOT_VOLUME`](crate::labels::ROOT_VOLUME): terms that are added, and the most that they may be together. It is never less than the
/// EC2NodeClass states.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootVolumeSize {
    /// The size that every node has; `None` means that of the EC2NodeClass.
    pub base: Option<Quantity>,
    /// The size for each vCPU.
    pub per_vcpu: Quantity,
    /// Whether the requests of the planned pods are added.
    pub pods: bool,
    /// The maximum; there is one where pods are added.
    pub max: Option<Quantity>,
}

/// The root volume of a node, where its NodePool determines the size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RootVolume {
    /// The size in GiB.
    pub gib: u32,
    /// What it costs beyond the volume that the EC2NodeClass states, in dollars per hour by list prices.
    pub dollars_per_hour: f64,
}

/// The root volumes of an instance type, where the NodePool determines the size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RootVolumes {
    /// The one that plans count on: the largest, if it depends on pods that are not known yet.
    pub planned: RootVolume,
    /// The size in GiB without the part for pods. A node with less drifted.
    pub least_gib: u32,
    /// The size in GiB that the EC2NodeClass states, which nodes have that were launched before.
    pub class_gib: u32,
}

/// Why a text is not a size of root volumes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootVolumeError {
    /// A term is none of those that there are.
    #[error("{0:?} is neither a size, a size for each vCPU nor pods")]
    Term(String),
    /// A kind of term is there twice.
    #[error("{0:?} is the second term of its kind")]
    Twice(String),
    /// The maximum is not a size.
    #[error("the maximum {0:?} is not a size")]
    Max(String),
    /// The size depends on pods, and has no maximum.
    #[error("with pods, a maximum is needed")]
    NoMax,
}

impl RootVolumeSize {
    /// The size in GiB without the part for pods, for a number of vCPUs and the size in the EC2NodeClass.
    #[must_use]
    pub fn least_gib(&self, vcpus: u32, class: Quantity) -> u32 {
        gib(self.bounded(self.fixed(vcpus, class), class))
    }

    /// The size in GiB that plans count on before the pods of a node are known.
    #[must_use]
    pub fn planned_gib(&self, vcpus: u32, class: Quantity) -> u32 {
        match self.max.filter(|_| self.pods) {
            Some(max) => gib(max.max(class)),
            None => self.least_gib(vcpus, class),
        }
    }

    /// The size in GiB for pods that take this much of the volume, and of which `needed` is the smallest on which they fit.
    #[must_use]
    pub fn gib_for(&self, vcpus: u32, class: Quantity, taken: Quantity, needed: Quantity) -> u32 {
        let fixed = self.fixed(vcpus, class);
        let all = if self.pods { (fixed + taken).max(needed) } else { fixed };
        gib(self.bounded(all, class))
    }

    fn fixed(&self, vcpus: u32, class: Quantity) -> Quantity {
        self.base.unwrap_or(class) + self.per_vcpu.times(i64::from(vcpus))
    }

    fn bounded(&self, size: Quantity, class: Quantity) -> Quantity {
        self.max.map_or(size, |max| size.min(max)).max(class)
    }
}

/// A quantity in whole GiB, rounded up.
#[must_use]
pub fn gib(size: Quantity) -> u32 {
    let whole = size.units().max(0).saturating_add(GIB - 1) / GIB;
    u32::try_from(whole.min(LARGEST_GIB)).unwrap_or(u32::MAX)
}

/// A number of GiB as a quantity.
#[must_use]
pub fn quantity(gib: u32) -> Quantity {
    Quantity::from_units(i64::from(gib).saturating_mul(GIB))
}

fn size(text: &str) -> Option<Quantity> {
    let size: Quantity = text.trim().parse().ok()?;
    (size > Quantity::ZERO && size.units() <= LARGEST_GIB * GIB).then_some(size)
}

impl FromStr for RootVolumeSize {
    type Err = RootVolumeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (terms, max) = match text.split_once(" max ") {
            Some((terms, max)) => (terms, Some(size(max).ok_or_else(|| RootVolumeError::Max(max.trim().to_owned()))?)),
            None => (text, None),
        };
        let mut read = Self { max, ..Self::default() };
        for term in terms.split('+').map(str::trim) {
            let unknown = || RootVolumeError::Term(term.to_owned());
            let is_second = if term == "pods" {
                std::mem::replace(&mut read.pods, true)
            } else if let Some(each) = term.strip_suffix("/vcpu") {
                let before = std::mem::replace(&mut read.per_vcpu, size(each).ok_or_else(unknown)?);
                !before.is_zero()
            } else {
                read.base.replace(size(term).ok_or_else(unknown)?).is_some()
            };
            if is_second {
                return Err(RootVolumeError::Twice(term.to_owned()));
            }
        }
        if read.pods && read.max.is_none() {
            return Err(RootVolumeError::NoMax);
        }
        Ok(read)
    }
}

impl fmt::Display for RootVolumeSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = |size: Quantity| format_quantity(MEMORY, size);
        let per_vcpu = Some(self.per_vcpu).filter(|each| !each.is_zero());
        let terms = [
            self.base.map(written),
            per_vcpu.map(|each| format!("{}/vcpu", written(each))),
            self.pods.then(|| "pods".to_owned()),
        ];
        f.write_str(&terms.into_iter().flatten().collect::<Vec<_>>().join("+"))?;
        self.max.map_or(Ok(()), |max| write!(f, " max {}", written(max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RootVolumeSize {
        text.parse().unwrap()
    }

    #[test]
    fn terms_are_added_up_to_the_maximum_and_not_below_the_class() {
        let class = quantity(20);
        let least = |text: &str, vcpus| read(text).least_gib(vcpus, class);
        assert_eq!((least("20Gi+4Gi/vcpu", 2), least("20Gi+4Gi/vcpu", 96)), (28, 404));
        assert_eq!(least("4Gi/vcpu", 8), 52, "without a size of its own it begins with that of the class");
        assert_eq!((least("1Gi/vcpu + 1Gi", 2), least("50Gi", 2)), (20, 50), "the class is the minimum");
        assert_eq!(least("500Mi/vcpu", 3), 22, "rounded up to whole GiB");
        assert_eq!((least("20Gi+4Gi/vcpu max 300Gi", 192), least("100Gi max 10Gi", 2)), (300, 20));
    }

    #[test]
    fn pods_add_what_they_take_and_at_least_what_they_need() {
        let (volume, class) = (read("30Gi+pods max 500Gi"), quantity(20));
        let for_pods = |taken, needed| volume.gib_for(4, class, quantity(taken), quantity(needed));
        assert_eq!((volume.least_gib(4, class), volume.planned_gib(4, class)), (30, 500));
        assert_eq!((for_pods(0, 2), for_pods(100, 112), for_pods(400, 450), for_pods(480, 540)), (30, 130, 450, 500));
        assert_eq!(read("30Gi").gib_for(4, class, quantity(100), quantity(112)), 30, "without pods it is fixed");
        assert_eq!(read("2Gi/vcpu").planned_gib(4, class), 28);
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        for text in ["50Gi", "20Gi+4Gi/vcpu", "4Gi/vcpu", "pods max 500Gi", "20Gi+1Gi/vcpu+pods max 1Ti"] {
            assert_eq!(read(text).to_string(), text);
        }
        assert_eq!(read("pods+ 20Gi max  1Ti").to_string(), "20Gi+pods max 1Ti");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("", "\"\" is neither a size, a size for each vCPU nor pods"),
            ("large", "\"large\" is neither"),
            ("-5Gi", "\"-5Gi\" is neither"),
            ("4Gi/cpu", "\"4Gi/cpu\" is neither"),
            ("65Ti", "\"65Ti\" is neither"),
            ("1Gi+2Gi", "\"2Gi\" is the second term of its kind"),
            ("pods+pods max 5Gi", "\"pods\" is the second"),
            ("1Gi/vcpu+2Gi/vcpu", "\"2Gi/vcpu\" is the second"),
            ("20Gi max much", "the maximum \"much\" is not a size"),
            ("20Gi+pods", "with pods, a maximum is needed"),
        ] {
            let error = text.parse::<RootVolumeSize>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
