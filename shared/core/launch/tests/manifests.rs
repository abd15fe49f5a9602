//! Manifests from Karpenter's examples and documentation have the same result as in Karpenter: in the API server, with the
//! generated definitions, and after that in the validation of the object.
#![allow(clippy::unwrap_used)]

use nodeless_api::convert::validate;
use nodeless_api::nodeclass::AmiFamily;
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_api::{EC2NodeClass, NodePool};
use nodeless_fake_kubernetes::schema::Schema;
use nodeless_launch::ClusterDetails;
use nodeless_launch::node_class::validation;
use nodeless_launch::user_data::{UserDataInput, user_data};
use nodeless_model::StringMap;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    shows: String,
    verdict: String,
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
    let schema = Schema::from_crd(&crd, "v1").unwrap();
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
    let cases = cases(include_str!("manifests/node-classes.yaml"));
    assert_eq!(cases.len(), 30);
    for case in cases {
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
    let cases = cases(include_str!("manifests/node-pools.yaml"));
    assert_eq!(cases.len(), 17);
    for case in cases {
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
