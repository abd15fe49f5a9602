//! Quotas of EC2.

/// The families that the names of quotas state in words.
const NAMED: [(&str, &str); 1] = [("High Memory", "u")];

/// A quota of vCPUs of running instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The name.
    pub name: String,
    /// The code.
    pub code: String,
    /// The capacity type that it bounds: `on-demand` or `spot`.
    pub capacity_type: String,
    /// The instance families that it bounds: their first letters, as in the label `karpenter.k8s.aws/instance-category`, or a
    /// family with its generation.
    pub families: Vec<String>,
    /// Whether these are the families of most instances.
    pub standard: bool,
    /// The number of vCPUs.
    pub vcpus: i64,
}

impl Quota {
    /// A quota of the service `ec2`, as Service Quotas lists it. The families that it bounds are in its name only, for example
    /// `Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances`, `All P4, P3 and P2 Spot Instance Requests`. `None` for quotas
    /// of anything else than vCPUs.
    #[must_use]
    pub fn new(name: &str, code: &str, value: f64) -> Option<Self> {
        let on_demand = name.strip_prefix("Running On-Demand ").and_then(|rest| rest.strip_suffix(" instances"));
        let spot = name.strip_prefix("All ").and_then(|rest| rest.strip_suffix(" Spot Instance Requests"));
        let (capacity_type, stated) =
            on_demand.map(|stated| ("on-demand", stated)).or(spot.map(|stated| ("spot", stated)))?;
        let list = stated.strip_prefix("Standard (").and_then(|rest| rest.strip_suffix(')'));
        let families = match NAMED.iter().find(|(words, _)| *words == stated) {
            Some((_, family)) => vec![(*family).to_owned()],
            None => list.unwrap_or(stated).replace(" and ", ", ").split(", ").map(str::to_lowercase).collect(),
        };
        #[expect(clippy::cast_possible_truncation, reason = "numbers of vCPUs are far below 2^53")]
        let vcpus = value as i64;
        Some(Self {
            name: name.to_owned(),
            code: code.to_owned(),
            capacity_type: capacity_type.to_owned(),
            families,
            standard: list.is_some(),
            vcpus,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_state_the_families() {
        let families =
            |name: &str| Quota::new(name, "L-1", 5.0).map(|quota| (quota.capacity_type, quota.families.join(" ")));
        for (name, capacity_type, expected) in [
            ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "on-demand", "a c d h i m r t z"),
            ("Running On-Demand G and VT instances", "on-demand", "g vt"),
            ("Running On-Demand High Memory instances", "on-demand", "u"),
            ("Running On-Demand Inf instances", "on-demand", "inf"),
            ("All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "spot", "a c d h i m r t z"),
            ("All P4, P3 and P2 Spot Instance Requests", "spot", "p4 p3 p2"),
        ] {
            assert_eq!(families(name), Some((capacity_type.to_owned(), expected.to_owned())), "{name}");
        }
        for name in ["EC2-VPC Elastic IPs", "Running Dedicated m5 Hosts", "Security groups per VPC"] {
            assert_eq!(families(name), None, "{name}");
        }
        let standard = |name| Quota::new(name, "L-1", 5.0).unwrap().standard;
        assert!(standard("All Standard (A, C) Spot Instance Requests") && !standard("Running On-Demand F instances"));
    }
}
