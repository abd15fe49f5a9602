//! The state of a cluster as `nodeless view` shows it: plain rows, the lines of its screens, and its keys.
//!
//! - [`Object::decode`] reduces an object of the API server to the fields that are shown.
//! - [`Cluster`] stores these objects, and [`Cluster::apply`] changes them as a watch reports it.
//! - [`Picture::viewed`] combines a cluster, prices, a time and what the user chose to see ([`Viewing`]) into rows: what needs attention,
//!   NodePools, nodes, NodeClaims without a node, pods without a node, disruption in progress, capacity reservations, Events. It is serialized as the JSON of
//!   `nodeless view -o json`, which `docs/view.md` describes.
//! - [`table`] and [`plain`] turn a picture into lines of text, for terminals and for screen readers.
//! - [`metrics`] turns a cluster into the metrics of Karpenter that its objects show, for Prometheus.
//! - [`Screen`] handles keys: sort, group, filter, open, back, quit.
//!
//! The crate is pure: no I/O, no clock, no terminal.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod attention;
mod commitments;
mod detail;
mod disruption;
mod group;
mod hidden;
mod line;
pub mod metrics;
mod objects;
mod picture;
pub mod plain;
mod reservation;
mod screen;
pub mod table;
mod text;
mod timeline;
mod viewing;

#[cfg(test)]
mod fixtures;

pub use attention::{Attention, Problem};
pub use commitments::Committed;
pub use detail::detail;
pub use disruption::{DisruptedNode, Disruption};
pub use group::GroupRow;
pub use hidden::Hidden;
pub use line::{Line, Span, Target, Tone};
pub use objects::amount::{Amount, Extended, Load};
pub use objects::claim::{ClaimFacts, ClaimRow};
pub use objects::cluster::{Cluster, Store, Update};
pub use objects::cluster_settings::ClusterRow;
pub use objects::decode::{DecodeError, Object, ShownKind};
pub use objects::event::{EventFacts, EventRow};
pub use objects::node::NodeRow;
pub use objects::node_class::NodeClassRow;
pub use objects::node_state::{NodeState, Waiting};
pub use objects::pending::PendingRow;
pub use objects::pod::PodFacts;
pub use objects::pool::{BudgetRow, LimitRow, PoolRow};
pub use picture::{Picture, Totals};
pub use reservation::ReservationRow;
pub use screen::{Key, KeyAction, Page, Screen, Sort};
pub use timeline::{EntryKind, TimelineEntry};
pub use viewing::{GroupBy, Viewing};
