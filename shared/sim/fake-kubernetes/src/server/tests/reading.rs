use super::{pod, world, world_with};
use crate::server::resource::{NAMESPACES, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES};
use crate::server::{ChangeKind, LabelSelector, ListOptions};
use serde_json::json;

#[test]
fn changes_are_seen_in_order_until_history_ends() {
    let world = world_with(|options| options.history = 3);
    let start = world.server.revision();
    world.create(&PODS, pod("a")).unwrap();
    world.create(&PODS, pod("b")).unwrap();
    world.delete(&PODS, "a").unwrap();
    let kinds = |since| {
        let changes = world.server.watch_since(Some(&PODS), since).unwrap();
        changes.iter().map(|change| (change.kind, change.name().to_owned())).collect::<Vec<_>>()
    };
    use ChangeKind::{Added, Deleted};
    assert_eq!(kinds(start)[..2], [(Added, "a".to_owned()), (Added, "b".to_owned())]);
    let last = kinds(start).last().cloned().unwrap();
    assert_eq!(last, (Deleted, "a".to_owned()));
    assert!(kinds(world.server.revision()).is_empty());
    assert!(world.server.watch_since(Some(&NODES), start).is_ok_and(|changes| changes.is_empty()));
    world.create(&PODS, pod("c")).unwrap();
    assert_eq!(world.server.watch_since(Some(&PODS), start).unwrap_err().code, 410);
}

#[test]
fn compaction_ends_history() {
    let world = world();
    let start = world.server.revision();
    world.create(&PODS, pod("a")).unwrap();
    world.server.compact();
    assert_eq!(world.server.watch_since(None, start).unwrap_err().reason, "Expired");
    assert!(world.server.watch_since(None, world.server.revision()).unwrap().is_empty());
}

#[test]
fn lists_are_selected_by_labels_fields_and_namespace() {
    let world = world();
    world.create(&NAMESPACES, json!({"metadata": {"name": "other"}})).unwrap();
    for (name, namespace, tier) in [("a", "default", "x"), ("b", "default", "y"), ("c", "other", "x")] {
        let mut object = pod(name);
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["labels"]["tier"] = json!(tier);
        world.create(&PODS, object).unwrap();
    }
    world.server.bind("default", "a", "n1").unwrap();
    let names = |options: ListOptions| {
        let list = world.server.list(&PODS, &options).unwrap();
        list.items.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(ListOptions::default()), ["a", "b", "c"]);
    assert_eq!(names(ListOptions::namespace("other")), ["c"]);
    assert_eq!(names(ListOptions::labels("tier=x").unwrap()), ["a", "c"]);
    assert_eq!(names(ListOptions::labels("tier notin (x),app").unwrap()), ["b"]);
    let fields = |text: &str| ListOptions { fields: text.into(), ..ListOptions::default() };
    assert_eq!(names(fields("spec.nodeName=n1")), ["a"]);
    assert_eq!(names(fields("spec.nodeName=,status.phase!=Failed")), ["b", "c"]);
    let error = world.server.list(&PODS, &fields("spec.unknown=1")).unwrap_err();
    assert!(error.code == 400 && error.message.contains("field label not supported: spec.unknown"), "{error}");
    for text in ["spec.nodeName===!", "spec.nodeName=a=b", "spec.nodeName", r"spec.nodeName=\x"] {
        assert_eq!(world.server.list(&PODS, &fields(text)).unwrap_err().code, 400, "{text}");
    }
}

#[test]
fn objects_about_devices_have_their_fields_and_defaults() {
    let world = world();
    for (name, node) in [("s1", "n1"), ("s2", "n2")] {
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]});
        world.create(&RESOURCE_SLICES, json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    }
    let fields = "spec.nodeName=n2,spec.driver=gpu.nvidia.com".to_owned();
    let found = world.server.list(&RESOURCE_SLICES, &ListOptions { fields, ..ListOptions::default() }).unwrap();
    assert_eq!((found.items.len(), &found.items[0]["metadata"]["name"]), (1, &json!("s2")));
    let requests = json!([
        {"name": "one", "exactly": {"deviceClassName": "gpu"}},
        {"name": "any", "firstAvailable": [
            {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
            {"name": "two", "deviceClassName": "gpu", "count": 2},
        ]},
    ]);
    let template = json!({"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": requests}}}});
    let made = world.create(&RESOURCE_CLAIM_TEMPLATES, template).unwrap();
    let requests = &made["spec"]["spec"]["devices"]["requests"];
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    assert_eq!(requests[0]["exactly"], exactly);
    let [all, two] = [&requests[1]["firstAvailable"][0], &requests[1]["firstAvailable"][1]];
    assert!(all.get("count").is_none() && two["count"] == 2 && two["allocationMode"] == "ExactCount", "{made}");
}

#[test]
fn selectors_follow_the_rules_of_kubernetes() {
    let labels = json!({"a": "1", "n": "5", "empty": ""});
    let matches = |text: &str| LabelSelector::parse(text).unwrap().matches_labels(&labels);
    for text in ["", "a", "a=1", "a==1", "!b", "b!=1", "a in (1,2)", "b notin (x)", "n>4", "n<6", "empty="] {
        assert!(matches(text), "{text}");
    }
    for text in ["b", "a=2", "!a", "a!=1", "a in (2)", "a notin (1)", "n>5", "b in (x)"] {
        assert!(!matches(text), "{text}");
    }
    for text in ["a in 1", "a in (1", "=x", "a ? b", "n>x", "a===1", "a=b c", "a in (b!)", "a=-"] {
        assert!(LabelSelector::parse(text).is_err(), "{text}");
    }
    let object = json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]});
    assert!(LabelSelector::from_object(&object).unwrap().unwrap().matches_labels(&labels));
    assert_eq!(LabelSelector::from_object(&json!(null)).unwrap(), None);
    assert!(LabelSelector::from_object(&json!({"matchExpressions": [{"key": "a", "operator": "Eq"}]})).is_err());
}
