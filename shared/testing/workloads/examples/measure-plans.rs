//! Measures one workload once, for profilers:
//!
//!     cargo run --release -p nodeless-workloads --example measure-plans -- MIX PENDING [NODES PODS_PER_NODE WASTE]
#![allow(unreachable_pub, clippy::unwrap_used)]

#[path = "../benches/pipeline/path.rs"]
mod path;

use nodeless_workloads::{Mix, Running, Workload};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| words.get(index).map_or(0, |word| word.parse::<usize>().unwrap());
    let mix = Mix::named(&words[0]).expect("the name of a mix");
    let mut workload = mix.pending(number(1), 1);
    if words.len() > 2 {
        let waste = u32::try_from(number(4)).unwrap();
        let running = Running { mix, nodes: number(2), pods_per_node: number(3), waste, seed: 2 };
        workload = Workload { pending: workload.pending, ..running.workload() };
    }
    let found = path::pipeline(&mut path::snapshot(workload));
    println!(
        "{:.3} s, of which {:.3} s without disruption; {} launches, {} pods left, {} nodes removed",
        found.all.as_secs_f64(),
        found.planned.as_secs_f64(),
        found.launches,
        found.left,
        found.going
    );
}
