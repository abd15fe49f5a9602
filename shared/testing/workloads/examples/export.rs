//! Writes a workload as an export of a cluster:
//!
//!     cargo run --release -p nodeless-workloads --example export -- MIX PENDING [NODES PODS_PER_NODE WASTE] > cluster.json
//!
//! With `--as-kubectl`, pods have the size of the output of kubectl.
#![allow(clippy::unwrap_used)]

use nodeless_workloads::export::{Fullness, export};
use nodeless_workloads::{Mix, Running};
use std::io::Write as _;

fn main() {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let number = |index: usize| words.get(index).map_or(0, |word| word.parse::<usize>().unwrap());
    let mix = Mix::named(&words[0]).expect("the name of a mix");
    let mut workload = mix.pending(number(1), 1);
    if words.len() > 2 {
        let waste = u32::try_from(number(4)).unwrap();
        let running = Running { mix, nodes: number(2), pods_per_node: number(3), waste, seed: 2 };
        workload = nodeless_workloads::Workload { pending: workload.pending, ..running.workload() };
    }
    let whole = flags.iter().any(|flag| flag == "--as-kubectl");
    let text = export(&workload, if whole { Fullness::AsKubectl } else { Fullness::Sparse });
    std::io::stdout().write_all(text.as_bytes()).unwrap();
}
