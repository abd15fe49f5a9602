//! Records of decisions: how they are stored, and how they are read.

use crate::plan::action::Action;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use nodeless_disruption::held_back::Removal;
use nodeless_disruption::spot_interruptions::LeftOut;
use nodeless_disruption::{Command, CommandReport, Kept};
use nodeless_scheduling::{Problem, Solution};
use nodeless_state::decisions::Decision;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

/// Longer texts are compressed: each written kilobyte costs, and most of the text repeats.
const PLAIN_BYTES: usize = 16 * 1024;
/// The maximum size of an item of the table, less its other attributes.
const MAX_BYTES: usize = 300_000;

/// The commands and why each other node stays, as the JSON of `nodeless plan --disruption`. A long text is compressed (`{"gzip":
/// base64}`); if that is too long too, the nodes that stay are left out, which `keptLeftOut` reports.
pub(crate) fn detail(commands: &[Command], kept: &[Kept], not_looked_at: &BTreeSet<String>) -> String {
    let commands: Vec<CommandReport<'_>> = commands.iter().map(Command::report).collect();
    let whole = json!({ "commands": commands, "kept": kept, "notLookedAt": not_looked_at });
    fitting(&whole)
        .or_else(|| {
            let why =
                format!("{} nodes that stay are too many for an item of the table; ask `nodeless plan`", kept.len());
            fitting(&json!({ "commands": commands, "keptLeftOut": why }))
        })
        // A text that is still too long is truncated where it is stored, with a note.
        .unwrap_or_else(|| whole.to_string())
}

/// The launches with their pods, where the other pods fit, and the unschedulable pods with the reasons, as the JSON of `nodeless
/// plan`. A long text is compressed; if that is too long too, the pods that fit on existing nodes are left out.
///
/// `left_out` contains the spot offerings that each launch does not use because of interruptions, and `covered` the part of its price that
/// commitments cover.
pub(crate) fn provisioning(
    problem: &Problem<'_>,
    solution: &Solution,
    left_out: &[Vec<LeftOut>],
    covered: &[f64],
    claims: &[String],
) -> String {
    let pod = |index: &usize| problem.pods.get(*index).map(|pod| pod.key());
    let launches: Vec<Value> = solution
        .launches
        .iter()
        .enumerate()
        .map(|(place, launch)| {
            let types = launch.instance_types.iter();
            let types: Vec<Value> =
                types.map(|kind| json!({ "name": kind.name, "pricePerHour": kind.price })).collect();
            let mut shown = json!({
                "nodePool": launch.node_pool,
                "pods": launch.pods.iter().filter_map(pod).collect::<Vec<_>>(),
                "requests": launch.requests,
                "offering": launch.offering,
                "instanceTypes": types,
            });
            if let (Some(left), Some(fields)) =
                (left_out.get(place).filter(|left| !left.is_empty()), shown.as_object_mut())
            {
                fields.insert("leftOutForInterruptions".to_owned(), json!(left));
            }
            if let (Some(covered), Some(fields)) = (covered.get(place), shown.as_object_mut()) {
                fields.insert("coveredPerHour".to_owned(), json!(covered));
            }
            shown
        })
        .collect();
    let node = |index: usize| problem.nodes.get(index).map(|node| &node.name);
    let placements: Vec<Value> =
        solution.placements.iter().map(|one| json!({ "pod": pod(&one.pod), "node": node(one.node) })).collect();
    let refused = solution.unschedulable.iter().map(|one| {
        let reasons: Vec<String> = one.reasons.iter().map(ToString::to_string).collect();
        json!({ "pod": pod(&one.pod), "reasons": reasons })
    });
    let mut whole = json!({
        "launches": launches,
        "placements": placements,
        "unschedulable": refused.collect::<Vec<_>>(),
        "claims": claims,
    });
    fitting(&whole).unwrap_or_else(|| {
        let count = placements.len();
        if let Some(fields) = whole.as_object_mut() {
            fields.remove("placements");
            fields.insert(
                "placementsLeftOut".to_owned(),
                json!(format!("{count} pods that fit on nodes that are there are too many for an item of the table")),
            );
        }
        // A text that is still too long is truncated where it is stored, with a note.
        fitting(&whole).unwrap_or_else(|| whole.to_string())
    })
}

/// The explanation of a decision, to be stored. Nothing depends on it.
pub(crate) fn decision(kind: &str, subjects: Vec<String>, summary: String, detail: String, now: Timestamp) -> Action {
    Action::Record(Decision {
        // A plan may make several decisions of the same kind.
        id: format!("{:020}-{kind}-{}", now.as_nanosecond(), subjects.first().map_or("", String::as_str)),
        at: now,
        kind: kind.to_owned(),
        subjects,
        summary,
        detail,
    })
}

/// A disruption decision: [`detail`], with the claims that were created for it, and the error if it failed.
pub(crate) fn carried_out(command: &Command, claims: &[&str], failure: Option<&str>) -> String {
    let whole = json!({ "commands": [command.report()], "claims": claims, "failure": failure });
    fitting(&whole).unwrap_or_else(|| whole.to_string())
}

/// The launches that the removal of nodes of a NodePool led to, and the savings that came of it, in dollars per hour.
pub(crate) fn removal_led_to_launch(node_pool: &str, removal: &Removal) -> String {
    let launches: Vec<Value> =
        removal.launches.iter().map(|one| json!({ "nodeClaim": one.node_claim, "pricePerHour": one.price })).collect();
    json!({ "removal": {
        "command": removal.command,
        "nodePool": node_pool,
        "predictedSavingsPerHour": removal.predicted,
        "realizedSavingsPerHour": removal.realized(),
        "launches": launches,
    } })
    .to_string()
}

/// The detail of a [decision record](nodeless_state::decisions::Decision), decompressed.
///
/// # Errors
/// If it cannot be decoded.
pub fn unpacked(detail: &str) -> Result<Value, UnpackError> {
    let value: Value = serde_json::from_str(detail)?;
    let Some(packed) = value.get("gzip").and_then(Value::as_str) else { return Ok(value) };
    let mut text = String::new();
    GzDecoder::new(STANDARD.decode(packed)?.as_slice()).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// Why the detail of a decision record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The detail is not JSON.
    #[error("it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The compressed part is not base64.
    #[error("it is compressed, but not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The compressed part cannot be decompressed.
    #[error("it cannot be decompressed: {0}")]
    Gzip(#[from] std::io::Error),
}

fn fitting(value: &Value) -> Option<String> {
    let text = value.to_string();
    if text.len() <= PLAIN_BYTES {
        return Some(text);
    }
    let packed = packed(&text).ok().map(|packed| json!({ "gzip": packed }).to_string());
    packed.filter(|packed| packed.len() <= MAX_BYTES)
}

fn packed(text: &str) -> std::io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    Ok(STANDARD.encode(encoder.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_disruption::KeptReason;

    fn nodes(count: usize) -> Vec<Kept> {
        let reasons = |number: usize| {
            let price = number as f64 / 7.0;
            let protected = KeptReason::DoNotDisruptPod { pod: format!("a/{number}"), until: None };
            vec![KeptReason::WellUtilized { price, worth: price * 1.1 }, protected]
        };
        (0..count).map(|number| Kept { node: format!("ip-{number}"), reasons: reasons(number) }).collect()
    }

    #[test]
    fn five_thousand_nodes_fit_with_all_their_reasons() {
        for (count, plain) in [(3, true), (5_000, false)] {
            let detail = detail(&[], &nodes(count), &BTreeSet::new());
            assert_eq!(detail.starts_with("{\"commands\""), plain, "{count}");
            assert!(detail.len() <= MAX_BYTES, "{count}: {} bytes", detail.len());
            let kept = unpacked(&detail).unwrap()["kept"].clone();
            assert_eq!(kept.as_array().unwrap().len(), count);
            assert_eq!(kept[2]["node"], "ip-2");
            assert_eq!(kept[2]["reasons"][1], "pod a/2 is annotated karpenter.sh/do-not-disrupt");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_reported() {
        let detail = detail(&[], &nodes(60_000), &BTreeSet::new());
        assert!(detail.len() <= MAX_BYTES);
        assert!(unpacked(&detail).unwrap()["keptLeftOut"].as_str().unwrap().starts_with("60000 nodes"), "{detail}");
    }
}
