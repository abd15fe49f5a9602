//! Sizes of instance types, for Reserved Instances of a region.
//!
//! The numbers are those of "Instance size flexibility" in the Amazon EC2 User Guide:
//! <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/apply_ri.html>.

/// The families to which size flexibility does not apply. The User Guide names `u7i-6tb` and `u7i-8tb`, which are families too.
const INFLEXIBLE: [&str; 15] = [
    "g4ad", "g4dn", "g5", "g5g", "g6", "g6e", "g6f", "gr6", "gr6f", "hpc7a", "p5", "inf1", "inf2", "u7i-6tb", "u7i-8tb",
];

/// The normalization factors of bare metal instances whose size is `metal`.
const METAL: [(f64, &[&str]); 8] = [
    (32.0, &["a1"]),
    (96.0, &["m5zn", "x2iezn", "z1d"]),
    (128.0, &["c6g", "c6gd", "i3", "m6g", "m6gd", "r6g", "r6gd", "x2gd"]),
    (144.0, &["c5n"]),
    (192.0, &["c5", "c5d", "i3en", "m5", "m5d", "m5dn", "m5n", "r5", "r5b", "r5d", "r5dn", "r5n"]),
    (256.0, &["c6i", "c6id", "m6i", "m6id", "r6d", "r6id"]),
    (448.0, &["u-18tb1", "u-24tb1"]),
    (896.0, &["u-6tb1", "u-9tb1", "u-12tb1"]),
];

/// What a Reserved Instance of a region and the instances that it applies to have in common, and how large an instance is in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size<'a> {
    /// The family, or the instance type where sizes are not flexible or the size is unknown.
    pub(crate) group: &'a str,
    /// The normalization factor, or 1.
    pub(crate) units: f64,
}

impl<'a> Size<'a> {
    pub(crate) fn new(instance_type: &'a str) -> Self {
        let exact = Self { group: instance_type, units: 1.0 };
        let Some((family, size)) = instance_type.split_once('.') else { return exact };
        if INFLEXIBLE.contains(&family) {
            return exact;
        }
        factor(family, size).map_or(exact, |units| Self { group: family, units })
    }
}

/// The family of an instance type.
pub(crate) fn family(instance_type: &str) -> &str {
    instance_type.split_once('.').map_or(instance_type, |(family, _)| family)
}

fn factor(family: &str, size: &str) -> Option<f64> {
    match size {
        "nano" => Some(0.25),
        "micro" => Some(0.5),
        "small" => Some(1.0),
        "medium" => Some(2.0),
        "large" => Some(4.0),
        "xlarge" => Some(8.0),
        "metal" => METAL.iter().find(|(_, families)| families.contains(&family)).map(|(factor, _)| *factor),
        // A bare metal instance counts as the virtualized size of the family that it is equivalent to.
        _ => {
            let times = size.strip_prefix("metal-").unwrap_or(size);
            let times = times.strip_suffix("xlarge").or_else(|| times.strip_suffix("xl"))?;
            times.parse().ok().map(|times: u16| 8.0 * f64::from(times))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_factors_of_the_user_guide() {
        let of = |name| (Size::new(name).group, Size::new(name).units);
        for (name, units) in [
            ("t3.nano", 0.25),
            ("t3.medium", 2.0),
            ("t3.large", 4.0),
            ("t3.2xlarge", 16.0),
            ("t3.18xlarge", 144.0),
            ("t3.24xlarge", 192.0),
            ("t3.112xlarge", 896.0),
        ] {
            assert_eq!(of(name), ("t3", units), "{name}");
        }
        assert_eq!(of("i3.metal"), ("i3", 128.0));
        assert_eq!(of("m7i.metal-24xl"), ("m7i", 192.0));
        // No flexibility, or no known factor: only the same type.
        assert_eq!(of("g5.xlarge"), ("g5.xlarge", 1.0));
        assert_eq!(of("m9.metal"), ("m9.metal", 1.0));
        assert_eq!(of("m9.huge"), ("m9.huge", 1.0));
        assert_eq!(of("other"), ("other", 1.0));
    }
}
