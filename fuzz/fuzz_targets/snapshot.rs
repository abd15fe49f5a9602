//! Any bytes as an export of a cluster: faults are named, and the same bytes give the same snapshot.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeless_snapshot::Reader;

fuzz_target!(|bytes: &[u8]| {
    let read = || {
        let mut reader = Reader::default().with_pods_of_workloads();
        reader.read("input", bytes);
        reader.finish()
    };
    let (first, second) = (read(), read());
    assert_eq!(first.faults, second.faults);
    assert_eq!(first.view.pods, second.view.pods);
    assert_eq!(first.view.nodes, second.view.nodes);
});
