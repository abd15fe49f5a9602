//! `nodeless plan` of clusters: what runs in them, their volumes and devices, and other controllers.

use crate::plan::{CLASS, POOL, documents, node, parsed, piped, planned, pod, without_measures};
use crate::support::objects::Objects;
use crate::support::{nodeless, run};
use serde_json::{Value, json};

/// The built-in NodePool of EKS Auto Mode, whose class has the name of the EC2NodeClass.
const AUTO_MODE: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general-purpose}
spec:
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
      requirements: [{key: eks.amazonaws.com/instance-category, operator: In, values: [c, m, r]}]
  disruption: {consolidationPolicy: WhenAWSLikes}
";

#[test]
fn a_node_pool_of_another_controller_is_named_once_and_launches_nothing() {
    let pod = pod("web", "1", "  nodeSelector: {karpenter.sh/nodepool: general-purpose}");
    let ended = piped(&documents(&[POOL, AUTO_MODE, CLASS, &pod]), &["-o", "json"]);
    assert_eq!(parsed(&ended)["launches"], json!([]), "{}", ended.stdout);
    let named: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("general-purpose")).collect();
    let [line] = named[..] else { panic!("{}", ended.stderr) };
    assert!(
        line.starts_with("warning: NodePool of other controllers: general-purpose (class eks.amazonaws.com/NodeClass)")
    );
}

#[test]
fn what_another_controller_launches_is_capacity_for_pods() {
    let claim = |name: &str, created: &str| {
        format!(
            "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: {name}
  creationTimestamp: {created}
  labels: {{karpenter.sh/nodepool: general-purpose, topology.kubernetes.io/zone: us-east-1a}}
spec:
  nodeClassRef: {{group: eks.amazonaws.com, kind: NodeClass, name: default}}
  requirements: []
status: {{providerID: 'aws:///us-east-1a/i-0a', allocatable: {{cpu: 4, memory: 8Gi, pods: 50}}}}
"
        )
    };
    let at = |seconds: u32| format!("'2026-01-01T00:{:02}:{:02}Z'", seconds / 60, seconds % 60);
    let web = pod("web", "1", "").replace("{name: web}", &format!("{{name: web, creationTimestamp: {}}}", at(1200)));
    let launches =
        |claim: &str| planned(0, &[POOL, AUTO_MODE, CLASS, &web, claim])["launches"].as_array().unwrap().len();
    assert_eq!(launches(&claim("general-purpose-abcde", &at(1190))), 0, "its node is about to join");
    assert_eq!(launches(&claim("general-purpose-abcde", &at(100))), 1, "its node does not join any more");
    let small = claim("general-purpose-abcde", &at(1190)).replace("cpu: 4", "cpu: 500m");
    assert_eq!(launches(&small), 1, "it is too small");
}

#[test]
fn pods_are_scheduled_to_existing_and_in_flight_nodes() {
    let bound = "kind: Pod\nmetadata: {name: old}\nspec: {nodeName: n, containers: [{name: c, resources: {requests: {cpu: 3}}}]}";
    let plan = planned(0, &[POOL, CLASS, &node("n", ""), bound, &pod("small", "500m", ""), &pod("large", "2", "")]);
    assert_eq!(plan["placements"], json!([{ "pod": "default/small", "node": "n" }]));
    assert_eq!(plan["launches"][0]["pods"], json!(["default/large"]));
    assert_eq!(plan["statistics"]["nodes"], 1);

    let claim = "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: default-abcde, labels: {karpenter.sh/nodepool: default, karpenter.sh/capacity-type: on-demand,
  topology.kubernetes.io/zone: us-east-1a, node.kubernetes.io/instance-type: m5.xlarge}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: []
status: {providerID: 'aws:///us-east-1a/i-0123', conditions: []}
";
    let plan = planned(0, &[POOL, CLASS, claim, &pod("web", "3", "")]);
    assert_eq!(plan["placements"], json!([{ "pod": "default/web", "node": "default-abcde" }]));

    let cordoned = planned(0, &[POOL, CLASS, &node("n", "spec: {unschedulable: true}"), &pod("web", "1", "")]);
    assert_eq!(cordoned["placements"], json!([]));
}

#[test]
fn limits_count_existing_nodes() {
    let limited = format!("{POOL}  limits: {{cpu: 6}}\n");
    let existing =
        "kind: Node\nmetadata: {name: n, labels: {karpenter.sh/nodepool: default}}\nstatus: {capacity: {cpu: 4}}\n";
    let plan = planned(2, &[&limited, CLASS, existing, &pod("web", "3", "")]);
    let reason = plan["unschedulable"][0]["reasons"][0].as_str().unwrap();
    assert!(reason.contains("limit cpu 6 reached: 4 used"), "{reason}");
    assert_eq!(planned(0, &[&limited, CLASS, &pod("web", "3", "")])["unschedulable"], json!([]));
}

#[cfg(unix)]
#[test]
fn a_live_cluster_and_its_export_have_the_same_plan() {
    use crate::support::{Kubectl, World};
    // Without controllers nothing is launched, and the pods stay pending.
    let world = World::start(&["--no-controllers"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.apply(&documents(&[POOL, CLASS, include_str!("../../../src/demo/inflate.yaml")]), &[]);
    crate::support::wait_for("five pending pods", || kubectl.names("pods").len() == 5);
    let mut live = nodeless();
    live.args(["plan", "-o", "json", "--kubeconfig"]).arg(&world.kubeconfig);
    let live = run(&mut live);
    assert_eq!(live.code, Some(0), "{}{}", live.stdout, live.stderr);
    let plan = without_measures(parsed(&live));
    assert_eq!(plan["statistics"]["pods"], 5);
    for format in ["yaml", "json"] {
        let export = kubectl.run(&["get", "pods,nodepools,ec2nodeclasses", "-A", "--output", format]);
        let offline = piped(&export, &["-o", "json"]);
        assert_eq!(offline.code, Some(0), "{format}: {}", offline.stderr);
        assert_eq!(without_measures(parsed(&offline)), plan, "{format}");
    }
}

const VOLUME: &str = "
{kind: PersistentVolume, apiVersion: v1, metadata: {name: pv}, spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
    {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1b]}]}]}}}}
---
{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: data}, spec: {volumeName: pv}}
---
{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: lost}, spec: {volumeName: pv}, status: {phase: Lost}}";

#[test]
fn pods_are_scheduled_to_the_zone_of_their_volumes() {
    let with = |claim: &str| {
        pod("db", "1", &format!("  volumes: [{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}]\n"))
    };
    let plan = planned(0, &[POOL, CLASS, VOLUME, &with("data")]);
    assert_eq!(plan["launches"][0]["offering"]["zone"], "us-east-1b");
    for claim in ["lost", "missing"] {
        let plan = planned(2, &[POOL, CLASS, VOLUME, &with(claim)]);
        let reason = plan["unschedulable"][0]["reasons"][0].as_str().unwrap();
        assert!(reason.contains(claim), "{reason}");
        assert_eq!(plan["statistics"]["pods"], 1);
    }
    // An ephemeral volume of the default StorageClass.
    let class = "{kind: StorageClass, apiVersion: storage.k8s.io/v1, metadata: {name: gp3, annotations: \
                 {storageclass.kubernetes.io/is-default-class: 'true'}}, provisioner: ebs.csi.aws.com, volumeBindingMode: \
                 WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: \
                 [us-east-1c]}]}]}";
    let scratch = pod("scratch", "1", "  volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}]\n");
    assert_eq!(planned(0, &[POOL, CLASS, class, &scratch])["launches"][0]["offering"]["zone"], "us-east-1c");
    assert_eq!(planned(0, &[POOL, CLASS, &scratch])["unschedulable"], json!([]), "a default StorageClass is assumed");
    // A CSINode limits the number of volumes of a node.
    let full = "{kind: CSINode, apiVersion: storage.k8s.io/v1, metadata: {name: n}, spec: {drivers: [{name: ebs.csi.aws.com, \
                nodeID: n, topologyKeys: [], allocatable: {count: 0}}]}}";
    let node = node("n", "").replace("us-east-1a", "us-east-1b");
    assert_eq!(planned(0, &[POOL, CLASS, VOLUME, &node, &with("data")])["placements"][0]["node"], "n");
    assert_eq!(planned(0, &[POOL, CLASS, VOLUME, &node, full, &with("data")])["placements"], json!([]));
}

#[test]
fn pods_are_scheduled_to_nodes_with_the_devices_that_they_claim() {
    let pool = POOL.replace("[c, m, r]", "[c, m, r, g]");
    let class = "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: gpu.nvidia.com}, spec: {selectors: [{cel: \
                 {expression: \"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'\"}}]}}";
    let template = |name: &str, expression: &str| {
        format!(
            "{{kind: ResourceClaimTemplate, apiVersion: resource.k8s.io/v1, metadata: {{name: {name}}}, spec: {{spec: {{devices: \
             {{requests: [{{name: r, exactly: {{deviceClassName: gpu.nvidia.com, selectors: [{{cel: {{expression: \"{expression}\"}}}}]}}}}]}}}}}}}}"
        )
    };
    let ada = template("ada", "device.attributes['gpu.nvidia.com'].architecture == 'Ada Lovelace'");
    let new = template("new", "device.attributes['gpu.nvidia.com'].driverVersion.isGreaterThan(semver('580.0.0'))");
    let claiming =
        |name: &str| pod(name, "1", &format!("  resourceClaims: [{{name: gpu, resourceClaimTemplateName: {name}}}]\n"));
    let plan = planned(0, &[&pool, CLASS, class, &ada, &claiming("ada")]);
    let chosen = plan["launches"][0]["offering"]["instanceType"].as_str().unwrap();
    assert!(chosen.starts_with("g6"), "{chosen}");
    for (pods, expected) in [
        (
            claiming("new"),
            "needs attribute gpu.nvidia.com/driverVersion of driver gpu.nvidia.com, which is not known before",
        ),
        (claiming("none"), "ResourceClaimTemplate default/none does not exist"),
    ] {
        let plan = planned(2, &[&pool, CLASS, class, &new, &pods]);
        let reason = plan["unschedulable"][0]["reasons"][0].as_str().unwrap();
        assert!(reason.contains(expected), "{reason}");
    }
    // The first alternative is chosen, and each has its price.
    let requests = |family: &str| {
        format!(
            "{{name: {family}, deviceClassName: gpu.nvidia.com, selectors: [{{cel: {{expression: \"device.attributes['gpu.nvidia.com'].productName == 'NVIDIA {family}'\"}}}}]}}"
        )
    };
    let either = format!(
        "{{kind: ResourceClaimTemplate, apiVersion: resource.k8s.io/v1, metadata: {{name: either}}, spec: {{spec: {{devices: {{requests: \
         [{{name: r, firstAvailable: [{}, {}, {}]}}]}}}}}}}}",
        requests("L40S"),
        requests("L4"),
        requests("H200")
    );
    let text = piped(&documents(&[&pool, CLASS, class, &either, &claiming("either")]), &[]).stdout;
    let lines: Vec<&str> = text.lines().filter_map(|line| line.trim_start().strip_prefix("devices   ")).collect();
    assert!(
        lines.len() == 3 && lines[0].starts_with("r/L40S  $") && lines[0].ends_with("/h (g6e.xlarge), chosen"),
        "{text}"
    );
    assert!(lines[1].starts_with("r/L4    $") && lines[1].contains("/h (g6"), "{text}");
    assert_eq!(lines[2], "r/H200  no NodePool launches a node with it");
    // A node of the cluster has devices of its own.
    let slice = "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s}, spec: {driver: gpu.nvidia.com, nodeName: n, \
                 pool: {name: n, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {type: {string: gpu}, \
                 driverVersion: {version: 581.0.0}}}]}}";
    let plan = planned(0, &[&pool, CLASS, class, &new, &node("n", ""), slice, &claiming("new")]);
    assert_eq!(plan["placements"][0]["node"], "n");
    let malformed = slice.replace("generation: 1", "generation: one");
    let ended = piped(&documents(&[&pool, CLASS, class, &ada, &malformed, &claiming("ada")]), &["-o", "json"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("ResourceSlice"), "{}", ended.stderr);
}

#[test]
fn node_overlays_and_capacity_buffers_apply() {
    let overlay = "
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: cheap}
spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.4xlarge]}], price: '0.0001'}";
    let plan = planned(0, &[POOL, CLASS, overlay, &pod("web", "1", "")]);
    assert_eq!(plan["launches"][0]["offering"]["instanceType"], "m5.4xlarge");
    assert_eq!(plan["pricePerHour"], 0.0001);

    let buffer = "
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare, namespace: default}
spec: {provisioningStrategy: buffer.x-k8s.io/active-capacity, scalableRef: {apiGroup: apps, kind: Deployment, name: inflate}, replicas: 2}";
    let plan = planned(0, &[POOL, CLASS, buffer, include_str!("../../../src/demo/inflate.yaml")]);
    let launches = plan["launches"].as_array().unwrap().iter();
    let pods: Vec<&str> =
        launches.flat_map(|launch| launch["pods"].as_array().unwrap()).map(|pod| pod.as_str().unwrap()).collect();
    assert_eq!(pods.len(), 7, "two of the buffer, and five of the Deployment");
    assert_eq!(pods[..2], ["default/capacity-buffer-spare-0", "default/capacity-buffer-spare-1"]);
    let quota =
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: team, namespace: default}, spec: {hard: {pods: '1'}}}";
    let limited = piped(&documents(&[POOL, CLASS, buffer, quota, include_str!("../../../src/demo/inflate.yaml")]), &[]);
    assert!(
        limited.stderr.contains("CapacityBuffer default/spare has 1 of 2 chunks: ResourceQuota default/team"),
        "{}",
        limited.stderr
    );
    let missing = piped(&documents(&[POOL, CLASS, buffer]), &[]);
    assert!(
        missing.stderr.contains("CapacityBuffer default/spare is left out: Deployment inflate does not exist"),
        "{}",
        missing.stderr
    );
}

#[test]
fn namespace_selectors_use_namespace_labels() {
    let namespace = "{kind: Namespace, apiVersion: v1, metadata: {name: other, labels: {team: a}}}";
    let away = "  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}, namespaceSelector: {matchLabels: {team: a}}}]}}\n";
    let bound = "{kind: Pod, metadata: {name: x, namespace: other, labels: {app: x}}, spec: {nodeName: n, containers: [{name: c}]}}";
    let without = planned(0, &[POOL, CLASS, &node("n", ""), bound, &pod("web", "1", away)]);
    assert_eq!(without["placements"][0]["node"], "n");
    let with = planned(0, &[POOL, CLASS, &node("n", ""), bound, namespace, &pod("web", "1", away)]);
    assert_eq!(with["placements"], json!([]));
}

#[test]
fn a_zonal_shift_prevents_launches_in_its_zone() {
    let bound = "  nodeSelector: {topology.kubernetes.io/zone: us-east-1a}\n";
    let input = documents(&[POOL, CLASS, &pod("free", "2", ""), &pod("bound", "2", bound)]);
    let plan = |arguments: &[&str]| -> Value {
        let ended = piped(&input, &[&["-o", "json"], arguments].concat());
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    };
    assert_eq!(plan(&[])["unschedulable"], json!([]));
    for zone in ["us-east-1a", "use1-az2"] {
        let plan = plan(&["--zonal-shift", zone]);
        assert_eq!(plan["unschedulable"][0]["pod"], "default/bound", "{plan}");
        let launches = plan["launches"].as_array().unwrap();
        assert!(launches.len() == 1 && launches[0]["offering"]["zone"] != "us-east-1a", "{plan}");
    }
    let ended = piped(&input, &["--zonal-shift", "us-east-9z"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("us-east-9z") && ended.stderr.contains("us-east-1a"), "{}", ended.stderr);
}

#[test]
fn the_plan_shows_what_the_cluster_costs_now_and_how_full_it_is() {
    let mut objects = Objects::new();
    objects.node("a", "m5.large", "on-demand");
    objects.node("b", "m5.4xlarge", "on-demand");
    objects.node("elsewhere", "x99.large", "on-demand");
    objects.pod("web", Some("b"), "1500m");
    let plan = objects.plan(0, &[]);
    let current = &plan["current"];
    assert_eq!((&current["nodes"], &current["withoutPrice"]), (&json!(3), &json!(1)), "{current:#}");
    // The prices of m5.large and m5.4xlarge.
    assert_eq!(current["pricePerHour"], json!(0.864));
    assert_eq!(current["requested"]["cpu"], "1500m");
    let text = objects.run(&[]).stdout;
    let line = text.lines().find(|line| line.starts_with("Now: ")).unwrap();
    assert!(
        line.starts_with(
            "Now: 3 nodes for $0.8640/h ($631 a month) without 1 node whose price is unknown; pods request "
        ),
        "{line}"
    );
    let cpu = current["allocatable"]["cpu"].as_str().unwrap();
    assert!(line.contains("% of cpu and ") && line.ends_with("% of memory."), "{line} {cpu}");
}

#[test]
fn a_cluster_of_another_region_has_its_prices() {
    let pool = format!(
        "{POOL}        - {{key: topology.kubernetes.io/zone, operator: In, values: [eu-central-1a, eu-central-1b]}}\n"
    );
    let input = documents(&[&pool, CLASS, &pod("web", "1", "")]);
    let ended = piped(&input, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("Prices: eu-central-1, on-demand prices of May 2025"), "{}", ended.stdout);
    let plan = planned(0, &[&pool, CLASS, &pod("web", "1", "")]);
    let offering = &plan["launches"][0]["offering"];
    assert!(offering["zone"].as_str().unwrap().starts_with("eu-central-1"), "{offering}");
    assert_eq!(plan["derivedPrices"], Value::Null, "its price is published");
    let newer = format!("{pool}        - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [c8a]}}\n");
    let plan = planned(0, &[&newer, CLASS, &pod("web", "1", "")]);
    assert_eq!(plan["derivedPrices"], json!([plan["launches"][0]["offering"]["instanceType"]]));
    let ended = piped(&documents(&[&newer, CLASS, &pod("web", "1", "")]), &[]);
    assert!(ended.stdout.contains("Derived, not published: the on-demand prices of c8a."), "{}", ended.stdout);
    // Files that name no region are planned for us-east-1, or for the region of the command line.
    let anywhere = documents(&[POOL, CLASS, &pod("web", "1", "")]);
    let home = piped(&anywhere, &[]);
    assert!(home.stdout.contains("Prices: us-east-1, on-demand prices of July 2026"), "{}", home.stdout);
    let chosen = piped(&anywhere, &["--region", "sa-east-1"]);
    assert!(chosen.stdout.contains("Prices: sa-east-1"), "{}", chosen.stdout);
    let new = piped(&anywhere, &["--region", "ap-east-2"]);
    assert!(new.stdout.contains("ap-east-2, for which no prices are embedded"), "{}", new.stdout);
    let wrong = piped(&anywhere, &["--region", "frankfurt"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("\"frankfurt\" is not an AWS region"), "{}", wrong.stderr);
}
