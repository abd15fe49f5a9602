//! The workloads, the lower bounds of their prices, and inputs that take much work.
#![allow(clippy::unwrap_used)]

mod bad_inputs;
mod bounds;
mod keys;
mod workloads;

// The modules of the bench `price`, whose bounds are tested here.
#[allow(unreachable_pub, dead_code)]
#[path = "../../benches/price/bound.rs"]
mod bound;
#[allow(unreachable_pub, dead_code)]
#[path = "../../benches/price/strict.rs"]
mod strict;
#[allow(unreachable_pub, dead_code)]
#[path = "../../benches/price/usable.rs"]
mod usable;
#[allow(unreachable_pub, dead_code)]
#[path = "../../benches/price/world.rs"]
mod world;
