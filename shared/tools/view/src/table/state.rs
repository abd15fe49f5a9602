//! The state of a node in its column.

use crate::line::Tone;
use crate::objects::node::NodeRow;
use crate::objects::node_state::NodeState;
use crate::text::{counted, until};
use jiff::{SignedDuration, Timestamp};

/// The expiry of a node is shown if it is nearer than this.
const SOON: SignedDuration = SignedDuration::from_hours(24);

/// The state of a node; with `wide`, also what it waits for and what will happen to it.
pub(super) fn state(node: &NodeRow, now: Timestamp, wide: bool) -> (Tone, String) {
    let name = node.state.as_str();
    let (tone, mut text) = match node.state {
        NodeState::Ready => (Tone::Good, name.to_owned()),
        NodeState::NotReady => (Tone::Bad, name.to_owned()),
        NodeState::Draining if !node.waits_for.is_empty() => {
            let first = node.waits_for.first().map(|one| format!(" {} ({})", one.pod, one.why)).unwrap_or_default();
            let more = node.waits_for.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" and {}", counted(more, "other pod")) };
            let long = format!("{name}, waits for{first}{more}");
            (Tone::Notice, if wide { long } else { format!("{name} {}", node.waits_for.len()) })
        }
        NodeState::Joining => {
            let why = node.joining.as_ref().filter(|_| wide).map(|why| format!(": {why}")).unwrap_or_default();
            (Tone::Notice, format!("{name}{why}"))
        }
        _ => (Tone::Notice, name.to_owned()),
    };
    let expires = node.expires.filter(|time| time.duration_since(now) < SOON);
    let also: Vec<String> = [
        node.disruption_reason.clone(),
        node.drifted.as_ref().map(|_| "drifted".to_owned()),
        node.is_protected().then(|| "protected".to_owned()),
        expires.map(|time| format!("expires in {}", until(time, now))),
    ]
    .into_iter()
    .flatten()
    .collect();
    match (wide, also.first()) {
        (_, None) => {}
        (true, _) => text = format!("{text}; {}", also.join("; ")),
        // In 80 columns, the state of a ready node is replaced by what is special about it.
        (false, Some(first)) if node.state == NodeState::Ready => text = first.replace("expires in", "expires"),
        (false, _) => {}
    }
    (tone, text)
}
