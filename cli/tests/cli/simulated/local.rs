//! `nodeless local`, used with kubectl.

use crate::support::http::{get, request, send};
use crate::support::{Folder, Kubectl, World, example_node_pool, nodeless, run, wait_for};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;

pub(crate) const INFLATE: &str = include_str!("../../../src/demo/inflate.yaml");

const BUDGET: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: inflate
  namespace: default
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app: inflate
";

/// Applies the example NodePool, and waits for five running pods.
pub(crate) fn with_pods(world: &World) -> Option<Kubectl<'_>> {
    let kubectl = Kubectl::new(world)?;
    kubectl.apply(&example_node_pool("local"), &[]);
    kubectl.apply(INFLATE, &[]);
    wait_for("five pods to run", || kubectl.running_pods() == 5);
    Some(kubectl)
}

#[test]
fn scales_a_deployment_up_and_down() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    let manifests = example_node_pool("local").replace("consolidateAfter: 1m", "consolidateAfter: 30s");
    assert!(kubectl.apply(&manifests, &[]).contains("nodepool.karpenter.sh/default created"));
    assert!(kubectl.apply(&manifests, &[]).contains("nodepool.karpenter.sh/default unchanged"));
    assert!(kubectl.apply(&manifests, &["--server-side"]).contains("default serverside-applied"));

    kubectl.run(&["create", "deployment", "inflate", "--image=registry.k8s.io/pause", "--replicas=0"]);
    kubectl.run(&["set", "resources", "deployment", "inflate", "--requests=cpu=1,memory=1Gi"]);
    kubectl.run(&["scale", "deployment", "inflate", "--replicas=5"]);
    wait_for("five pods to run", || kubectl.running_pods() == 5);

    let table = kubectl.run(&["get", "nodes,pods,nodepools,nodeclaims"]);
    let claims = kubectl.names("nodeclaims");
    for expected in ["CAPACITY", "NODECLASS", "node/ip-", "nodepool.karpenter.sh/default", "Running", &claims[0]] {
        assert!(table.contains(expected), "{expected} is missing in\n{table}");
    }
    let described = kubectl.run(&["describe", "nodeclaim", &claims[0]]);
    for expected in ["Provider ID:", "aws:///us-east-1", "Initialized", "Launched", "Registered"] {
        assert!(described.contains(expected), "{expected} is missing in\n{described}");
    }
    let node = &kubectl.names("nodes")[0];
    assert!(kubectl.run(&["describe", "node", node]).contains("karpenter.sh/nodepool=default"));
    assert!(kubectl.run(&["describe", "nodepool", "default"]).contains("Ready"));

    kubectl.run(&["scale", "deployment", "inflate", "--replicas=0"]);
    wait_for("the empty nodes to be gone", || {
        kubectl.names("nodes").is_empty() && kubectl.names("nodeclaims").is_empty()
    });
}

#[test]
fn cordon_and_drain_honour_budgets() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = with_pods(&world) else { return };
    kubectl.apply(BUDGET, &[]);
    let nodes = kubectl.names("nodes");
    for node in &nodes {
        assert!(kubectl.run(&["cordon", node]).contains("cordoned"));
    }
    assert!(kubectl.run(&["get", "nodes"]).contains("SchedulingDisabled"));
    wait_for("the budget to count its pods", || {
        kubectl.run(&["get", "pdb", "inflate", "--output", "jsonpath={.status.disruptionsAllowed}"]) == "1"
    });
    for node in &nodes {
        // Retries evictions for as long as the budget forbids them: the evicted pods first have to run elsewhere.
        kubectl.run(&["drain", node, "--ignore-daemonsets", "--timeout=120s"]);
    }
    wait_for("the pods to run elsewhere", || kubectl.running_pods() == 5);
    let hosts = kubectl.run(&["get", "pods", "--output", "jsonpath={.items[*].spec.nodeName}"]);
    assert!(nodes.iter().all(|node| !hosts.contains(node.as_str())), "{hosts}");
}

#[test]
fn deleting_a_nodeclaim_or_a_node_replaces_it() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = with_pods(&world) else { return };
    let claims = kubectl.names("nodeclaims");
    // kubectl waits until the finalizer is removed.
    kubectl.run(&["delete", "nodeclaim", &claims[0], "--timeout=120s"]);
    assert!(!kubectl.names("nodeclaims").contains(&claims[0]));
    wait_for("the pods to run again", || kubectl.running_pods() == 5);

    let nodes = kubectl.names("nodes");
    kubectl.run(&["delete", "node", &nodes[0], "--timeout=120s"]);
    assert!(!kubectl.names("nodes").contains(&nodes[0]));
    wait_for("the pods to run again", || kubectl.running_pods() == 5);
}

#[test]
fn an_annotation_injects_a_spot_interruption() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = with_pods(&world) else { return };
    let node = kubectl.names("nodes").remove(0);
    let node = node.strip_prefix("node/").unwrap_or(&node);
    kubectl.run(&["annotate", "node", node, "local.nodeless.sh/fault=spot-interruption"]);
    let events = || {
        let about = format!("involvedObject.name={node}");
        kubectl.run(&["get", "events", "--all-namespaces", "--field-selector", &about])
    };
    wait_for("the event of the interruption", || events().contains("SpotInterrupted"));
    wait_for("the node to go", || !kubectl.names("nodes").iter().any(|one| one.ends_with(node)));
    wait_for("the pods to run again", || kubectl.running_pods() == 5);
}

#[test]
fn pods_stay_pending_without_controllers() {
    let world = World::start(&["--no-controllers", "--speed", "100", "--cluster-name", "prod"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.apply(&example_node_pool("prod"), &[]);
    kubectl.apply(INFLATE, &[]);
    wait_for("the scheduler to mark the pods as unschedulable", || {
        kubectl.run(&["get", "events"]).matches("FailedScheduling").count() >= 5
    });
    // Enough time for plans, if there were any.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(kubectl.names("nodeclaims").is_empty() && kubectl.running_pods() == 0);
}

#[test]
fn describe_cluster_returns_the_endpoint() {
    let world = World::start(&["--no-controllers", "--cluster-name", "prod"]);
    let address = world.aws.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET /clusters/prod HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["cluster"]["endpoint"], world.kubernetes, "{answer}");
}

#[test]
fn signals_end_it_with_a_summary() {
    for signal in ["INT", "TERM", "HUP"] {
        let mut world = World::start(&["--no-controllers"]);
        assert!(world.kubeconfig.is_file());
        let (code, output) = world.end_by(signal);
        assert_eq!(code, Some(0), "{output}");
        assert!(output.contains("0 nodes, 0 pods and 0 instances"), "{output}");
        assert!(!world.kubeconfig.exists());
    }
}

/// `nohup` starts a process like this.
#[cfg(target_os = "linux")]
#[test]
fn a_hang_up_that_was_ignored_at_the_start_stays_ignored() {
    use std::io::BufRead as _;
    let folder = Folder::new();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" local --no-controllers", env!("CARGO_BIN_EXE_nodeless")]);
    let mut child = command.current_dir(folder.path()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("Cluster local"));
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim().to_owned();
    let ended = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(ended.success() && child.wait().unwrap().success());
    assert_eq!(u64::from_str_radix(&ignored, 16).unwrap() & 1, 1, "{ignored}");
}

#[test]
fn unavailable_ports_and_files_are_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = Folder::new();
    fs::write(folder.path().join("mine"), "apiVersion: v1\nkind: Config\n").unwrap();
    for (arguments, code, expected) in [
        (vec!["--port", &port], 1, "leave --port out for a free one"),
        (vec!["--aws-port", &port], 1, "leave --aws-port out for a free one"),
        (vec!["--web", &port], 1, "choose another port, or give --web without a number for a free one"),
        (vec!["--kubeconfig", "mine"], 1, "set another path with --kubeconfig"),
        (vec!["--kubeconfig", "mine/config"], 1, "mine/config cannot be written"),
        (vec!["--cluster-name=-x"], 2, "--cluster-name"),
        (vec!["--port", "high"], 2, "--port"),
        (vec!["--speed", "0"], 2, "a number from 0.1 to 1000"),
    ] {
        let refused = run(nodeless().arg("local").args(&arguments).current_dir(folder.path()));
        assert_eq!(refused.code, Some(code), "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{arguments:?}: {}", refused.stderr);
    }
    assert_eq!(fs::read_to_string(folder.path().join("mine")).unwrap(), "apiVersion: v1\nkind: Config\n");
}

/// A pod for one zone.
const PAUSE: &str = "apiVersion: v1
kind: Pod
metadata: { name: pause }
spec:
  nodeSelector: { topology.kubernetes.io/zone: ZONE }
  containers: [{ name: pause, image: registry.k8s.io/pause }]
";

#[test]
fn a_region_and_a_node_pool_are_ready_at_the_start() {
    let world = World::start(&["--speed", "20", "--region", "us-west-2", "--with-nodepool"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.apply(INFLATE, &[]);
    // A zone that other regions do not have.
    kubectl.apply(&PAUSE.replace("ZONE", "us-west-2d"), &[]);
    wait_for("six pods to run", || kubectl.running_pods() == 6);
    let zones = kubectl.run(&[
        "get",
        "nodes",
        "--output",
        "jsonpath={.items[*].metadata.labels.topology\\.kubernetes\\.io/zone}",
    ]);
    assert!(zones.split(' ').all(|zone| zone.starts_with("us-west-2")), "{zones}");
    assert!(zones.split(' ').any(|zone| zone == "us-west-2d"), "{zones}");
    // The definition accepts a schedule with a time zone.
    let budget = "spec: { disruption: { budgets: [{ nodes: \"0\", schedule: \"CRON_TZ=Europe/Berlin 0 8 * * mon-fri\", duration: 10h }] } }";
    kubectl.run(&["patch", "nodepool", "default", "--type", "merge", "--patch", budget]);
    let price = kubectl.run(&[
        "get",
        "nodeclaims",
        "--output",
        "jsonpath={.items[0].metadata.annotations.nodeless\\.sh/price-per-hour}",
    ]);
    assert!(price.parse::<f64>().unwrap() > 0.0, "{price}");
    // Both kinds have a column with the price.
    for kind in ["nodeclaims", "nodepools"] {
        let table = kubectl.run(&["get", kind, "--output", "wide"]);
        assert!(table.lines().next().unwrap().split_whitespace().any(|heading| heading == "PRICE"), "{kind}: {table}");
    }
    // The price of a NodePool is that of its nodes.
    let number = |path: &str, kind: &str| -> f64 {
        let shown = kubectl.run(&["get", kind, "--output", &format!("jsonpath={path}")]);
        shown.split_whitespace().map(|price| price.parse::<f64>().unwrap()).sum()
    };
    wait_for("the price in the status of the NodePool", || {
        let of_claims = number("{.items[*].metadata.annotations.nodeless\\.sh/price-per-hour}", "nodeclaims");
        let of_pool = number("{.items[*].status.resources.nodeless\\.sh/dollars-per-hour}", "nodepools");
        of_claims > 0.0 && (of_claims - of_pool).abs() < 1e-6
    });
    let refused = run(nodeless().args(["local", "--region", "mars-up-1"]));
    assert!(refused.code == Some(1) && refused.stderr.contains("not an AWS region"), "{}", refused.stderr);
}

/// A pod that fits only one of the instance types of the NodePool `default`.
const LARGE: &str = "apiVersion: v1
kind: Pod
metadata: { name: large }
spec:
  containers: [{ name: pause, image: registry.k8s.io/pause, resources: { requests: { cpu: 3 } } }]
";

#[test]
fn min_values_are_required_or_not() {
    let types = r#"{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"], "minValues": 2}"#;
    let patch = format!(r#"{{"spec": {{"template": {{"spec": {{"requirements": [{types}]}}}}}}}}"#);
    for policy in ["Strict", "BestEffort"] {
        let world = World::start(&["--speed", "20", "--with-nodepool", "--min-values-policy", policy]);
        let Some(kubectl) = Kubectl::new(&world) else { return };
        kubectl.run(&["patch", "nodepool", "default", "--type", "merge", "--patch", &patch]);
        kubectl.apply(LARGE, &[]);
        if policy == "Strict" {
            wait_for("the reason why nothing is launched", || {
                kubectl.run(&["get", "events", "--output", "jsonpath={.items[*].message}"]).contains("minValues")
            });
            assert!(kubectl.names("nodeclaims").is_empty());
        } else {
            wait_for("the pod to run", || kubectl.running_pods() == 1);
        }
    }
    let refused = run(nodeless().args(["local", "--no-controllers", "--min-values-policy", "BestEffort"]));
    assert!(refused.code != Some(0) && refused.stderr.contains("--no-controllers"), "{}", refused.stderr);
}

#[test]
fn ages_are_valid_at_a_high_speed() {
    let world = World::start(&["--speed", "100"]);
    let Some(kubectl) = with_pods(&world) else { return };
    let node = &kubectl.names("nodes")[0];
    for arguments in [&["describe", "node", node][..], &["get", "nodes,pods,nodeclaims"], &["get", "events"]] {
        let shown = kubectl.run(arguments);
        assert!(!shown.contains("<invalid>"), "{shown}");
    }
}

#[test]
fn kinds_of_charts_exist_and_are_explained() {
    let world = World::start(&["--with-nodepool"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.run(&["create", "deployment", "web", "--image=registry.k8s.io/pause"]);
    kubectl.run(&["autoscale", "deployment", "web", "--min=1", "--max=3"]);
    kubectl.run(&["create", "ingress", "web", "--rule=example.org/*=web:80"]);
    kubectl.run(&["create", "cronjob", "nightly", "--image=registry.k8s.io/pause", "--schedule=0 3 * * *"]);
    let policy =
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: { name: web }\nspec: { podSelector: {} }\n";
    assert!(kubectl.apply(policy, &[]).contains("networkpolicy.networking.k8s.io/web created"));
    let shown = kubectl.run(&["get", "hpa,ingress,cronjob,netpol"]);
    for expected in ["Deployment/web", "example.org", "0 3 * * *", "networkpolicy.networking.k8s.io/web"] {
        assert!(shown.contains(expected), "{expected} is missing in\n{shown}");
    }
    let explained = kubectl.run(&["explain", "pod.spec.tolerations"]);
    assert!(explained.contains("FIELD: tolerations") && explained.contains("tolerationSeconds"), "{explained}");
    assert!(kubectl.run(&["explain", "nodepool.spec.disruption"]).contains("consolidateAfter"));
}

#[test]
fn usage_is_shown_and_scales_deployments() {
    let world = World::start(&["--speed", "60", "--with-nodepool"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.apply(INFLATE, &[]);
    wait_for("five pods to run", || kubectl.running_pods() == 5);
    let cpus: f64 = kubectl.run(&["top", "pods", "--no-headers"]).lines().map(|line| cores(line, 1)).sum();
    // Half of the requests, on nodes where nothing else runs.
    assert!((cpus - 2.5).abs() < 0.1, "{cpus}");
    let nodes = kubectl.run(&["top", "nodes", "--no-headers"]);
    let on_nodes: f64 = nodes.lines().map(|line| cores(line, 1)).sum();
    assert!((on_nodes - cpus).abs() < 0.1, "{nodes}");
    let node = nodes.split_whitespace().next().unwrap();
    let one = kubectl.run(&["get", "--raw", &format!("/apis/metrics.k8s.io/v1beta1/nodes/{node}")]);
    assert!(one.contains("NodeMetrics") && one.contains("usage"), "{one}");
    let selected = kubectl.run(&["top", "pods", "--no-headers", "-l", "app=inflate"]);
    assert_eq!(selected.lines().count(), 5, "{selected}");
    assert!(kubectl.attempt(&["top", "pods", "-l", "app=other"]).stderr.contains("No resources found"));
    assert!(kubectl.run(&["api-resources", "--api-group", "metrics.k8s.io"]).contains("PodMetrics"));
    let refused = kubectl.attempt(&["delete", "--raw", &format!("/apis/metrics.k8s.io/v1beta1/nodes/{node}")]);
    assert_ne!(refused.code, Some(0));

    kubectl.run(&["autoscale", "deployment", "inflate", "--min=2", "--max=8", "--cpu-percent=50"]);
    wait_for("the current utilization", || kubectl.run(&["get", "hpa"]).contains("cpu: 50%/50%"));
    kubectl.run(&["annotate", "pods", "-l", "app=inflate", "local.nodeless.sh/usage=100%"]);
    wait_for("the pods of the maximum to run", || kubectl.running_pods() == 8);
    let described = kubectl.run(&["describe", "hpa", "inflate"]);
    assert!(described.contains("SuccessfulRescale") && described.contains("ScalingActive"), "{described}");
}

/// The cores in a column of `kubectl top`.
fn cores(line: &str, column: usize) -> f64 {
    let text = line.split_whitespace().nth(column).unwrap();
    let milli = text.strip_suffix('m').unwrap_or_else(|| panic!("{line}"));
    milli.parse::<f64>().unwrap() / 1000.0
}

#[test]
fn quotas_are_enforced() {
    let world = World::start(&["--speed", "20", "--with-nodepool"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.run(&["create", "quota", "team", "--hard=pods=3,requests.cpu=10"]);
    kubectl.apply(INFLATE, &[]);
    wait_for("three pods to run", || kubectl.running_pods() == 3);
    wait_for("the event about the others", || {
        let events = kubectl.run(&["get", "events", "--field-selector", "reason=FailedCreate"]);
        events.contains("exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3")
    });
    let shown = kubectl.run(&["get", "quota"]);
    assert!(shown.contains("pods: 3/3, requests.cpu: 3/10"), "{shown}");
    let refused = kubectl.attempt(&["run", "more", "--image=registry.k8s.io/pause"]);
    assert!(refused.stderr.contains("must specify requests.cpu for: more"), "{}", refused.stderr);
    kubectl.run(&["patch", "quota", "team", "--patch", "{\"spec\": {\"hard\": {\"pods\": \"8\"}}}"]);
    wait_for("the others to run", || kubectl.running_pods() == 5);
    let scoped = kubectl.attempt(&["create", "quota", "scoped", "--hard=pods=3", "--scopes=BestEffort"]);
    assert!(scoped.stderr.contains("scopes of quotas are not simulated"), "{}", scoped.stderr);
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

#[test]
fn pages_of_other_sites_cannot_use_the_cluster() {
    let world = World::start(&["--no-controllers"]);
    let address = |url: &str| url.strip_prefix("http://").unwrap().to_owned();
    let (kubernetes, aws) = (address(&world.kubernetes), address(&world.aws));
    let port = kubernetes.rsplit(':').next().unwrap();
    let call = "Action=DescribeVpcs&Version=2016-11-15";
    for server in [&kubernetes, &aws] {
        let own = format!("Host: {server}\r\n");
        for (what, headers) in [
            ("GET /api", "Host: attacker.example\r\n".to_owned()),
            ("GET /api", format!("{own}Origin: http://attacker.example\r\n")),
            ("GET /?Action=DescribeVpcs", format!("{own}Sec-Fetch-Site: cross-site\r\n")),
            ("POST /", format!("{own}Origin: null\r\nContent-Type: application/x-www-form-urlencoded\r\n")),
        ] {
            let refused = send(server, what, &headers, call);
            assert!(refused.status == 403 && refused.body.contains("other sites"), "{what} {headers}: {refused:?}");
        }
    }
    let form = format!("Host: {aws}\r\nContent-Type: application/x-www-form-urlencoded\r\n");
    assert_eq!(send(&aws, "POST /", &form, call).status, 200, "AWS clients send forms");

    let create = format!("POST {CONFIG_MAPS}");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"] {
        let headers = format!("Host: {kubernetes}\r\nContent-Type: {kind}\r\n");
        assert_eq!(send(&kubernetes, &create, &headers, &config_map("a").to_string()).status, 415, "{kind}");
    }
    assert_eq!(get(&kubernetes, &format!("{CONFIG_MAPS}/a")).status, 404);
    let localhost = format!("localhost:{port}");
    assert_eq!(request(&kubernetes, &localhost, "POST", CONFIG_MAPS, Some(&config_map("a"))).status, 201);
}

/// The response to the creation of an object for which a webhook at this URL is called.
fn reviewed_at(world: &World, url: &str) -> String {
    let address = world.kubernetes.strip_prefix("http://").unwrap();
    let rule =
        json!({ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"] });
    let webhook = json!({ "name": "a.example.com", "clientConfig": { "url": url }, "rules": [rule], "sideEffects": "None",
        "failurePolicy": "Fail", "admissionReviewVersions": ["v1"] });
    let configuration = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "a" }, "webhooks": [webhook] });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let created = request(address, address, "POST", path, Some(&configuration));
    assert_eq!(created.status, 201, "{created:?}");
    let answer = request(address, address, "POST", CONFIG_MAPS, Some(&config_map("a")));
    assert_eq!(answer.status, 500, "{answer:?}");
    answer.body
}

#[test]
fn webhooks_of_other_machines_are_called_only_on_request() {
    // Connections to this address reach this machine, where nothing listens on the port.
    let url = format!("http://0.0.0.0:{}/", nodeless_tests::free_port());
    let refused = reviewed_at(&World::start(&["--no-controllers"]), &url);
    assert!(refused.contains("webhooks are called on this machine alone"), "{refused}");
    let called = reviewed_at(&World::start(&["--no-controllers", "--remote-webhooks"]), &url);
    assert!(called.contains("failed to call webhook") && !called.contains("this machine alone"), "{called}");
}
