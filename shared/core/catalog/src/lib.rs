//! The instance types and offerings of EC2, as input of scheduling.
//!
//! The input is [`facts`]: what the EC2 API reports about a type, its zones and its prices. The facts are reduced to the
//! fields that scheduling needs ([`type_facts`]) and stored in a compact form ([`stored::Catalog`]). From these,
//! [`instance_types`] creates instance types with labels, capacity, overhead and offerings for one EC2NodeClass.
//! [`mod@file`] reads a catalog file. The crate is pure: no I/O, no clock.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod facts;
pub mod file;
pub mod instance_types;
mod location;
pub mod node_class;
mod node_price;
pub mod overlay;
pub mod reported_memory;
pub mod stored;
pub mod type_facts;
pub mod unavailable;
mod unknown_values;

pub use facts::Facts;
pub use file::CatalogFile;
pub use location::Location;
pub use node_class::NodeClassSettings;
pub use node_price::capacity_type_of;
pub use reported_memory::ReportedMemory;
pub use stored::Catalog;
pub use unavailable::UnavailableOfferings;
pub use unknown_values::{UnknownValue, unknown_values};
