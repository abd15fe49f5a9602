//! `nodeless metrics`: what Prometheus reads, and which panels of Karpenter's dashboards find their metrics in it.

use crate::support::http::{HttpAnswer, get, request};
use crate::support::{Kubectl, TIMEOUT, World, example_node_pool, nodeless, run, wait_for};
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const INFLATE: &str = include_str!("../../../src/demo/inflate.yaml");
/// The panels of Karpenter's dashboards with their queries.
const DASHBOARDS: &str = include_str!("../support/karpenter_dashboards.json");
const PAGE: &str = include_str!("../../../../docs/operate/prometheus.md");
/// Labels of queries that Prometheus adds to every series, or that no metric has.
const FOREIGN_LABELS: [&str; 2] = ["cluster", "label_name"];

fn metrics(kubeconfig: &Path) -> Command {
    let mut command = nodeless();
    command.arg("metrics").arg("--kubeconfig").arg(kubeconfig);
    command
}

/// The labels of a sample, and its value.
type Sample = (BTreeMap<String, String>, f64);

/// A text of metrics: the samples of each family.
#[derive(Debug, Default)]
struct Families(BTreeMap<String, Vec<Sample>>);

impl Families {
    fn parse(text: &str) -> Self {
        let label = Regex::new(r#"([a-z_]+)="((?:[^"\\]|\\.)*)",?"#).unwrap();
        let mut families = Self::default();
        for line in text.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                let name = family.strip_suffix(" gauge").unwrap_or_else(|| panic!("{line}"));
                assert!(families.0.insert(name.to_owned(), Vec::new()).is_none(), "{name} is there twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                let labels = label.captures_iter(labels).map(|found| (found[1].to_owned(), found[2].to_owned()));
                let samples = families.0.get_mut(name).unwrap_or_else(|| panic!("no family: {line}"));
                samples.push((labels.collect(), value.parse().unwrap()));
            }
        }
        families
    }

    fn once(kubeconfig: &Path) -> Self {
        let ended = run(metrics(kubeconfig).arg("--once"));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
        Self::parse(&ended.stdout)
    }

    /// The values of the samples of a family that have this label.
    fn values(&self, family: &str, label: &str, value: &str) -> Vec<f64> {
        let samples = self.0.get(family).unwrap_or_else(|| panic!("no {family}"));
        let having = samples.iter().filter(|(labels, _)| labels.get(label).is_some_and(|it| it == value));
        having.map(|(_, value)| *value).collect()
    }

    /// The metrics and labels of a query that are not there. Metrics of other exporters do not count.
    fn lacking(&self, query: &str) -> BTreeSet<String> {
        let metric =
            Regex::new(r"\b((?:karpenter|operator|controller_runtime|nodeless)_[a-z_]+)(?:\{([^}]*)\})?").unwrap();
        let matcher = Regex::new("([a-z_]+) *[=!]").unwrap();
        let by = Regex::new(r"\bby *\(([a-z_, ]+)\)").unwrap();
        let grouped: Vec<&str> =
            by.captures_iter(query).flat_map(|it| it.get(1).unwrap().as_str().split(',')).collect();
        let mut lacking = BTreeSet::new();
        for found in metric.captures_iter(query) {
            let name = &found[1];
            let Some(samples) = self.0.get(name) else {
                lacking.insert(name.to_owned());
                continue;
            };
            let matched = found.get(2).map_or("", |it| it.as_str());
            let matched = matcher.captures_iter(matched).map(|it| it.get(1).unwrap().as_str());
            for label in matched.chain(grouped.iter().map(|label| label.trim())) {
                let is_known = samples.is_empty() || samples.iter().any(|(labels, _)| labels.contains_key(label));
                if !is_known && !FOREIGN_LABELS.contains(&label) {
                    lacking.insert(format!("{name}{{{label}}}"));
                }
            }
        }
        lacking
    }
}

/// Five running pods, and one that no instance type fits.
fn with_pods(world: &World) -> Option<Kubectl<'_>> {
    let kubectl = Kubectl::new(world)?;
    kubectl.apply(&example_node_pool("local"), &[]);
    kubectl.apply(INFLATE, &[]);
    let too_large = INFLATE
        .replace("inflate", "too-large")
        .replace("cpu: \"1\"", "cpu: \"5000\"")
        .replace("cpu: 1\n", "cpu: 5000\n");
    assert_ne!(too_large, INFLATE.replace("inflate", "too-large"));
    kubectl.apply(&too_large, &[]);
    wait_for("five pods to run", || kubectl.running_pods() == 5);
    let unschedulable =
        || Families::once(&world.kubeconfig).values("nodeless_pods_without_node", "state", "unschedulable");
    wait_for("the event about the other pods", || unschedulable() == [5.0]);
    Some(kubectl)
}

/// The rows of the table of panels: the state and the reason, by dashboard and panel.
fn documented() -> BTreeMap<(String, String), (String, String)> {
    let section = PAGE.split("\n## Karpenter's dashboards\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| dashboard"));
    rows.map(|row| {
        // A regular expression in a query has this character too.
        let row = row.replace("\\|", "\u{1}");
        let cells: Vec<String> = row.trim_matches('|').split('|').map(|it| it.trim().replace('\u{1}', "|")).collect();
        let [dashboard, panel, state, reason] = cells.try_into().unwrap_or_else(|cells| panic!("{cells:?}"));
        ((dashboard, panel), (state, reason))
    })
    .collect()
}

#[test]
fn the_page_states_which_panels_of_karpenter_find_their_metrics() {
    let world = World::start(&["--speed", "20"]);
    let Some(_kubectl) = with_pods(&world) else { return };
    let families = Families::once(&world.kubeconfig);
    let dashboards: Value = serde_json::from_str(DASHBOARDS).unwrap();
    let mut rows = documented();
    let mut wrong = Vec::new();
    for dashboard in dashboards["dashboards"].as_array().unwrap() {
        let name = dashboard["dashboard"].as_str().unwrap();
        for variable in dashboard["variables"].as_array().unwrap() {
            let variable = variable.as_str().unwrap();
            let label = variable.trim_end_matches(')').rsplit(',').next().unwrap().trim();
            let lacking = families.lacking(&format!("{variable} by ({label})"));
            assert!(lacking.is_empty() || variable.contains("controller_runtime"), "{variable}: {lacking:?}");
        }
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            let queries = panel["queries"].as_array().unwrap();
            let lacking: BTreeSet<String> =
                queries.iter().flat_map(|it| families.lacking(it.as_str().unwrap())).collect();
            let Some((state, reason)) = rows.remove(&(name.to_owned(), title.to_owned())) else {
                wrong.push(format!("{name}: {title} is not in the table"));
                continue;
            };
            match state.as_str() {
                "unchanged" if lacking.is_empty() => {}
                "replace" | "none" if !lacking.is_empty() => {}
                _ => wrong.push(format!("{name}: {title} is {state}, and lacks {lacking:?}")),
            }
            let codes: Vec<&str> = reason.split('`').skip(1).step_by(2).collect();
            let has_query = codes.iter().any(|code| code.contains("nodeless_") || code.contains("karpenter_"));
            if state == "replace" && !has_query {
                wrong.push(format!("{name}: {title} has no other query"));
            }
            for code in codes {
                let lacking = families.lacking(code);
                // Those of CloudWatch are those of another exporter.
                if !lacking.is_empty() && !code.starts_with("aws_nodeless_") {
                    wrong.push(format!("{name}: {title}: `{code}` lacks {lacking:?}"));
                }
            }
        }
    }
    wrong.extend(rows.keys().map(|(dashboard, panel)| format!("{dashboard}: Karpenter has no panel {panel}")));
    assert!(wrong.is_empty(), "docs/operate/prometheus.md: {wrong:#?}");
}

#[test]
fn the_page_lists_every_metric() {
    let world = World::start(&["--no-controllers"]);
    let families = Families::once(&world.kubeconfig);
    let section = PAGE.split("\n## Metrics\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let listed: BTreeSet<&str> =
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    // The table has one row for the kinds with conditions.
    let served: BTreeSet<String> = families
        .0
        .keys()
        .map(|name| {
            Regex::new("^operator_(nodeclaim|nodepool|node|ec2nodeclass)_")
                .unwrap()
                .replace(name, "operator_KIND_")
                .into_owned()
        })
        .collect();
    assert_eq!(listed, served.iter().map(String::as_str).collect::<BTreeSet<&str>>());
}

#[test]
fn values_are_those_of_the_objects() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = with_pods(&world) else { return };
    let families = Families::once(&world.kubeconfig);
    let nodes = kubectl.names("nodes");
    let requested: f64 = families.values("karpenter_nodes_total_pod_requests", "resource_type", "cpu").iter().sum();
    assert!((requested - 5.0).abs() < 1e-9, "five pods of one CPU: {requested}");
    for node in &nodes {
        let allocatable = families.values("karpenter_nodes_allocatable", "node_name", node);
        let prices = families.values("nodeless_node_price_dollars_per_hour", "node_name", node);
        assert!(allocatable.len() > 2 && prices.len() == 1 && prices[0] > 0.0, "{node}: {allocatable:?} {prices:?}");
        assert_eq!(families.values("karpenter_nodes_current_lifetime_seconds", "node_name", node).len(), 1);
    }
    assert_eq!(families.values("karpenter_pods_state", "phase", "Running"), [1.0; 5]);
    assert_eq!(families.values("karpenter_pods_unbound_time_seconds", "namespace", "default").len(), 5);
    assert_eq!(families.values("karpenter_scheduler_unschedulable_pods_count", "controller", "provisioner"), [5.0]);
    assert_eq!(families.values("karpenter_nodepools_allowed_disruptions", "nodepool", "default").len(), 3);
    assert!(families.values("operator_nodepool_status_condition_count", "type", "Ready") == [1.0]);
    assert!(
        families
            .values("karpenter_cloudprovider_instance_type_offering_price_estimate", "capacity_type", "on-demand")
            .len()
            > 1000
    );
    assert!(
        families
            .values("karpenter_cloudprovider_instance_type_offering_price_estimate", "capacity_type", "spot")
            .is_empty(),
        "embedded spot prices are synthetic"
    );
    let brief = run(metrics(&world.kubeconfig).args(["--once", "--no-catalog"]));
    assert_eq!((brief.code, brief.stderr.as_str()), (Some(0), ""));
    assert!(brief.stdout.lines().count() < 1000 && !brief.stdout.contains("karpenter_cloudprovider_"));
    let brief = Families::parse(&brief.stdout);
    assert_eq!(brief.0["nodeless_node_price_dollars_per_hour"], families.0["nodeless_node_price_dollars_per_hour"]);
    let read = families.values("nodeless_last_read_timestamp_seconds", "kind", "Pod");
    assert!(read.len() == 1 && read[0] > 1.7e9, "{read:?}");
}

/// A running `nodeless metrics`, killed when this is dropped.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(world: &World) -> Self {
        let mut command = metrics(&world.kubeconfig);
        let mut child = command.args(["--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Self { child, address }
    }

    fn scrape(&self) -> HttpAnswer {
        get(&self.address, "/metrics")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_scrape_shows_the_present_state_and_fails_when_the_cluster_cannot_be_read() {
    let world = World::start(&["--speed", "20"]);
    let served = Served::start(&world);
    assert!(served.address.starts_with("127.0.0.1:"), "{}", served.address);
    let HttpAnswer { status, headers, body } = served.scrape();
    assert_eq!(status, 200, "{body}");
    assert!(headers.contains("content-type: text/plain; version=0.0.4"), "{headers}");
    assert!(Families::parse(&body).0["karpenter_pods_state"].is_empty(), "{body}");
    if let Some(kubectl) = Kubectl::new(&world) {
        kubectl.apply(&example_node_pool("local"), &[]);
        kubectl.apply(INFLATE, &[]);
        let running = || Families::parse(&served.scrape().body).values("karpenter_pods_state", "phase", "Running");
        wait_for("five running pods in the metrics", || running().len() == 5);
    }
    for host in ["attacker.example", "10.0.0.1:8080"] {
        assert_eq!(request(&served.address, host, "GET", "/metrics", None).status, 403, "{host}");
    }
    assert_eq!(get(&served.address, "/").status, 404);
    drop(world);
    wait_for("a scrape without the cluster to fail", || served.scrape().status == 503);
    let failed = served.scrape().body;
    assert!(failed.starts_with("there are no metrics: ") && failed.contains("cannot be read"), "{failed}");
    assert!(!failed.contains("karpenter_"), "no values of before: {failed}");
}

#[test]
fn a_cluster_that_does_not_answer_is_one_error() {
    let world = World::start(&["--no-controllers"]);
    let other = format!("http://127.0.0.1:{}", nodeless_tests::free_port());
    let ended = run(metrics(&kubeconfig_for(&world, &other)).arg("--once"));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.starts_with("error: Kubernetes list "), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().filter(|line| line.starts_with("error")).count(), 1, "{}", ended.stderr);
}

#[test]
fn an_address_that_cannot_be_bound_is_one_error() {
    let world = World::start(&["--no-controllers"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (address, port) in [("127.0.0.1", port.as_str()), ("192.0.2.1", "0")] {
        let ended = run(metrics(&world.kubeconfig).args(["--address", address, "--port", port]));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        let expected = format!("error: --address {address} --port {port}: {address}:{port} cannot be bound: ");
        assert!(ended.stderr.starts_with(&expected) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
}

#[test]
fn what_may_not_be_read_is_left_out_with_the_reason() {
    let world = World::start(&["--no-controllers"]);
    let proxy =
        forbidding(world.kubernetes.trim_start_matches("http://").trim_end_matches('/').to_owned(), "/nodepools");
    let ended = run(metrics(&kubeconfig_for(&world, &proxy)).arg("--once"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let families = Families::parse(&ended.stdout);
    assert!(families.0.contains_key("karpenter_nodes_allocatable"));
    assert!(!families.0.keys().any(|name| name.contains("nodepool")), "{:?}", families.0.keys());
    let warning = "NodePool objects cannot be read: ";
    assert!(ended.stderr.starts_with(&format!("warning: {warning}")), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("forbidden") && ended.stderr.contains("karpenter_nodepools_limit"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stdout.contains(&format!("\n# {warning}")), "{}", ended.stdout);
}

/// A kubeconfig like that of a cluster, with another address.
fn kubeconfig_for(world: &World, address: &str) -> std::path::PathBuf {
    let kubeconfig = std::fs::read_to_string(&world.kubeconfig).unwrap();
    let other = kubeconfig.replace(&world.kubernetes, address);
    assert_ne!(other, kubeconfig);
    let path = world.kubeconfig.with_file_name("other");
    std::fs::write(&path, other).unwrap();
    path
}

/// Forwards requests without a body to a server, and refuses those whose path contains a text. Returns its address.
fn forbidding(server: String, path: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = server.clone();
            std::thread::spawn(move || forward(client, &server, path));
        }
    });
    address
}

/// Answers one request of a connection, and closes it.
fn forward(mut client: TcpStream, server: &str, path: &str) -> Option<()> {
    client.set_read_timeout(Some(TIMEOUT)).ok()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    if head.lines().next()?.contains(path) {
        let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodepools is forbidden","reason":"Forbidden","code":403}"#;
        let length = body.len();
        write!(client, "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").ok()
    } else {
        let mut upstream = TcpStream::connect(server).ok()?;
        let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        upstream.write_all(head.as_bytes()).ok()?;
        std::io::copy(&mut upstream, &mut client).map(drop).ok()
    }
}
