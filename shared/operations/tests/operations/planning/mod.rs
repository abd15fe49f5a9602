//! What plans launch, and what limits it.

mod cluster_state;
mod commitments;
mod expected_pods;
mod limits;
mod not_yet_evaluated;
mod quotas;
mod reservations;
mod static_capacity;
mod two_planners;
mod undecoded_pods;
mod unmarked_pods;
mod unused_launches;
