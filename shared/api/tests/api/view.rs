//! What a view takes over from its own objects.

use jiff::Timestamp;
use nodeless_api::admission::{Admission, RuntimeClass};
use nodeless_api::convert::volumes::Storage;
use nodeless_api::daemon_sets::ReadDaemonSet;
use nodeless_api::limit_ranges::LimitRange;
use nodeless_api::pod_shapes::ReadShape;
use nodeless_api::slim;
use nodeless_api::view::{BufferView, ClusterView};
use nodeless_model::pod::HostPort;
use nodeless_model::{DaemonSet, Pod, PodTemplate, Quantity, ResourceList, ResourceQuota, labels};
use serde_json::{Value, json};

fn pod(name: &str, namespace: &str, created: i64, cpu: i64) -> Pod {
    Pod {
        name: name.into(),
        namespace: namespace.into(),
        owner_kind: Some("DaemonSet".into()),
        owner_name: Some("agent".into()),
        created: Some(Timestamp::from_second(created).unwrap()),
        template: PodTemplate {
            requests: ResourceList::new().with("cpu", Quantity::from_milli(cpu)),
            ..PodTemplate::default()
        }
        .into(),
        ..Pod::default()
    }
}

fn view(pods: Vec<Pod>) -> ClusterView {
    let template = pod("agent", "kube-system", 0, 100);
    let daemon_sets =
        vec![DaemonSet { namespace: "kube-system".into(), name: "agent".into(), template, ..DaemonSet::default() }];
    let mut view =
        ClusterView { pods: pods.into_iter().map(Into::into).collect(), daemon_sets, ..ClusterView::default() };
    let _ = view.set_daemon_pods();
    view
}

fn cpu(pods: Vec<Pod>) -> Quantity {
    view(pods).daemon_sets[0].template.template.requests.get("cpu")
}

#[test]
fn a_daemon_set_requests_what_its_newest_pod_requests() {
    let of = |name, created, cpu| pod(name, "kube-system", created, cpu);
    assert_eq!(cpu(vec![]), Quantity::from_milli(100));
    assert_eq!(cpu(vec![of("a", 2, 500), of("b", 3, 300), of("c", 1, 900)]), Quantity::from_milli(300));
    // Pods of others, and pods that are being deleted.
    let other = Pod { owner_name: Some("other".into()), ..of("d", 9, 700) };
    let workload = Pod { owner_kind: Some("ReplicaSet".into()), ..of("e", 9, 700) };
    let leaving = Pod { deletion_timestamp: Some(Timestamp::UNIX_EPOCH), ..of("f", 9, 700) };
    assert_eq!(cpu(vec![other, workload, leaving, pod("g", "default", 9, 700)]), Quantity::from_milli(100));

    let ports = vec![HostPort { ip: String::new(), port: 9100, protocol: "TCP".into() }];
    let sidecar = of("h", 1, 100).with_template(|it| it.host_ports = ports.clone());
    assert_eq!(view(vec![sidecar]).daemon_sets[0].template.template.host_ports, ports);
}

fn daemon_set(name: &str, spec: &Value) -> ReadDaemonSet {
    let object =
        json!({ "metadata": { "namespace": "kube-system", "name": name }, "spec": { "template": { "spec": spec } } });
    ReadDaemonSet::try_from(&serde_json::from_value::<slim::DaemonSet>(object).unwrap()).unwrap()
}

fn limit_range(namespace: &str, name: &str, item: &Value) -> LimitRange {
    let object = json!({ "metadata": { "namespace": namespace, "name": name }, "spec": { "limits": [item] } });
    LimitRange::try_from(&serde_json::from_value::<slim::LimitRange>(object).unwrap()).unwrap()
}

/// The requests of the first pod of a DaemonSet with this spec, in thousandths.
fn first_requests(spec: &Value, ranges: &[LimitRange]) -> Vec<(String, i64)> {
    let read = [daemon_set("agent", spec)];
    let mut view = ClusterView { daemon_sets: vec![read[0].set.clone()], ..ClusterView::default() };
    let without_pod = view.set_daemon_pods();
    view.set_first_pods(&without_pod, &read, &Admission::from(ranges.to_vec()));
    assert!(view.invalid.is_empty());
    let requests = view.daemon_sets[0].template.template.requests.iter();
    requests.filter(|(name, _)| *name != "pods").map(|(name, quantity)| (name.to_owned(), quantity.milli())).collect()
}

#[test]
fn limit_ranges_set_the_requests_of_daemon_sets_without_a_pod() {
    let plain =
        json!({ "containers": [{ "name": "a" }, { "name": "b", "resources": { "requests": { "cpu": "100m" } } }] });
    let given =
        |list: &[(&str, i64)]| list.iter().map(|(name, milli)| ((*name).to_owned(), *milli)).collect::<Vec<_>>();
    let range = |item: &Value| [limit_range("kube-system", "all", item)];
    assert_eq!(first_requests(&plain, &[]), given(&[("cpu", 100)]));
    // The default request is defaultRequest, otherwise default, otherwise max, otherwise min.
    for (item, expected) in [
        (json!({ "defaultRequest": { "cpu": "200m" }, "default": { "cpu": "1" } }), 300),
        (json!({ "default": { "cpu": "500m" }, "max": { "cpu": "2" }, "min": { "cpu": "10m" } }), 600),
        (json!({ "max": { "cpu": "2" }, "min": { "cpu": "10m" } }), 2100),
        (json!({ "min": { "cpu": "10m" } }), 110),
    ] {
        let mut item = item;
        item["type"] = json!("Container");
        assert_eq!(first_requests(&plain, &range(&item)), given(&[("cpu", expected)]), "{item}");
        item["type"] = json!("Pod");
        assert_eq!(first_requests(&plain, &range(&item)), given(&[("cpu", 100)]));
    }
    // A limit of the container is its request.
    let limited = json!({ "containers": [{ "name": "a", "resources": { "limits": { "cpu": "700m" } } }] });
    let both = json!({ "type": "Container", "defaultRequest": { "cpu": "200m", "memory": "1" } });
    assert_eq!(first_requests(&limited, &range(&both)), given(&[("cpu", 700), ("memory", 1000)]));
    // Init containers and sidecars have the defaults too.
    let init = json!({ "containers": [{ "name": "a" }], "initContainers": [{ "name": "i" }, { "name": "s", "restartPolicy": "Always" }] });
    assert_eq!(first_requests(&init, &range(&both)), given(&[("cpu", 400), ("memory", 2000)]));
    // The requests of the whole pod are set before.
    let whole = json!({ "containers": [{ "name": "a" }], "resources": { "limits": { "cpu": "3" } } });
    assert_eq!(first_requests(&whole, &range(&both)), given(&[("cpu", 3000), ("memory", 1000)]));
}

#[test]
fn quotas_of_their_namespace_refuse_daemon_sets_without_a_pod() {
    let quota = |namespace: &str, spec: Value| {
        let object = json!({ "metadata": { "name": "q", "namespace": namespace }, "spec": spec });
        ResourceQuota::try_from(&serde_json::from_value::<slim::ResourceQuota>(object).unwrap()).unwrap()
    };
    let container = json!({ "name": "a", "resources": { "requests": { "cpu": "2" } } });
    let refused = |quota: ResourceQuota, pods: Vec<Pod>, ranges: &[LimitRange]| {
        let read = [daemon_set("agent", &json!({ "containers": [container] }))];
        let mut view = ClusterView {
            pods: pods.into_iter().map(Into::into).collect(),
            daemon_sets: read.iter().map(|read| read.set.clone()).collect(),
            resource_quotas: vec![quota],
            ..ClusterView::default()
        };
        let without_pod = view.set_daemon_pods();
        view.set_first_pods(&without_pod, &read, &Admission::from(ranges.to_vec()));
        view.daemon_sets[0].refused_by.as_ref().map(|one| format!("{} {}", one.quota, one.limit))
    };
    let small = || json!({ "hard": { "requests.cpu": "1" } });
    assert_eq!(refused(quota("kube-system", small()), vec![], &[]).as_deref(), Some("q requests.cpu"));
    assert_eq!(refused(quota("default", small()), vec![], &[]), None);
    assert_eq!(refused(quota("kube-system", small()), vec![pod("agent-x", "kube-system", 1, 2000)], &[]), None);
    for scope in [
        json!({ "scopes": ["BestEffort"] }),
        json!({ "scopeSelector": { "matchExpressions": [{ "scopeName": "PriorityClass", "operator": "Exists" }] } }),
    ] {
        let mut scoped = small();
        scoped.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
        assert_eq!(refused(quota("kube-system", scoped), vec![], &[]), None);
    }
    // A limit has to be stated, which a LimitRange does.
    let stated = || quota("kube-system", json!({ "hard": { "limits.memory": "1Gi" } }));
    assert_eq!(refused(stated(), vec![], &[]).as_deref(), Some("q limits.memory"));
    let item = json!({ "type": "Container", "default": { "memory": "1Gi" } });
    assert_eq!(refused(stated(), vec![], &[limit_range("kube-system", "all", &item)]), None);
}

#[test]
fn limit_ranges_of_other_namespaces_and_daemon_sets_with_a_pod_are_left_out() {
    let item = |cpu: &str| json!({ "type": "Container", "defaultRequest": { "cpu": cpu } });
    let plain = json!({ "containers": [{ "name": "a" }] });
    assert_eq!(first_requests(&plain, &[limit_range("default", "all", &item("1"))]), vec![]);
    let several = [limit_range("kube-system", "b", &item("2")), limit_range("kube-system", "a", &item("1"))];
    assert_eq!(first_requests(&plain, &several), [("cpu".to_owned(), 1000)]);

    let read = [daemon_set("agent", &plain), daemon_set("new", &plain)];
    let pods = vec![pod("agent-x", "kube-system", 1, 300)];
    let daemon_sets = read.iter().map(|read| read.set.clone()).collect();
    let mut view =
        ClusterView { pods: pods.into_iter().map(Into::into).collect(), daemon_sets, ..ClusterView::default() };
    let without_pod = view.set_daemon_pods();
    assert_eq!(without_pod.iter().map(ToString::to_string).collect::<Vec<_>>(), ["kube-system/new"]);
    view.set_first_pods(&without_pod, &read, &Admission::from(several.to_vec()));
    let cpu = |index: usize| view.daemon_sets[index].template.template.requests.get("cpu");
    assert_eq!((cpu(0), cpu(1)), (Quantity::from_milli(300), Quantity::from_milli(1000)));
}

#[test]
fn an_annotation_that_is_not_read_is_reported_once_for_each_workload() {
    let annotated = |name: &str, owner: Option<&str>| {
        let mut pod = Pod { owner_name: owner.map(Into::into), ..pod(name, "shop", 0, 100) };
        pod.owner_kind = owner.map(|_| "StatefulSet".to_owned());
        pod.template_mut().annotations.insert("nodeless.sh/min-on-demand".into(), "50%".into());
        pod
    };
    let pods = [("db-1", Some("db")), ("db-0", Some("db")), ("cache-0", Some("cache")), ("one", None), ("other", None)];
    let mut view = view(pods.map(|(name, owner)| annotated(name, owner)).to_vec());
    view.options.set("nodeless.sh/max-nodes", Some("many"));
    let faults = view.option_faults();
    let found: Vec<_> = faults.iter().map(|fault| (fault.object_name(), fault.is_unknown)).collect();
    let expected = ["Pod shop/cache-0", "Pod shop/db-0", "Pod shop/one", "Pod shop/other"];
    let expected = expected.map(|name| (name.to_owned(), true));
    assert_eq!(found[0], ("Namespace kube-system".to_owned(), false));
    assert_eq!(found[1..], expected);
}

/// Whatever makes pods of a template, they get the same of admission.
#[test]
fn admission_gives_first_pods_and_shapes_the_same() {
    let class: slim::RuntimeClass = serde_json::from_value(json!({
        "metadata": { "name": "kata" }, "overhead": { "podFixed": { "cpu": "250m", "memory": "64Mi" } },
        "scheduling": { "nodeSelector": { "kata": "yes" }, "tolerations": [{ "key": "kata", "operator": "Exists" }] },
    }))
    .unwrap();
    let item = json!({ "type": "Container", "defaultRequest": { "cpu": "1" }, "default": { "cpu": "2" } });
    let urgent = json!({ "metadata": { "name": "urgent" }, "value": 9 });
    let admission = Admission {
        ranges: vec![limit_range("kube-system", "all", &item)],
        runtime_classes: [("kata".to_owned(), RuntimeClass::try_from(&class).unwrap())].into(),
        priority_classes: vec![serde_json::from_value(urgent).unwrap()],
    };
    let spec = json!({ "containers": [{ "name": "a" }], "runtimeClassName": "kata", "priorityClassName": "urgent" });
    let read = [daemon_set("agent", &spec)];
    let mut view = ClusterView { daemon_sets: vec![read[0].set.clone()], ..ClusterView::default() };
    let without_pod = view.set_daemon_pods();
    view.set_first_pods(&without_pod, &read, &admission);
    let stored = json!({ "metadata": { "name": "t", "namespace": "kube-system" }, "template": { "spec": spec } });
    let stored: slim::StoredPodTemplate = serde_json::from_value(stored).unwrap();
    let shape = ReadShape::try_from(&stored).unwrap().admitted(&admission).unwrap();
    for template in [&view.daemon_sets[0].template.template, &shape.pod.template] {
        let amount = |name: &str| template.requests.get(name);
        assert_eq!((amount("cpu").milli(), amount("memory")), (1250, Quantity::from_mebibytes(64)));
        assert_eq!(
            (template.node_selector["kata"].as_str(), template.tolerations.len(), template.priority),
            ("yes", 1, 9)
        );
    }
    // What is not limited has no limit of its overhead.
    assert_eq!((shape.limits.get("cpu").milli(), shape.limits.contains("memory")), (2250, false));
    // What has been admitted does not get it again.
    let mut admitted = spec;
    admitted["overhead"] = json!({ "cpu": "250m" });
    let read = [daemon_set("agent", &admitted)];
    view.daemon_sets = vec![read[0].set.clone()];
    view.set_first_pods(&without_pod, &read, &admission);
    assert_eq!(view.daemon_sets[0].template.template.requests.get("cpu").milli(), 1250);
}

#[test]
fn virtual_pods_mount_the_volumes_of_which_it_is_known_where_they_can_be() {
    let workload = json!({
        "metadata": { "name": "db", "namespace": "shop" },
        "spec": {
            "template": { "spec": { "volumes": [
                { "name": "bound", "persistentVolumeClaim": { "claimName": "bound" } },
                { "name": "missing", "persistentVolumeClaim": { "claimName": "missing" } },
                { "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": { "storageClassName": "zonal" } } } },
                { "name": "odd", "ephemeral": { "volumeClaimTemplate": { "spec": { "storageClassName": "unknown" } } } },
            ] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {} }],
        },
    });
    let workload: slim::Scalable = serde_json::from_value(workload).unwrap();
    let buffer = json!({ "metadata": { "name": "b", "namespace": "shop" }, "spec": {} });
    let buffer: nodeless_api::CapacityBuffer = serde_json::from_value(buffer).unwrap();
    let mut view = ClusterView {
        capacity_buffers: vec![BufferView {
            buffer: (&buffer).try_into().unwrap(),
            status: nodeless_api::CapacityBufferStatus::default(),
            shape: Ok(ReadShape::try_from(&workload).unwrap().admitted(&Admission::default()).unwrap()),
        }],
        ..ClusterView::default()
    };
    assert!(view.needs_volumes(&[]));
    let zone =
        |zone: &str| json!([{ "matchLabelExpressions": [{ "key": "topology.kubernetes.io/zone", "values": [zone] }] }]);
    let class = |name: &str, default: &str, zone: Value| -> slim::StorageClass {
        serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": { "storageclass.kubernetes.io/is-default-class": default } },
            "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": zone,
        }))
        .unwrap()
    };
    let classes = [class("zonal", "false", zone("z-1")), class("usual", "true", zone("z-2"))];
    let claim =
        json!({ "metadata": { "name": "bound", "namespace": "shop" }, "spec": { "storageClassName": "usual" } });
    let claims: [slim::PersistentVolumeClaim; 1] = [serde_json::from_value(claim).unwrap()];
    view.set_volumes(Storage { claims: &claims, volumes: &[], classes: &classes }, &[]);
    let shape = view.capacity_buffers[0].shape.as_ref().unwrap();
    let mounted: Vec<&str> = shape.pod.template.volume_claims.iter().map(|it| it.claim_name.as_str()).collect();
    assert_eq!(mounted, ["bound", "db-*-scratch", "data-db-*"]);
    let zones = |claim: &str| view.volumes[&format!("shop/{claim}")][0].get(labels::ZONE).unwrap().single().unwrap();
    assert_eq!(mounted.iter().map(|claim| zones(claim)).collect::<Vec<_>>(), ["z-2", "z-1", "z-2"]);
    assert!(view.volume_faults.is_empty(), "no pod waits for them");
}

#[test]
fn a_device_class_gives_an_extended_resource_where_no_device_plugin_reports_it() {
    let gpu = |name: &str| json!({ "name": name, "attributes": { "type": { "string": "gpu" } } });
    let slice = |node: &str| {
        json!({
            "metadata": { "name": format!("{node}-gpus") },
            "spec": {
                "driver": "gpu.nvidia.com", "nodeName": node, "devices": [gpu("gpu-0"), gpu("gpu-1"), gpu("gpu-2")],
                "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
            },
        })
    };
    let class = json!({
        "metadata": { "name": "gpu.nvidia.com" },
        "spec": {
            "extendedResourceName": "nvidia.com/gpu", "selectors": [{ "cel": { "expression": "device.driver == 'gpu.nvidia.com'" } }],
        },
    });
    let claim = |name: &str, device: &str, annotations: Value| {
        let result = json!({ "request": "r", "driver": "gpu.nvidia.com", "pool": "dra", "device": device });
        json!({
            "metadata": { "name": name, "namespace": "default", "annotations": annotations },
            "status": { "allocation": { "devices": { "results": [result] } } },
        })
    };
    let of_pod = json!({ "resource.kubernetes.io/extended-resource-claim": "true" });
    let claims = json!([claim("own", "gpu-0", json!({})), claim("made", "gpu-1", of_pod)]);
    let node = |name: &str, gpus: i64| {
        let allocatable = ResourceList::new().with("nvidia.com/gpu", Quantity::from_units(gpus));
        nodeless_model::Node { name: name.into(), allocatable, ..nodeless_model::Node::default() }
    };
    let mut training = pod("train", "default", 0, 1000);
    training.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(1));
    let mut view = view(vec![training]);
    view.nodes = vec![node("dra", 0), node("plugin", 8)];
    assert!(view.claims_devices(), "the class may give what it requests");
    let typed = |values: Value| values.as_array().unwrap().clone().into_iter();
    view.set_devices(nodeless_api::devices::DeviceObjects {
        slices: typed(json!([slice("dra"), slice("plugin")])).map(|it| serde_json::from_value(it).unwrap()).collect(),
        classes: vec![serde_json::from_value(class).unwrap()],
        claims: typed(claims).map(|it| serde_json::from_value(it).unwrap()).collect(),
        templates: Vec::new(),
    });
    let gpus = |node: usize| view.nodes[node].allocatable.get("nvidia.com/gpu");
    assert_eq!((gpus(0), gpus(1)), (Quantity::from_units(2), Quantity::from_units(8)));
}
