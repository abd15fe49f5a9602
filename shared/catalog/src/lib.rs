//! What EC2 offers, as scheduling sees it.
//!
//! Raw facts come in (what the EC2 API says about a type, where it is offered, what it costs); instance types with
//! labels, capacity, overhead and offerings come out, for one EC2NodeClass at a time. A pure room: no I/O, no clock.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod facts;
