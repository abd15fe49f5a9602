//! The calls to EKS and ARC over HTTP.
#![allow(clippy::unwrap_used)]

mod authentication;
mod cluster_admin;
mod zonal_shift;
