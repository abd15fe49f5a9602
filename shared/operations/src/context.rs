//! The context that every operation needs.

use jiff::Timestamp;
use nodeless_ports::Clock;
use nodeless_telemetry::{Line, Metrics, Sink, emit};
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

impl Context {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn log<L: Line>(&self, line: &L) {
        emit(self.sink.as_ref(), self.now(), line);
    }

    pub(crate) fn flush(&self, metrics: &Metrics) {
        self.sink.metrics(&self.cluster_name, self.now(), metrics);
    }
}
