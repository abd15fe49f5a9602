//! The log lines.

use nodeless_telemetry::lines;

lines! {
    /// The NodePool of a new NodeClaim cannot be decoded, so the NodeClaim gets no owner reference.
    OwnerUnreadable, "owner-unreadable", Warn { claim: &'a str, node_pool: &'a str, error: &'a str, }
    /// The watch of a kind did not send all changes in time, so its objects were listed.
    WatchNotResumed, "watch-not-resumed", Info { kind: &'a str, why: &'a str, }
}
