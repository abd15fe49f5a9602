//! The definitions: what is generated is what is kept in the repository, and it is what users of Karpenter expect.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use nodeless_api::crds;
use std::path::Path;

#[test]
fn the_files_are_what_is_generated() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/crds");
    let files = crds::yaml_files().unwrap();
    assert_eq!(files.len(), 6);
    for (name, content) in files {
        let path = directory.join(&name);
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == content,
            "infra/crds/{name} is stale: run `cargo run -p nodeless -- crds --write infra/crds`, or \
             `cargo run -p nodeless-api --features yaml --example crds -- infra/crds`, which does the same"
        );
    }
}

#[test]
fn the_yaml_reads_back_as_the_definition() {
    for ((name, yaml), crd) in crds::yaml_files().unwrap().iter().zip(nodeless_api::crds().unwrap()) {
        let read: CustomResourceDefinition = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!(read, crd, "{name}");
    }
}

/// Name, scope, kind of lists, short names and columns of each definition.
const NAMES: [[&str; 5]; 6] = [
    ["nodepools.karpenter.sh", "Cluster", "NodePoolList", "", "NodeClass,Nodes,Ready,Age,Price,Weight,CPU,Memory"],
    [
        "nodeclaims.karpenter.sh",
        "Cluster",
        "NodeClaimList",
        "",
        "Type,Capacity,Zone,Node,Ready,Age,Price,ImageID,ID,NodePool,NodeClass,Drifted",
    ],
    ["ec2nodeclasses.karpenter.k8s.aws", "Cluster", "EC2NodeClassList", "ec2nc,ec2ncs", "Ready,Age,Role"],
    ["nodeoverlays.karpenter.sh", "Cluster", "NodeOverlayList", "overlays", "Ready,Age,Weight"],
    [
        "capacitybuffers.autoscaling.x-k8s.io",
        "Namespaced",
        "CapacityBufferList",
        "cb",
        "Strategy,PodTemplate,Replicas,ConditionsType,ConditionsStatus,ConditionsReason,Age",
    ],
    [
        "provisioningrequests.autoscaling.x-k8s.io",
        "Namespaced",
        "ProvisioningRequestList",
        "provreq,provreqs",
        "Class,Provisioned,Failed,Age",
    ],
];

#[test]
fn names_and_subresources_are_karpenters_and_so_are_columns_but_for_the_price() {
    let all = nodeless_api::crds().unwrap();
    let found = all.iter().map(|crd| {
        let columns = crd.spec.versions[0].additional_printer_columns.iter().flatten();
        [
            crd.metadata.name.clone().unwrap(),
            crd.spec.scope.clone(),
            crd.spec.names.list_kind.clone().unwrap(),
            crd.spec.names.short_names.clone().unwrap_or_default().join(","),
            columns.map(|column| column.name.clone()).collect::<Vec<_>>().join(","),
        ]
    });
    assert_eq!(found.collect::<Vec<_>>(), NAMES.map(|names| names.map(str::to_owned)));
    let scale = all[0].spec.versions[0].subresources.as_ref().unwrap().scale.as_ref().unwrap();
    assert_eq!(
        (scale.spec_replicas_path.as_str(), scale.status_replicas_path.as_str()),
        (".spec.replicas", ".status.nodes")
    );
    for crd in &all {
        let category = if crd.spec.group == "autoscaling.x-k8s.io" { "autoscaling" } else { "karpenter" };
        assert_eq!(crd.spec.names.categories.as_deref(), Some(&[category.to_owned()][..]));
        assert!(crd.spec.versions[0].subresources.as_ref().unwrap().status.is_some());
    }
}

/// Kueue uses the earlier version.
#[test]
fn provisioning_requests_have_two_versions_with_one_schema() {
    let all = nodeless_api::crds().unwrap();
    for crd in &all {
        let versions = &crd.spec.versions;
        let requests = crd.spec.names.kind == "ProvisioningRequest";
        let names: Vec<_> = versions.iter().map(|version| version.name.as_str()).collect();
        assert_eq!(names.len(), if requests { 2 } else { 1 }, "{names:?}");
        assert_eq!(versions.iter().filter(|version| version.storage).count(), 1);
        assert!(versions.iter().all(|version| version.served && version.schema == versions[0].schema));
    }
}
