//! Exports and manifests of users, and the snapshots of them.
#![allow(clippy::needless_pass_by_value)]

use nodeless_snapshot::{Held, Reader, Snapshot};
use serde_json::{Value, json};

fn read(text: &str) -> Snapshot {
    let mut reader = Reader::default();
    reader.read("file", text.as_bytes());
    reader.finish()
}

fn pods(snapshot: &Snapshot) -> Vec<String> {
    snapshot.view.pods().map(nodeless_model::Pod::key).collect()
}

fn faults(snapshot: &Snapshot) -> Vec<String> {
    snapshot.faults.iter().map(ToString::to_string).collect()
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
    if pod["spec"]["containers"].is_null() {
        pod["spec"]["containers"] = json!([{ "name": "c", "resources": { "requests": { "cpu": "100m" } } }]);
    }
    pod
}

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}";

#[test]
fn templating_left_in_a_manifest_is_named_and_expressions_of_pods_are_read() {
    const ADVICE: &str = "render it first, for example with `helm template`";
    let named = |name: &str| POD.replace("{name: a}", &format!("{{name: {name}}}"));
    for (text, place) in [
        // YAML that cannot be read.
        (
            "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n".to_owned(),
            "file: document 1: it is not YAML: line 3: ",
        ),
        ("{{- if .Values.on }}\nkind: Pod\n{{- end }}\n".to_owned(), "file: document 1: it is not YAML: line 1: "),
        (
            "kind: List\nitems:\n- kind: Pod\n  metadata: {name: b}\n- kind: Pod\n  metadata:\n    name: {{ .a }}\n"
                .to_owned(),
            "file: document 1: it is not YAML: line 7: ",
        ),
        // YAML and JSON that can.
        (named("'{{ .Release.Name }}'"), "file: document 1: Pod default/{{ .Release.Name }}: metadata.name: "),
        (pod("{{a}}", json!({})).to_string(), "file: document 1: Pod default/{{a}}: metadata.name: "),
        (named("a, labels: {app: '{{ .a }}'}"), "file: document 1: Pod default/a: metadata.labels: "),
        (
            POD.replace("{name: c}", "{name: c, resources: {requests: {cpu: '{{ .cpu }}'}}}"),
            "file: document 1: Pod default/a: spec.containers[0].resources.requests.cpu: ",
        ),
    ] {
        let found = faults(&read(&text));
        assert!(found.len() == 1 && found[0].starts_with(place), "{found:?} for {text}");
        assert!(found[0].contains("has templating left in it ({{") && found[0].ends_with(ADVICE), "{found:?}");
    }
    let with_arguments = pod("a", json!({ "containers": [{ "name": "c", "args": ["--format={{.Name}}"] }] }));
    assert_eq!(pods(&read(&with_arguments.to_string())), ["default/a"], "an expression of the program");
}

#[test]
fn every_form_of_documents_is_read() {
    let a = pod("a", json!({})).to_string();
    let b = pod("b", json!({})).to_string();
    let list = |kind: &str, items: &str| format!(r#"{{"apiVersion":"v1","kind":"{kind}","items":{items}}}"#);
    let yaml = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec: {{}}\n");
    let block = |indent: &str, name: &str| {
        let body = yaml(name).trim_end().replace('\n', &format!("\n{indent}  "));
        format!("{indent}- {body}\n")
    };
    let cases = [
        ("a JSON object", a.clone()),
        ("JSON objects one after another", format!("{a}\n{b}")),
        ("a JSON array", format!("[{a},{b}]")),
        ("a List", list("List", &format!("[{a},{b}]"))),
        ("a typed list without kinds", list("PodList", r#"[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]"#)),
        ("a List of Lists", list("List", &format!("[{},{b}]", list("List", &format!("[{a}]"))))),
        ("a YAML object", yaml("a")),
        ("documents", format!("---\n# first\n{}---\n{}...\n", yaml("a"), yaml("b"))),
        ("JSON among YAML", format!("{}---\n{a}\n---\n\n---\n{b}\n", yaml("b"))),
        ("content after the marker", format!("--- {POD}\n--- # comment\n{}", yaml("b"))),
        ("a directive", format!("%YAML 1.2\n---\n{}", yaml("a"))),
        ("flow style", POD.to_owned()),
        (
            "a YAML List of kubectl",
            format!(
                "apiVersion: v1\nitems:\n{}{}kind: List\nmetadata:\n  resourceVersion: \"\"\n",
                block("", "a"),
                block("", "b")
            ),
        ),
        (
            "a YAML List of a user",
            format!(
                "apiVersion: v1\nkind: PodList\nitems: # all\n{}\n  # between\n{}",
                block("  ", "a"),
                block("  ", "b")
            ),
        ),
        ("a YAML sequence", format!("{}{}", block("", "a"), block("", "b"))),
        (
            "anchors across items",
            format!("kind: List\nitems:\n- &one {POD}\n- *one\n- kind: Pod\n  metadata: {{name: b}}\n"),
        ),
        ("Windows line ends", format!("---\n{}---\n{}", yaml("a"), yaml("b")).replace('\n', "\r\n")),
        ("a byte order mark", format!("\u{feff}{}", yaml("a"))),
        ("no apiVersion", "kind: Pod\nmetadata: {name: a}\n".to_owned()),
    ];
    for (what, text) in cases {
        let snapshot = read(&text);
        assert_eq!(faults(&snapshot), Vec::<String>::new(), "{what}:\n{text}");
        let expected: &[&str] = if text.contains("name: b") || text.contains(r#""name":"b""#) {
            &["default/a", "default/b"]
        } else {
            &["default/a"]
        };
        assert_eq!(pods(&snapshot), expected, "{what}:\n{text}");
    }
}

#[test]
fn a_long_list_is_read_in_order_and_its_faults_are_reported() {
    let item = |index: usize| format!("- kind: Pod\n  metadata:\n    name: p{index:05}\n");
    let mut items: Vec<String> = (0..3_000).map(item).collect();
    items[2_500] = "- kind: Pod\n  metadata:\n    name: {}\n".to_owned();
    let list = |items: &[String]| format!("apiVersion: v1\nitems:\n{}kind: List\n", items.concat());
    let snapshot = read(&list(&items));
    let reported = faults(&snapshot);
    assert_eq!(reported.len(), 1, "{reported:?}");
    let expected = "file: document 1, items[2500]: Pod without a name: metadata.name";
    assert!(reported[0].starts_with(expected), "{}", reported[0]);
    let expected: Vec<String> =
        (0..3_000).filter(|index| *index != 2_500).map(|index| format!("default/p{index:05}")).collect();
    assert_eq!(pods(&snapshot), expected);

    items[1_000] = "- kind: [\n".to_owned();
    let reported = faults(&read(&list(&items)));
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].starts_with("file: document 1: it is not YAML: line 3004"), "{}", reported[0]);
}

#[test]
fn a_fault_quotes_no_more_than_the_beginning_of_a_value() {
    let snapshot = read(&"x".repeat(100_000));
    let fault = snapshot.faults[0].to_string();
    assert!(fault.contains("it is not a Kubernetes object") && fault.contains("x…") && fault.len() < 300, "{fault}");
}

#[test]
fn utf_16_is_read() {
    for (mark, bytes) in [
        ([0xff, 0xfe], POD.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
        ([0xfe, 0xff], POD.encode_utf16().flat_map(u16::to_be_bytes).collect()),
    ] {
        let mut reader = Reader::default();
        reader.read("file", &[&mark[..], &bytes].concat());
        assert_eq!(pods(&reader.finish()), ["default/a"]);
    }
}

#[test]
fn a_fault_has_source_document_object_and_field_and_affects_no_other_object() {
    let good = pod("good", json!({})).to_string();
    let faulty = |spec: Value| format!("{good}\n---\n{}", pod("bad", spec));
    let pool = |requirement: &str| {
        format!(
            "{good}\n---\nkind: NodePool\napiVersion: karpenter.sh/v1\nmetadata: {{name: bad}}\nspec: {{template: {{spec: \
             {{nodeClassRef: {{name: x}}, requirements: [{requirement}]}}}}}}"
        )
    };
    let cases = [
        (
            faulty(json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": "many" } } }] })),
            "file: document 2 (line 2): Pod default/bad: spec.containers[0].resources.requests.cpu: \"many\"",
        ),
        (
            faulty(json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": true } } }] })),
            "file: document 2 (line 2): Pod default/bad: spec.containers[0].resources.requests.cpu: invalid type: boolean",
        ),
        (faulty(json!({ "nodeName": 5 })), "Pod default/bad: spec.nodeName: invalid type: integer `5`"),
        (
            faulty(json!({ "tolerations": [{ "operator": "Like" }] })),
            "Pod default/bad: spec.tolerations: operator \"Like\"",
        ),
        (
            pool("{key: a, operator: Is, values: [b]}"),
            "document 2 (line 2): NodePool bad: spec.template.spec.requirements[0].operator: unknown variant `Is`",
        ),
        (
            pool("{key: a, operator: Gt, values: [4]}"),
            "NodePool bad: spec.template.spec.requirements[0].values[0]: invalid",
        ),
        (
            format!("{good}\n---\nkind: NodePool\napiVersion: karpenter.sh/v1beta1\nmetadata: {{name: bad}}"),
            "NodePool bad: apiVersion",
        ),
        (
            format!("{good}\n---\nkind: Provisioner\napiVersion: karpenter.sh/v1alpha5\nmetadata: {{name: bad}}"),
            "Provisioner bad: apiVersion: \"karpenter.sh/v1alpha5\" was removed in Karpenter 1.0; make a NodePool of it",
        ),
        (
            format!(
                "{good}\n---\nkind: AWSNodeTemplateList\napiVersion: karpenter.k8s.aws/v1alpha1\nitems: [{{metadata: {{name: bad}}}}]"
            ),
            "items[0]: AWSNodeTemplate bad: apiVersion: \"karpenter.k8s.aws/v1alpha1\" was removed",
        ),
        (format!("{good}\n---\nkind: Pod\nspec: {{}}"), "Pod without a name: metadata.name: it is missing"),
        (format!("{good}\n---\na: 1"), "file: document 2 (line 2): kind: it is missing"),
        (format!("{good}\n---\njust text"), "file: document 2 (line 2): it is not a Kubernetes object"),
        (format!("{good}\n---\n\n\na: [1"), "file: document 2 (line 2): it is not YAML: line 5: unclosed bracket"),
        (format!("{good}\n---\nkind: List\nitems: 5"), "file: document 2 (line 2): items: it is not a sequence"),
        (format!("{good}\n{{\"kind\":"), "file: document 2: it is not JSON: EOF while parsing"),
        (
            format!("{good}\n---\nkind: List\nitems:\n- {POD}\n- kind: [\n- {{kind: Pod, metadata: {{name: b}}}}\n"),
            "file: document 2 (line 2): it is not YAML: line 7",
        ),
        (
            format!(
                "{good}\n---\nkind: NodeClaim\napiVersion: karpenter.sh/v1\nmetadata: {{name: c}}\nspec: {{expireAfter: soon}}"
            ),
            "NodeClaim c: spec.expireAfter",
        ),
    ];
    for (text, expected) in cases {
        let snapshot = read(&text);
        let reported = faults(&snapshot);
        assert_eq!(reported.len(), 1, "{reported:?} for\n{text}");
        assert!(reported[0].contains(expected), "{reported:?} has no {expected:?} for\n{text}");
        assert!(pods(&snapshot).contains(&"default/good".to_owned()), "{:?} for\n{text}", pods(&snapshot));
    }
}

#[test]
fn bytes_that_are_not_text_affect_no_other_object() {
    let mut reader = Reader::default();
    reader.read(
        "file",
        &[POD.as_bytes(), b"\n---\n\xff\xfe\n---\n", POD.replace("name: a", "name: b").as_bytes()].concat(),
    );
    let snapshot = reader.finish();
    assert_eq!(pods(&snapshot), ["default/a", "default/b"]);
    assert!(
        faults(&snapshot)[0].starts_with("file: document 2 (line 2): it is not UTF-8 text"),
        "{:?}",
        faults(&snapshot)
    );
}

#[test]
fn kinds_that_planning_does_not_use_are_counted() {
    let snapshot = read(
        "kind: Service\napiVersion: v1\n---\nkind: NodePool\napiVersion: hypershift.openshift.io/v1beta1\n---\nkind: Service\n---\n\
         kind: Machine\napiVersion: cluster.x-k8s.io/v1beta1\n",
    );
    assert_eq!(faults(&snapshot), Vec::<String>::new());
    assert_eq!(snapshot.objects, 0);
    assert_eq!(
        snapshot.skipped.iter().map(|(kind, n)| (kind.as_str(), *n)).collect::<Vec<_>>(),
        [("Machine", 1), ("NodePool", 1), ("Service", 2)]
    );
}

#[test]
fn a_duplicate_object_is_used_once() {
    let snapshot = read(&format!("{POD}\n---\n{}", POD.replace("spec:", "status: {phase: Succeeded}, spec:")));
    assert_eq!((pods(&snapshot).len(), snapshot.ended), (0, 1));
    assert_eq!(
        snapshot.warnings,
        ["file: document 2 (line 2): Pod default/a exists more than once; the last one is used"]
    );
}

#[test]
fn null_is_the_same_as_a_missing_field() {
    let text = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "a", "creationTimestamp": null, "labels": null },
        "spec": {
            "containers": [{ "name": "c", "resources": null, "ports": null }], "tolerations": null, "nodeName": null,
            "affinity": null, "priority": null
        },
        "status": null
    });
    assert_eq!(faults(&read(&text.to_string())), Vec::<String>::new());
    assert_eq!(pods(&read(&text.to_string())), ["default/a"]);
}

#[test]
fn the_priority_is_that_of_admission() {
    let classes = "
{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: high}, value: 1000}
---
{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: usual}, value: 7, globalDefault: true}
---
";
    for (spec, expected) in [
        (json!({}), 7),
        (json!({ "priorityClassName": "high" }), 1000),
        (json!({ "priorityClassName": "high", "priority": 5 }), 5),
        (json!({ "priorityClassName": "system-node-critical" }), 2_000_001_000),
        (json!({ "priorityClassName": "unknown" }), 0),
    ] {
        let pod = pod("a", spec.clone()).to_string();
        // The PriorityClass may follow the pod.
        for text in [format!("{classes}{pod}"), format!("{pod}\n---\n{classes}")] {
            let snapshot = read(&text);
            assert_eq!(snapshot.view.pods[0].template.priority, expected, "{spec}");
            assert_eq!(
                snapshot.warnings.len(),
                usize::from(spec["priorityClassName"] == "unknown"),
                "{:?}",
                snapshot.warnings
            );
        }
    }
    assert_eq!(read(POD).view.pods[0].template.priority, 0);
}

#[test]
fn pods_without_a_node_that_do_not_need_one() {
    let owned =
        |kind: &str| json!({ "ownerReferences": [{ "apiVersion": "v1", "kind": kind, "name": "o", "uid": "u" }] });
    let with = |metadata: Value, spec: Value, status: Value| {
        let mut pod = pod("a", spec);
        pod["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        pod["status"] = status;
        pod.to_string()
    };
    let nothing = || json!({});
    let cases = [
        (with(nothing(), nothing(), nothing()), None),
        (with(nothing(), json!({ "schedulerName": "volcano" }), nothing()), None),
        (with(owned("ReplicaSet"), nothing(), json!({ "phase": "Pending" })), None),
        (
            with(nothing(), json!({ "schedulingGates": [{ "name": "g" }] }), nothing()),
            Some(Held::Gated(vec!["g".into()])),
        ),
        (with(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), nothing(), nothing()), Some(Held::Deleting)),
        (with(owned("DaemonSet"), nothing(), nothing()), Some(Held::DaemonSet)),
        (with(owned("Node"), nothing(), nothing()), Some(Held::Static)),
        (
            with(json!({ "annotations": { "kubernetes.io/config.mirror": "x" } }), nothing(), nothing()),
            Some(Held::Static),
        ),
        (
            with(nothing(), nothing(), json!({ "nominatedNodeName": "n" }))
                + "\n---\n{kind: Node, apiVersion: v1, metadata: {name: n}}",
            Some(Held::Nominated("n".into())),
        ),
        (with(nothing(), nothing(), json!({ "nominatedNodeName": "gone" })), None),
        (with(nothing(), json!({ "schedulerName": "fargate-scheduler" }), nothing()), Some(Held::Fargate)),
    ];
    for (text, expected) in cases {
        let snapshot = read(&text);
        assert_eq!(faults(&snapshot), Vec::<String>::new());
        assert_eq!(snapshot.held.get("default/a"), expected.as_ref(), "{text}");
        let waiting = snapshot.view.pods.iter().filter(|pod| pod.awaits_node()).count();
        assert_eq!(waiting, usize::from(expected.is_none()), "{text}");
    }
}

#[test]
fn fields_that_controllers_would_set_are_set() {
    let snapshot = read(
        "
kind: NodePool
apiVersion: karpenter.sh/v1
metadata: {name: default}
spec: {template: {spec: {nodeClassRef: {name: other}}}, disruption: {consolidationPolicy: WhenEmpty}}
---
kind: NodePool
apiVersion: karpenter.sh/v1
metadata: {name: unready}
spec: {template: {spec: {nodeClassRef: {name: other}, requirements: []}}}
status: {conditions: [{type: Ready, status: 'False', reason: NodeClassNotReady, message: no subnets}]}
---
kind: EC2NodeClass
apiVersion: karpenter.k8s.aws/v1
metadata: {name: other}
spec: {amiFamily: Bottlerocket}
status: {subnets: [{zone: us-east-1a}], conditions: [{type: Ready, status: 'True'}]}
---
kind: Node
apiVersion: v1
metadata: {name: n}
status: {capacity: {cpu: 2}}
---
kind: Node
apiVersion: v1
metadata: {name: bare}
",
    );
    assert_eq!(faults(&snapshot), Vec::<String>::new());
    let ready: Vec<_> = snapshot.view.node_pools.iter().map(|pool| (pool.name.as_str(), pool.ready.clone())).collect();
    assert_eq!(ready, [("default", Ok(())), ("unready", Err("NodeClassNotReady: no subnets".into()))]);
    assert!(snapshot.view.node_classes.contains_key("other"));
    let node = snapshot.view.nodes.iter().find(|node| node.name == "n").unwrap();
    assert_eq!(node.allocatable, node.capacity);
    assert_eq!(snapshot.without_status.iter().collect::<Vec<_>>(), ["bare"]);
}

#[test]
fn the_instance_of_a_claim_is_taken_from_its_node_or_its_requirements() {
    let claim = |rest: &str| {
        format!(
            "kind: NodeClaim\napiVersion: karpenter.sh/v1\nmetadata: {{name: c, labels: {{karpenter.sh/nodepool: default}}}}\n{rest}"
        )
    };
    let labels = "{node.kubernetes.io/instance-type: m5.large, topology.kubernetes.io/zone: z, karpenter.sh/capacity-type: spot}";
    let node = format!(
        "kind: Node\nmetadata: {{name: n, labels: {labels}}}\nspec: {{providerID: 'aws:///z/i-1'}}\nstatus: {{capacity: {{cpu: 2}}}}"
    );
    let cases = [
        (claim("spec: {}"), None),
        (claim("spec: {}\nstatus: {providerID: 'aws:///z/i-1'}"), None),
        (claim("spec: {}\nstatus: {providerID: 'kwok://n'}"), None),
        (format!("{}\n---\n{node}", claim("spec: {}\nstatus: {providerID: 'aws:///z/i-1'}")), Some("m5.large")),
        (
            claim(
                "spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [c5.large]}, {key: \
                 topology.kubernetes.io/zone, operator: In, values: [z]}, {key: karpenter.sh/capacity-type, operator: In, \
                 values: [spot]}]}\nstatus: {providerID: 'aws:///z/i-1'}",
            ),
            Some("c5.large"),
        ),
    ];
    for (text, expected) in cases {
        let snapshot = read(&text);
        assert_eq!(faults(&snapshot), Vec::<String>::new(), "{text}");
        let instance = snapshot.claims[0].status.instance.as_ref().map(|instance| instance.instance_type.as_str());
        assert_eq!(instance, expected, "{text}");
        let joined = snapshot.claims[0].status.node_name.as_deref();
        assert_eq!(joined, text.contains("kind: Node\n").then_some("n"), "{text}");
    }
}

#[test]
fn a_daemon_set_without_a_pod_has_the_default_requests_of_its_namespace() {
    let set = "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {template: {spec: {containers: [{name: c}]}}}}";
    let range = "{apiVersion: v1, kind: LimitRange, metadata: {name: all}, spec: {limits: [{type: Container, default: {cpu: 300m}}]}}";
    let cpu = |snapshot: &Snapshot| snapshot.view.daemon_sets[0].template.template.requests.get("cpu").milli();
    let snapshot = read(&format!("{set}\n---\n{range}"));
    assert_eq!((cpu(&snapshot), snapshot.objects), (300, 2));
    assert!(snapshot.skipped.is_empty());
    let owner =
        json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true }]);
    let mut first = pod("agent-x", json!({}));
    first["metadata"]["ownerReferences"] = owner;
    assert_eq!(cpu(&read(&format!("{set}\n---\n{range}\n---\n{first}"))), 100);
    let odd = range.replace("300m", "many");
    assert!(
        faults(&read(&odd))[0].contains("LimitRange default/all: spec.limits[0].default.cpu"),
        "{:?}",
        faults(&read(&odd))
    );
}

#[test]
fn buffers_have_the_quotas_and_the_defaults_of_their_namespace() {
    let buffer = "{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: spare}, \
                  spec: {provisioningStrategy: buffer.x-k8s.io/active-capacity, podTemplateRef: {name: chunk}, replicas: 2}}";
    let template =
        "{apiVersion: v1, kind: PodTemplate, metadata: {name: chunk}, template: {spec: {containers: [{name: c}]}}}";
    let range = "{apiVersion: v1, kind: LimitRange, metadata: {name: all}, spec: {limits: [{type: Container, default: {cpu: 300m}}]}}";
    let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: team}, spec: {hard: {pods: '5'}}, \
                 status: {hard: {pods: '3'}, used: {pods: '1'}}}";
    let snapshot = read(&[buffer, template, range, quota].join("\n---\n"));
    assert_eq!((faults(&snapshot), snapshot.objects), (Vec::new(), 3));
    assert!(snapshot.skipped.is_empty());
    let shape = snapshot.view.capacity_buffers[0].shape.as_ref().unwrap();
    assert_eq!((shape.limits.get("cpu").milli(), shape.pod.template.requests.get("cpu").milli()), (300, 300));
    let quota = &snapshot.view.resource_quotas[0];
    assert_eq!((quota.hard.get("pods").units(), quota.used.get("pods").units()), (3, 1), "the API server enforces 3");
    assert!(
        faults(&read("{kind: ResourceQuota, apiVersion: v1, metadata: {name: q}, spec: {hard: {cpu: many}}}"))[0]
            .contains("spec.hard.cpu")
    );
}
