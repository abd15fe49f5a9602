//! What is kept of a decision about nodes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use nodeless_disruption::{Command, CommandReport, Kept};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;

/// Longer texts are packed: each kilobyte that is written costs, and most of them is the same sentence again.
const PLAIN_BYTES: usize = 16 * 1024;
/// The most that an item of the table may hold, less what else is in it.
const MOST_BYTES: usize = 300_000;

/// The commands and why each other node stays, as JSON in the words of `nodeless plan --disruption`. What is long is packed
/// (`{"gzip": base64}`); where that is too long too, the nodes that stay are left out, which `keptLeftOut` says.
pub(super) fn detail(commands: &[Command], kept: &[Kept], not_looked_at: &BTreeSet<String>) -> String {
    let commands: Vec<CommandReport<'_>> = commands.iter().map(Command::report).collect();
    let whole = json!({ "commands": commands, "kept": kept, "notLookedAt": not_looked_at });
    fitting(&whole)
        .or_else(|| {
            let why =
                format!("{} nodes that stay are too many for an item of the table; ask `nodeless plan`", kept.len());
            fitting(&json!({ "commands": commands, "keptLeftOut": why }))
        })
        // What is still too long is cut, and says so, where it is stored.
        .unwrap_or_else(|| whole.to_string())
}

fn fitting(value: &Value) -> Option<String> {
    let text = value.to_string();
    if text.len() <= PLAIN_BYTES {
        return Some(text);
    }
    let packed = packed(&text).ok().map(|packed| json!({ "gzip": packed }).to_string());
    packed.filter(|packed| packed.len() <= MOST_BYTES)
}

fn packed(text: &str) -> std::io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    Ok(STANDARD.encode(encoder.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use nodeless_disruption::KeptReason;
    use std::io::Read as _;

    fn nodes(count: usize) -> Vec<Kept> {
        let reasons = |number: usize| {
            let price = number as f64 / 7.0;
            vec![KeptReason::WellUsed { price, worth: price * 1.1 }, KeptReason::DoNotDisruptPod(format!("a/{number}"))]
        };
        (0..count).map(|number| Kept { node: format!("ip-{number}"), reasons: reasons(number) }).collect()
    }

    fn read(detail: &str) -> Value {
        let value: Value = serde_json::from_str(detail).unwrap();
        let Some(packed) = value.get("gzip") else { return value };
        let bytes = STANDARD.decode(packed.as_str().unwrap()).unwrap();
        let mut text = String::new();
        GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn five_thousand_nodes_fit_with_all_their_reasons() {
        for (count, plain) in [(3, true), (5_000, false)] {
            let detail = detail(&[], &nodes(count), &BTreeSet::new());
            assert_eq!(detail.starts_with("{\"commands\""), plain, "{count}");
            assert!(detail.len() <= MOST_BYTES, "{count}: {} bytes", detail.len());
            let kept = read(&detail)["kept"].clone();
            assert_eq!(kept.as_array().unwrap().len(), count);
            assert_eq!(kept[2]["node"], "ip-2");
            assert_eq!(kept[2]["reasons"][1], "pod a/2 is annotated karpenter.sh/do-not-disrupt");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let detail = detail(&[], &nodes(60_000), &BTreeSet::new());
        assert!(detail.len() <= MOST_BYTES);
        assert!(read(&detail)["keptLeftOut"].as_str().unwrap().starts_with("60000 nodes"), "{detail}");
    }
}
