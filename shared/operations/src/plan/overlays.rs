//! NodeOverlays: what they make of the instance types, and what is said of them afterwards.

use super::Planner;
use super::conditions::condition;
use crate::lines::{Failed, ObjectSkipped};
use jiff::Timestamp;
use nodeless_api::NodeOverlayStatus;
use nodeless_catalog::overlay::Overlaid;
use nodeless_model::NodeOverlay;
use nodeless_ports::cluster::ClusterView;

impl Planner {
    /// Writes the status of overlays where it changed.
    pub(super) async fn write_overlay_status(&self, view: &ClusterView, overlaid: &Overlaid, now: Timestamp) {
        for (overlay, before) in &view.node_overlays {
            let status = status(overlay, overlaid, before, now);
            if status == *before {
                continue;
            }
            if let Err(why) = judge(overlay, overlaid) {
                self.context.log(&ObjectSkipped { kind: "NodeOverlay", name: &overlay.name, why: &why.1 });
            }
            if let Err(error) = self.cluster.write_node_overlay_status(&overlay.name, &status).await {
                self.context.log(&Failed { what: "write the NodeOverlay's status", why: &error.to_string() });
            }
        }
    }
}

/// Whether an overlay is applied; otherwise the reason and the message.
fn judge(overlay: &NodeOverlay, overlaid: &Overlaid) -> Result<(), (&'static str, String)> {
    if let Err(why) = &overlay.valid {
        return Err(("RuntimeValidation", why.clone()));
    }
    match overlaid.conflicts.get(&overlay.name) {
        Some(why) => Err(("Conflict", why.clone())),
        None => Ok(()),
    }
}

fn status(overlay: &NodeOverlay, overlaid: &Overlaid, before: &NodeOverlayStatus, now: Timestamp) -> NodeOverlayStatus {
    let judged = judge(overlay, overlaid);
    let conditions = ["ValidationSucceeded", "Ready"]
        .into_iter()
        .map(|kind| condition(kind, judged.clone().map(|()| kind), &before.conditions, now));
    NodeOverlayStatus { conditions: conditions.collect() }
}
