//! Records of decisions: how they are stored, and how they are read.

use crate::action::Action;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use nodeless_disruption::spot_interruptions::LeftOut;
use nodeless_disruption::{Command, CommandReport, Kept};
use nodeless_model::{Pod, ResourceList};
use nodeless_scheduling::{ChosenOffering, PricedType, Problem, Solution};
use nodeless_state::decisions::Decision;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

/// Longer texts are compressed: each written kilobyte costs, and most of the text repeats.
const PLAIN_BYTES: usize = 16 * 1024;

/// The commands and why each other node stays, as the JSON of `nodeless plan --disruption`.
pub(crate) fn detail(commands: &[Command], kept: &[Kept], not_looked_at: &BTreeSet<String>) -> String {
    let commands: Vec<CommandReport<'_>> = commands.iter().map(Command::report).collect();
    stored(&Disruption { commands, kept, not_looked_at })
}

/// The detail of a disruption decision.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Disruption<'a> {
    commands: Vec<CommandReport<'a>>,
    kept: &'a [Kept],
    not_looked_at: &'a BTreeSet<String>,
}

/// The launches with their pods, where the other pods fit, and the unschedulable pods with the reasons, as the JSON of `nodeless
/// plan`.
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
    let pod = |index: usize| problem.pods.get(index).map(|pod| Key(pod));
    let node = |index: usize| problem.nodes.get(index).map(|node| node.name.as_str());
    let launches = solution.launches.iter().enumerate().map(|(place, launch)| Launched {
        node_pool: &launch.node_pool,
        pods: launch.pods.iter().filter_map(|index| pod(*index)).collect(),
        requests: &launch.requests,
        offering: &launch.offering,
        instance_types: &launch.instance_types,
        left_out_for_interruptions: left_out.get(place).map_or(&[], Vec::as_slice),
        covered_per_hour: covered.get(place).copied(),
    });
    let unschedulable = solution
        .unschedulable
        .iter()
        .map(|one| Refused { pod: pod(one.pod), reasons: one.reasons.iter().map(ToString::to_string).collect() });
    stored(&Provisioning {
        claims,
        launches: launches.collect(),
        placements: solution.placements.iter().map(|one| Fits { pod: pod(one.pod), node: node(one.node) }).collect(),
        unschedulable: unschedulable.collect(),
    })
}

/// The detail of a provisioning decision. With a hundred thousand pods, a tree of JSON values would be most of a planner's memory.
#[derive(Serialize)]
struct Provisioning<'a> {
    claims: &'a [String],
    launches: Vec<Launched<'a>>,
    placements: Vec<Fits<'a>>,
    unschedulable: Vec<Refused<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Launched<'a> {
    node_pool: &'a str,
    pods: Vec<Key<'a>>,
    requests: &'a ResourceList,
    offering: &'a ChosenOffering,
    instance_types: &'a [PricedType],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    left_out_for_interruptions: &'a [LeftOut],
    #[serde(skip_serializing_if = "Option::is_none")]
    covered_per_hour: Option<f64>,
}

#[derive(Serialize)]
struct Fits<'a> {
    pod: Option<Key<'a>>,
    node: Option<&'a str>,
}

#[derive(Serialize)]
struct Refused<'a> {
    pod: Option<Key<'a>>,
    reasons: Vec<String>,
}

/// A pod as `namespace/name`.
struct Key<'a>(&'a Pod);

impl Serialize for Key<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}/{}", self.0.namespace, self.0.name))
    }
}

/// The explanation of a decision, to be stored. Nothing depends on it.
pub(crate) fn decision(kind: &str, subjects: Vec<String>, summary: String, detail: String, now: Timestamp) -> Action {
    Action::Record(Decision::new(kind, subjects, summary, detail, now))
}

/// A disruption decision: [`detail`], with the claims that were created for it, and the error if it failed.
pub(crate) fn carried_out(command: &Command, claims: &[&str], failure: Option<&str>) -> String {
    stored(&json!({ "commands": [command.report()], "claims": claims, "failure": failure }))
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

/// The text of a detail. A long one is compressed: `{"gzip": base64}`.
fn stored(detail: &impl Serialize) -> String {
    let text = match serde_json::to_string(detail) {
        Ok(text) => text,
        Err(error) => json!({ "error": format!("the decision cannot be encoded: {error}") }).to_string(),
    };
    if text.len() <= PLAIN_BYTES {
        return text;
    }
    packed(&text).map_or(text, |packed| json!({ "gzip": packed }).to_string())
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
    fn a_detail_has_all_nodes_with_all_their_reasons() {
        for (count, plain) in [(3, true), (5_000, false), (60_000, false)] {
            let detail = detail(&[], &nodes(count), &BTreeSet::new());
            assert_eq!(detail.starts_with("{\"commands\""), plain, "{count}");
            let kept = unpacked(&detail).unwrap()["kept"].clone();
            assert_eq!(kept.as_array().unwrap().len(), count);
            assert_eq!(kept[2]["node"], "ip-2");
            assert_eq!(kept[2]["reasons"][1], "pod a/2 is annotated karpenter.sh/do-not-disrupt");
        }
    }
}
