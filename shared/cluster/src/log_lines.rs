//! The log lines.

use nodeless_telemetry::lines;

lines! {
    /// The NodePool of a new NodeClaim cannot be decoded, so the NodeClaim gets no owner reference.
    OwnerUnreadable, "owner-unreadable", Warn { claim: &'a str, node_pool: &'a str, error: &'a str, }
}
