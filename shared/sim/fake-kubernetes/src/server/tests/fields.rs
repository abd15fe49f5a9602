use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{deployment, pod};
use crate::server::definition::{Definition, built_in};
use crate::server::{jsonpath, patch, protobuf, time};

fn definition(kind: &str) -> Definition {
    built_in().into_iter().find(|definition| definition.resource.kind == kind).unwrap()
}

#[test]
fn a_field_set_survives_its_encoding() {
    let set = patch::fields::FieldSet::new(&definition("Deployment"), &deployment(1));
    let encoded = set.to_value();
    assert_eq!(patch::fields::FieldSet::parse(&encoded), set);
    let container = &encoded["f:spec"]["f:template"]["f:spec"]["f:containers"][r#"k:{"name":"c"}"#];
    assert_eq!(*container, json!({".": {}, "f:image": {}, "f:name": {}}));
    assert!(encoded["f:metadata"].get("f:name").is_none());
}

#[test]
fn a_difference_is_what_is_set_or_changed_and_what_is_gone() {
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let mut old = pod("a");
    old["metadata"]["labels"] = json!({"app": "a", "tier": "b"});
    old["spec"] = json!({"containers": [container("c", "x"), container("d", "x")], "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "a"}], "securityContext": {}});
    let differ = |new: &Value| {
        let (changed, removed) = patch::fields::FieldSet::difference(&definition("Pod"), &old, new);
        (changed.to_value(), removed.to_value())
    };
    assert_eq!(differ(&old), (json!({}), json!({})));

    let mut new = old.clone();
    new["metadata"]["resourceVersion"] = json!("7");
    new["metadata"]["labels"] = json!({"app": "b"});
    new["spec"]["containers"] = json!([container("d", "y"), container("e", "x")]);
    new["spec"]["nodeSelector"]["zone"] = json!("b");
    new["spec"]["tolerations"] = json!([{"key": "b"}]);
    new["spec"]["securityContext"] = json!({"runAsUser": 1});
    let (changed, removed) = differ(&new);
    let of_added = json!({".": {}, "f:image": {}, "f:name": {}});
    let expected = json!({
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {
            "f:containers": {r#"k:{"name":"d"}"#: {"f:image": {}}, r#"k:{"name":"e"}"#: of_added},
            "f:nodeSelector": {}, "f:tolerations": {}, "f:securityContext": {"f:runAsUser": {}},
        },
    });
    assert_eq!(changed, expected);
    let expected = json!({
        "f:metadata": {"f:labels": {"f:tier": {}}},
        "f:spec": {"f:containers": {r#"k:{"name":"c"}"#: of_added}, "f:securityContext": {}},
    });
    assert_eq!(removed, expected);
}

#[test]
fn strategic_merge_follows_order_directives() {
    let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}],
        "containers": [{"name": "d", "image": "x"}]}});
    let patched = patch::strategic::patch(&definition("Pod"), &pod("a"), &patch).unwrap();
    let names: Vec<_> =
        patched["spec"]["containers"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["d", "c"]);
}

#[test]
fn strategic_merge_keeps_only_what_is_to_be_retained() {
    let object = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let patched = patch::strategic::patch(&definition("Deployment"), &object, &patch).unwrap();
    assert_eq!(patched["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn printer_columns_find_their_values() {
    let object = json!({"metadata": {"labels": {"a.b/c": "1"}},
        "status": {"conditions": [{"type": "X", "status": "no"}, {"type": "Ready", "status": "yes"}]}});
    let first = |path: &str| jsonpath::find(&object, path).first().map(|value| (*value).clone());
    assert_eq!(first(r".metadata.labels.a\.b/c"), Some(json!("1")));
    assert_eq!(first(".metadata.labels['a.b/c']"), Some(json!("1")));
    assert_eq!(first(r#".status.conditions[?(@.type=="Ready")].status"#), Some(json!("yes")));
    assert_eq!(first(".status.conditions[0].type"), Some(json!("X")));
    assert_eq!(jsonpath::find(&object, ".status.conditions[*].type").len(), 2);
    assert_eq!(first(".status.nothing.here"), None);
}

#[test]
fn durations_lose_digits_as_they_grow() {
    let cases = [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (10_800, "3h"),
        (18_060, "5h1m"),
        (100_000, "27h"),
        (200_000, "2d7h"),
        (864_000, "10d"),
        (64_000_000, "2y10d"),
    ];
    for (seconds, text) in cases {
        assert_eq!(time::human_duration(seconds), text);
    }
    let ages = time::Ages { now: Timestamp::UNIX_EPOCH, wall: None };
    assert_eq!(ages.since("garbage"), "<unknown>");
}

#[test]
fn ages_in_tables_are_those_of_the_clock_of_the_clients() {
    let start = Timestamp::UNIX_EPOCH;
    let hours = |hours: i64| start + SignedDuration::from_hours(hours);
    let wall = time::WallClock { start, speed: 20.0 };
    let ages = |wall| time::Ages { now: hours(20), wall }.between(hours(10), hours(20));
    assert_eq!([ages(None), ages(Some(wall))], ["10h", "30m"]);
    assert_eq!(wall.time(hours(-1)), hours(-1), "times before the start are those of users");
}

/// A field of the wire format with a length.
fn bytes_field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
    field.extend_from_slice(content);
    field
}

fn encoded(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [bytes_field(1, version.as_bytes()), bytes_field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), bytes_field(1, &meta), bytes_field(2, raw)].concat()
}

#[test]
fn protobuf_is_read_into_the_json_form() {
    let entry = [bytes_field(1, b"a"), bytes_field(2, b"b")].concat();
    // Go encodes an unset creation time as an empty message.
    let metadata = [bytes_field(1, b"m"), bytes_field(8, b""), bytes_field(11, &entry)].concat();
    let data = [bytes_field(1, b"k"), bytes_field(2, b"v")].concat();
    let raw = [bytes_field(1, &metadata), bytes_field(2, &data)].concat();
    let object = protobuf::decode(&encoded("v1", "ConfigMap", &raw)).unwrap();
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "labels": {"a": "b"}},
        "data": {"k": "v"}});
    assert_eq!(object, expected);
}

#[test]
fn protobuf_that_is_not_understood_is_refused() {
    assert_eq!(protobuf::decode(b"json?").unwrap_err().code, 400);
    assert_eq!(protobuf::decode(&encoded("v1", "Unheard", b"")).unwrap_err().code, 415);
    assert_eq!(protobuf::decode(&encoded("v1", "ConfigMap", &bytes_field(15, b"x"))).unwrap_err().code, 415);
    assert_eq!(protobuf::decode(&encoded("v1", "ConfigMap", &[0x0a, 0x7f])).unwrap_err().code, 400);
}
