//! The remaining limits of a NodePool during a plan.

use crate::problem::PoolOffer;
use nodeless_model::{Quantity, ResourceList, resources};

/// The remaining limits of a NodePool.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Resource, limit and usage, in thousandths.
    resources: Vec<Limit>,
    /// Limit and usage, in dollars per hour.
    dollars: Option<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) name: String,
    pub(crate) limit: i64,
    pub(crate) used: i64,
}

/// The usage of the limits by one node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share {
    /// In the order of the limits, in thousandths.
    pub(crate) resources: Box<[i64]>,
    /// Dollars per hour.
    pub(crate) dollars: f64,
}

/// Sums of prices are rounded; a millionth of a dollar does not exceed a limit.
const ROUNDING: f64 = 1e-6;

impl Limits {
    pub(crate) fn of(offer: &PoolOffer<'_>) -> Self {
        let resources = offer.pool.limits.iter().map(|(name, limit)| Limit {
            name: name.to_owned(),
            limit: limit.milli(),
            used: offer.usage.resources.get(name).milli(),
        });
        Self {
            resources: resources.collect(),
            dollars: offer.pool.limit_dollars_per_hour.map(|limit| (limit, offer.usage.dollars_per_hour)),
        }
    }

    /// A share of nothing.
    pub(crate) fn nothing(&self) -> Share {
        Share { resources: self.resources.iter().map(|_| 0).collect(), dollars: 0.0 }
    }

    /// Whether nothing is limited.
    pub(crate) const fn are_none(&self) -> bool {
        self.resources.is_empty() && self.dollars.is_none()
    }

    /// The limits on resources.
    pub(crate) fn resources(&self) -> &[Limit] {
        &self.resources
    }

    /// The limit on dollars per hour, and its usage.
    pub(crate) const fn dollars(&self) -> Option<(f64, f64)> {
        self.dollars
    }

    /// The usage of a node with this capacity and price.
    pub(crate) fn share(&self, capacity: &ResourceList, dollars: f64) -> Share {
        let amount = |limit: &Limit| match limit.name.as_str() {
            resources::name::NODES => Quantity::from_units(1).milli(),
            name => capacity.get(name).milli(),
        };
        Share { resources: self.resources.iter().map(amount).collect(), dollars }
    }

    /// How many nodes of this share the limits allow, at most `most`.
    pub(crate) fn room_for(&self, share: &Share, most: u32) -> u32 {
        let mut times = i64::from(most);
        for (limit, share) in self.resources.iter().zip(&share.resources) {
            if *share > 0 {
                times = times.min((limit.limit - limit.used).max(0) / share);
            }
        }
        let mut times = u32::try_from(times).unwrap_or(0);
        if let Some((limit, used)) = self.dollars {
            while times > 0 && used + share.dollars * f64::from(times) > limit + ROUNDING {
                let fitting = ((limit + ROUNDING - used) / share.dollars).floor().max(0.0);
                // A count of nodes: far below what a float or a u32 can hold exactly.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "floored and not negative")]
                let fitting = fitting as u32;
                times = fitting.min(times - 1);
            }
        }
        times
    }

    /// Charges a number of nodes of this share.
    pub(crate) fn charge(&mut self, share: &Share, times: u32) {
        for (limit, share) in self.resources.iter_mut().zip(&share.resources) {
            limit.used = limit.used.saturating_add(share.saturating_mul(i64::from(times)));
        }
        if let Some((_, used)) = &mut self.dollars {
            *used += share.dollars * f64::from(times);
        }
    }

    /// Releases one node of this share.
    pub(crate) fn refund(&mut self, share: &Share) {
        for (limit, share) in self.resources.iter_mut().zip(&share.resources) {
            limit.used = limit.used.saturating_sub(*share);
        }
        if let Some((_, used)) = &mut self.dollars {
            *used -= share.dollars;
        }
    }

    /// How much each of a number of launches may take beyond its share, for the sake of choice.
    pub(crate) fn slack_each(&self, launches: usize) -> Share {
        let launches = launches.max(1);
        let divisor = i64::try_from(launches).unwrap_or(i64::MAX);
        #[expect(clippy::cast_precision_loss, reason = "a count of launches")]
        let dollars = self.dollars.map_or(f64::INFINITY, |(limit, used)| (limit - used).max(0.0) / launches as f64);
        Share {
            resources: self.resources.iter().map(|limit| (limit.limit - limit.used).max(0) / divisor).collect(),
            dollars,
        }
    }
}

impl Share {
    /// Whether this share is at most `base` and `slack` together.
    pub(crate) fn within(&self, base: &Self, slack: &Self) -> bool {
        self.dollars <= base.dollars + slack.dollars + ROUNDING
            && self
                .resources
                .iter()
                .zip(base.resources.iter().zip(&slack.resources))
                .all(|(mine, (base, slack))| *mine <= base.saturating_add(*slack))
    }

    /// The maximum of both in each respect.
    pub(crate) fn max(&self, other: &Self) -> Self {
        Self {
            resources: self.resources.iter().zip(&other.resources).map(|(a, b)| *a.max(b)).collect(),
            dollars: self.dollars.max(other.dollars),
        }
    }

    /// The difference of this share to another.
    pub(crate) fn beyond(&self, other: &Self) -> Self {
        Self {
            resources: self.resources.iter().zip(&other.resources).map(|(a, b)| (a - b).max(0)).collect(),
            dollars: (self.dollars - other.dollars).max(0.0),
        }
    }
}
