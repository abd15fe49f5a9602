//! v1beta1.

use crate::common::{lines, object, problems, valid, with_role};
use serde_json::json;

fn pool(rest: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {{ name: web }}
spec:
  template:
    spec:
      nodeClassRef: {{ name: default }}
      requirements: []
{rest}"
    )
}

fn class(spec: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {{ name: default }}
spec:
  role: node
  subnetSelectorTerms: [{{ id: subnet-1 }}]
  securityGroupSelectorTerms: [{{ name: sg }}]
{spec}"
    )
}

#[test]
fn disruption_by_policy() {
    let cases = [
        ("", json!(null), json!(null)),
        ("  disruption: { expireAfter: Never }\n", json!(null), json!("Never")),
        (
            "  disruption:\n    consolidationPolicy: WhenUnderutilized\n    expireAfter: 24h\n",
            json!({ "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s" }),
            json!("24h"),
        ),
        (
            "  disruption: { consolidationPolicy: WhenUnderutilized, consolidateAfter: Never }\n",
            json!({ "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never" }),
            json!(null),
        ),
        (
            "  disruption: { consolidationPolicy: WhenEmpty, consolidateAfter: 30s }\n",
            json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s" }),
            json!(null),
        ),
        (
            "  disruption: { budgets: [{ nodes: \"0\", schedule: \"0 9 * * 1-5\", duration: 8h }] }\n",
            json!({ "consolidateAfter": "0s", "budgets": [{ "nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h" }] }),
            json!(null),
        ),
    ];
    for (rest, disruption, expire_after) in cases {
        let conversion = valid(&pool(rest));
        let spec = &object(&conversion, "NodePool", "web")["spec"];
        assert_eq!(spec["disruption"], disruption, "{rest}");
        assert_eq!(spec["template"]["spec"]["expireAfter"], expire_after, "{rest}");
    }
}

#[test]
fn references_get_a_group_and_kind() {
    let expected = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
    for reference in [
        "{ name: default }",
        "{ apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: default }",
        "{ kind: EC2NodeClass, name: default }",
    ] {
        let conversion = valid(&pool("").replace("{ name: default }", reference));
        let spec = &object(&conversion, "NodePool", "web")["spec"]["template"]["spec"];
        assert_eq!(spec["nodeClassRef"], expected, "{reference}");
    }
}

#[test]
fn families_become_aliases_unless_terms_select_images() {
    let alias = |alias: &str| json!([{ "alias": alias }]);
    for (spec, family, terms) in [
        ("  amiFamily: AL2023\n", json!(null), alias("al2023@latest")),
        ("  amiFamily: Windows2022\n", json!(null), alias("windows2022@latest")),
        ("  amiFamily: AL2\n  amiSelectorTerms: [{ id: ami-1 }]\n", json!("AL2"), json!([{ "id": "ami-1" }])),
        ("  amiFamily: Custom\n  amiSelectorTerms: [{ name: mine }]\n", json!("Custom"), json!([{ "name": "mine" }])),
        ("  amiSelectorTerms: [{ name: mine }]\n", json!("Custom"), json!([{ "name": "mine" }])),
    ] {
        let conversion = valid(&class(spec));
        let converted = &object(&conversion, "EC2NodeClass", "default")["spec"];
        assert_eq!(converted["amiSelectorTerms"], terms, "{spec}");
        assert_eq!(converted["amiFamily"], family, "{spec}");
        assert_eq!(converted["metadataOptions"], json!({ "httpPutResponseHopLimit": 2 }));
    }
}

#[test]
fn the_version_of_an_alias_is_read_from_the_annotation_of_karpenter_1_0() {
    let annotated = "{ name: default, annotations: { compatibility.karpenter.k8s.aws/v1-alias-version: v20240703 } }";
    let conversion = valid(&class("  amiFamily: AL2023\n").replace("{ name: default }", annotated));
    let converted = object(&conversion, "EC2NodeClass", "default");
    assert_eq!(converted["spec"]["amiSelectorTerms"], json!([{ "alias": "al2023@v20240703" }]));
    assert_eq!(converted["metadata"], json!({ "name": "default" }));
}

#[test]
fn ubuntu_keeps_its_disks() {
    let conversion = valid(&class("  amiFamily: Ubuntu\n  amiSelectorTerms: [{ id: ami-1 }]\n"));
    let spec = &object(&conversion, "EC2NodeClass", "default")["spec"];
    assert_eq!(spec["amiFamily"], "AL2");
    let disk = json!({ "encrypted": true, "volumeType": "gp3", "volumeSize": "20Gi" });
    assert_eq!(spec["blockDeviceMappings"], json!([{ "deviceName": "/dev/sda1", "rootVolume": true, "ebs": disk }]));

    let own = "  blockDeviceMappings: [{ deviceName: /dev/sda1, ebs: { volumeSize: 50Gi } }]\n";
    let conversion = valid(&class(&format!("  amiFamily: Ubuntu\n  amiSelectorTerms: [{{ id: ami-1 }}]\n{own}")));
    let spec = &object(&conversion, "EC2NodeClass", "default")["spec"];
    assert_eq!(spec["blockDeviceMappings"][0]["ebs"], json!({ "volumeSize": "50Gi" }));
}

#[test]
fn a_v1_class_that_karpenter_1_0_made_of_ubuntu_is_reported() {
    let of = |value: &str| {
        format!(
            "apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{ name: web, annotations: {{ compatibility.karpenter.k8s.aws/v1beta1-ubuntu: \"{value}\" }} }}
spec: {{ amiFamily: AL2, amiSelectorTerms: [{{ id: ami-placeholder }}] }}
"
        )
    };
    for (value, advice) in [
        ("amiFamily,blockDeviceMappings,incompatible", "set spec.amiSelectorTerms instead of its placeholder"),
        ("amiFamily", "whether later Ubuntu images boot with AL2's user data is not certain"),
    ] {
        let conversion = with_role(&of(value));
        assert_eq!(conversion.files[0].text, of(value));
        let found = lines(&conversion);
        assert_eq!(found.len(), 1, "{found:#?}");
        let field =
            "check: in.yaml: EC2NodeClass web: metadata.annotations[compatibility.karpenter.k8s.aws/v1beta1-ubuntu]: ";
        assert!(found[0].starts_with(field) && found[0].contains(advice), "{found:#?}");
    }
    // Without the annotation there is nothing to report.
    let plain =
        of("amiFamily").replace(", annotations: { compatibility.karpenter.k8s.aws/v1beta1-ubuntu: \"amiFamily\" }", "");
    assert_eq!(lines(&with_role(&plain)), Vec::<String>::new());
}

#[test]
fn each_change_is_one_line() {
    let conversion = valid(&pool("  disruption: { consolidationPolicy: WhenUnderutilized, expireAfter: 24h }\n"));
    assert_eq!(
        lines(&conversion),
        [
            "changed: in.yaml: NodePool web: apiVersion: karpenter.sh/v1beta1 is karpenter.sh/v1",
            "changed: in.yaml: NodePool web: spec.disruption.consolidationPolicy: WhenUnderutilized is WhenEmptyOrUnderutilized",
            "changed: in.yaml: NodePool web: spec.disruption.consolidateAfter: added 0s, which is how v1beta1 behaves",
            "changed: in.yaml: NodePool web: spec.disruption.expireAfter: moved to spec.template.spec.expireAfter; a change of it is drift in v1",
            "changed: in.yaml: NodePool web: spec.template.spec.nodeClassRef.group: added karpenter.k8s.aws, which v1 requires",
            "changed: in.yaml: NodePool web: spec.template.spec.nodeClassRef.kind: added EC2NodeClass, which v1 requires",
        ]
    );
}

#[test]
fn what_cannot_be_carried_over_names_its_field() {
    let cases = [
        (pool("  disruption: { consolidationPolicy: WhenEmpty }\n"), "spec.disruption.consolidateAfter: it is missing"),
        (
            pool("  disruption: { consolidateAfter: 5m }\n"),
            "spec.disruption.consolidateAfter: v1beta1 does not allow 5m",
        ),
        (pool("  disruption: { consolidationPolicy: Always }\n"), "spec.disruption.consolidationPolicy: \"Always\""),
        (
            pool("").replace("      nodeClassRef: { name: default }\n", ""),
            "spec.template.spec.nodeClassRef: it is missing",
        ),
        (pool("").replace("requirements: []", "kubelet: { maxPods: 1 }"), "spec.template.spec.kubelet: v1 has it in"),
        (pool("").replace("metadata: { name: web }", "metadata: {}"), "metadata.name: it is missing"),
        (class("  amiFamily: Ubuntu\n"), "spec.amiFamily: v1 finds no Ubuntu images"),
        (class(""), "spec.amiSelectorTerms: it is missing"),
        (class("  amiFamily: AL2\n  kubelet: { maxPods: 1 }\n"), "spec.kubelet: it is not a field of v1beta1"),
        (class("  amiFamily: AL2\n").replace("  role: node\n", ""), "spec.role: it is missing"),
        (pool("").replace("v1beta1", "v1alpha1"), "apiVersion: \"karpenter.sh/v1alpha1\" is not a version"),
    ];
    for (text, expected) in cases {
        let found = problems(&text);
        assert!(found.iter().any(|problem| problem.contains(&format!(": {expected}"))), "{expected}: {found:#?}");
    }
}
