//! Costs of the nodes of a cluster: records of each hour and NodePool, and reports about them.
//!
//! [`accrue`] adds the costs since the last time to the [`Open`] record of the cluster, and returns the records of the hours that
//! have ended. [`report`] adds up such records. `docs/report.md` explains each number to users.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod accrue;
mod controller;
mod cost_budget;
mod hour;
mod labels;
mod open;
mod piece;
mod price;
pub mod report;
mod share;
mod stored;

pub use accrue::{Accrual, Facts, LiveNode, PoolNow, accrue};
pub use cost_budget::{Budget, Warning};
pub use hour::{
    Amounts, Consolidation, Ended, Group, HourRecord, Interruptions, MAX_GROUPS, NO_NODE_POOL, OTHER, OfferingCost,
    VolumeCost, hour_of,
};
pub use labels::{CostLabels, CostLabelsError, MAX_LABELS};
pub use open::{Open, PoolTotals};
pub use stored::{StoredError, decode, encode};
