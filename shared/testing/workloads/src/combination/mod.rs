//! Combinations of constraints: inputs that take more work than others of their size.
//!
//! A [`Combination`] is a seed and a number for each of [`FIELDS`], written in one line, so that an input is stored without
//! its pods.

mod groups;
mod making;
mod relations;

use crate::draw::Draw;
use std::fmt;
use std::str::FromStr;

/// The fields of a combination, and their values; the first is that of plain pods. Percentages
/// are those of groups of pods.
pub const FIELDS: [(&str, &[u32]); 44] = [
    // The number of pods in a group, which is a Deployment or StatefulSet.
    ("group", &[10, 1, 2, 3, 5, 20, 50, 200, 2000]),
    // Sizes of pods: a few; one for all; log-normal for each group; log-normal for each pod.
    ("sizes", &[0, 1, 2, 3]),
    // The factor of the size of pods.
    ("scale", &[1, 4, 16, 64]),
    // Percent of groups with a GPU.
    ("gpu", &[0, 5, 50]),
    // The pods that selectors select: the group, the next group, one of seven shares of all, all.
    ("selects", &[0, 1, 2, 3]),
    // The number of terms of each kind of affinity, each of which selects the next group.
    ("terms", &[1, 2, 5, 20]),
    ("max_skew", &[1, 2, 5]),
    ("min_domains", &[0, 2, 3, 10]),
    // 1: spreads honor taints and ignore node affinity.
    ("policies", &[0, 1]),
    // Percent with topology spread, DoNotSchedule and ScheduleAnyway.
    ("hard_zone", PERCENT),
    ("hard_host", PERCENT),
    ("hard_rack", PERCENT),
    ("soft_zone", PERCENT),
    ("soft_host", PERCENT),
    ("soft_rack", PERCENT),
    // Percent with required pod affinity and anti-affinity.
    ("near_zone", PERCENT),
    ("near_host", PERCENT),
    ("near_rack", PERCENT),
    ("apart_zone", PERCENT),
    ("apart_host", PERCENT),
    ("apart_rack", PERCENT),
    // Percent with preferred pod affinity and anti-affinity.
    ("rather_near_zone", PERCENT),
    ("rather_near_host", PERCENT),
    ("rather_near_rack", PERCENT),
    ("rather_apart_zone", PERCENT),
    ("rather_apart_host", PERCENT),
    ("rather_apart_rack", PERCENT),
    // Percent with required and preferred node affinity, and the number of alternatives or preferences.
    ("node_affinity", PERCENT),
    ("rather_node_affinity", PERCENT),
    ("alternatives", &[1, 3, 10]),
    // Percent with a volume for each pod, and the number of zones in which a volume can be used.
    ("volumes", PERCENT),
    ("volume_zones", &[1, 2]),
    // Percent with a host port, and the number of ports.
    ("ports", PERCENT),
    ("port_numbers", &[1, 3, 100]),
    // NodePools; 1: each has its own weight.
    ("pools", &[1, 2, 5, 20, 50]),
    ("weights", &[0, 1]),
    // Taints of NodePools: none; NoSchedule on every other; PreferNoSchedule on every other; each its own.
    ("taints", &[0, 1, 2, 3]),
    // Percent that tolerate the taint of one pool.
    ("tolerates", PERCENT),
    // The limits of each NodePool in percent of the requests of all pods; 0: no limits.
    ("limits", &[0, 20, 60, 150]),
    // minValues of instance types that NodePools require.
    ("min_values", &[0, 5, 30]),
    // The number of values of the custom topology key.
    ("racks", &[3, 10, 50]),
    // 1: prices are changed as by NodeOverlays.
    ("overlays", &[0, 1]),
    // The number of running nodes, and of pods of the same groups on each.
    ("nodes", &[0, 20, 200, 1000]),
    ("bound", &[0, 5, 15]),
];

const PERCENT: &[u32] = &[0, 10, 50, 100];

/// A seed, the number of pending pods, and a number for each of [`FIELDS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// The seed.
    pub seed: u64,
    /// The number of pending pods.
    pub pods: u32,
    values: Vec<u32>,
}

impl Combination {
    /// Plain pods.
    #[must_use]
    pub fn plain(pods: u32) -> Self {
        Self { seed: 1, pods, values: FIELDS.iter().map(|(_, choice)| choice[0]).collect() }
    }

    /// Plain pods with the same numbers of pods, running nodes and running pods.
    #[must_use]
    pub fn plain_of_its_size(&self) -> Self {
        let mut plain = Self::plain(self.pods);
        for name in ["nodes", "bound"] {
            plain.set(name, self.get(name));
        }
        plain
    }

    /// A random combination: about a quarter of its fields differ from those of plain pods.
    #[must_use]
    pub fn any(pods: u32, draw: &mut Draw) -> Self {
        let mut found = Self { seed: draw.any() >> 40, ..Self::plain(pods) };
        for (value, (_, choice)) in found.values.iter_mut().zip(FIELDS) {
            if draw.percent(25) {
                *value = draw.one_of(choice);
            }
        }
        found
    }

    /// The value of a field; 0 if there is no field with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> u32 {
        place(name).map_or(0, |place| self.values[place])
    }

    /// Changes a field.
    pub fn set(&mut self, name: &str, value: u32) {
        if let Some(place) = place(name) {
            self.values[place] = value;
        }
    }
}

fn place(name: &str) -> Option<usize> {
    FIELDS.iter().position(|(known, _)| *known == name)
}

impl fmt::Display for Combination {
    /// The fields that differ from those of plain pods, in the form `seed=1 pods=2000 hard_zone=50`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={} pods={}", self.seed, self.pods)?;
        for (value, (name, choice)) in self.values.iter().zip(FIELDS) {
            if *value != choice[0] {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Combination {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut found = Self::plain(0);
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is not NAME=NUMBER"))?;
            let number = value.parse::<u32>().map_err(|error| format!("{word:?}: {error}"))?;
            match name {
                "seed" => found.seed = number.into(),
                "pods" => found.pods = number,
                _ if place(name).is_some() => found.set(name, number),
                _ => return Err(format!("{name:?} is not a field")),
            }
        }
        Ok(found)
    }
}

/// Inputs with much work for their size, which a search by changes of fields has found.
#[must_use]
pub fn worst() -> Vec<Combination> {
    include_str!("worst.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.parse().ok())
        .collect()
}
