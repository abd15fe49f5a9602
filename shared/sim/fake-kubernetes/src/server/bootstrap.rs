//! The objects of a new cluster.

use serde_json::{Value, json};

use super::resource::{
    CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ENDPOINTS, NAMESPACES, PRIORITY_CLASSES, Resource, SERVICES,
};
use super::status::Status;
use super::store::Store;
use super::writes::{self, Request};

fn objects() -> Vec<(Resource, Value)> {
    let mut all = Vec::new();
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        all.push((NAMESPACES, json!({"metadata": {"name": name}})));
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000_i64,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        all.push((PRIORITY_CLASSES, class));
    }
    all.push((
        SERVICES,
        json!({
            "metadata": {"name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"clusterIP": "10.100.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 443}]},
        }),
    ));
    all.push((ENDPOINTS, json!({"metadata": {"name": "kubernetes", "namespace": "default"}})));
    all.push((
        SERVICES,
        json!({
            "metadata": {"name": "kube-dns", "namespace": "kube-system",
                "labels": {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}},
            "spec": {"clusterIP": "10.100.0.10", "selector": {"k8s-app": "kube-dns"}, "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
            ]},
        }),
    ));
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    all.push((CLUSTER_ROLES, json!({"metadata": {"name": "cluster-admin"}, "rules": everything})));
    all.push((
        CLUSTER_ROLE_BINDINGS,
        json!({
            "metadata": {"name": "cluster-admin"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"}],
        }),
    ));
    all
}

/// Creates the objects of a new cluster.
pub(crate) fn fill(store: &mut Store, request: Request<'_>) -> Result<(), Status> {
    for (resource, object) in objects() {
        let definition = store.definition_of(&resource)?;
        writes::create(store, &definition, object, request)?;
    }
    Ok(())
}
