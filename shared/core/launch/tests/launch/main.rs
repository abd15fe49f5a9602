//! What is launched for each setting of an EC2NodeClass, against stored files.
#![allow(clippy::unwrap_used)]

mod fields;
mod golden;
mod manifests;
