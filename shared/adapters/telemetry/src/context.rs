//! The context of operations and adapters: what they need to date and log.

use crate::line::Line;
use crate::metric::Metrics;
use crate::sink::{Sink, emit};
use jiff::Timestamp;
use nodeless_ports::Clock;
use std::sync::Arc;

/// The cluster's name, the clock, and the log.
#[derive(Clone)]
pub struct Context {
    /// The cluster's name.
    pub cluster_name: String,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Receives logs and metrics.
    pub sink: Arc<dyn Sink>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("cluster_name", &self.cluster_name).finish_non_exhaustive()
    }
}

impl Context {
    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Logs a line.
    pub fn log<L: Line>(&self, line: &L) {
        emit(self.sink.as_ref(), self.now(), line);
    }

    /// Writes the metrics of an operation.
    pub fn flush(&self, metrics: &Metrics) {
        self.sink.metrics(&self.cluster_name, self.now(), metrics);
    }
}
