//! What a view takes over from its own objects.

use jiff::Timestamp;
use nodeless_api::daemon_sets::{LimitRange, ReadDaemonSet};
use nodeless_api::slim;
use nodeless_api::view::ClusterView;
use nodeless_model::pod::HostPort;
use nodeless_model::{DaemonSet, Pod, PodTemplate, Quantity, ResourceList, ResourceQuota};
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
    view.set_first_pods(&without_pod, &read, ranges);
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
        view.set_first_pods(&without_pod, &read, ranges);
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
    view.set_first_pods(&without_pod, &read, &several);
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
