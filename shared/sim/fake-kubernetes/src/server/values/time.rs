//! Times as Kubernetes writes them, and ages as kubectl shows them.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::server::path::text;

/// A time as Kubernetes writes it: RFC 3339 in whole seconds.
pub(crate) fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// The wall clock of clients, if the server's time runs at another speed. Both are equal at the start.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    /// The start.
    pub start: Timestamp,
    /// The speed of the server's time, as a multiple of that of the wall clock.
    pub speed: f64,
}

impl WallClock {
    /// A time of the server on the wall clock, as if all that happened had happened at its speed. Times before the start are those of
    /// users.
    #[must_use]
    pub fn time(self, simulated: Timestamp) -> Timestamp {
        let passed = simulated.duration_since(self.start);
        if passed <= SignedDuration::ZERO {
            return simulated;
        }
        let wall = SignedDuration::try_from_secs_f64(passed.as_secs_f64() / self.speed).unwrap_or(passed);
        self.start.saturating_add(wall).unwrap_or(simulated)
    }
}

/// The clock that ages in Tables are computed with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ages {
    /// The time of the server.
    pub(crate) now: Timestamp,
    /// The clock that clients compute ages with, if it is another one.
    pub(crate) wall: Option<WallClock>,
}

impl Ages {
    /// The age of an object, as kubectl shows it.
    pub(crate) fn age(self, object: &Value) -> String {
        self.since(text(object, "/metadata/creationTimestamp"))
    }

    /// The time since a timestamp, as kubectl shows it.
    pub(crate) fn since(self, time: &str) -> String {
        match time.parse::<Timestamp>() {
            Ok(time) => self.between(time, self.now),
            Err(_) => "<unknown>".into(),
        }
    }

    /// The time from one timestamp to another, as kubectl shows it.
    pub(crate) fn between(self, start: Timestamp, end: Timestamp) -> String {
        let seconds = |time: Timestamp| self.wall.map_or(time, |wall| wall.time(time)).as_second();
        human_duration(seconds(end) - seconds(start))
    }
}

/// Seconds as `59s`, `3m20s`, `5h`, `2d4h`: longer durations have less precision.
pub(crate) fn human_duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => pair(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}
