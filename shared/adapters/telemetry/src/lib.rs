//! Logs and metrics, reviewed like code: one type for each kind of log line, one enum for all metric names.
//!
//! A [`Line`] is logged as one JSON object on one line. [`Metrics`] collects the values of an operation and is logged as one
//! document in CloudWatch's embedded metric format, from which CloudWatch Logs creates metrics without a further call or library.
//! Both are written to a [`Sink`]: standard output in Lambda, standard error at a terminal, a list in tests.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod clock;
mod context;
mod init;
mod line;
mod metric;
mod sink;

pub use clock::SystemClock;
pub use context::Context;
pub use init::{InitError, init, init_for_people, within};
pub use line::{Level, Line, render, render_for_people};
pub use metric::{METRIC_LIMIT, Metric, Metrics, NAMESPACE, Unit};
pub use sink::{Captured, Null, Sink, Stdout, emit, log, publish};
