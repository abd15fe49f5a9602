//! The functions as processes, through the Lambda Runtime API.
#![allow(clippy::unwrap_used)]

mod one_cluster;
mod one_cluster_outages;
mod two_clusters;
mod weekly_report;
