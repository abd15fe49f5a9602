use serde_json::{Value, json};

use super::objects::{definition, with_things};
use super::{deployment, pod, world};
use crate::server::resource::{CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, NODES, PODS, Resource};
use crate::server::{PatchOptions, PatchType, Status};

use super::World;

fn patch(world: &World, resource: &Resource, name: &str, kind: PatchType, patch: &Value) -> Result<Value, Status> {
    let options = PatchOptions::default();
    let patched = world.server.patch(resource, "default", name, None, kind, patch, &options)?;
    Ok(patched.as_ref().clone())
}

#[test]
fn json_patch_tests_and_replaces() {
    let world = world();
    world.create(&DEPLOYMENTS, deployment(1)).unwrap();
    let operations = json!([{"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/replicas", "value": 3}]);
    let patched = patch(&world, &DEPLOYMENTS, "web", PatchType::Json, &operations).unwrap();
    assert_eq!(patched["spec"]["replicas"], 3);
    assert_eq!(patch(&world, &DEPLOYMENTS, "web", PatchType::Json, &operations).unwrap_err().code, 422);
}

#[test]
fn json_patch_limits_its_operations_and_what_they_copy() {
    let world = world();
    world.create(&DEPLOYMENTS, deployment(1)).unwrap();
    let refused = |operations: Vec<Value>| {
        let error = patch(&world, &DEPLOYMENTS, "web", PatchType::Json, &Value::Array(operations)).unwrap_err();
        (error.code, error.message)
    };
    let doubled = |copy: usize| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/{copy}")});
    let (code, message) = refused((0..35).map(doubled).collect());
    assert_eq!(code, 422);
    assert!(message.contains("the accumulated size increase of copy is") && message.contains("3145728"), "{message}");
    let test = json!({"op": "test", "path": "/spec/replicas", "value": 1});
    let expected = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(refused(vec![test.clone(); 10_001]), (413, expected.to_owned()));
    assert!(patch(&world, &DEPLOYMENTS, "web", PatchType::Json, &Value::Array(vec![test; 10_000])).is_ok());
}

#[test]
fn a_missing_object_has_details_and_a_bad_request_has_none() {
    assert_eq!(Status::no_such_resource().to_value()["details"], json!({}));
    assert_eq!(Status::not_found(&PODS, "a").to_value()["details"], json!({"name": "a", "kind": "pods"}));
    assert!(Status::bad_request("no").to_value().get("details").is_none());
}

#[test]
fn json_patch_does_not_nest_without_end() {
    let world = world();
    world.create(&DEPLOYMENTS, deployment(1)).unwrap();
    let wrap = [
        json!({"op": "add", "path": "/outer", "value": {}}),
        json!({"op": "move", "from": "/inner", "path": "/outer/inner"}),
        json!({"op": "move", "from": "/outer", "path": "/inner"}),
    ];
    let mut operations = vec![json!({"op": "add", "path": "/inner", "value": {}})];
    operations.extend(wrap.iter().cycle().take(9_999).cloned());
    let error = patch(&world, &DEPLOYMENTS, "web", PatchType::Json, &Value::Array(operations)).unwrap_err();
    assert!(error.code == 422 && error.message.contains("127 levels"), "{error}");
    let mut operations = vec![json!({"op": "add", "path": "/inner", "value": {}})];
    operations.extend(wrap.iter().cycle().take(3 * 130).cloned());
    let error = patch(&world, &DEPLOYMENTS, "web", PatchType::Json, &Value::Array(operations)).unwrap_err();
    assert!(error.code == 422 && error.message.contains("127 levels"), "{error}");
}

#[test]
fn an_object_larger_than_the_limit_of_etcd_is_refused() {
    let world = world();
    let large = |size: usize| json!({"metadata": {"annotations": {"a": "x".repeat(size)}}});
    world.create(&DEPLOYMENTS, deployment(1)).unwrap();
    let patched = |change: &Value| patch(&world, &DEPLOYMENTS, "web", PatchType::Merge, change);
    assert!(patched(&large(1_500_000)).is_ok());
    let error = patched(&large(1_600_000)).unwrap_err();
    assert_eq!((error.code, error.reason, error.message.as_str()), (500, "", "etcdserver: request is too large"));
    // Two patches that are small enough make an object that is not.
    let error = patched(&json!({"metadata": {"annotations": {"b": "x".repeat(1_000_000)}}})).unwrap_err();
    assert_eq!(error.code, 500);
}

#[test]
fn an_object_with_paths_of_gigabytes_is_refused() {
    let world = world();
    let mut object = deployment(1);
    let leaves: serde_json::Map<String, Value> = (0..50_000).map(|index| (format!("{index:x}"), json!(0))).collect();
    object["spec"]["template"]["spec"]["x".repeat(100_000)] = Value::Object(leaves);
    assert_eq!(world.create(&DEPLOYMENTS, object).unwrap_err().message, "etcdserver: request is too large");
}

#[test]
fn defaults_do_not_make_an_object_larger_than_the_limit() {
    let world = world();
    let mut crd = definition();
    let parts = json!({"type": "array", "items": {"type": "object",
        "properties": {"text": {"type": "string", "default": "x".repeat(10_000)}}}});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["parts"] = parts;
    world.create(&CUSTOM_RESOURCE_DEFINITIONS, crd).unwrap();
    let things = Resource::custom("example.com", "v1", "things", "Thing", true);
    let thing = |count: usize| {
        json!({"metadata": {"name": format!("t{count}"), "namespace": "default"},
            "spec": {"size": 1, "parts": vec![json!({}); count]}})
    };
    let made = world.create(&things, thing(100)).unwrap();
    assert_eq!(made.pointer("/spec/parts/99/text").and_then(Value::as_str).map(str::len), Some(10_000));
    // All defaults would take a gigabyte.
    assert_eq!(world.create(&things, thing(100_000)).unwrap_err().message, "etcdserver: request is too large");
}

#[test]
fn merge_patch_removes_by_null_and_checks_the_version() {
    let world = world();
    let made = world.create(&PODS, pod("a")).unwrap();
    let change = json!({"metadata": {"labels": {"app": null, "b": "c"}}});
    let patched = patch(&world, &PODS, "a", PatchType::Merge, &change).unwrap();
    assert_eq!(patched["metadata"]["labels"], json!({"b": "c"}));
    let stale = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"x": "y"}}});
    assert_eq!(patch(&world, &PODS, "a", PatchType::Merge, &stale).unwrap_err().code, 409);
}

#[test]
fn strategic_merge_knows_keyed_lists() {
    let world = world();
    world.create(&DEPLOYMENTS, deployment(1)).unwrap();
    let containers = |patch: Value| json!({"spec": {"template": {"spec": {"containers": patch}}}});
    let kind = PatchType::Strategic;
    let added = containers(json!([{"name": "c", "image": "pause:4"}, {"name": "d", "image": "x:1"}]));
    let patched = patch(&world, &DEPLOYMENTS, "web", kind, &added).unwrap();
    let list = patched.pointer("/spec/template/spec/containers").unwrap().as_array().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!((&list[0]["name"], &list[0]["image"]), (&json!("c"), &json!("pause:4")));
    let removed = containers(json!([{"name": "c", "$patch": "delete"}]));
    let patched = patch(&world, &DEPLOYMENTS, "web", kind, &removed).unwrap();
    let list = patched.pointer("/spec/template/spec/containers").unwrap().as_array().unwrap();
    assert_eq!((list.len(), &list[0]["name"]), (1, &json!("d")));
}

#[test]
fn strategic_merge_replaces_taints_and_merges_conditions() {
    let world = world();
    let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "False"}]}});
    world.create(&NODES, node).unwrap();
    let taints = json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}});
    let patched = patch(&world, &NODES, "n", PatchType::Strategic, &taints).unwrap();
    assert_eq!(patched["spec"]["taints"], taints["spec"]["taints"]);
    let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let options = PatchOptions::default();
    let (server, kind) = (&world.server, PatchType::Strategic);
    let patched = server.patch(&NODES, "", "n", Some("status"), kind, &conditions, &options).unwrap();
    let expected = json!([{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]);
    assert_eq!(patched["status"]["conditions"], expected);
}

#[test]
fn strategic_merge_is_not_for_custom_resources() {
    let (world, things) = with_things();
    world.create(&things, json!({"metadata": {"name": "t"}, "spec": {"size": 1}})).unwrap();
    assert_eq!(patch(&world, &things, "t", PatchType::Strategic, &json!({})).unwrap_err().code, 415);
}

#[test]
fn scale_is_patched_as_a_scale() {
    let world = world();
    world.create(&DEPLOYMENTS, deployment(1)).unwrap();
    let (options, change) = (PatchOptions::default(), json!({"spec": {"replicas": 7}}));
    let kind = PatchType::Merge;
    let scale = world.server.patch(&DEPLOYMENTS, "default", "web", Some("scale"), kind, &change, &options).unwrap();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(7)));
    assert_eq!(scale["status"]["selector"], "app=web");
    assert_eq!(world.get(&DEPLOYMENTS, "web")["spec"]["replicas"], 7);
}

fn apply(world: &World, manager: &str, force: bool, configuration: &Value) -> Result<Value, Status> {
    let options = PatchOptions { field_manager: Some(manager.into()), force, dry_run: false };
    let (server, kind) = (&world.server, PatchType::Apply);
    let applied = server.patch(&DEPLOYMENTS, "default", "web", None, kind, configuration, &options)?;
    Ok(applied.as_ref().clone())
}

#[test]
fn apply_creates_and_applying_again_changes_nothing() {
    let world = world();
    let made = apply(&world, "me", false, &deployment(1)).unwrap();
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Apply");
    world.advance(60);
    assert_eq!(apply(&world, "me", false, &deployment(1)).unwrap(), made);
}

#[test]
fn apply_removes_what_is_no_longer_applied_and_keeps_what_others_own() {
    let world = world();
    let mut configuration = deployment(1);
    configuration["metadata"]["labels"] = json!({"mine": "1", "shared": "1"});
    configuration["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    apply(&world, "me", false, &configuration).unwrap();
    let mut other = deployment(1);
    other["metadata"]["labels"] = json!({"shared": "1", "theirs": "1"});
    apply(&world, "other", false, &other).unwrap();
    let mut less = configuration.clone();
    less["metadata"]["labels"] = json!({});
    less["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("env");
    let left = apply(&world, "me", false, &less).unwrap();
    assert_eq!(left["metadata"]["labels"], json!({"shared": "1", "theirs": "1"}));
    assert_eq!(left.pointer("/spec/template/spec/containers/0/env"), None);
    assert_eq!(left.pointer("/spec/template/spec/containers/0/image"), Some(&json!("pause:3")));
}

#[test]
fn apply_finds_conflicts_and_takes_over_by_force() {
    let world = world();
    apply(&world, "me", false, &deployment(1)).unwrap();
    let options = PatchOptions { field_manager: Some("scaler".into()), ..PatchOptions::default() };
    let change = json!({"spec": {"replicas": 9}});
    let (server, kind) = (&world.server, PatchType::Merge);
    server.patch(&DEPLOYMENTS, "default", "web", None, kind, &change, &options).unwrap();
    let error = apply(&world, "me", false, &deployment(2)).unwrap_err();
    assert_eq!(error.code, 409);
    let expected = "Apply failed with 1 conflict: conflict with \"scaler\" using apps/v1: .spec.replicas";
    assert_eq!(error.message, expected);
    let forced = apply(&world, "me", true, &deployment(2)).unwrap();
    assert_eq!(forced["spec"]["replicas"], 2);
    // A field that is applied with its current value is shared, which is not a conflict.
    assert!(apply(&world, "third", false, &deployment(2)).is_ok());
}

#[test]
fn conflicts_are_listed_by_manager() {
    let world = world();
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
    let apply = |manager: &str, data: Value| {
        let options = PatchOptions { field_manager: Some(manager.into()), ..PatchOptions::default() };
        world.server.patch(&CONFIG_MAPS, "default", "m", None, PatchType::Apply, &map(data), &options)
    };
    apply("one", json!({"a": "1", "b": "1"})).unwrap();
    let error = apply("two", json!({"a": "2", "b": "2"})).unwrap_err();
    assert_eq!(error.message, "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b");
}

#[test]
fn a_patch_is_refused_as_by_the_real_server() {
    let world = world();
    world.create(&DEPLOYMENTS, deployment(1)).unwrap();
    let other = json!({"metadata": {"uid": "other"}});
    let error = patch(&world, &DEPLOYMENTS, "web", PatchType::Merge, &other).unwrap_err();
    assert!(
        error.code == 422 && error.message.contains("metadata.uid: Invalid value: \"other\": field is immutable"),
        "{error}"
    );
    let forced = PatchOptions { force: true, ..PatchOptions::default() };
    let change = json!({"spec": {"replicas": 2}});
    let error =
        world.server.patch(&DEPLOYMENTS, "default", "web", None, PatchType::Merge, &change, &forced).unwrap_err();
    assert!(error.code == 422 && error.message.contains("may not be specified for non-apply patch"), "{error}");
    let container = json!({"name": "c", "image": "pause:3"});
    let mut doubled = deployment(1);
    doubled["spec"]["template"]["spec"]["containers"] = json!([container, container]);
    let error = apply(&world, "me", false, &doubled).unwrap_err();
    let expected = "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): \
        .spec.template.spec.containers: duplicate entries for key [name=\"c\"]";
    assert_eq!((error.code, error.message.as_str()), (500, expected));
}

#[test]
fn new_elements_come_before_those_that_a_strategic_patch_does_not_name() {
    let world = world();
    world.create(&PODS, pod("a")).unwrap();
    world.server.bind("default", "a", "n1").unwrap();
    let ready = json!({"type": "Ready", "status": "True"});
    let (kind, options) = (PatchType::Strategic, PatchOptions::default());
    let change = json!({"status": {"conditions": [ready]}});
    let patched = world.server.patch(&PODS, "default", "a", Some("status"), kind, &change, &options).unwrap();
    let types: Vec<_> =
        patched["status"]["conditions"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["Ready", "PodScheduled"]);
}

#[test]
fn apply_needs_a_manager() {
    let world = world();
    let options = PatchOptions::default();
    let (server, kind) = (&world.server, PatchType::Apply);
    let error = server.patch(&DEPLOYMENTS, "default", "web", None, kind, &deployment(1), &options).unwrap_err();
    assert!(error.message.contains("fieldManager"), "{error}");
}

#[test]
fn apply_merges_the_keyed_lists_of_a_custom_resource() {
    let (world, things) = with_things();
    let apply = |manager: &str, parts: Value| {
        let options = PatchOptions { field_manager: Some(manager.into()), ..PatchOptions::default() };
        let configuration = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"},
            "spec": {"size": 1, "parts": parts}});
        let kind = PatchType::Apply;
        world.server.patch(&things, "default", "t", None, kind, &configuration, &options).unwrap()
    };
    apply("one", json!([{"name": "a", "count": 1}]));
    let both = apply("two", json!([{"name": "b", "count": 2}]));
    assert_eq!(both["spec"]["parts"], json!([{"name": "a", "count": 1}, {"name": "b", "count": 2}]));
    let left = apply("one", json!([]));
    assert_eq!(left["spec"]["parts"], json!([{"name": "b", "count": 2}]));
}
