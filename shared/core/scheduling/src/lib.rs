//! Decides where pods run: on existing nodes, on new nodes to launch, or why they cannot be scheduled.
//!
//! [`solve`] is the one scheduler. Provisioning, consolidation, drift replacement and what-if all call it, and it is a
//! pure function: the same [`Problem`] always has the same [`Solution`], in whatever order its lists come. How it works:
//!
//! 1. Pods that are equal in everything that affects scheduling form a class (`classes`); all decisions are made for
//!    classes.
//! 2. The requirements of a class for labels and taints are a list of alternatives, from the most to the least
//!    preferred, tried one after another; its topology constraints are groups (`constraints`).
//! 3. Pods that topology constraints count (`topology`) are assigned to domains by the counts, before anything is packed
//!    (`packing/assigning`); the pods of one node are counted with the node (`packing/hosts`). Pods that do not fit are taken
//!    back, and a plan that relied on them is made again (`engine`). Existing nodes are filled first (`existing`).
//! 4. Then each NodePool in the order of its weight (`pools`) packs the remaining pods (`packing`): resources get prices by
//!    what nodes cost (`resource_prices`, `shape_ranking`), every new node gets the instance type that costs least for the
//!    value of its pods, filled so that its resources run out together (`filling`), with the pods first that need most of
//!    the remaining nodes (`few_per_node`), and no larger than topology lets pods share (`minimum_nodes`); nodes that are
//!    not full are merged where that costs nothing (`merging`).
//! 5. Each new node becomes a launch with every instance type that may replace the chosen one (`launch`).
//! 6. Reasons are determined only for unschedulable pods (`explain`), and what makes these schedulable ([`advise`]) and why a launch has
//!    its instance types ([`explain_launch`]) only on request.
//!
//! [`exchange_equal_pods`] assigns equal pods to their places so that the kube-scheduler can bind them in the order of its queue, and so
//! that plans agree with each other. [`ZoneSpreads`] measures how uneven running pods are over zones. [`Bindings`] predicts where the kube-scheduler binds pods, which does not know these plans (`binding`).
//!
//! The crate `nodeless-checker`, which only tests and benches link, checks solutions without code of the engine.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod alternative_prices;
mod binding;
mod claim_needs;
mod claims;
mod classes;
mod constraints;
mod daemon_affinity;
mod daemon_sets;
mod dense;
mod engine;
mod exchange;
mod existing;
mod explain;
mod launch;
mod local_volumes;
mod packing;
mod pools;
mod preferences;
mod problem;
mod remedy;
mod topology;
mod volumes;
mod work;
mod zone_spreads;

pub use alternative_prices::{AlternativePrice, PricedNodes, alternative_prices};
pub use binding::{BindingLimits, BindingNode, Bindings, Bound, SavedNode};
pub use claims::claimed_drivers;
pub use constraints::admission::Admission;
pub use engine::new_nodes::NewNode;
pub use engine::{Prepared, solve};
pub use exchange::exchange_equal_pods;
pub use existing::{Excluded, ExistingNodes, existing_node, failed_to_initialize, first_not_tolerated, may_carry};
pub use explain::daemon_set_effects::{DaemonSetEffect, Effect, LargeShare, daemon_set_effects};
pub use explain::ruled_out::{LaunchExplanation, RuledOut, RuledOutCause, explain_launch};
pub use packing::bin::NODE as PRICE_OF_NODE;
pub use preferences::{HeldPod, held_preferences};
pub use problem::excess::{Excess, MAX_CONDITIONS, MAX_CONSTRAINTS, MAX_VALUES};
pub use problem::reason::{Barrier, BarrierKind, Cause, LimitScope, PodFault, Reason, TakenByDaemonSet};
pub use problem::solution::{ChosenOffering, Launch, Placement, PricedType, Solution, Unschedulable};
pub use problem::{
    BoundPods, ClusterFacts, ClusterUsage, ExistingNode, MinValuesPolicy, Options, PoolOffer, PreferencePolicy,
    Problem, UnknownPolicy,
};
pub use remedy::{Advice, Advised, advise};
pub use topology::dependences::{Dependence, dependences};
pub use zone_spreads::{Imbalance, ZoneChanges, ZoneSpreadId, ZoneSpreads};
