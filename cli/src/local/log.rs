//! The log of nodeless in a local simulated cluster.

use crate::output;
use nodeless_telemetry::{Level, Line, Metrics, Sink};
use serde::Serialize;
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

/// Lines to standard error, with the time of the wall clock in UTC. Lines that repeat the last of their kind are left out: in a quiescent cluster the heartbeat
/// would fill the screen.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    last: Mutex<HashMap<String, String>>,
}

impl Sink for Quiet {
    fn line(&self, level: Level, _json: &dyn Fn() -> String, people: &dyn Fn() -> String) {
        if level < Level::Info {
            return;
        }
        let text = people();
        let (event, text_without_time) = parts(&text);
        let before = lock(&self.last).insert(event.to_owned(), text_without_time.to_owned());
        if before.as_deref() != Some(text_without_time) {
            // Simulated time may run at another speed than the clock by which its reader compares lines with kubectl.
            output::error_line(format!("{} {text_without_time}", jiff::Timestamp::now().strftime("%H:%M:%S")));
        }
    }

    fn metrics(&self, _cluster: &str, _at: jiff::Timestamp, _metrics: &Metrics) {}
}

/// The event, and the line without its time: all but the time of day and the level.
fn parts(text: &str) -> (&str, &str) {
    let text_without_time = text.split_once(' ').map_or(text, |(_time, rest)| rest);
    let event = text_without_time.split_whitespace().nth(1).unwrap_or_default();
    (event, text_without_time)
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
        for (second, why) in [(1, "a"), (2, "a"), (3, "b")] {
            let at = Timestamp::from_second(second).unwrap();
            emit(&quiet, at, &LocalFailure { what: "x", why: why.to_owned() });
        }
        assert_eq!(lock(&quiet.last)["local-failure"], "WARN  local-failure what=x why=b");
        assert_eq!(parts("00:00:01.000 INFO  plan-made pods=0"), ("plan-made", "INFO  plan-made pods=0"));
    }
}
