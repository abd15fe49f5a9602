//! Where pods go: onto nodes that exist or are on their way, onto nodes to launch, or why nowhere.
//!
//! [`solve`] is the one scheduler. Provisioning, consolidation, drift replacement and what-if all call it, and it is a
//! pure function: the same [`Problem`] always has the same [`Solution`], in whatever order its lists come. How it works:
//!
//! 1. Pods that are alike in everything that matters form a class (`classes`); everything is decided per class.
//! 2. What a class asks of labels and taints is a list of alternatives, from the most to the least preferred
//!    (`constraints`), tried one after another.
//! 3. Pods that topology constraints count (`groups`, `topology`) are bound for domains by the counts, before anything is
//!    packed (`assigning`); what one node holds is counted with the node (`hosts`). What finds no room is taken back, and
//!    a plan that relied on it is made again (`engine`). Existing nodes are filled first.
//! 4. Then each NodePool in the order of its weight packs what is left (`packing`): resources get values by what nodes
//!    cost (`values`, `valuation`), every new node the shape that costs least for the worth of what it holds, filled so
//!    that its resources run out together (`filling`) and no larger than topology lets pods share (`forced`); nodes that
//!    are not full are merged where that costs nothing (`merging`).
//! 5. Each new node becomes a launch with every instance type that could stand in (`launch`).
//! 6. Only for pods that found no place is it worked out why (`explain`, `against`), and for a launch only when asked
//!    ([`explain_launch`]).
//!
//! The crate `nodeless-checker`, which only tests and benches link, says independently whether a solution is valid.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admission;
mod against;
mod assigning;
mod bin;
mod bonds;
mod classes;
mod constraints;
mod daemons;
mod dense;
mod engine;
mod existing;
mod explain;
mod filling;
mod forced;
mod groups;
mod hosts;
mod joining;
mod launch;
mod limits;
mod merging;
mod new_nodes;
mod offered;
mod packing;
mod pools;
mod preferences;
mod problem;
mod reason;
mod remedy;
mod reservations;
mod ruled_out;
mod solution;
mod together;
mod topology;
mod valuation;
mod values;
mod volumes;
mod work;

pub use admission::Admission;
pub use bonds::{Bond, bonds};
pub use engine::{Prepared, solve};
pub use existing::{Excluded, existing_node};
pub use new_nodes::NewNode;
pub use preferences::{HeldPod, held_preferences};
pub use problem::{
    BoundPods, ClusterFacts, ExistingNode, MinValuesPolicy, Options, PoolOffer, PreferencePolicy, Problem,
    UnknownPolicy,
};
pub use reason::{Barrier, BarrierKind, Cause, PodFault, Reason};
pub use ruled_out::{LaunchExplanation, RuledOut, RuledOutCause, explain_launch};
pub use solution::{ChosenOffering, Launch, Placement, PricedType, Solution, Unschedulable};
