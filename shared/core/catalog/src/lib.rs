//! What EC2 offers, as scheduling sees it.
//!
//! Raw facts come in ([`facts`]: what the EC2 API reports about a type, where it is offered, what it costs). They are
//! condensed to what scheduling needs ([`type_facts`]), kept in a compact stored form ([`stored::Catalog`]), and made
//! into instance types with labels, capacity, overhead and offerings for one EC2NodeClass at a time
//! ([`instance_types`]). Where a user gives a catalog as a file, [`mod@file`] reads it. A pure crate: no I/O, no clock.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod facts;
pub mod file;
pub mod instance_types;
pub mod node_class;
pub mod overlay;
pub mod reported_memory;
pub mod stored;
pub mod type_facts;
pub mod unavailable;

pub use facts::Facts;
pub use file::CatalogFile;
pub use node_class::NodeClassSettings;
pub use reported_memory::ReportedMemory;
pub use stored::Catalog;
pub use unavailable::UnavailableOfferings;
