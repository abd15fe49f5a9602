//! Durations.

/// Seconds as a duration, in the largest unit that divides them.
pub(crate) fn of_seconds(seconds: u64) -> String {
    match seconds {
        0 => "0s".to_owned(),
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}
