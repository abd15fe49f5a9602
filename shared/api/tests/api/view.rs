//! What a view takes over from its own objects.

use jiff::Timestamp;
use nodeless_api::view::ClusterView;
use nodeless_model::pod::HostPort;
use nodeless_model::{DaemonSet, Pod, Quantity, ResourceList};

fn pod(name: &str, namespace: &str, created: i64, cpu: i64) -> Pod {
    Pod {
        name: name.into(),
        namespace: namespace.into(),
        owner_kind: Some("DaemonSet".into()),
        owner_name: Some("agent".into()),
        created: Some(Timestamp::from_second(created).unwrap()),
        requests: ResourceList::new().with("cpu", Quantity::from_milli(cpu)),
        ..Pod::default()
    }
}

fn view(pods: Vec<Pod>) -> ClusterView {
    let template = pod("agent", "kube-system", 0, 100);
    let daemon_sets = vec![DaemonSet { namespace: "kube-system".into(), name: "agent".into(), template }];
    let mut view = ClusterView { pods, daemon_sets, ..ClusterView::default() };
    view.set_daemon_pods();
    view
}

fn cpu(pods: Vec<Pod>) -> Quantity {
    view(pods).daemon_sets[0].template.requests.get("cpu")
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
    let sidecar = Pod { host_ports: ports.clone(), ..of("h", 1, 100) };
    assert_eq!(view(vec![sidecar]).daemon_sets[0].template.host_ports, ports);
}
