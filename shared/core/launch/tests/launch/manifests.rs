//! Manifests from Karpenter's examples and documentation have the same result as in Karpenter: in the API server, with the
//! generated definitions, and after that in the validation of the object.

use nodeless_api::convert::validate;
use nodeless_api::nodeclass::AmiFamily;
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
use nodeless_fake_kubernetes::schema::Schema;
use nodeless_launch::ClusterDetails;
use nodeless_launch::node_class::validation;
use nodeless_launch::user_data::{UserDataInput, user_data};
use nodeless_model::StringMap;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const NODE_CLASSES: &str = include_str!("../manifests/node-classes.yaml");
const NODE_POOLS: &str = include_str!("../manifests/node-pools.yaml");
const NODE_CLAIMS: &str = include_str!("../manifests/node-claims.yaml");
const NODE_OVERLAYS: &str = include_str!("../manifests/node-overlays.yaml");
const CAPACITY_BUFFERS: &str = include_str!("../manifests/capacity-buffers.yaml");

/// The manifests of `examples/v1` of aws/karpenter-provider-aws. Each has an EC2NodeClass and a NodePool.
const EXAMPLES: [&str; 22] = [
    "100-cpu-limit",
    "al2-custom-ami",
    "al2-custom-userdata",
    "al2-kubelet-log-query",
    "al2023-custom-userdata",
    "bottlerocket",
    "br-custom-userdata",
    "custom-family",
    "custom-family-with-alias",
    "general-purpose",
    "instance-store-ephemeral-storage",
    "large-instances",
    "max-node-lifetime",
    "min-values-family",
    "min-values-multiple-keys",
    "multiple-arch",
    "multiple-ebs",
    "spot",
    "windows-2019",
    "windows-2022",
    "windows-2025",
    "windows-custom-userdata",
];

/// The pages of Karpenter's documentation (1.14) with manifests or parts of them.
const PAGES: [&str; 11] = [
    "concepts/capacitybuffers",
    "concepts/disruption",
    "concepts/nodeclaims",
    "concepts/nodeclasses",
    "concepts/nodeoverlays",
    "concepts/nodepools",
    "concepts/scheduling",
    "faq",
    "tasks/managing-amis",
    "tasks/odcrs",
    "troubleshooting",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    shows: String,
    /// The examples, and the pages of the documentation, that have this.
    of: Vec<String>,
    verdict: String,
    /// The apiVersion of the manifest, if it is not that of the definition.
    api_version: Option<String>,
    spec: Value,
    /// The first part of the user data that nodes get.
    first_part: Option<String>,
}

fn cases(text: &str) -> Vec<Case> {
    serde_saphyr::from_multiple(text).unwrap()
}

fn cluster() -> ClusterDetails {
    ClusterDetails {
        name: "prod".into(),
        version: "1.32".into(),
        endpoint: "https://api.example.com".into(),
        certificate_authority: "Q0E=".into(),
        service_cidr: Some("10.100.0.0/16".into()),
    }
}

fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            over.iter().for_each(|(key, value)| merge(base.entry(key.clone()).or_insert(Value::Null), value));
        }
        (base, over) => *base = over.clone(),
    }
}

/// The object that the API server stores, or why it rejects the manifest.
fn admitted(kind: &str, object: &Value) -> Result<Value, String> {
    let crd = nodeless_api::crds().unwrap().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let api_version = object["apiVersion"].as_str().unwrap();
    let mut served = crd.spec.versions.iter().filter(|version| version.served);
    let Some(version) = served.find(|version| api_version == format!("{}/{}", crd.spec.group, version.name)) else {
        return Err(format!("{api_version} has no {kind}"));
    };
    let schema = Schema::from_crd(&crd, &version.name).unwrap();
    let mut stored = object.clone();
    schema.prune(&mut stored);
    if stored != *object {
        return Err("a field is unknown".to_owned());
    }
    schema.default(&mut stored);
    let errors: Vec<String> = schema.validate(&stored, None).iter().map(ToString::to_string).collect();
    if errors.is_empty() { Ok(stored) } else { Err(errors.join("; ")) }
}

fn check(case: &Case, found: &str) {
    let expected = &case.verdict;
    let same = found.starts_with(expected)
        || expected.starts_with("refused: ") && {
            found.starts_with("refused: ") && found.contains(expected.trim_start_matches("refused: "))
        };
    assert!(same, "{}: expected {expected}, found {found}", case.shows);
}

#[test]
fn node_classes_have_the_results_of_karpenter() {
    for case in cases(NODE_CLASSES) {
        let mut object = ec2_node_class_manifest("default", "${CLUSTER_NAME}", &json!({}));
        merge(&mut object["spec"], &case.spec);
        let found = match admitted("EC2NodeClass", &object) {
            Err(why) => format!("refused: {why}"),
            Ok(stored) => {
                let class: EC2NodeClass = serde_json::from_value(stored).unwrap();
                if let Some(expected) = &case.first_part {
                    assert_eq!(&first_part(&class), expected, "{}", case.shows);
                }
                let problem = validation::validate(&cluster(), &class.spec);
                problem.map_or_else(|| "taken".to_owned(), |it| format!("not ready: {}: {}", it.reason, it.message))
            }
        };
        check(&case, &found);
    }
}

/// The first part of the MIME document that nodes of a class get.
fn first_part(class: &EC2NodeClass) -> String {
    let text = user_data(&UserDataInput {
        cluster: &cluster(),
        family: class.spec.resolved_ami_family().unwrap_or(AmiFamily::Custom),
        image: None,
        custom: class.spec.user_data.as_deref(),
        kubelet: &nodeless_api::nodeclass::kubelet::parse(&class.spec.kubelet).unwrap(),
        kubelet_fields: &class.spec.kubelet,
        max_pods: 29,
        instance_store: class.spec.instance_store_policy,
        labels: &StringMap::new(),
        taints: &[],
    });
    let text = text.unwrap();
    text.split("--//\n").nth(1).unwrap().trim_end().to_owned()
}

#[test]
fn node_pools_have_the_results_of_karpenter() {
    for case in cases(NODE_POOLS) {
        let linux = json!([{ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] }]);
        let mut object = node_pool_manifest("default", &linux, &json!({}));
        merge(&mut object["spec"], &case.spec);
        let found = match admitted("NodePool", &object) {
            Err(why) => format!("refused: {why}"),
            Ok(stored) => {
                let pool: NodePool = serde_json::from_value(stored).unwrap();
                let problems = validate::node_pool(&pool);
                assert_eq!(nodeless_model::NodePool::from(&pool).ready.is_ok(), problems.is_empty());
                if problems.is_empty() { "taken".to_owned() } else { format!("not ready: {}", problems.join("; ")) }
            }
        };
        check(&case, &found);
    }
}

/// The result of an object of this kind with the spec of the case, which is read as `T` when the API server has accepted it.
fn result<T: serde::de::DeserializeOwned>(
    kind: &str,
    api_version: &str,
    case: &Case,
    problems: impl FnOnce(&T) -> Vec<String>,
) -> String {
    let api_version = case.api_version.as_deref().unwrap_or(api_version);
    let metadata = json!({ "name": "default", "namespace": "default" });
    let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": case.spec });
    match admitted(kind, &object) {
        Err(why) => format!("refused: {why}"),
        Ok(stored) => {
            let problems = problems(&serde_json::from_value(stored).unwrap());
            if problems.is_empty() { "taken".to_owned() } else { format!("not ready: {}", problems.join("; ")) }
        }
    }
}

#[test]
fn node_overlays_have_the_results_of_karpenter() {
    for case in cases(NODE_OVERLAYS) {
        check(&case, &result::<NodeOverlay>("NodeOverlay", "karpenter.sh/v1alpha1", &case, validate::node_overlay));
    }
}

#[test]
fn capacity_buffers_have_the_results_of_karpenter() {
    for case in cases(CAPACITY_BUFFERS) {
        let read = |buffer: &CapacityBuffer| {
            nodeless_model::CapacityBuffer::try_from(buffer).err().map(|error| error.to_string()).into_iter().collect()
        };
        check(&case, &result::<CapacityBuffer>("CapacityBuffer", "autoscaling.x-k8s.io/v1beta1", &case, read));
    }
}

#[test]
fn node_claims_have_the_results_of_karpenter() {
    for case in cases(NODE_CLAIMS) {
        check(&case, &result::<NodeClaim>("NodeClaim", "karpenter.sh/v1", &case, |_| Vec::new()));
    }
}

/// The examples and pages that the cases of these files are of.
fn covered(files: &[&str]) -> BTreeSet<String> {
    let cases: Vec<Case> = files.iter().flat_map(|file| cases(file)).collect();
    assert!(cases.iter().all(|case| !case.of.is_empty()), "a case is of no manifest");
    cases.into_iter().flat_map(|case| case.of).collect()
}

#[test]
fn every_example_and_page_of_karpenter_is_covered() {
    for file in [NODE_CLASSES, NODE_POOLS] {
        let covered = covered(&[file]);
        let missing: Vec<&str> = EXAMPLES.into_iter().filter(|name| !covered.contains(*name)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "examples without a case");
    }
    let known = EXAMPLES.into_iter().chain(PAGES).map(str::to_owned).collect();
    assert_eq!(covered(&[NODE_CLASSES, NODE_POOLS, NODE_CLAIMS, NODE_OVERLAYS, CAPACITY_BUFFERS]), known);
}
