//! Conversions by Karpenter's own rules, with results that the API server and the planner accept.
#![allow(missing_docs, clippy::unwrap_used)]

mod alpha;
mod beta;
mod common;
mod files;
mod kubelets;
mod properties;
