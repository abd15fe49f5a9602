//! Destinations of lines and metrics.

use crate::line::{Level, Line, render, render_for_people};
use crate::metric::Metrics;
use jiff::Timestamp;
use serde_json::Value;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// Writes lines and metrics. It returns no error, because logging must not make an operation fail.
pub trait Sink: Send + Sync {
    /// Writes a log line, of which it gets both forms.
    fn line(&self, level: Level, json: &dyn Fn() -> String, people: &dyn Fn() -> String);

    /// Writes the metrics of an operation.
    fn metrics(&self, cluster: &str, at: Timestamp, metrics: &Metrics);

    /// The cluster that all lines are about; `None` if the sink does not add it.
    fn cluster(&self) -> Option<&str> {
        None
    }
}

/// Logs a line.
pub fn emit<L: Line>(sink: &dyn Sink, at: Timestamp, line: &L) {
    sink.line(L::LEVEL, &|| render(line, sink.cluster(), at), &|| render_for_people(line, at));
}

/// Logs a line of a function to standard output, with the current time. A line without a cluster is written before the function
/// knows which cluster an event is for.
pub fn log<L: Line>(cluster: Option<&str>, line: &L) {
    emit(&Stdout { cluster: cluster.map(str::to_owned), ..Stdout::default() }, Timestamp::now(), line);
}

/// Writes metrics of a function to standard output, with the current time. Without a cluster they have no dimension, and are not
/// written.
pub fn publish(cluster: Option<&str>, metrics: &Metrics) {
    if let Some(cluster) = cluster {
        Stdout::default().metrics(cluster, Timestamp::now(), metrics);
    }
}

/// JSON to standard output, which Lambda sends to CloudWatch Logs.
#[derive(Clone, Debug, Default)]
pub struct Stdout {
    /// The cluster that all lines are about.
    pub cluster: Option<String>,
    /// Whether metrics are published for each NodePool too. CloudWatch charges for each metric of each NodePool.
    pub by_node_pool: bool,
}

impl Sink for Stdout {
    fn line(&self, level: Level, json: &dyn Fn() -> String, _people: &dyn Fn() -> String) {
        if level > Level::Debug {
            print(&json());
        }
    }

    fn metrics(&self, cluster: &str, at: Timestamp, metrics: &Metrics) {
        if let Some(document) = metrics.render(cluster, at) {
            print(&document);
        }
        if self.by_node_pool {
            metrics.render_by_node_pool(cluster, at).iter().for_each(|document| print(document));
        }
    }

    fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }
}

/// Errors are ignored: an operation continues if standard output is closed.
fn print(text: &str) {
    let _closed = writeln!(std::io::stdout().lock(), "{text}");
}

/// Drops all lines and metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Sink for Null {
    fn line(&self, _level: Level, _json: &dyn Fn() -> String, _people: &dyn Fn() -> String) {}
    fn metrics(&self, _cluster: &str, _at: Timestamp, _metrics: &Metrics) {}
}

/// Keeps all lines and metrics, for tests and for programs that show progress in their own format.
#[derive(Debug, Default)]
pub struct Captured {
    lines: Mutex<Vec<Value>>,
    metrics: Mutex<Metrics>,
}

impl Captured {
    /// The lines since the last call, as JSON objects.
    pub fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All metrics so far, or since [`Self::forget_metrics`].
    pub fn totals(&self) -> Metrics {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets the metrics so far.
    pub fn forget_metrics(&self) {
        *self.metrics.lock().unwrap_or_else(PoisonError::into_inner) = Metrics::default();
    }
}

impl Sink for Captured {
    fn line(&self, _level: Level, json: &dyn Fn() -> String, _people: &dyn Fn() -> String) {
        let text = json();
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(value);
    }

    fn metrics(&self, _cluster: &str, _at: Timestamp, metrics: &Metrics) {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).merge(metrics);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;
    use serde::Serialize;

    #[derive(Serialize)]
    struct Ended {
        claims: usize,
    }

    impl Line for Ended {
        const EVENT: &'static str = "sweep-ended";
        const LEVEL: Level = Level::Info;
    }

    #[test]
    fn lines_and_metrics_can_be_captured() {
        let sink = Captured::default();
        emit(&sink, Timestamp::UNIX_EPOCH, &Ended { claims: 3 });
        let mut metrics = Metrics::new();
        metrics.count(Metric::OrphansCollected, 1);
        sink.metrics("prod", Timestamp::UNIX_EPOCH, &metrics);
        sink.metrics("prod", Timestamp::UNIX_EPOCH, &metrics);
        let lines = sink.take();
        assert_eq!((lines.len(), &lines[0]["event"], &lines[0]["claims"]), (1, &"sweep-ended".into(), &3.into()));
        assert!(sink.take().is_empty());
        assert_eq!(sink.totals().get(Metric::OrphansCollected), [2.0]);
    }
}
