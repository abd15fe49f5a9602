//! Writes a workload as an export of a cluster:
//!
//!     cargo run --release -p nodeless-workloads --example export -- MIX PENDING [NODES PODS_PER_NODE WASTE] > cluster.json
//!     cargo run --release -p nodeless-workloads --example export -- MIX PENDING scaled-down NODES FILL [SEED] > cluster.json
//!     cargo run --release -p nodeless-workloads --example export -- pods=1000 FIELD=NUMBER... > cluster.json
//!
//! The arguments are those of `Running`, of `ScaledDown` and of `combination::FIELDS`. With `--as-kubectl`, pods have the size of the output
//! of kubectl; with `--devices`, pods claim devices where they would request GPUs. With `--snapshot`, what is written is the input of a
//! plan of the planner, for `nodeless plan --snapshot`.
#![allow(unreachable_pub, dead_code, clippy::unwrap_used)]

#[path = "../benches/pipeline/path.rs"]
mod path;

use nodeless_workloads::Workload;
use nodeless_workloads::combination::Combination;
use nodeless_workloads::export::{Fullness, export};
use nodeless_workloads::{Mix, Running, ScaledDown};
use std::io::Write as _;

fn main() {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let workload = workload(&words);
    let bytes = match flags.first().map(String::as_str) {
        None => export(&workload, Fullness::Sparse).into_bytes(),
        Some("--as-kubectl") => export(&workload, Fullness::AsKubectl).into_bytes(),
        Some("--devices") => export(&workload, Fullness::Devices).into_bytes(),
        Some("--snapshot") => path::snapshot(workload).save().unwrap(),
        Some(other) => panic!("{other} is not an option"),
    };
    std::io::stdout().write_all(&bytes).unwrap();
}

fn workload(words: &[&str]) -> Workload {
    if words[0].contains('=') {
        return words.join(" ").parse::<Combination>().unwrap().workload();
    }
    let number = |word: &&str| word.parse::<usize>().unwrap();
    let percent = |word: &&str| word.parse::<u32>().unwrap();
    let mix = Mix::named(words[0]).expect("the name of a mix");
    let pending = mix.pending(number(&words[1]), 1);
    let running = match &words[2..] {
        [] => return pending,
        ["scaled-down", nodes, fill, seed @ ..] => {
            let seed = seed.first().map_or(2, |seed| seed.parse().unwrap());
            ScaledDown { mix, nodes: number(nodes), fill: percent(fill), seed }.workload()
        }
        [nodes, pods, waste] => {
            Running { mix, nodes: number(nodes), pods_per_node: number(pods), waste: percent(waste), seed: 2 }
                .workload()
        }
        _ => panic!("too many or too few arguments"),
    };
    Workload { pending: pending.pending, ..running }
}
