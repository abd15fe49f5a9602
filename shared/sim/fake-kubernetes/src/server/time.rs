//! Times as Kubernetes writes them, and ages as kubectl shows them.

use jiff::Timestamp;
use serde_json::Value;

use super::path::text;

/// A time as Kubernetes writes it: RFC 3339 in whole seconds.
pub(crate) fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// The age of an object, as kubectl shows it.
pub(crate) fn age(object: &Value, now: Timestamp) -> String {
    since(text(object, "/metadata/creationTimestamp"), now)
}

/// The time since a timestamp, as kubectl shows it.
pub(crate) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human_duration(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".into(),
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
