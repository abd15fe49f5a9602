//! The remaining limits of a NodePool and of the cluster during a plan.

use crate::problem::reason::LimitScope;
use crate::problem::{ClusterUsage, PoolOffer};
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{Quantity, ResourceList, resources};
use std::cell::RefCell;
use std::rc::Rc;

/// The remaining limits that apply to the nodes of a NodePool: its own, and those of the cluster, which all NodePools of a plan
/// share. A clone shares nothing, so that changes can be tried on it.
#[derive(Debug)]
pub(crate) struct Limits {
    own: Remaining,
    cluster: Shared,
}

/// The remaining limits of the cluster during a plan.
pub(crate) type Shared = Rc<RefCell<Remaining>>;

/// The remaining limits of one scope.
#[derive(Clone, Debug)]
pub(crate) struct Remaining {
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
    /// In the order of the limits, those of the cluster last, in thousandths.
    pub(crate) resources: Box<[i64]>,
    /// Dollars per hour.
    pub(crate) dollars: f64,
}

/// Sums of prices are rounded; a millionth of a dollar does not exceed a limit.
const ROUNDING: f64 = 1e-6;

impl Clone for Limits {
    fn clone(&self) -> Self {
        Self { own: self.own.clone(), cluster: Rc::new(RefCell::new(self.cluster.borrow().clone())) }
    }
}

/// The remaining limits of the cluster, for all NodePools of a plan.
pub(crate) fn shared(cluster: Option<&ClusterUsage>) -> Shared {
    let remaining = |cluster: &ClusterUsage| {
        Remaining::new(&cluster.limits.resources, cluster.limits.dollars_per_hour, &cluster.usage)
    };
    Rc::new(RefCell::new(cluster.map_or(Remaining::NONE, remaining)))
}

impl Limits {
    pub(crate) fn new(offer: &PoolOffer<'_>, cluster: &Shared) -> Self {
        let own = Remaining::new(&offer.pool.limits, offer.pool.limit_dollars_per_hour, &offer.usage);
        Self { own, cluster: Rc::clone(cluster) }
    }

    /// A share of nothing.
    pub(crate) fn nothing(&self) -> Share {
        let limits = self.own.resources.len() + self.cluster.borrow().resources.len();
        Share { resources: vec![0; limits].into_boxed_slice(), dollars: 0.0 }
    }

    /// Whether there are no limits.
    pub(crate) fn are_none(&self) -> bool {
        self.own.is_none() && self.cluster.borrow().is_none()
    }

    /// Whether there is a limit on dollars per hour.
    pub(crate) fn has_dollars(&self) -> bool {
        self.own.dollars.is_some() || self.cluster.borrow().dollars.is_some()
    }

    /// The limits on resources, in the order of a share.
    pub(crate) fn resources(&self) -> Vec<(LimitScope, Limit)> {
        let of = |scope, remaining: &Remaining| {
            remaining.resources.iter().cloned().map(|limit| (scope, limit)).collect::<Vec<_>>()
        };
        let mut all = of(LimitScope::NodePool, &self.own);
        all.extend(of(LimitScope::Cluster, &self.cluster.borrow()));
        all
    }

    /// The limits on dollars per hour, each with its usage.
    pub(crate) fn dollars(&self) -> impl Iterator<Item = (LimitScope, f64, f64)> {
        let cluster = self.cluster.borrow().dollars;
        let all = [(LimitScope::NodePool, self.own.dollars), (LimitScope::Cluster, cluster)];
        all.into_iter().filter_map(|(scope, dollars)| dollars.map(|(limit, used)| (scope, limit, used)))
    }

    /// The usage of a node with this capacity and price.
    pub(crate) fn share(&self, capacity: &ResourceList, dollars: f64) -> Share {
        let amount = |limit: &Limit| match limit.name.as_str() {
            resources::name::NODES => Quantity::from_units(1).milli(),
            name => capacity.get(name).milli(),
        };
        let cluster = self.cluster.borrow();
        Share { resources: self.own.resources.iter().chain(&cluster.resources).map(amount).collect(), dollars }
    }

    /// The number of nodes with this share that the limits allow, at most `most`.
    pub(crate) fn allowed(&self, share: &Share, most: u32) -> u32 {
        let (own, cluster) = share.resources.split_at(self.own.resources.len().min(share.resources.len()));
        let own = self.own.allowed(own, share.dollars, most);
        self.cluster.borrow().allowed(cluster, share.dollars, own)
    }

    /// Charges a number of nodes of this share.
    pub(crate) fn charge(&mut self, share: &Share, times: u32) {
        self.add(share, i64::from(times));
    }

    /// Releases one node of this share.
    pub(crate) fn refund(&mut self, share: &Share) {
        self.add(share, -1);
    }

    fn add(&mut self, share: &Share, times: i64) {
        let (own, cluster) = share.resources.split_at(self.own.resources.len().min(share.resources.len()));
        self.own.add(own, share.dollars, times);
        self.cluster.borrow_mut().add(cluster, share.dollars, times);
    }

    /// The amount beyond its share that the next of a number of launches may take, for a choice of types. `launches` is the
    /// number of remaining launches of the NodePool, `of_all` that of all NodePools.
    pub(crate) fn slack_each(&self, launches: usize, of_all: usize) -> Share {
        let (mut resources, own_dollars) = self.own.slack_each(launches);
        let (of_cluster, cluster_dollars) = self.cluster.borrow().slack_each(of_all);
        resources.extend(of_cluster);
        Share { resources: resources.into_boxed_slice(), dollars: own_dollars.min(cluster_dollars) }
    }
}

impl Remaining {
    const NONE: Self = Self { resources: Vec::new(), dollars: None };

    fn new(limits: &ResourceList, dollars: Option<f64>, usage: &PoolUsage) -> Self {
        let resources = limits.iter().map(|(name, limit)| Limit {
            name: name.to_owned(),
            limit: limit.milli(),
            used: usage.resources.get(name).milli(),
        });
        Self { resources: resources.collect(), dollars: dollars.map(|limit| (limit, usage.dollars_per_hour)) }
    }

    const fn is_none(&self) -> bool {
        self.resources.is_empty() && self.dollars.is_none()
    }

    fn allowed(&self, share: &[i64], dollars: f64, most: u32) -> u32 {
        let mut times = i64::from(most);
        for (limit, share) in self.resources.iter().zip(share) {
            if *share > 0 {
                times = times.min((limit.limit - limit.used).max(0) / share);
            }
        }
        let mut times = u32::try_from(times).unwrap_or(0);
        if let Some((limit, used)) = self.dollars {
            while times > 0 && used + dollars * f64::from(times) > limit + ROUNDING {
                let fitting = ((limit + ROUNDING - used) / dollars).floor().max(0.0);
                // A count of nodes: far below what a float or a u32 can hold exactly.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "floored and not negative")]
                let fitting = fitting as u32;
                times = fitting.min(times - 1);
            }
        }
        times
    }

    fn add(&mut self, share: &[i64], dollars: f64, times: i64) {
        for (limit, share) in self.resources.iter_mut().zip(share) {
            limit.used = limit.used.saturating_add(share.saturating_mul(times));
        }
        if let Some((_, used)) = &mut self.dollars {
            #[expect(clippy::cast_precision_loss, reason = "a count of nodes")]
            let times = times as f64;
            *used += dollars * times;
        }
    }

    fn slack_each(&self, launches: usize) -> (Vec<i64>, f64) {
        let launches = launches.max(1);
        let divisor = i64::try_from(launches).unwrap_or(i64::MAX);
        #[expect(clippy::cast_precision_loss, reason = "a count of launches")]
        let dollars = self.dollars.map_or(f64::INFINITY, |(limit, used)| (limit - used).max(0.0) / launches as f64);
        let resources = self.resources.iter().map(|limit| (limit.limit - limit.used).max(0) / divisor);
        (resources.collect(), dollars)
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
