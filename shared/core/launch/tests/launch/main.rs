//! Compares the launch for each setting of an EC2NodeClass with stored files.
#![allow(clippy::unwrap_used)]

mod fields;
mod golden;
mod manifests;
