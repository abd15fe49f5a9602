//! Exports of clusters, read and written.
#![allow(clippy::unwrap_used)]

mod charts;
mod next_requests;
mod parsers;
mod properties;
mod reading;
mod workloads;
