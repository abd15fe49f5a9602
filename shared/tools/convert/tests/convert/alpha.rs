//! v1alpha5 and v1alpha1.

use crate::common::{lines, object, problems, valid, with_role};
use nodeless_convert::{Effect, Identity, Options, convert};
use serde_json::json;

const TEMPLATE: &str = "
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: { name: default }
spec:
  subnetSelector: { karpenter.sh/discovery: demo }
  securityGroupSelector: { karpenter.sh/discovery: demo }
";

fn provisioner(spec: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{ name: web }}\nspec:\n  providerRef: {{ name: default }}\n{spec}"
    )
}

fn template(spec: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {{ name: default }}\nspec:\n{spec}"
    )
}

const SELECTORS: &str = "  subnetSelector: { a: b }\n  securityGroupSelector: { a: b }\n";

#[test]
fn a_provisioner_with_every_field() {
    let conversion = valid(&format!(
        "{}{TEMPLATE}",
        provisioner(
            "  labels: { team: a }
  annotations: { example.com/owner: b, karpenter.sh/do-not-consolidate: \"true\" }
  taints: [{ key: example.com/t, effect: NoSchedule }]
  startupTaints: [{ key: example.com/s, effect: NoSchedule }]
  requirements:
    - { key: kubernetes.io/arch, operator: In, values: [arm64] }
    - { key: beta.kubernetes.io/os, operator: In, values: [linux] }
    - { key: karpenter.sh/capacity-type, operator: In, values: [spot] }
    - { key: karpenter.k8s.aws/instance-family, operator: In, values: [c6g] }
  kubeletConfiguration: { maxPods: 20, containerRuntime: dockerd, kubeReserved: { cpu: 1 } }
  limits: { resources: { cpu: 1000, memory: 100Gi } }
  consolidation: { enabled: true }
  ttlSecondsUntilExpired: 90
  weight: 10
"
        )
    ));
    assert_eq!(
        object(&conversion, "NodePool", "web")["spec"],
        json!({
            "template": {
                "metadata": {
                    "labels": { "team": "a" },
                    "annotations": { "example.com/owner": "b", "karpenter.sh/do-not-disrupt": "true" },
                },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                    "requirements": [
                        { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
                        { "key": "beta.kubernetes.io/os", "operator": "In", "values": ["linux"] },
                        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] },
                        { "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["c6g"] },
                    ],
                    "taints": [{ "key": "example.com/t", "effect": "NoSchedule" }],
                    "startupTaints": [{ "key": "example.com/s", "effect": "NoSchedule" }],
                    "expireAfter": "90s",
                },
            },
            "disruption": { "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s" },
            "limits": { "cpu": 1000, "memory": "100Gi" },
            "weight": 10,
        })
    );
    let class = object(&conversion, "EC2NodeClass", "default");
    assert_eq!(class["spec"]["kubelet"], json!({ "maxPods": 20, "kubeReserved": { "cpu": "1" } }));
    let lost = conversion.notes.iter().filter(|note| note.effect == Effect::Lost).collect::<Vec<_>>();
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].field, "spec.kubeletConfiguration.containerRuntime");
}

#[test]
fn requirements_get_the_defaults_of_v1alpha5() {
    let conversion = valid(&format!("{}{TEMPLATE}", provisioner("  ttlSecondsAfterEmpty: 30\n")));
    let pool = object(&conversion, "NodePool", "web");
    assert_eq!(
        pool["spec"]["template"]["spec"]["requirements"],
        json!([
            { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
            { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
            { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
            { "key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"] },
        ])
    );
    assert_eq!(pool["spec"]["disruption"], json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s" }));
    assert_eq!(lines(&conversion).iter().filter(|line| line.contains("the default of v1alpha5: ")).count(), 0);
    assert_eq!(
        lines(&conversion).iter().filter(|line| line.contains(": added ")).count(),
        6,
        "{:#?}",
        lines(&conversion)
    );

    let options = Options { identity: Some(Identity::Role("r".to_owned())), ignore_defaults: true };
    let text = format!("{}{TEMPLATE}", provisioner(""));
    let conversion = convert(&[crate::common::source(&text)], &options);
    assert_eq!(object(&conversion, "NodePool", "web")["spec"]["template"]["spec"]["requirements"], json!([]));
    assert_eq!(conversion.notes.iter().filter(|note| note.effect == Effect::Lost).count(), 5);
}

#[test]
fn what_was_off_stays_off() {
    let conversion = valid(&format!("{}{TEMPLATE}", provisioner("  consolidation: { enabled: false }\n")));
    let spec = &object(&conversion, "NodePool", "web")["spec"];
    assert_eq!(spec["disruption"], json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" }));
    assert_eq!(spec["template"]["spec"]["expireAfter"], "Never");
}

#[test]
fn a_provider_becomes_a_class_with_the_name_of_the_provisioner() {
    let text = "apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: { name: web }
spec:
  provider:
    apiVersion: extensions.karpenter.sh/v1alpha1
    kind: AWS
    amiFamily: Bottlerocket
    instanceProfile: profile
    subnetSelector: { a: b }
    securityGroupSelector: { a: b }
    tags: { t: u }
";
    let conversion = valid(text);
    assert_eq!(
        object(&conversion, "EC2NodeClass", "web")["spec"],
        json!({
            "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }],
            "instanceProfile": "profile",
            "subnetSelectorTerms": [{ "tags": { "a": "b" } }],
            "securityGroupSelectorTerms": [{ "tags": { "a": "b" } }],
            "tags": { "t": "u" },
            "metadataOptions": { "httpPutResponseHopLimit": 2 },
        })
    );
    let pool = object(&conversion, "NodePool", "web");
    assert_eq!(pool["spec"]["template"]["spec"]["nodeClassRef"]["name"], "web");
    assert_eq!(conversion.files[0].text.matches("\n---\n").count(), 1);
}

#[test]
fn selectors_become_a_term_for_each_combination() {
    let conversion = valid(&template(
        "  amiFamily: AL2
  amiSelector: { aws::name: \"one, two\", aws::owners: \"self,amazon\", env: prod }
  subnetSelector: { Name: \"a,b\", tier: \"*\" }
  securityGroupSelector: { aws-ids: \"sg-1, sg-2\" }
",
    ));
    let spec = &object(&conversion, "EC2NodeClass", "default")["spec"];
    let term = |name, owner| json!({ "name": name, "owner": owner, "tags": { "env": "prod" } });
    assert_eq!(
        spec["amiSelectorTerms"],
        json!([term("one", "self"), term("two", "self"), term("one", "amazon"), term("two", "amazon")])
    );
    assert_eq!(spec["amiFamily"], "AL2");
    assert_eq!(
        spec["subnetSelectorTerms"],
        json!([{ "tags": { "Name": "a", "tier": "*" } }, { "tags": { "Name": "b", "tier": "*" } }])
    );
    assert_eq!(spec["securityGroupSelectorTerms"], json!([{ "id": "sg-1" }, { "id": "sg-2" }]));
}

#[test]
fn metadata_options_keep_what_is_set() {
    let conversion = valid(&template(&format!(
        "{SELECTORS}  metadataOptions: {{ httpEndpoint: disabled, httpPutResponseHopLimit: 5 }}\n"
    )));
    let spec = &object(&conversion, "EC2NodeClass", "default")["spec"];
    assert_eq!(spec["metadataOptions"], json!({ "httpEndpoint": "disabled", "httpPutResponseHopLimit": 5 }));
    assert!(lines(&conversion).iter().any(|line| line.contains("spec.metadataOptions.httpTokens: it is not set")));
}

#[test]
fn what_the_api_server_wrote_is_left_out() {
    let text = template(SELECTORS).replace(
        "metadata: { name: default }",
        "metadata:
  name: default
  uid: 1-2
  resourceVersion: \"3\"
  creationTimestamp: \"2023-01-01T00:00:00Z\"
  finalizers: [example.com/x]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {}
    karpenter.k8s.aws/nodetemplate-hash: \"1\"
    mine: \"2\"",
    ) + "status:\n  subnets: [{ id: subnet-1, zone: a }]\n";
    let conversion = valid(&text);
    let class = object(&conversion, "EC2NodeClass", "default");
    assert_eq!(
        class["metadata"],
        json!({ "name": "default", "finalizers": ["example.com/x"], "annotations": { "mine": "2" } })
    );
    assert_eq!(class.get("status"), None);
}

#[test]
fn what_cannot_be_carried_over_names_its_field() {
    let cases = [
        (
            provisioner("").replace("  providerRef: { name: default }\n", "  weight: 1\n"),
            "spec.providerRef: it is missing",
        ),
        (provisioner("  ttlSecondsAfterEmpty: soon\n"), "spec.ttlSecondsAfterEmpty: it is not a whole number"),
        (
            provisioner("  consolidation: { enabled: true }\n  ttlSecondsAfterEmpty: 1\n"),
            "spec.ttlSecondsAfterEmpty: v1alpha5",
        ),
        (provisioner("  provider: { tags: {} }\n"), "spec.provider: spec.providerRef exists as well"),
        (provisioner("  unknown: 1\n"), "spec.unknown: it is not a field"),
        (provisioner("  limits: { cpu: 1 }\n"), "spec.limits.cpu: it is not a field"),
        (provisioner("  kubeletConfiguration: { maxPods: 1 }\n"), "spec.kubeletConfiguration: v1 has it in"),
        (template(SELECTORS), "spec.role: v1 requires the IAM role"),
        (template("  launchTemplate: mine\n"), "spec.launchTemplate: launch templates"),
        (template("  subnetSelector: { a: b }\n"), "spec.securityGroupSelector: it is missing"),
        (template(&format!("{SELECTORS}  amiFamily: Custom\n")), "spec.amiSelector: it is missing"),
        (template(&format!("{SELECTORS}  amiFamily: Ubuntu\n")), "spec.amiFamily: v1 finds no Ubuntu images"),
        (template(&format!("{SELECTORS}  amiFamily: SUSE\n")), "spec.amiFamily: \"SUSE\" is not known"),
        (
            template("  subnetSelector: { aws-ids: subnet-1, a: b }\n  securityGroupSelector: { a: b }\n"),
            "spec.subnetSelector[aws-ids]: ids cannot be combined",
        ),
        (
            template("  subnetSelector: { a: \"\" }\n  securityGroupSelector: { a: b }\n"),
            "spec.subnetSelector[a]: it has no value",
        ),
    ];
    for (text, expected) in cases {
        let found = problems(&text);
        assert!(found.iter().any(|problem| problem.contains(&format!(": {expected}"))), "{expected}: {found:#?}");
    }
}

#[test]
fn two_objects_cannot_become_one() {
    let pool = "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: { name: web }\nspec: {}\n";
    let found = problems(&format!("{}{pool}", provisioner("")));
    assert!(
        found.iter().any(|problem| problem.contains("NodePool web is also the result of Provisioner web")),
        "{found:#?}"
    );
}

#[test]
fn comments_are_kept() {
    let text = "# Pools of the web tier
apiVersion: karpenter.sh/v1alpha5 # old
kind: Provisioner
metadata:
  name: web

spec:
  # who pays
  labels:
    team: a # finance knows
  providerRef:
    name: default # shared
  requirements:
  # spot is fine
  - key: karpenter.sh/capacity-type
    operator: In
    values: [spot] # and nothing else
  limits:
    resources:
      # per the budget
      cpu: 100
  ttlSecondsUntilExpired: 604800 # a week
# the end
";
    let conversion = with_role(text);
    let written = &conversion.files[0].text;
    for comment in text.split('\n').filter_map(|line| line.split_once('#')) {
        assert!(written.contains(&format!("#{}", comment.1)), "{} is gone from\n{written}", comment.1);
    }
    assert!(written.contains("expireAfter: 168h # a week\n"), "{written}");
    assert!(written.contains("    # per the budget\n    cpu: 100\n"), "{written}");
}
