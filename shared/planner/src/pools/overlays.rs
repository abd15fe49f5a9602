//! NodeOverlays: the instance types with them, and their statuses afterwards.

use crate::action::{Action, PlanLine};
use crate::pools::Offered;
use crate::pools::conditions::condition;
use crate::snapshot::Snapshot;
use jiff::Timestamp;
use nodeless_api::NodeOverlayStatus;
use nodeless_catalog::overlay::Overlaid;
use nodeless_model::NodeOverlay;

/// The status of overlays where it changes, and a line for each that is not applied.
pub(crate) fn statuses(snapshot: &Snapshot, offered: &Offered) -> Vec<Action> {
    let mut actions = Vec::new();
    for (overlay, before) in &snapshot.view.node_overlays {
        let status = status(overlay, &offered.overlaid, before, snapshot.now);
        if status == *before {
            continue;
        }
        let (kind, name) = ("NodeOverlay".to_owned(), overlay.name.clone());
        if let Err((_, why)) = evaluate(overlay, &offered.overlaid) {
            actions.push(Action::Log(PlanLine::ObjectSkipped { kind, name: name.clone(), why }));
        }
        actions.push(Action::WriteNodeOverlayStatus(name, status));
    }
    actions
}

/// Whether an overlay is applied; otherwise the reason and the message.
fn evaluate(overlay: &NodeOverlay, overlaid: &Overlaid) -> Result<(), (&'static str, String)> {
    if let Err(why) = &overlay.valid {
        return Err(("RuntimeValidation", why.to_string()));
    }
    match overlaid.conflicts.get(&overlay.name) {
        Some(why) => Err(("Conflict", why.clone())),
        None => Ok(()),
    }
}

fn status(overlay: &NodeOverlay, overlaid: &Overlaid, before: &NodeOverlayStatus, now: Timestamp) -> NodeOverlayStatus {
    let evaluated = evaluate(overlay, overlaid);
    let conditions = ["ValidationSucceeded", "Ready"]
        .into_iter()
        .map(|kind| condition(kind, evaluated.clone().map(|()| kind), &before.conditions, now));
    NodeOverlayStatus { conditions: conditions.collect() }
}
