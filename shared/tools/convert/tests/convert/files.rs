//! Files: what is not converted keeps its text, and what cannot be read is one error.

use crate::common::{lines, object, problems, source, valid, with_role};
use nodeless_convert::{Options, convert};

const POOL: &str = "apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: { name: web }
spec:
  template: { spec: { nodeClassRef: { name: default }, requirements: [] } }
";
const OTHER: &str = "# Source: chart/templates/config.yaml
apiVersion: v1
kind: ConfigMap
metadata:   {name:  odd}
data:
    alert: '{{ $labels.node }} is down'   # not a template of Helm
    karpenter.sh/provisioner-name: stays
";

#[test]
fn what_is_not_converted_keeps_its_text() {
    let current = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n    name:   now\nspec: {}\n";
    let text = format!("{OTHER}---\n{current}---\n# only a comment\n");
    let conversion = convert(&[source(&text)], &Options::default());
    assert_eq!(conversion.files[0].text, text);
    assert_eq!(conversion.notes, []);

    let conversion = valid(&format!("{OTHER}---\n{POOL}--- # next\n{OTHER}"));
    let written = &conversion.files[0].text;
    assert!(written.starts_with(OTHER) && written.ends_with(&format!("--- # next\n{OTHER}")), "{written}");
}

#[test]
fn items_of_lists_are_converted() {
    let text = format!(
        "apiVersion: v1\nitems:\n# ours\n- {}- apiVersion: karpenter.sh/v1beta1\n  kind: NodeClaim\n  metadata: {{ name: web-1 }}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{ name: c }}\nkind: List\n",
        POOL.replace('\n', "\n  ").trim_end_matches(' ')
    );
    let conversion = valid(&text);
    let written = &conversion.files[0].text;
    assert!(written.contains("  # ours\n  - apiVersion: karpenter.sh/v1\n"), "{written}");
    assert!(!written.contains("NodeClaim") && written.contains("kind: ConfigMap"), "{written}");
    assert!(lines(&conversion).iter().any(|line| line.starts_with("lost: in.yaml: NodeClaim web-1: left out")));
}

#[test]
fn typed_lists_become_lists() {
    let text = "apiVersion: karpenter.sh/v1beta1\nkind: NodePoolList\nitems:\n- metadata: { name: web }\n  spec: { template: { spec: { nodeClassRef: { name: d }, requirements: [] } } }\n";
    let conversion = valid(text);
    object(&conversion, "NodePool", "web");
    assert!(conversion.files[0].text.starts_with("apiVersion: v1\nkind: List\n"), "{}", conversion.files[0].text);
}

#[test]
fn json_becomes_yaml() {
    let text = "{\n    \"apiVersion\": \"karpenter.sh/v1beta1\",\n    \"kind\": \"NodePool\",\n    \"metadata\": {\"name\": \"web\"},\n    \"spec\": {\"template\": {\"spec\": {\"nodeClassRef\": {\"name\": \"d\"}, \"requirements\": [{\"key\": \"k\", \"operator\": \"In\", \"values\": [\"1\"]}]}}}\n}\n";
    let conversion = valid(text);
    assert_eq!(
        conversion.files[0].text,
        "apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: web
spec:
  template:
    spec:
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: d
      requirements:
        - key: k
          operator: In
          values:
            - \"1\"
"
    );
}

#[test]
fn templating_is_one_error_with_its_line() {
    let in_value = POOL.replace("name: web", "name: \"{{ .Release.Name }}\"");
    let in_syntax = format!("{{{{- if .Values.karpenter }}}}\n{POOL}{{{{- end }}}}\n---\n{POOL}x: {{{{ bad\n");
    let unquoted = POOL.replace("name: web", "name: {{ .Release.Name }}");
    for (text, line) in [(in_value, 3), (in_syntax, 1), (unquoted, 3)] {
        let found = problems(&text);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(
            found[0].starts_with(&format!("in.yaml: line {line}: the manifest has templating left in it ({{{{")),
            "{found:#?}"
        );
        assert!(found[0].contains("helm template"), "{found:#?}");
    }
}

#[test]
fn braces_in_user_data_are_no_templating() {
    let text = "apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: { name: default }
spec:
  amiFamily: AL2023
  role: node
  subnetSelectorTerms: [{ id: subnet-1 }]
  securityGroupSelectorTerms: [{ name: sg }]
  userData: |
    docker inspect -f '{{ .State }}'
";
    assert!(valid(text).files[0].text.contains("'{{ .State }}'"));
}

#[test]
fn what_is_not_yaml_is_an_error_with_its_line() {
    let found = problems(&format!("{OTHER}---\na: [\n"));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("in.yaml: line 9: it is not YAML"), "{found:#?}");
}

#[test]
fn workloads_are_renamed_in_their_text() {
    let text = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {karpenter.sh/provisioner-name: web}}
spec:
  template:
    metadata:
      annotations: {karpenter.sh/do-not-evict: \"true\"}
    spec:
      nodeSelector:
          karpenter.sh/provisioner-name:    web # old
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions: [{key: karpenter.sh/provisioner-name, operator: DoesNotExist}]
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: karpenter.sh/provisioner-name, whenUnsatisfiable: DoNotSchedule}
";
    let without_label = text.replace(", labels: {karpenter.sh/provisioner-name: web}", "");
    let conversion = with_role(&without_label);
    let renamed = without_label
        .replace("karpenter.sh/provisioner-name", "karpenter.sh/nodepool")
        .replace("do-not-evict", "do-not-disrupt");
    assert_eq!(conversion.files[0].text, renamed);
    assert_eq!(conversion.notes.len(), 4, "{:#?}", lines(&conversion));

    // A label of the workload itself is a name of its own, so the text is written anew.
    let conversion = with_role(text);
    assert!(
        conversion.files[0].text.contains("labels: { karpenter.sh/provisioner-name: web }"),
        "{}",
        conversion.files[0].text
    );
    assert!(conversion.files[0].text.contains("karpenter.sh/nodepool: web # old"), "{}", conversion.files[0].text);
}

#[test]
fn tolerations_of_the_taint_of_disruption_have_its_key_of_v1() {
    let text = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: { name: a }\nspec:\n  template:\n    spec:\n      tolerations:\n        - { key: karpenter.sh/disruption, operator: Equal, value: disrupting, effect: NoSchedule }\n";
    let conversion = with_role(text);
    assert!(
        conversion.files[0].text.contains("- { key: karpenter.sh/disrupted, operator: Exists, effect: NoSchedule }"),
        "{}",
        conversion.files[0].text
    );
}
