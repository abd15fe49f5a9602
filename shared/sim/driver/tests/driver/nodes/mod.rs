//! Nodes of all kinds: their capacity, zones, devices, memory and DaemonSets.

mod commitments;
mod daemon_sets;
mod devices;
mod memory;
mod node_classes;
mod registrations;
mod root_volumes;
mod shortages;
mod spot;
mod warm;
mod zonal_shift;
mod zone_balance;
