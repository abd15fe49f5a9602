//! The log of nodeless in a local simulated cluster.

use crate::output;
use nodeless_telemetry::{Level, Line, Metrics, Sink};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many lines a [`Recorder`] keeps.
const KEPT: usize = 40;

/// A part of the local cluster failed. The part is tried again.
#[derive(Debug, Serialize)]
pub(crate) struct LocalFailure {
    /// What failed.
    pub(crate) what: &'static str,
    /// Why.
    pub(crate) why: String,
}

impl Line for LocalFailure {
    const EVENT: &'static str = "local-failure";
    const LEVEL: Level = Level::Warn;
}

/// A fault of an instance was injected at the request of the user.
#[derive(Debug, Serialize)]
pub(crate) struct LocalFault {
    /// The fault, the instance and the Node.
    pub(crate) what: String,
}

impl Line for LocalFault {
    const EVENT: &'static str = "local-fault";
    const LEVEL: Level = Level::Info;
}

/// Lines to standard error, with the time of the wall clock in UTC. Lines that repeat the last of their kind are left out, and plans
/// without an outcome: in a quiescent cluster the heartbeat would fill the screen.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// The content of the last line, by event.
    last: Mutex<HashMap<String, Map<String, Value>>>,
}

impl Quiet {
    /// Whether a line is new. Remembers it.
    fn is_new(&self, json: &str) -> bool {
        let content = content(json);
        let event = content.get("event").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_idle = is_plan_without_outcome(&content);
        let mut last = lock(&self.last);
        let is_new = last.get(&event).map_or(!is_idle, |before| *before != content);
        last.insert(event, content);
        is_new
    }
}

impl Sink for Quiet {
    fn line(&self, level: Level, json: &dyn Fn() -> String, people: &dyn Fn() -> String) {
        if level < Level::Info || !self.is_new(&json()) {
            return;
        }
        let text = people();
        let text_without_time = text.split_once(' ').map_or(text.as_str(), |(_time, rest)| rest);
        // Simulated time may run at another speed than the clock by which its reader compares lines with kubectl.
        output::error_line(format!("{} {text_without_time}", jiff::Timestamp::now().strftime("%H:%M:%S")));
    }

    fn metrics(&self, _cluster: &str, _at: jiff::Timestamp, _metrics: &Metrics) {}
}

/// The fields of a line without those in which lines with the same content differ: its time, how long a plan took, and what
/// requested it.
fn content(json: &str) -> Map<String, Value> {
    let whole = |_| Map::from_iter([("value".to_owned(), Value::String(json.to_owned()))]);
    let mut fields = serde_json::from_str(json).unwrap_or_else(whole);
    fields.retain(|name, _| !["timestamp", "milliseconds", "woken"].contains(&name.as_str()));
    fields
}

/// Whether a line is of a plan that had no pods, launched nothing and removes no node.
fn is_plan_without_outcome(content: &Map<String, Value>) -> bool {
    let is_nothing = |value: &Value| *value == 0 || value.as_array().is_some_and(Vec::is_empty);
    content.get("event").is_some_and(|event| event == "plan-made")
        && ["pods", "claims", "leaving"].into_iter().filter_map(|name| content.get(name)).all(is_nothing)
}

/// Keeps the last lines, to print them after a failure.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    lines: Mutex<VecDeque<String>>,
}

impl Recorder {
    /// The last lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        lock(&self.lines).iter().cloned().collect()
    }
}

impl Sink for Recorder {
    fn line(&self, level: Level, _json: &dyn Fn() -> String, people: &dyn Fn() -> String) {
        if level < Level::Info {
            return;
        }
        let mut lines = lock(&self.lines);
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(people());
    }

    fn metrics(&self, _cluster: &str, _at: jiff::Timestamp, _metrics: &Metrics) {}
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use nodeless_telemetry::emit;

    #[test]
    fn only_the_last_lines_are_kept() {
        let recorder = Recorder::default();
        for number in 0..100 {
            emit(&recorder, Timestamp::UNIX_EPOCH, &LocalFailure { what: "counting", why: number.to_string() });
        }
        let lines = recorder.lines();
        assert_eq!(lines.len(), KEPT);
        assert!(lines.last().is_some_and(|line| line.ends_with("what=counting why=99")), "{lines:?}");
    }

    #[test]
    fn lines_are_compared_without_their_time() {
        let quiet = Quiet::default();
        let new = [(1, "a"), (2, "a"), (3, "b")].map(|(second, why)| {
            let at = Timestamp::from_second(second).unwrap();
            let line = LocalFailure { what: "x", why: why.to_owned() };
            quiet.is_new(&nodeless_telemetry::render(&line, Some("local"), at))
        });
        assert_eq!(new, [true, false, true]);
    }

    #[test]
    fn plans_are_logged_if_they_have_an_outcome_or_the_last_had_another() {
        let quiet = Quiet::default();
        let plan = |pods: usize, claims: &[&str], milliseconds: u64, woken: &str| {
            serde_json::json!({
                "timestamp": milliseconds.to_string(), "level": "INFO", "event": "plan-made", "cluster": "local", "pods": pods,
                "placed": 0, "claims": claims, "unschedulable": pods - claims.len(), "leaving": [], "woken": [woken],
                "milliseconds": milliseconds,
            })
        };
        let new = [
            plan(0, &[], 1, "heartbeat"),
            plan(0, &[], 2, "webhook"),
            plan(1, &["a"], 3, "webhook"),
            plan(1, &["b"], 4, "webhook"),
            plan(1, &[], 5, "webhook"),
            plan(1, &[], 6, "heartbeat"),
            plan(0, &[], 7, "heartbeat"),
            plan(0, &[], 8, "heartbeat"),
        ]
        .map(|line| quiet.is_new(&line.to_string()));
        assert_eq!(new, [false, false, true, true, true, false, true, false]);
    }
}
