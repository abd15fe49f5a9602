//! The parts of the port that read from several modules.

mod claim_mirror;
mod configuration;
mod nodes_and_pods;
mod planning_view;
