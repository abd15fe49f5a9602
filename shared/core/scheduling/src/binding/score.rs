//! The scorers of the kube-scheduler's default profile that are functions of plain numbers, and the weights of all of them.
//!
//! Source: `pkg/scheduler/framework/plugins` and `pkg/scheduler/apis/config/v1/default_plugins.go` of Kubernetes 1.33. All scores
//! are from 0 to [`MAX`], rounded as upstream rounds them.

use nodeless_model::{ResourceList, resources};

/// `MaxNodeScore`.
pub(super) const MAX: i64 = 100;

/// The weights of the default profile.
pub(super) const TAINT_TOLERATION: i64 = 3;
pub(super) const NODE_AFFINITY: i64 = 2;
pub(super) const POD_TOPOLOGY_SPREAD: i64 = 2;
pub(super) const INTER_POD_AFFINITY: i64 = 2;
pub(super) const RESOURCES_FIT: i64 = 1;
pub(super) const BALANCED_ALLOCATION: i64 = 1;

/// The load of a pod without requests when nodes are compared: `DefaultMilliCPURequest` and `DefaultMemoryRequest` of
/// `pkg/scheduler/util/pod_resources.go`.
const DEFAULT_MILLI_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// Cpu in thousandths and memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) cpu: i64,
    pub(super) memory: i64,
}

impl Load {
    pub(super) fn new(list: &ResourceList) -> Self {
        Self { cpu: list.get(resources::name::CPU).milli(), memory: list.get(resources::name::MEMORY).milli() / 1000 }
    }

    /// This load with the defaults for missing requests. Upstream applies them to each container; only the sum is known here.
    pub(super) const fn non_zero(self) -> Self {
        Self {
            cpu: if self.cpu == 0 { DEFAULT_MILLI_CPU } else { self.cpu },
            memory: if self.memory == 0 { DEFAULT_MEMORY } else { self.memory },
        }
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }

    const fn is_zero(self) -> bool {
        self.cpu == 0 && self.memory == 0
    }
}

/// `LeastAllocated` of `NodeResourcesFit`: the fraction of cpu and memory that is left, with the weight 1 each.
pub(super) fn least_allocated(requested: Load, allocatable: Load) -> i64 {
    let one = |requested: i64, allocatable: i64| {
        (allocatable > 0).then(|| {
            // A number holds a hundred times the memory of any node.
            allocatable.saturating_sub(requested).max(0).saturating_mul(MAX) / allocatable
        })
    };
    let scores = [one(requested.cpu, allocatable.cpu), one(requested.memory, allocatable.memory)];
    let known = i64::try_from(scores.iter().flatten().count()).unwrap_or(0);
    if known == 0 { 0 } else { scores.iter().flatten().sum::<i64>() / known }
}

/// `NodeResourcesBalancedAllocation`: how close the used fractions of cpu and memory are to each other. Zero for pods without
/// requests of both.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "fractions, as upstream computes them"
)]
pub(super) fn balanced_allocation(asked: Load, requested: Load, allocatable: Load) -> i64 {
    if asked.is_zero() {
        return 0;
    }
    let fraction = |requested: i64, allocatable: i64| (requested as f64 / allocatable as f64).min(1.0);
    let deviation = if allocatable.cpu > 0 && allocatable.memory > 0 {
        let cpu = fraction(requested.cpu, allocatable.cpu);
        ((cpu - fraction(requested.memory, allocatable.memory)) / 2.0).abs()
    } else {
        0.0
    };
    ((1.0 - deviation) * MAX as f64) as i64
}

/// `DefaultNormalizeScore`: scaled so that the greatest becomes [`MAX`]; reversed, the greatest becomes zero.
pub(super) fn normalize(scores: &mut [i64], reverse: bool) {
    let greatest = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let share = if greatest == 0 { 0 } else { MAX * *score / greatest };
        *score = if reverse { MAX - share } else { share };
    }
}

/// `NormalizeScore` of `InterPodAffinity`: from the least to the greatest.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "as upstream computes it")]
pub(super) fn normalize_affinity(scores: &mut [i64]) {
    let least = scores.iter().copied().min().unwrap_or(0);
    let difference = scores.iter().copied().max().unwrap_or(0) - least;
    for score in scores {
        let share = if difference > 0 { (*score - least) as f64 / difference as f64 } else { 0.0 };
        *score = (MAX as f64 * share) as i64;
    }
}

/// `NormalizeScore` of `PodTopologySpread`: the fewer pods, the higher. Nodes without a label of the constraints are `None`, and
/// get zero.
pub(super) fn normalize_spread(scores: &[Option<i64>]) -> Vec<i64> {
    let known = || scores.iter().flatten().copied();
    let (least, greatest) = (known().min().unwrap_or(0), known().max().unwrap_or(0));
    let one = |score: &Option<i64>| match score {
        None => 0,
        Some(_) if greatest == 0 => MAX,
        Some(score) => MAX * (greatest + least - score) / greatest,
    };
    scores.iter().map(one).collect()
}

/// `topologyNormalizingWeight`: by how many domains there are.
#[expect(clippy::cast_precision_loss, reason = "a count of domains")]
pub(super) fn spread_weight(domains: usize) -> f64 {
    ((domains + 2) as f64).ln()
}

/// `scoreForCount`.
#[expect(clippy::cast_precision_loss, reason = "a count of pods")]
pub(super) fn spread_score(count: i64, max_skew: i32, weight: f64) -> f64 {
    (count as f64).mul_add(weight, f64::from(max_skew - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn load(cpu: i64, memory: i64) -> Load {
        Load { cpu, memory }
    }

    /// The tables of `least_allocated_test.go`.
    #[test]
    fn least_allocated_as_upstream() {
        for (requested, allocatable, expected) in [
            (load(0, 0), load(4000, 10000), 100),
            (load(3000, 5000), load(4000, 10000), 37),
            (load(3000, 5000), load(6000, 10000), 50),
            (load(6000, 0), load(10000, 20000), 70),
            (load(6000, 5000), load(10000, 20000), 57),
            (load(6000, 10000), load(10000, 20000), 45),
            (load(6000, 10000), load(10000, 50000), 60),
            (load(6000, 0), load(4000, 10000), 50),
            (load(6000, 5000), load(4000, 10000), 25),
            (load(3000, 5000), load(0, 0), 0),
        ] {
            assert_eq!(least_allocated(requested, allocatable), expected, "{requested:?} of {allocatable:?}");
        }
    }

    /// The tables of `balanced_allocation_test.go`, those with cpu and memory only.
    #[test]
    fn balanced_allocation_as_upstream() {
        for (requested, allocatable, expected) in [
            (load(3000, 5000), load(4000, 10000), 87),
            (load(3000, 5000), load(6000, 10000), 100),
            (load(6000, 5000), load(10000, 20000), 82),
            (load(6000, 10000), load(10000, 20000), 95),
            (load(6000, 10000), load(10000, 50000), 80),
            (load(6000, 0), load(6000, 10000), 50),
            (load(6000, 5000), load(6000, 10000), 75),
            (load(3000, 5000), load(3500, 40000), 63),
        ] {
            assert_eq!(balanced_allocation(load(3000, 0), requested, allocatable), expected, "{requested:?}");
        }
        assert_eq!(balanced_allocation(load(0, 0), load(3000, 5000), load(4000, 10000)), 0, "skipped in PreScore");
    }

    #[test]
    fn pods_without_requests_count_as_small_ones() {
        assert_eq!(load(0, 0).non_zero(), load(100, 209_715_200));
        assert_eq!(load(250, 0).non_zero(), load(250, 209_715_200));
    }

    #[test]
    fn scores_are_normalized_as_upstream() {
        let normal = |scores: &[i64], reverse| {
            let mut scores = scores.to_vec();
            normalize(&mut scores, reverse);
            scores
        };
        // normalize_score_test.go
        assert_eq!(normal(&[1, 2, 3, 4], false), [25, 50, 75, 100]);
        assert_eq!(normal(&[1, 2, 3, 4], true), [75, 50, 25, 0]);
        assert_eq!(normal(&[0, 0, 0, 0], false), [0, 0, 0, 0]);
        assert_eq!(normal(&[0, 0, 0, 0], true), [100, 100, 100, 100]);
        let mut affinity = [-4, 8, 4];
        normalize_affinity(&mut affinity);
        assert_eq!(affinity, [0, 100, 66]);
        let mut equal = [5, 5];
        normalize_affinity(&mut equal);
        assert_eq!(equal, [0, 0]);
    }

    /// Cases of `podtopologyspread/scoring_test.go` with one constraint over the host name.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "small scores")]
    fn spread_as_upstream() {
        let scores = |counts: &[i64], max_skew| {
            let weight = spread_weight(counts.len());
            let raw = counts.iter().map(|count| Some(spread_score(*count, max_skew, weight).round() as i64));
            normalize_spread(&raw.collect::<Vec<_>>())
        };
        assert_eq!(scores(&[0, 0], 1), [100, 100], "no existing pods");
        assert_eq!(scores(&[1, 1], 1), [100, 100], "the same number of matching pods");
        assert_eq!(scores(&[2, 1, 0, 3], 1), [20, 60, 100, 0]);
        assert_eq!(scores(&[2, 1, 0, 3], 2), [33, 66, 100, 16]);
        assert_eq!(scores(&[4, 3, 2, 1], 3), [44, 66, 77, 100]);
        assert_eq!(scores(&[4, 2, 1], 1), [33, 83, 100], "three of four nodes are candidates");
        assert_eq!(normalize_spread(&[Some(3), None, Some(1)]), [33, 0, 100]);
    }
}
