//! Runs of the simulated world.
#![allow(clippy::unwrap_used)]

mod calls;
mod commitments;
mod daemon_sets;
mod devices;
mod driver;
mod expected_pods;
mod features;
mod loops;
mod many_clusters;
mod memory;
mod node_classes;
mod nominations;
mod outages;
mod registrations;
mod root_volumes;
mod seeds;
mod shortages;
mod slow_calls;
mod spot;
mod stored_items;
mod support;
mod tenants;
mod warm;
mod webhook;
mod zonal_shift;
mod zone_balance;

/// An eighth to a quarter of a seed's time is allocation with the allocator of the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
