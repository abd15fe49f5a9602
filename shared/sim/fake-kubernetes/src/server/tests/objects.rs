use serde_json::{Value, json};

use super::{World, deployment, pod, world};
use crate::server::resource::{
    CRON_JOBS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, EVENTS, LEASES, LIMIT_RANGES, NAMESPACES, NEW_EVENTS, NODES,
    PERSISTENT_VOLUME_CLAIMS, PODS, PRIORITY_CLASSES, RUNTIME_CLASSES, Resource, SERVICES, STORAGE_CLASSES,
};
use crate::server::{ChangeKind, CreateOptions, PatchOptions, PatchType, UpdateOptions};

#[test]
fn a_new_cluster_has_its_namespaces_classes_and_services() {
    let world = world();
    for name in ["default", "kube-system", "kube-node-lease", "kube-public"] {
        assert_eq!(world.server.get(&NAMESPACES, "", name).unwrap()["status"]["phase"], "Active");
    }
    let class = world.server.get(&PRIORITY_CLASSES, "", "system-node-critical").unwrap();
    assert_eq!(class["value"], 2_000_001_000);
    assert_eq!(world.get(&SERVICES, "kubernetes")["spec"]["clusterIP"], "10.100.0.1");
    let dns = world.server.get(&SERVICES, "kube-system", "kube-dns").unwrap();
    assert_eq!(dns["spec"]["clusterIPs"], json!(["10.100.0.10"]));
}

#[test]
fn the_same_calls_give_the_same_cluster() {
    let run = || {
        let world = world();
        let mut object = pod("");
        object["metadata"]["generateName"] = json!("web-");
        world.create(&PODS, object).unwrap().as_ref().clone()
    };
    let first = run();
    assert_eq!(first, run());
    let name = first["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
}

#[test]
fn a_pod_gets_its_defaults_and_priority() {
    let world = world();
    let mut object = pod("a");
    object["spec"]["priorityClassName"] = json!("system-cluster-critical");
    object["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    let pod = world.create(&PODS, object).unwrap();
    assert_eq!(pod["spec"]["priority"], 2_000_000_000);
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30);
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "Guaranteed"}));
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
}

#[test]
fn a_claim_without_a_class_gets_the_newest_default_class() {
    let world = world();
    let claim = |name: &str, class: Value| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let mut claim = json!({"metadata": {"name": name}, "spec": spec});
        if !class.is_null() {
            claim["spec"]["storageClassName"] = class;
        }
        world.create(&PERSISTENT_VOLUME_CLAIMS, claim).unwrap()["spec"]["storageClassName"].clone()
    };
    let class = |name: &str, annotations: Value| {
        let class = json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "ebs.csi.aws.com"});
        world.create(&STORAGE_CLASSES, class).unwrap();
    };
    class("other", json!({"storageclass.kubernetes.io/is-default-class": "false"}));
    assert_eq!(claim("a", Value::Null), Value::Null);
    class("gp2", json!({"storageclass.beta.kubernetes.io/is-default-class": "true"}));
    assert_eq!(claim("b", Value::Null), "gp2");
    class("gp3", json!({"storageclass.kubernetes.io/is-default-class": "true"}));
    assert_eq!(claim("c", Value::Null), "gp2", "of the same second, the first by name");
    assert_eq!((claim("d", json!("")), claim("e", json!("other"))), (json!(""), json!("other")));
}

#[test]
fn a_pod_gets_what_its_runtime_class_states() {
    let world = world();
    let class = json!({"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"kata": "true"}, "tolerations": [{"key": "kata", "operator": "Exists"}]}});
    world.create(&RUNTIME_CLASSES, class).unwrap();
    world.create(&RUNTIME_CLASSES, json!({"metadata": {"name": "plain"}, "handler": "runc"})).unwrap();
    let created = |name: &str, spec: Value| {
        let mut object = pod(name);
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        world.create(&PODS, object)
    };
    let made = created("a", json!({"runtimeClassName": "kata"})).unwrap();
    assert_eq!(
        (&made["spec"]["overhead"], &made["spec"]["nodeSelector"]),
        (&json!({"cpu": "250m"}), &json!({"kata": "true"}))
    );
    assert!(made["spec"]["tolerations"].as_array().unwrap().iter().any(|one| one["key"] == "kata"));
    assert!(created("b", json!({"runtimeClassName": "plain"})).unwrap()["spec"].get("overhead").is_none());
    for (spec, expected) in [
        (json!({"runtimeClassName": "none"}), "pod rejected: RuntimeClass \"none\" not found"),
        (
            json!({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"runtimeClassName": "kata", "nodeSelector": {"kata": "false"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[kata] = true; pod.spec.nodeSelector[kata] = false",
        ),
    ] {
        let refused = created("c", spec).unwrap_err();
        assert!(refused.code == 403 && refused.message.ends_with(expected), "{refused:?}");
    }
}

#[test]
fn containers_get_the_defaults_of_limit_ranges() {
    let world = world();
    let item = json!({"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "default": {"cpu": "1"},
        "defaultRequest": {"cpu": "100m"}, "min": {"ephemeral-storage": "1Gi"}});
    let range = json!({"metadata": {"name": "all"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "9"}}, item]}});
    let range = world.create(&LIMIT_RANGES, range).unwrap();
    assert_eq!(range["spec"]["limits"][1]["default"], json!({"cpu": "1", "memory": "1Gi"}));
    let requests = json!({"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1Gi"});
    assert_eq!(range["spec"]["limits"][1]["defaultRequest"], requests);
    let pod_with = |name: &str, resources: Value| {
        let mut object = pod(name);
        object["spec"]["containers"][0]["resources"] = resources;
        world.create(&PODS, object).unwrap()
    };
    let bare = pod_with("bare", json!({}));
    let resources = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": requests});
    assert_eq!(bare["spec"]["containers"][0]["resources"], resources);
    assert_eq!(bare["status"]["qosClass"], "Burstable");
    // A limit of its own is also its request, before the LimitRange has an effect.
    let own = pod_with("own", json!({"limits": {"cpu": "500m"}, "requests": {"memory": "1Mi"}}));
    let requests = json!({"cpu": "500m", "memory": "1Mi", "ephemeral-storage": "1Gi"});
    assert_eq!(own["spec"]["containers"][0]["resources"]["requests"], requests);
}

#[test]
fn errors_of_an_object_are_reported_by_field() {
    let world = world();
    let mut object = pod("Bad_Name");
    object["spec"]["containers"] = json!([]);
    let error = world.create(&PODS, object).unwrap_err();
    assert_eq!((error.code, error.reason), (422, "Invalid"));
    let fields: Vec<_> = error.causes.iter().filter_map(|cause| cause.field.as_deref()).collect();
    assert_eq!(fields, ["metadata.name", "spec.containers"]);
    assert!(error.message.starts_with("Pod \"Bad_Name\" is invalid: [metadata.name: Invalid value: \"Bad_Name\": a "));

    let mut object = pod("a");
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1 core"}});
    let error = world.create(&PODS, object).unwrap_err();
    assert_eq!(error.causes[0].field.as_deref(), Some("spec.containers[0].resources.requests[cpu]"));

    let mut object = pod("a");
    object["metadata"]["namespace"] = json!("missing");
    let error = world.create(&PODS, object).unwrap_err();
    assert_eq!(error.message, "namespaces \"missing\" not found");

    let mut object = pod("a");
    object["kind"] = json!("Deployment");
    assert_eq!(world.create(&PODS, object).unwrap_err().code, 400);
}

#[test]
fn resources_of_pods_templates_and_nodes_are_validated() {
    let world = world();
    let resources = json!({"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}});
    let mut container = json!({"name": "c", "image": "pause:3", "resources": resources});
    let mut object = pod("a");
    object["spec"]["initContainers"] = json!([container]);
    let error = world.create(&PODS, object).unwrap_err();
    assert_eq!(error.causes[0].field.as_deref(), Some("spec.initContainers[0].resources.requests"));
    let mut object = deployment(1);
    object["spec"]["template"]["spec"]["containers"] = json!([container]);
    let error = world.create(&DEPLOYMENTS, object).unwrap_err();
    let expected = "Deployment.apps \"web\" is invalid: spec.template.spec.containers[0].resources.requests: Invalid value: \
        \"2Gi\": must be less than or equal to memory limit of 1Gi";
    assert_eq!(error.message, expected);
    container["resources"] = json!({"requests": {"cpu": "-1"}});
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}});
    let cron = json!({"metadata": {"name": "c", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}});
    let error = world.create(&CRON_JOBS, cron).unwrap_err();
    let expected = "spec.jobTemplate.spec.template.spec.containers[0].resources.requests[cpu]";
    assert_eq!(error.causes[0].field.as_deref(), Some(expected));
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "-4"}}});
    let error = world.create(&NODES, node).unwrap_err();
    assert_eq!(error.causes[0].field.as_deref(), Some("status.capacity[cpu]"));
}

#[test]
fn a_stale_update_conflicts_and_an_empty_one_changes_nothing() {
    let world = world();
    let mut second = world.create(&DEPLOYMENTS, deployment(1)).unwrap().as_ref().clone();
    second["spec"]["replicas"] = json!(2);
    let options = UpdateOptions::default();
    let updated = world.server.update(&DEPLOYMENTS, second.clone(), &options).unwrap();
    assert_eq!(updated["metadata"]["generation"], 2);
    let error = world.server.update(&DEPLOYMENTS, second, &options).unwrap_err();
    assert_eq!((error.code, error.reason), (409, "Conflict"));
    let before = world.server.revision();
    let same = world.server.update(&DEPLOYMENTS, updated.as_ref().clone(), &options).unwrap();
    assert_eq!((same, world.server.revision()), (updated, before));
}

#[test]
fn status_and_specification_are_written_apart() {
    let world = world();
    let mut object = world.create(&DEPLOYMENTS, deployment(1)).unwrap().as_ref().clone();
    object["spec"]["replicas"] = json!(5);
    object["status"] = json!({"replicas": 3});
    let options = UpdateOptions::default();
    let object = world.server.update_status(&DEPLOYMENTS, object, &options).unwrap();
    assert_eq!((&object["spec"]["replicas"], &object["status"]["replicas"]), (&json!(1), &json!(3)));
    assert_eq!(object["metadata"]["generation"], 1);
    let mut object = object.as_ref().clone();
    object["spec"]["replicas"] = json!(5);
    object["status"] = json!({"replicas": 9});
    let object = world.server.update(&DEPLOYMENTS, object, &options).unwrap();
    assert_eq!((&object["spec"]["replicas"], &object["status"]["replicas"]), (&json!(5), &json!(3)));
}

#[test]
fn a_node_keeps_the_status_it_registers_with_and_its_provider() {
    let world = world();
    let node = json!({"metadata": {"name": "n"}, "spec": {"providerID": "aws:///a/i-1"},
        "status": {"capacity": {"cpu": "4"}}});
    let mut node = world.create(&NODES, node).unwrap().as_ref().clone();
    assert_eq!(node["status"]["capacity"]["cpu"], "4");
    node["spec"]["providerID"] = json!("aws:///a/i-2");
    assert_eq!(world.server.update(&NODES, node, &UpdateOptions::default()).unwrap_err().code, 422);
}

#[test]
fn a_pod_is_bound_once_and_its_specification_is_fixed() {
    let world = world();
    world.create(&PODS, pod("a")).unwrap();
    world.server.bind("default", "a", "n1").unwrap();
    let bound = world.get(&PODS, "a");
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    let error = world.server.bind("default", "a", "n2").unwrap_err();
    assert!(error.code == 409 && error.message.contains("already assigned to node \"n1\""), "{error}");
    let mut changed = bound.as_ref().clone();
    changed["spec"]["hostNetwork"] = json!(true);
    assert_eq!(world.server.update(&PODS, changed, &UpdateOptions::default()).unwrap_err().code, 422);
}

#[test]
fn a_binding_is_checked_as_by_the_real_server() {
    let world = world();
    world.create(&PODS, pod("a")).unwrap();
    let bind = |pod: &str, metadata: Value, target: Value| {
        world.server.bind_with("default", pod, &json!({"metadata": metadata, "target": target})).map_err(|it| it.code)
    };
    let node = || json!({"kind": "Node", "name": "n1"});
    assert_eq!(bind("a", json!({}), node()), Err(400));
    assert_eq!(bind("a", json!({"name": "a"}), json!({"kind": "Pod", "name": "n1"})), Err(500));
    assert_eq!(bind("a", json!({"name": "a"}), json!({"kind": "Node"})), Err(500));
    assert_eq!(bind("a", json!({"name": "a", "uid": "other"}), node()), Err(409));
    let mut nominated = world.get(&PODS, "a").as_ref().clone();
    nominated["status"]["nominatedNodeName"] = json!("n1");
    world.server.update_status(&PODS, nominated, &UpdateOptions::default()).unwrap();
    bind("a", json!({"name": "a", "annotations": {"x": "y"}}), node()).unwrap();
    let bound = world.get(&PODS, "a");
    assert_eq!(bound["metadata"]["annotations"], json!({"x": "y"}));
    assert!(bound["status"].get("nominatedNodeName").is_none());

    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    let gated = world.create(&PODS, gated).unwrap();
    assert_eq!(gated["status"]["conditions"][0]["reason"], "SchedulingGated");
    assert_eq!(bind("gated", json!({"name": "gated"}), node()), Err(409));
}

#[test]
fn a_lease_has_a_duration_and_is_renewed_from_its_revision() {
    let world = world();
    let lease = |seconds: i64| json!({"metadata": {"name": "l", "namespace": "default"}, "spec": {"leaseDurationSeconds": seconds}});
    assert_eq!(world.create(&LEASES, lease(0)).unwrap_err().code, 422);
    let created = world.create(&LEASES, lease(15)).unwrap();
    let error = world.server.update(&LEASES, lease(20), &UpdateOptions::default()).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            422,
            "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        )
    );
    let mut renewed = lease(20);
    renewed["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    assert!(world.server.update(&LEASES, renewed, &UpdateOptions::default()).is_ok());
}

#[test]
fn a_dry_run_leaves_no_trace() {
    let world = world();
    let before = world.server.revision();
    let options = CreateOptions { dry_run: true, ..CreateOptions::default() };
    let shown = world.server.create(&PODS, pod("a"), &options).unwrap();
    assert_eq!(shown["spec"]["restartPolicy"], "Always");
    assert!(!world.exists(&PODS, "a"));
    assert_eq!(world.server.revision(), before);
}

#[test]
fn an_event_has_two_faces() {
    let world = world();
    let event = json!({"metadata": {"name": "e", "namespace": "default"}, "reason": "FailedScheduling",
        "regarding": {"kind": "Pod", "name": "a", "namespace": "default"}, "note": "no nodes", "type": "Warning"});
    let new = world.create(&NEW_EVENTS, event).unwrap();
    assert_eq!((&new["apiVersion"], &new["note"]), (&json!("events.k8s.io/v1"), &json!("no nodes")));
    let old = world.get(&EVENTS, "e");
    assert_eq!((&old["apiVersion"], &old["message"]), (&json!("v1"), &json!("no nodes")));
    assert_eq!(old["involvedObject"]["name"], "a");
}

#[test]
fn an_event_expires_an_hour_after_its_last_write() {
    let world = world();
    let event = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "default"}, "reason": "Started", "count": 1,
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}})
    };
    world.create(&EVENTS, event("repeated")).unwrap();
    world.create(&EVENTS, event("single")).unwrap();
    world.create(&PODS, pod("a")).unwrap();
    world.advance(1_800);
    let mut repeated = world.get(&EVENTS, "repeated").as_ref().clone();
    repeated["count"] = json!(2);
    world.server.update(&EVENTS, repeated, &UpdateOptions::default()).unwrap();
    world.advance(1_799);
    world.server.expire_events();
    assert!(world.exists(&EVENTS, "single"));
    world.advance(1);
    let before = world.server.revision();
    world.server.expire_events();
    assert!(!world.exists(&EVENTS, "single") && world.exists(&EVENTS, "repeated") && world.exists(&PODS, "a"));
    let changes = world.server.watch_since(Some(&EVENTS), before).unwrap();
    let seen: Vec<_> = changes.iter().map(|change| (change.kind, change.name())).collect();
    assert_eq!(seen, [(ChangeKind::Deleted, "single")]);
    assert_eq!(changes[0].object["metadata"]["resourceVersion"], world.server.revision().to_string());
    world.advance(1_800);
    world.server.expire_events();
    assert!(!world.exists(&EVENTS, "repeated"));
}

#[test]
fn an_event_that_is_created_again_is_as_old_as_its_creation() {
    let world = world();
    let event = json!({"metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}});
    world.create(&EVENTS, event.clone()).unwrap();
    world.advance(1_800);
    world.delete(&EVENTS, "e").unwrap();
    world.create(&EVENTS, event).unwrap();
    world.advance(1_800);
    world.server.expire_events();
    assert!(world.exists(&EVENTS, "e"));
    world.advance(1_800);
    world.server.expire_events();
    assert!(!world.exists(&EVENTS, "e"));
}

pub(super) fn definition() -> Value {
    let spec = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1},
        "colour": {"type": "string", "default": "red"},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "count": {"type": "integer"}}}},
    }, "x-kubernetes-validations": [{"rule": "self.size < 100", "message": "too large"}]});
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}}});
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}}],
        },
    })
}

pub(super) fn with_things() -> (World, Resource) {
    let world = world();
    let crd = world.create(&CUSTOM_RESOURCE_DEFINITIONS, definition()).unwrap();
    assert_eq!(crd["status"]["conditions"][1]["type"], "Established");
    (world, Resource::custom("example.com", "v1", "things", "Thing", true))
}

#[test]
fn a_custom_resource_is_defaulted_pruned_and_validated() {
    let (world, things) = with_things();
    let thing = |spec: Value| json!({"metadata": {"name": "t", "namespace": "default"}, "spec": spec});
    let made = world.create(&things, thing(json!({"size": 1, "unknown": true}))).unwrap();
    assert_eq!(made["spec"], json!({"size": 1, "colour": "red"}));
    assert_eq!(made["metadata"]["generation"], 1);
    let error = world.create(&things, thing(json!({"size": 0}))).unwrap_err();
    assert!(error.code == 422 && error.message.contains("spec.size"), "{error}");
    let error = world.create(&things, thing(json!({"size": 100}))).unwrap_err();
    assert!(error.code == 422 && error.message.contains("too large"), "{error}");
}

#[test]
fn a_rule_that_costs_too_much_fails_the_request() {
    let world = world();
    let mut crd = definition();
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["parts"]["x-kubernetes-validations"] =
        json!([{"rule": "self.all(x, self.all(y, self.all(z, x.name != y.name || y.name != z.name || x == z)))"}]);
    // Each of its items costs little.
    spec["properties"]["groups"] = json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y))"}]}});
    world.create(&CUSTOM_RESOURCE_DEFINITIONS, crd).unwrap();
    let things = Resource::custom("example.com", "v1", "things", "Thing", true);
    let thing = |name: &str, count: usize, groups: usize| {
        let parts: Vec<Value> = (0..count).map(|index| json!({"name": index.to_string()})).collect();
        let spec = json!({"size": 1, "parts": parts, "groups": vec![vec![1; 200]; groups]});
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    };
    assert!(world.create(&things, thing("small", 5, 5)).is_ok());
    let error = world.create(&things, thing("large", 2_000, 1)).unwrap_err();
    assert_eq!((error.code, error.causes[0].field.as_deref()), (422, Some("spec.parts")));
    let expected = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
        call cost exceeds limit for rule: self.all(x, self.all(y, ";
    assert!(error.causes[0].message.starts_with(expected), "{error}");
    let error = world.create(&things, thing("many", 1, 200)).unwrap_err();
    let expected = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert!(error.code == 422 && error.message.ends_with(expected), "{error}");
}

#[test]
fn a_rule_that_would_exhaust_the_stack_is_refused() {
    let world = world();
    let mut crd = definition();
    for rule in [format!("self{} == 1", ".a".repeat(100_000)), "!".repeat(100_000), "(".repeat(100_000)] {
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
            json!([{"rule": rule}]);
        let error = world.create(&CUSTOM_RESOURCE_DEFINITIONS, crd.clone()).unwrap_err();
        assert!(error.code == 422 && error.message.contains("operators"), "{error}");
    }
    // The deepest one is evaluated.
    let rule = format!("self.size == 1 || self{} == 1", ".a".repeat(240));
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": rule}]);
    world.create(&CUSTOM_RESOURCE_DEFINITIONS, crd).unwrap();
    let things = Resource::custom("example.com", "v1", "things", "Thing", true);
    let thing = json!({"metadata": {"name": "t", "namespace": "default"}, "spec": {"size": 1}});
    assert!(world.create(&things, thing).is_ok());
}

#[test]
fn a_custom_resource_without_replicas_has_no_scale() {
    let world = world();
    let mut crd = definition();
    let version = &mut crd["spec"]["versions"][0];
    version["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.copies", "statusReplicasPath": ".status.copies"});
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["copies"] = json!({"type": "integer"});
    world.create(&CUSTOM_RESOURCE_DEFINITIONS, crd).unwrap();
    let things = Resource::custom("example.com", "v1", "things", "Thing", true);
    let thing = |name: &str, spec: Value| json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    world.create(&things, thing("none", json!({"size": 1}))).unwrap();
    world.create(&things, thing("two", json!({"size": 1, "copies": 2}))).unwrap();
    let change = json!({"spec": {"replicas": 7}});
    let scaled = |name: &str| {
        let options = PatchOptions::default();
        world.server.patch(&things, "default", name, Some("scale"), PatchType::Merge, &change, &options)
    };
    let error = scaled("none").unwrap_err();
    assert!(error.code == 500 && error.message.contains(".spec.copies"), "{error}");
    assert_eq!(scaled("two").unwrap()["spec"]["replicas"], 7);
}

#[test]
fn a_definition_that_cannot_be_used_is_refused() {
    let world = world();
    let mut crd = definition();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self.size <"}]);
    assert_eq!(world.create(&CUSTOM_RESOURCE_DEFINITIONS, crd).unwrap_err().code, 422);
}

#[test]
fn the_objects_of_a_definition_go_with_it() {
    let (world, things) = with_things();
    let thing = json!({"metadata": {"name": "t", "namespace": "default", "finalizers": ["example.com/x"]},
        "spec": {"size": 1}});
    world.create(&things, thing).unwrap();
    let crds = CUSTOM_RESOURCE_DEFINITIONS;
    world.server.delete(&crds, "", "things.example.com", &crate::DeleteOptions::default()).unwrap();
    let mut waiting = world.get(&things, "t").as_ref().clone();
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    assert!(world.server.get(&crds, "", "things.example.com").is_ok());
    waiting["metadata"]["finalizers"] = json!([]);
    world.server.update(&things, waiting, &UpdateOptions::default()).unwrap();
    assert!(world.server.get(&crds, "", "things.example.com").is_err());
    assert!(world.server.get(&things, "default", "t").is_err());
}
