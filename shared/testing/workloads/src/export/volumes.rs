//! Volumes as manifests: a PersistentVolume with node affinity for each claim.

use crate::Workload;
use nodeless_model::Requirements;
use nodeless_model::requirement::RequirementTerm;
use serde_json::{Value, json};

pub(super) fn items(workload: &Workload) -> impl Iterator<Item = Value> + '_ {
    let claims = workload.volumes.iter().flat_map(|(key, topology)| {
        let (namespace, name) = key.split_once('/').unwrap_or(("default", key));
        let driver = workload.volume_drivers.get(key).map_or("ebs.csi.aws.com", String::as_str);
        [claim(namespace, name), volume(namespace, name, driver, topology)]
    });
    claims.chain(workload.volume_limits.iter().map(|(node, drivers)| {
        let limit = |(driver, count): (&String, &u32)| json!({ "name": driver, "nodeID": node, "allocatable": { "count": count } });
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": node },
            "spec": { "drivers": drivers.iter().map(limit).collect::<Vec<_>>() }
        })
    }))
}

fn claim(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name, "namespace": namespace },
        "spec": { "volumeName": format!("pv-{namespace}-{name}"), "storageClassName": "gp3" }, "status": { "phase": "Bound" }
    })
}

fn volume(namespace: &str, name: &str, driver: &str, alternatives: &[Requirements]) -> Value {
    let volume = format!("pv-{namespace}-{name}");
    let mut spec = json!({
        "storageClassName": "gp3", "csi": { "driver": driver, "volumeHandle": volume },
        "claimRef": { "namespace": namespace, "name": name }
    });
    let one =
        |term: &RequirementTerm| json!({ "key": term.key, "operator": term.operator.as_str(), "values": term.values });
    let terms = alternatives
        .iter()
        .map(|all| json!({ "matchExpressions": all.to_terms().iter().map(one).collect::<Vec<_>>() }))
        .collect::<Vec<_>>();
    if !terms.is_empty() {
        spec["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": terms } });
    }
    json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": volume }, "spec": spec, "status": { "phase": "Bound" } })
}
