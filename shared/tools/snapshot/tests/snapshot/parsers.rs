//! Properties of the parsers for every input. The fuzz target in `fuzz/` asserts the same.

use nodeless_snapshot::{Reader, Snapshot};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn read(bytes: &[u8]) -> Snapshot {
    let mut reader = Reader::default();
    reader.read("input", bytes);
    reader.finish()
}

/// An export in which some bytes are changed.
fn spoiled() -> impl Strategy<Value = Vec<u8>> {
    let whole = r#"{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b", "labels": {"c": "d"}},
   "spec": {"containers": [{"name": "e", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
            "tolerations": [{"operator": "Exists"}]}},
  {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "f"},
   "spec": {"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "g"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}}}},
  {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "h"}, "status": {"allocatable": {"cpu": 4}}}
]}
---
apiVersion: v1
kind: Pod
metadata: { name: i }
spec: { containers: [{ name: j }] }
"#;
    let change = (0..whole.len(), prop_oneof![any::<u8>(), prop::sample::select(b"{}[]:,\"\n- 0a".to_vec())]);
    prop::collection::vec(change, 0..6).prop_map(move |changes| {
        let mut bytes = whole.as_bytes().to_vec();
        changes.into_iter().for_each(|(place, byte)| bytes[place] = byte);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn every_input_is_read_and_always_has_the_same_result(bytes in prop_oneof![spoiled(), prop::collection::vec(any::<u8>(), 0..200)]) {
        let (first, second) = (read(&bytes), read(&bytes));
        prop_assert_eq!(&first.faults, &second.faults);
        prop_assert_eq!(&first.view.pods, &second.view.pods);
        prop_assert_eq!(&first.view.nodes, &second.view.nodes);
        prop_assert_eq!(&first.view.node_pools, &second.view.node_pools);
    }
}

#[test]
fn aliases_do_not_multiply_a_text_without_end() {
    let (long, many) = ("x".repeat(1_000_000), "*a, ".repeat(1_000));
    let read = read(format!("kind: Pod\ntext: &a {long}\nlist: [{many}]\n").as_bytes());
    assert!(read.faults[0].to_string().contains("YAML"), "{}", read.faults[0]);
}
