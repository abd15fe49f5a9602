//! The kubelet's settings, which move to EC2NodeClasses.

use crate::common::{accepted, object, problems, valid, with_role};
use nodeless_convert::{Options, convert};
use serde_json::{Value, json};

fn pool(name: &str, class: &str, kubelet: &str) -> String {
    let kubelet = if kubelet.is_empty() { String::new() } else { format!("      kubelet: {kubelet} # as measured\n") };
    format!(
        "apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {{ name: {name} }}
spec:
  template:
    spec:
      nodeClassRef: {{ name: {class} }}
      requirements: []
{kubelet}---
"
    )
}

fn class(version: &str, rest: &str) -> String {
    let images = if version == "v1" { "amiSelectorTerms: [{ alias: al2023@latest }]" } else { "amiFamily: AL2023" };
    format!(
        "apiVersion: karpenter.k8s.aws/{version}
kind: EC2NodeClass
metadata: {{ name: default }}
spec:
  {images}
  role: node
  subnetSelectorTerms: [{{ id: subnet-1 }}]
  securityGroupSelectorTerms: [{{ name: sg }}]
{rest}"
    )
}

fn reference(conversion: &nodeless_convert::Conversion, name: &str) -> Value {
    object(conversion, "NodePool", name)["spec"]["template"]["spec"]["nodeClassRef"]["name"].clone()
}

fn kubelet(conversion: &nodeless_convert::Conversion, name: &str) -> Value {
    object(conversion, "EC2NodeClass", name)["spec"]["kubelet"].clone()
}

#[test]
fn equal_settings_move_to_the_class_of_all() {
    let text = [
        pool("a", "default", "{ maxPods: 20, evictionHard: { memory.available: 5% } }"),
        pool("b", "default", "{ evictionHard: { memory.available: 5% }, maxPods: 20 }"),
        class("v1beta1", ""),
    ];
    let conversion = valid(&text.concat());
    assert_eq!(kubelet(&conversion, "default"), json!({ "maxPods": 20, "evictionHard": { "memory.available": "5%" } }));
    assert_eq!(conversion.objects.len(), 3);
    assert_eq!([reference(&conversion, "a"), reference(&conversion, "b")], ["default", "default"]);
    assert!(conversion.files[0].text.contains("# as measured"), "{}", conversion.files[0].text);
}

#[test]
fn different_settings_need_a_class_each() {
    let text = [
        class("v1beta1", "  tags: { a: b }\n---\n"),
        pool("a", "default", "{ maxPods: 20 }"),
        pool("b", "default", "{ maxPods: 50 }"),
        pool("c", "default", "{ maxPods: 50 }"),
        pool("d", "default", "{ maxPods: 20 }"),
    ];
    let conversion = valid(&text.concat());
    assert_eq!(kubelet(&conversion, "default"), json!({ "maxPods": 20 }));
    assert_eq!(kubelet(&conversion, "default-b"), json!({ "maxPods": 50 }));
    assert_eq!(object(&conversion, "EC2NodeClass", "default-b")["spec"]["tags"], json!({ "a": "b" }));
    let references = ["a", "b", "c", "d"].map(|name| reference(&conversion, name));
    assert_eq!(references, ["default", "default-b", "default-b", "default"]);
}

#[test]
fn a_pool_without_settings_keeps_the_class() {
    let text = [class("v1beta1", "---\n"), pool("a", "default", "{ maxPods: 20 }"), pool("b", "default", "")];
    let conversion = valid(&text.concat());
    assert_eq!(kubelet(&conversion, "default"), Value::Null);
    assert_eq!(kubelet(&conversion, "default-a"), json!({ "maxPods": 20 }));
    assert_eq!([reference(&conversion, "a"), reference(&conversion, "b")], ["default-a", "default"]);
}

#[test]
fn a_current_class_is_not_changed() {
    let current = class("v1", "  kubelet: { maxPods: 20 }\n---\n");
    let conversion = valid(&[current.clone(), pool("a", "default", "{ maxPods: 20 }")].concat());
    assert!(conversion.files[0].text.starts_with(&current.replace("---\n", "")), "{}", conversion.files[0].text);
    assert_eq!(reference(&conversion, "a"), "default");

    let conversion = valid(&[current, pool("a", "default", "{ maxPods: 30 }")].concat());
    assert_eq!(kubelet(&conversion, "default-a"), json!({ "maxPods": 30 }));
    assert_eq!(reference(&conversion, "a"), "default-a");
    accepted("EC2NodeClass", object(&conversion, "EC2NodeClass", "default-a"));
}

#[test]
fn pools_and_classes_may_be_in_different_files() {
    let file = |name: &str, text: String| nodeless_convert::SourceFile { name: name.to_owned(), text };
    let files = [file("pool.yaml", pool("a", "default", "{ maxPods: 20 }")), file("class.yaml", class("v1beta1", ""))];
    let conversion = convert(&files, &Options::default());
    assert_eq!(conversion.problems, []);
    assert!(!conversion.files[0].text.contains("maxPods"));
    assert!(conversion.files[1].text.contains("maxPods: 20"));
    assert_eq!(kubelet(&conversion, "default"), json!({ "maxPods": 20 }));
}

#[test]
fn settings_that_only_karpenter_1_0_reads_are_reported() {
    let text = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: web
  annotations: { compatibility.karpenter.sh/v1beta1-kubelet-conversion: '{\"maxPods\":20}' }
";
    let conversion = with_role(text);
    assert_eq!(conversion.files[0].text, text);
    assert_eq!(conversion.notes.len(), 1);
    assert_eq!(conversion.notes[0].effect, nodeless_convert::Effect::Check);
}

#[test]
fn a_copy_needs_a_free_name() {
    let taken = class("v1beta1", "---\n").replace("name: default", "name: default-b");
    let text = [
        class("v1beta1", "---\n"),
        taken,
        pool("a", "default", "{ maxPods: 20 }"),
        pool("b", "default", "{ maxPods: 50 }"),
    ];
    let found = problems(&text.concat());
    assert!(found.iter().any(|problem| problem.contains("a copy default-b of the class exists")), "{found:#?}");
}

#[test]
fn numbers_become_strings_where_v1_requires_them() {
    let text = [
        pool("a", "default", "{ systemReserved: { cpu: 1, memory: 100Mi }, cpuCFSQuota: true }"),
        class("v1beta1", ""),
    ];
    let conversion = valid(&text.concat());
    assert_eq!(
        kubelet(&conversion, "default"),
        json!({ "systemReserved": { "cpu": "1", "memory": "100Mi" }, "cpuCFSQuota": true })
    );
    assert_eq!(with_role(&text.concat()), conversion);
}
