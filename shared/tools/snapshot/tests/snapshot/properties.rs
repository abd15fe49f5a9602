//! The reader does not panic for any bytes, and the order of documents does not matter.

use nodeless_snapshot::{Reader, Snapshot};
use proptest::prelude::*;

fn read(bytes: &[u8]) -> Snapshot {
    let mut reader = Reader::default();
    reader.read("file", bytes);
    reader.finish()
}

/// Parts of exports, so that random inputs contain what the reader searches for.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("---\n".to_owned()),
        Just("...\n".to_owned()),
        Just("items:\n".to_owned()),
        Just("kind: List\n".to_owned()),
        Just("- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n".to_owned()),
        Just("  - kind: Node\n".to_owned()),
        Just("kind: NodePool\napiVersion: karpenter.sh/v1\n".to_owned()),
        Just("spec: {template: {spec: {nodeClassRef: {name: a}}}}\n".to_owned()),
        Just("metadata: {name: &x a, labels: *x}\n".to_owned()),
        Just("{\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\"},\"spec\":{\"overhead\":{\"cpu\":1e400}}}\n".to_owned()),
        Just("[[[{".to_owned()),
        Just("|\n  text\n".to_owned()),
        "[ -~\\n\\t\u{feff}\u{e9}]{0,12}",
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        read(&bytes);
    }

    #[test]
    fn any_mix_of_pieces_is_read_without_a_panic(pieces in prop::collection::vec(piece(), 0..24)) {
        let text = pieces.concat();
        let snapshot = read(text.as_bytes());
        // Every fault has a location.
        for fault in &snapshot.faults {
            prop_assert!(fault.place.document > 0 && fault.place.line > 0 && !fault.problem.is_empty(), "{fault}");
        }
    }

    #[test]
    fn the_order_of_documents_does_not_matter(order in Just((0..OBJECTS.len()).collect::<Vec<_>>()).prop_shuffle()) {
        let ordered = read(OBJECTS.join("\n---\n").as_bytes());
        let shuffled: Vec<&str> = order.iter().map(|index| OBJECTS[*index]).collect();
        let shuffled = read(shuffled.join("\n---\n").as_bytes());
        prop_assert_eq!(format!("{:?}", ordered.view), format!("{:?}", shuffled.view));
        prop_assert_eq!(ordered.claims, shuffled.claims);
        prop_assert_eq!(ordered.latest, shuffled.latest);
    }
}

const OBJECTS: [&str; 7] = [
    "{kind: Pod, metadata: {name: a}, spec: {priorityClassName: high}}",
    "{kind: Pod, metadata: {name: b, namespace: x, creationTimestamp: '2026-02-01T00:00:00Z'}}",
    "{kind: PriorityClass, metadata: {name: high}, value: 9}",
    "{kind: PriorityClass, metadata: {name: low}, value: 3, globalDefault: true}",
    "{kind: Node, metadata: {name: n, labels: {node.kubernetes.io/instance-type: m5.large, topology.kubernetes.io/zone: z, \
     karpenter.sh/capacity-type: spot}}, spec: {providerID: 'aws:///z/i-1'}, status: {capacity: {cpu: 2}}}",
    "{kind: NodeClaim, metadata: {name: c}, spec: {}, status: {providerID: 'aws:///z/i-1'}}",
    "{kind: DaemonSet, metadata: {name: d}, spec: {template: {spec: {containers: [{name: c}]}}}}",
];
