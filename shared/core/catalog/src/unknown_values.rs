//! Values of requirements that a region does not have, such as misspelled names of instance types.

use crate::Catalog;
use crate::type_facts::Architecture;
use nodeless_model::spelling::nearest;
use nodeless_model::{Requirements, labels};
use std::collections::BTreeSet;
use std::fmt;

/// A value that a requirement allows, and that no node of the region can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownValue {
    /// The label of the requirement.
    pub key: &'static str,
    /// The value.
    pub value: String,
    /// The value that was probably meant.
    pub meant: Option<String>,
}

impl fmt::Display for UnknownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no instance type has the {} {:?} that it allows", self.key, self.value)?;
        self.meant.iter().try_for_each(|meant| write!(f, "; did you mean {meant}?"))
    }
}

/// The values of requirements on instance types, families, sizes, architectures and zones that the region does not have. A zone counts
/// only beside one of the region or similar to one: a catalog of another region has none of them.
#[must_use]
pub fn unknown_values(requirements: &Requirements, catalog: &Catalog) -> Vec<UnknownValue> {
    let parts = || catalog.types.iter().filter_map(|kind| kind.facts.name.split_once('.'));
    let of_key = |key: &str| -> BTreeSet<&str> {
        match key {
            labels::INSTANCE_TYPE => catalog.types.iter().map(|kind| kind.facts.name.as_str()).collect(),
            labels::INSTANCE_FAMILY => parts().map(|(family, _)| family).collect(),
            labels::INSTANCE_SIZE => parts().map(|(_, size)| size).collect(),
            labels::ARCH => [Architecture::Amd64, Architecture::Arm64].map(Architecture::as_str).into(),
            labels::ZONE => catalog.zones.iter().map(|zone| zone.name.as_str()).collect(),
            _ => catalog.zones.iter().map(|zone| zone.id.as_str()).collect(),
        }
    };
    let keys = [
        labels::INSTANCE_TYPE,
        labels::INSTANCE_FAMILY,
        labels::INSTANCE_SIZE,
        labels::ARCH,
        labels::ZONE,
        labels::ZONE_ID,
    ];
    let mut unknown = Vec::new();
    for key in keys {
        let Some(values) = requirements.get(key).and_then(|requirement| requirement.values()) else { continue };
        let known = of_key(key);
        let is_zone = [labels::ZONE, labels::ZONE_ID].contains(&key);
        let is_region = values.iter().any(|value| known.contains(value.as_str()));
        for value in values.iter().filter(|value| !known.contains(value.as_str())) {
            let meant = nearest(value, known.iter().copied(), |known| known).map(str::to_owned);
            if !is_zone || is_region || meant.is_some() {
                unknown.push(UnknownValue { key, value: value.clone(), meant });
            }
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::Requirement;

    fn found(key: &str, values: &[&str]) -> Vec<String> {
        let mut requirements = Requirements::new();
        requirements.add(key, Requirement::one_of(values.iter().copied()));
        let catalog = Catalog::embedded().unwrap();
        unknown_values(&requirements, &catalog).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn misspelled_values_are_named_with_what_was_meant() {
        for (key, values, expected) in [
            (labels::INSTANCE_TYPE, ["m5.large", "m5.xlrge"], "\"m5.xlrge\" that it allows; did you mean m5.xlarge?"),
            (labels::INSTANCE_FAMILY, ["c7g", "blue"], "\"blue\" that it allows"),
            (labels::INSTANCE_SIZE, ["large", "2xlage"], "did you mean 2xlarge?"),
            (labels::ARCH, ["amd64", "arm46"], "did you mean arm64?"),
            (labels::ZONE, ["us-east-1a", "us-east-1x"], "\"us-east-1x\" that it allows"),
        ] {
            let found = found(key, &values);
            assert!(matches!(&found[..], [one] if one.contains(expected) && one.contains(key)), "{found:?}");
        }
    }

    #[test]
    fn known_values_and_those_of_other_regions_are_no_faults() {
        let none: [String; 0] = [];
        assert_eq!(found(labels::INSTANCE_TYPE, &["m5.large", "c7g.xlarge"]), none);
        assert_eq!(found(labels::ZONE, &["ap-south-2b"]), none, "the catalog is that of another region");
        let mut requirements = Requirements::new();
        requirements.add(labels::INSTANCE_FAMILY, Requirement::none_of(["t1", "blue"]));
        assert_eq!(unknown_values(&requirements, &Catalog::embedded().unwrap()), []);
    }
}
