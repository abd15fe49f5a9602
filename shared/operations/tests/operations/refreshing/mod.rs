//! What is read from EC2, checked and reported.

mod catalog;
mod cost_report;
mod dry_runs;
mod reported_memory;
mod validation;
