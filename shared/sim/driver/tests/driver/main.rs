//! Runs of the simulated world.
#![allow(clippy::unwrap_used)]

mod calls;
mod driver;
mod features;
mod memory;
mod node_classes;
mod nominations;
mod outages;
mod registrations;
mod seeds;
mod spot;
mod support;
mod webhook;
mod zonal_shift;
