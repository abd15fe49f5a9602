//! Runs of the simulated world.
#![allow(clippy::unwrap_used)]

mod calls;
mod driver;
mod expected_pods;
mod features;
mod loops;
mod many_clusters;
mod nodes;
mod nominations;
mod outages;
mod seeds;
mod slow_calls;
mod stored_items;
mod support;
mod tenants;
mod webhook;

/// An eighth to a quarter of a seed's time is allocation with the allocator of the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
