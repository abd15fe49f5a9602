//! The order in which a fleet tries offerings.

use super::launch::LaunchPlan;
use crate::error::Ec2Error;
use crate::objects::fleet::LaunchTemplateAndOverrides;
use crate::objects::offering::CapacityType;
use crate::requests::CreateFleet;
use crate::state::AccountState;

/// EC2's allocation strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The cheapest, over this number of pools.
    LowestPrice(usize),
    /// In the order of the request's priorities.
    Prioritized,
    /// The pool with the most capacity.
    CapacityOptimized,
    /// Pools with enough capacity, ordered by the request's priorities.
    CapacityOptimizedPrioritized,
    /// Pools with enough capacity, ordered by price.
    PriceCapacityOptimized,
    /// Evenly over all pools.
    Diversified,
}

impl Strategy {
    /// The strategy of a request.
    pub(crate) fn new(request: &CreateFleet, capacity_type: CapacityType) -> Result<Self, Ec2Error> {
        let unknown = |member: &str, value: &str| {
            Ec2Error::invalid(&format!("{member}.AllocationStrategy"), value, "It is no allocation strategy of EC2's.")
        };
        match capacity_type {
            CapacityType::OnDemand => {
                let options = request.on_demand_options.as_ref();
                match options.and_then(|options| options.allocation_strategy.as_deref()) {
                    None | Some("lowest-price" | "lowestPrice") => Ok(Self::LowestPrice(1)),
                    Some("prioritized") => Ok(Self::Prioritized),
                    Some(other) => Err(unknown("OnDemandOptions", other)),
                }
            }
            CapacityType::Spot => {
                let options = request.spot_options.clone().unwrap_or_default();
                let pools = options.instance_pools_to_use_count;
                match options.allocation_strategy.as_deref() {
                    None | Some("lowest-price" | "lowestPrice") => {
                        Ok(Self::LowestPrice(pools.map_or(1, |pools| pools.max(1) as usize)))
                    }
                    Some("price-capacity-optimized" | "priceCapacityOptimized") => Ok(Self::PriceCapacityOptimized),
                    Some("capacity-optimized" | "capacityOptimized") => Ok(Self::CapacityOptimized),
                    Some("capacity-optimized-prioritized" | "capacityOptimizedPrioritized") => {
                        Ok(Self::CapacityOptimizedPrioritized)
                    }
                    Some("diversified") => Ok(Self::Diversified),
                    Some(other) => Err(unknown("SpotOptions", other)),
                }
            }
        }
    }
}

/// An override in one subnet.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) line: LaunchTemplateAndOverrides,
    pub(crate) weight: f64,
    pub(crate) priority: f64,
    pub(crate) plan: LaunchPlan,
}

/// Candidates in the order in which they are tried.
#[derive(Debug)]
pub(crate) struct Ordered {
    pub(crate) candidates: Vec<Candidate>,
    spread: usize,
}

impl Ordered {
    /// The candidate for the machine with this number, among those that still have capacity.
    pub(crate) fn turn(&self, number: usize, open: &dyn Fn(&usize) -> bool) -> Option<usize> {
        let pools: Vec<usize> = (0..self.candidates.len()).filter(open).take(self.spread).collect();
        pools.get(number % pools.len().max(1)).copied()
    }
}

/// Orders the candidates. Ties keep the order of the request.
pub(crate) fn order(state: &AccountState, candidates: Vec<Candidate>, strategy: Strategy, target: f64) -> Ordered {
    let mut keyed: Vec<_> = candidates.into_iter().map(|c| (key(state, &c, strategy, target), c)).collect();
    keyed.sort_by(|((a1, a2), _), ((b1, b2), _)| a1.total_cmp(b1).then(a2.total_cmp(b2)));
    let candidates: Vec<_> = keyed.into_iter().map(|(_, candidate)| candidate).collect();
    let spread = match strategy {
        Strategy::LowestPrice(pools) => pools,
        Strategy::Diversified => candidates.len().max(1),
        _ => 1,
    };
    Ordered { candidates, spread }
}

fn key(state: &AccountState, candidate: &Candidate, strategy: Strategy, target: f64) -> (f64, f64) {
    let offering = &candidate.plan.offering;
    let spot = offering.capacity_type == CapacityType::Spot;
    let price = state.account.facts.price(&offering.instance_type, &offering.zone, spot).unwrap_or(f64::MAX);
    let price = price / candidate.weight;
    let depth = match state.depth(&candidate.plan) {
        Err(_) => 0.0,
        Ok(None) => f64::MAX,
        #[allow(clippy::cast_precision_loss)] // A count of machines is far below 2^52.
        Ok(Some(left)) => left as f64,
    };
    let too_shallow = if depth * candidate.weight >= target { 0.0 } else { 1.0 };
    match strategy {
        Strategy::LowestPrice(_) | Strategy::Diversified => (price, 0.0),
        Strategy::Prioritized => (candidate.priority, price),
        Strategy::CapacityOptimized => (-depth, price),
        Strategy::CapacityOptimizedPrioritized => (too_shallow, candidate.priority),
        Strategy::PriceCapacityOptimized => (too_shallow, price),
    }
}
