//! The life of claims: launches, adoption, shards, recovery.

mod adoption;
mod at_once;
pub(crate) mod crash_points;
mod deletions;
mod launch_groups;
mod lifecycle;
mod moves;
mod old_views;
mod recovery;
mod registrations;
mod shards;
pub(crate) mod standalone;
mod unfinished;
