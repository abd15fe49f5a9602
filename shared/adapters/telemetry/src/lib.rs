//! Logs and metrics, reviewed like code: one type for each kind of log line, one enum for all metric names.
//!
//! A [`Line`] becomes one JSON object on one line. [`Metrics`] gathers what an operation counted and becomes one document
//! in CloudWatch's embedded metric format, which CloudWatch Logs turns into metrics without a further call or library.
//! Both go to a [`Sink`]: standard output in Lambda, standard error for people at a terminal, a list in tests.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod init;
mod line;
mod metric;
mod sink;

pub use init::{InitError, init, init_for_people, within};
pub use line::{Level, Line, render, render_for_people};
pub use metric::{METRIC_LIMIT, Metric, Metrics, NAMESPACE, Unit};
pub use sink::{Captured, Human, Null, Sink, Stdout, emit, log};
