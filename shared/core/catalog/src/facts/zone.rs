//! Zones of a region.

use serde::{Deserialize, Serialize};

/// An Availability Zone, a Local Zone or a Wavelength Zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Zone {
    /// The account's name for it, such as `us-east-1a`, or `us-west-2-lax-1a` of a Local Zone.
    pub name: String,
    /// The name that is the same in every account, such as `use1-az1`.
    pub id: String,
}

impl Zone {
    /// Whether it is a Local Zone or a Wavelength Zone.
    #[must_use]
    pub fn is_local(&self) -> bool {
        is_local_zone(&self.name)
    }
}

/// Whether a zone is a Local Zone or a Wavelength Zone, by its name: the region, a hyphen and the location.
///
/// Source: <https://docs.aws.amazon.com/local-zones/latest/ug/available-local-zones.html>.
#[must_use]
pub fn is_local_zone(name: &str) -> bool {
    split(name).is_some_and(|(_, rest)| rest.starts_with('-'))
}

/// The region of a zone, by the zone's name: `us-west-2` of `us-west-2b` and of `us-west-2-lax-1a`. `None` if the name is not that of a
/// zone in AWS.
#[must_use]
pub fn region_of_zone(name: &str) -> Option<&str> {
    split(name).map(|(region, _)| region)
}

/// The region ends with the first number; the letter of an Availability Zone or the location of a Local Zone follows.
fn split(name: &str) -> Option<(&str, &str)> {
    let digit = name.find(|c: char| c.is_ascii_digit())?;
    let end = name[digit..].find(|c: char| !c.is_ascii_digit())? + digit;
    let (region, rest) = name.split_at(end);
    let letter = rest.len() == 1 && rest.ends_with(|c: char| c.is_ascii_lowercase());
    (name[..digit].ends_with('-') && (letter || rest.starts_with('-'))).then_some((region, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_zone_contains_its_region() {
        for (name, region, local) in [
            ("us-east-1a", Some("us-east-1"), false),
            ("us-gov-west-1c", Some("us-gov-west-1"), false),
            ("us-west-2-lax-1a", Some("us-west-2"), true),
            ("us-east-1-wl1-bos-wlz-1", Some("us-east-1"), true),
            ("us-east-1", None, false),
            ("us-east-1ab", None, false),
            ("zone-a", None, false),
            ("1a", None, false),
            ("", None, false),
        ] {
            assert_eq!(region_of_zone(name), region, "{name}");
            assert_eq!(is_local_zone(name), local, "{name}");
        }
    }
}
