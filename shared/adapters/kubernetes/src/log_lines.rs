//! The log lines.

use nodeless_telemetry::lines;

lines! {
    /// The watch of a kind did not send all changes in time, so its objects were listed.
    WatchNotResumed, "watch-not-resumed", Info { kind: &'a str, why: &'a str, }
}
