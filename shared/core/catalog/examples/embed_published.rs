//! Writes the expectations of `tests/catalog/published.rs`: labels and allocatable resources that Karpenter publishes for each
//! instance type in the embedded facts.
//!
//! ```sh
//! cargo run -p nodeless-catalog --example embed_published -- \
//!     published-instance-types.json shared/core/catalog/tests/data/published.json.zz
//! ```
//!
//! The input: `{type: {"labels": {key: value}, "resources": {name: quantity}}}`, as in the tables of Karpenter's
//! reference page on instance types.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use nodeless_catalog::Facts;

type Published = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output] = arguments.as_slice() else {
        return Err("expected the input file and the output file; see the head of examples/embed_published.rs".into());
    };
    let text = fs::read(input).map_err(|error| format!("cannot read {input}: {error}"))?;
    let mut published: Published =
        serde_json::from_slice(&text).map_err(|error| format!("cannot parse {input}: {error}"))?;
    let facts = Facts::embedded()?;
    published.retain(|name, _| facts.instance_types.contains_key(name));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&serde_json::to_vec(&published)?)?;
    let bytes = encoder.finish()?;
    fs::write(output, &bytes).map_err(|error| format!("cannot write {output}: {error}"))?;
    println!("{output}: {} instance types, {} bytes", published.len(), bytes.len());
    Ok(())
}
