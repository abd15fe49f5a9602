//! `nodeless view --web`: its paths, who may use them, and the page in headless Chromium.

use crate::support::browser::Browser;
use crate::support::http::{HttpAnswer, get, request};
use crate::support::{Kubectl, World, example_node_pool, nodeless, run, wait_for};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

const INFLATE: &str = include_str!("../../../src/demo/inflate.yaml");

/// A running `nodeless view --web`, killed when this is dropped.
struct Web {
    child: Child,
    /// The address of the page, such as `127.0.0.1:8080`.
    address: String,
}

impl Web {
    fn start(world: &World) -> Self {
        let mut command = nodeless();
        command.args(["view", "--web", "--kubeconfig"]).arg(&world.kubeconfig);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{line}");
        Self { child, address }
    }

    fn picture(&self) -> Value {
        get(&self.address, "/api/picture").json()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_pods(world: &World) -> Option<Kubectl<'_>> {
    let kubectl = Kubectl::new(world)?;
    kubectl.apply(&example_node_pool("local"), &[]);
    kubectl.apply(INFLATE, &[]);
    wait_for("five pods to run", || kubectl.running_pods() == 5);
    Some(kubectl)
}

#[test]
fn the_page_and_the_picture_are_for_this_machine_only() {
    let world = World::start(&["--no-controllers"]);
    let web = Web::start(&world);
    for (path, kind, text) in [
        ("/", "text/html", "<title>nodeless view</title>"),
        ("/page.css", "text/css", "prefers-color-scheme"),
        ("/page.js", "text/javascript", "/api/picture"),
        ("/api/picture", "application/json", "\"nodes\":[]"),
    ] {
        let HttpAnswer { status, headers, body } = get(&web.address, path);
        assert_eq!(status, 200, "{path}");
        assert!(headers.contains(&format!("content-type: {kind}")) && body.contains(text), "{path}: {headers} {body}");
        assert!(headers.contains("content-security-policy: default-src 'none'"), "{path}: {headers}");
        for host in ["attacker.example", "attacker.example:80", "10.0.0.1"] {
            let refused = request(&web.address, host, "GET", path, None);
            assert_eq!((refused.status, refused.body.contains(text)), (403, false), "{path} for {host}");
        }
    }
    let page = get(&web.address, "/").body;
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("//"), "nothing from elsewhere");
    assert_eq!(request(&web.address, &web.address, "POST", "/api/picture", None).status, 405);
}

#[test]
fn a_port_that_is_taken_is_one_error() {
    let world = World::start(&["--no-controllers"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = run(nodeless().args(["view", "--web", "--port", &port, "--kubeconfig"]).arg(&world.kubeconfig));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(
        ended.stderr.starts_with(&format!("error: --port {port}: 127.0.0.1:{port} cannot be bound")),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("choose another port") && ended.stderr.lines().count() == 1, "{}", ended.stderr);
}

#[test]
fn a_request_waits_for_the_next_change_and_objects_are_explained() {
    let world = World::start(&["--speed", "20"]);
    let web = Web::start(&world);
    let Some(kubectl) = with_pods(&world) else { return };
    wait_for("the view to show five pods", || web.picture()["totals"]["pods"] == 5);
    let mut revision = web.picture()["revision"].as_u64().unwrap();
    kubectl.run(&["scale", "deployment", "inflate", "--replicas=6"]);
    wait_for("the view to show six pods", || {
        let answer = get(&web.address, &format!("/api/picture?after={revision}"));
        let newer = (answer.status == 200).then(|| answer.json());
        let Some(picture) = newer else { return false };
        assert!(picture["revision"].as_u64().unwrap() > revision, "{picture}");
        revision = picture["revision"].as_u64().unwrap();
        picture["totals"]["pods"] == 6
    });
    let node = kubectl.names("nodes").remove(0);
    let explained = |kind: &str, name: &str| explained(&web.address, kind, name);
    let of_node = explained("node", &node);
    assert!(
        of_node.starts_with(&format!("Node {node} is ")) && of_node.contains("NodePool        default"),
        "{of_node}"
    );
    let pod = format!("default/{}", kubectl.names("pods")[0]);
    let of_pod = explained("pod", &pod);
    assert!(of_pod.starts_with(&format!("Pod {pod} is not pending: it is bound to node ")), "{of_pod}");
    assert!(explained("node", "no-such-node").contains("no pod has this name"));
    assert_eq!(get(&web.address, "/api/explain?kind=secret&name=a").status, 400);
}

/// The explanation of an object, a line each.
fn explained(address: &str, kind: &str, name: &str) -> String {
    let answer = get(address, &format!("/api/explain?kind={kind}&name={}", name.replace('/', "%2F"))).json();
    answer["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned() + "\n").collect()
}

#[test]
fn objects_of_another_region_are_explained_with_its_catalog() {
    let world = World::start(&["--speed", "20", "--region", "eu-central-1", "--with-nodepool", "--web"]);
    let address = world.web.as_deref().unwrap().strip_prefix("http://").unwrap();
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.apply(INFLATE, &[]);
    wait_for("five pods to run", || kubectl.running_pods() == 5);
    let node = kubectl.names("nodes").remove(0);
    // The port is bound before the view has read the cluster.
    wait_for("the view", || get(address, "/api/picture").json()["totals"]["pods"] == 5);
    assert!(get(address, "/api/picture").json()["prices"].as_str().unwrap().contains("simulated eu-central-1"));
    let own = explained(address, "node", &node);
    assert!(own.starts_with(&format!("Node {node} is ")), "{own}");
    // `nodeless view` has the embedded catalog of the region.
    let web = Web::start(&world);
    let other = explained(&web.address, "node", &node);
    assert!(other.starts_with(&format!("Node {node} is ")), "{other}");
    let prices = get(&web.address, "/api/picture").json()["prices"].clone();
    assert!(prices.as_str().unwrap().starts_with("Prices: eu-central-1, on-demand prices of May 2025"), "{prices}");
}

/// Returns the texts of the box and the details of a node with use and an expiry, and the details of a NodeClaim that is in flight. A local
/// cluster has none of these, so the script adds them to the picture and renders it before the next picture comes.
const DETAILS: &str = "
    const node = picture.nodes[0];
    const part = ({ cpuMillicores, memoryBytes }) => ({ cpuMillicores: cpuMillicores / 4, memoryBytes: memoryBytes / 4 });
    node.load.used = part(node.load.allocatable);
    node.expires = new Date(now() + 2.5 * 3600 * 1000).toISOString();
    node.consolidatable = true;
    picture.claims = [{
      name: 'default-new', nodePool: 'default', instanceType: 'm5.large', zone: 'us-east-1a', capacityType: 'spot', created: picture.at,
      pricePerHour: 0.04, waitsFor: 'the node to register', message: '', replacement: false, deleting: false,
    }];
    render();
    const box = [...document.querySelectorAll('button.node')].find((it) => it.dataset.name === node.name).textContent;
    const details = [['node', node.name], ['claim', 'default-new']].map(([kind, name]) => {
      open(kind, name);
      const text = byId('facts').textContent;
      byId('details').close();
      return text;
    });
    return [box, ...details]";
/// Shows 305 nodes of two instance types, a long title and 300 pods without a node at 390 pixels, renders that before the next picture
/// comes, and returns what is on the page. What happened before is left out: how many Events there are depends on the time the pods took.
const MANY: &str = "
    const [node] = picture.nodes;
    picture.nodes = Array.from({ length: 305 }, (_, number) => ({
      ...node, name: `ip-10-0-0-${number}.eu-central-1.compute.internal`, instanceType: number < 300 ? 'm5.metal' : 'c5.large', pods: [],
    }));
    picture.title = `nodeless view, context arn:aws:eks:eu-central-1:123456789012:cluster/${'production'.repeat(5)}`;
    picture.attention = [{
      problem: 'pendingPods', text: '300 pods of Deployment shop/web have no node: no instance type has 900 CPUs', since: picture.at,
      urgent: true, object: { kind: 'pod', name: 'shop/web-0' }, count: 300,
    }];
    Object.assign(picture, { timeline: [], events: [] });
    render();
    const groups = document.querySelectorAll('.groups > li');
    const small = groups[1].firstElementChild;
    small.open = true;
    render();
    const top = document.querySelector('#attention li').getBoundingClientRect().top + window.scrollY;
    return {
      groups: groups.length, cells: document.querySelectorAll('.cells i').length, boxes: document.querySelectorAll('#pools > section > .boxes > li').length,
      attention: Math.round(top), height: document.documentElement.scrollHeight, opened: small.querySelectorAll('button.node').length, group: small.querySelector('summary').textContent,
      overflow: document.documentElement.scrollWidth - window.innerWidth,
    }";
/// Shows 300 nodes of three zones and two NodePools with GPUs and a label at 390 pixels, grouped by zone with the key, and returns what is on
/// the page.
const GROUPED: &str = "
    const [node] = picture.nodes;
    const zones = ['us-east-1a', 'us-east-1b', 'us-east-1c'];
    picture.nodes = Array.from({ length: 300 }, (_, number) => ({
      ...node, name: `n${number}`, zone: zones[number % 3], nodePool: number % 2 ? 'default' : 'gpu', labels: { 'example.com/team': `team-${number % 7}` },
      load: { ...node.load, extended: { allocatable: { 'nvidia.com/gpu': '8' }, requested: { 'nvidia.com/gpu': '3' } } }, pricePerHour: 1,
    }));
    picture.totals.load.extended = { allocatable: { 'nvidia.com/gpu': '2400' }, requested: { 'nvidia.com/gpu': '900' } };
    picture.hidden = { selector: 'example.com/team!=web', nodes: 12, ofNodes: 312, pods: 40, claims: 1, pricePerHour: 2 };
    byId('group-by').value = 'nodepool';
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'b', bubbles: true }));
    render();
    byId('pools').querySelector('details').open = true;
    render();
    return {
      headings: [...document.querySelectorAll('#pools > section > h2')].map((it) => it.textContent),
      group: document.querySelector('.groups summary').textContent, box: document.querySelector('button.node .facts').textContent,
      money: byId('money').textContent, hidden: byId('hidden-nodes').textContent, overflow: document.documentElement.scrollWidth - window.innerWidth,
    }";
const NODES: &str = "return [...document.querySelectorAll('button.node strong')].map((it) => it.textContent)";
const SQUARES: &str = "return document.querySelectorAll('button.node .pods i').length";
const FOCUSED: &str = "const it = document.activeElement; return it.dataset.name || it.id || it.textContent";

fn strings(value: &Value) -> BTreeSet<String> {
    value.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

fn fits_each_width(browser: &mut Browser) {
    let mut backgrounds = BTreeSet::new();
    for scheme in ["light", "dark"] {
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.call("Emulation.setEmulatedMedia", &feature);
        for width in [360, 390, 900, 1600] {
            let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
            browser.call("Emulation.setDeviceMetricsOverride", &size);
            let overflow = browser.script("return document.documentElement.scrollWidth - window.innerWidth");
            assert!(overflow.as_i64().unwrap() <= 0, "{width} in {scheme}: {overflow} pixels too wide");
            let hidden =
                "return [...document.querySelectorAll('button.node')].filter((it) => it.offsetParent === null).length";
            assert_eq!(browser.script(hidden), 0, "{width} in {scheme}");
            backgrounds.insert(browser.text("return getComputedStyle(document.body).backgroundColor"));
            let contrast = browser.script(include_str!("../support/contrast.js"));
            assert_eq!(contrast, json!([]), "texts with too little contrast at {width} in {scheme}");
        }
    }
    assert_eq!(backgrounds.len(), 2, "{backgrounds:?}");
}

fn describes_nodes(browser: &mut Browser) {
    let texts = browser.script(DETAILS);
    let text = |index: usize| texts[index].as_str().unwrap();
    assert!(text(0).contains(", 25% used") && text(0).contains("expires in 2h"), "{texts}");
    for expected in ["consolidateAfter of its NodePool has passed", "expiresin 2h, at 2", " used"] {
        assert!(text(1).contains(expected), "no {expected:?} in {texts}");
    }
    assert!(text(2).contains("instancem5.large spot us-east-1a") && text(2).contains("price$0.0400/h"), "{texts}");
}

fn shows_many_nodes(browser: &mut Browser) {
    let texts = browser.script(MANY);
    let count = |key: &str| texts[key].as_i64().unwrap();
    assert_eq!((count("groups"), count("cells"), count("boxes")), (2, 305, 0), "{texts}");
    assert!(count("attention") < 600, "what needs attention is at the top: {texts}");
    assert!(count("overflow") <= 0, "{texts}");
    eprintln!("the page of 305 nodes at 390 pixels: {texts}");
    assert!(count("height") < 3_000, "{texts}");
    assert_eq!(count("opened"), 5, "the group has its nodes when it is open: {texts}");
    assert!(texts["group"].as_str().unwrap().contains("5 nodes"), "{texts}");
}

fn shows_groups(browser: &mut Browser) {
    let texts = browser.script(GROUPED);
    let headings = texts["headings"].as_array().unwrap();
    assert_eq!(headings.len(), 3, "{texts}");
    for heading in headings {
        let heading = heading.as_str().unwrap();
        assert!(heading.starts_with("Zone us-east-1") && heading.contains("100 nodes, "), "{texts}");
        assert!(heading.contains("$100.00/h, $73000/month, nvidia.com/gpu 300/800"), "{texts}");
    }
    for (key, part) in [
        ("group", "$50.0000/h, $36500/month"),
        ("box", ", nvidia.com/gpu 3/8, example.com/team team-"),
        ("money", "/month; "),
        ("money", ", nvidia.com/gpu 900/2400"),
        ("hidden", "hides 12 of 312 nodes with 40 pods, $2.0000/h and 1 NodeClaim on the way"),
    ] {
        assert!(texts[key].as_str().unwrap().contains(part), "{key} without {part}: {texts}");
    }
    assert!(texts["overflow"].as_i64().unwrap() <= 0, "{texts}");
}

#[test]
fn the_page_shows_the_cluster_at_each_width_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else { return };
    let world = World::start(&["--speed", "20"]);
    let web = Web::start(&world);
    let Some(kubectl) = with_pods(&world) else { return };
    browser.open(&format!("http://{}/", web.address));
    wait_for("a square for each pod", || browser.script(SQUARES) == 5);
    let nodes: BTreeSet<String> = kubectl.names("nodes").into_iter().collect();
    assert_eq!(strings(&browser.script(NODES)), nodes);
    fits_each_width(&mut browser);
    let narrow = json!({ "width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", &narrow);
    describes_nodes(&mut browser);
    // The page shows changes without a reload.
    kubectl.run(&["scale", "deployment", "inflate", "--replicas=2"]);
    wait_for("the squares to go", || browser.script(SQUARES) == 2);
    let timeline = "return document.getElementById('timeline').textContent";
    assert!(browser.text(timeline).contains("launchNodeClaim default-"), "{}", browser.text(timeline));
    assert!(!browser.text(timeline).contains("Status condition transitioned"));
    let events = "return document.getElementById('events').textContent";
    assert!(!browser.text(events).contains("Nominated"), "Events are hidden at first");
    browser.script("document.getElementById('all-events').click()");
    assert!(browser.text(events).contains("Nominated"));
    shows_many_nodes(&mut browser);
    shows_groups(&mut browser);
}

#[test]
fn the_page_is_used_by_keyboard_alone() {
    let Some(mut browser) = Browser::start() else { return };
    let world = World::start(&["--speed", "20"]);
    let web = Web::start(&world);
    let Some(kubectl) = with_pods(&world) else { return };
    let node = kubectl.names("nodes").remove(0);
    browser.open(&format!("http://{}/", web.address));
    wait_for("a square for each pod", || browser.script(SQUARES) == 5);
    browser.keys(&["Tab"]);
    assert_eq!(browser.text(FOCUSED), "Skip to the nodes");
    browser.keys(&["Enter"]);
    browser.keys(&["Tab"]);
    assert_eq!(browser.text(FOCUSED), node, "the link leads to the first node");
    browser.keys(&["Enter"]);
    let dialog = "return document.getElementById('details').open";
    wait_for("the details", || browser.script(dialog) == true);
    let explanation = "return document.getElementById('explanation').textContent";
    wait_for("the explanation", || browser.text(explanation).contains(&format!("Node {node} is ")));
    let answer = browser.text("return document.getElementById('answer').textContent");
    assert!(answer.starts_with("It is ready, costs $"), "{answer}");
    let plan = browser.text("return document.getElementById('plan-answer').textContent");
    assert!(plan.starts_with(&format!("Node {node} is not disrupted because ")), "{plan}");
    assert_eq!(
        browser.script("return document.getElementById('plan').open"),
        false,
        "all of it is behind a disclosure"
    );
    let on_node = format!("--field-selector=spec.nodeName={node}");
    let names =
        kubectl.run(&["get", "pods", "-n", "default", &on_node, "--output", "jsonpath={.items[*].metadata.name}"]);
    let expected: BTreeSet<String> =
        names.split_whitespace().map(|name| format!("default/{name}  cpu 1, memory 1Gi")).collect();
    let pods = "return [...document.querySelectorAll('#pods li')].map((it) => it.textContent.split(', Running')[0])";
    wait_for("each pod with its requests", || strings(&browser.script(pods)) == expected);
    let events = browser.text("return document.getElementById('own-events').textContent");
    assert!(events.contains("RegisteredNodeClaim default-"), "those of its NodeClaim: {events}");
    assert!(!events.contains("NominatedPod default/"), "and not those of its pods: {events}");
    assert_eq!(browser.text("return document.getElementById('details-title').textContent"), format!("Node {node}"));
    browser.keys(&["Escape"]);
    assert_eq!(browser.script(dialog), false);
    assert_eq!(browser.text(FOCUSED), node, "the focus returns");
    browser.keys(&["ArrowDown", "ArrowUp"]);
    browser.keys(&["/"]);
    assert_eq!(browser.text(FOCUSED), "filter");
    browser.keys(&["z", "z", "z"]);
    let visible =
        "return [...document.querySelectorAll('button.node')].filter((it) => it.offsetParent !== null).length";
    assert_eq!(browser.script(visible), 0, "no node matches zzz");
    browser.keys(&["Escape"]);
    assert_eq!(browser.script(visible).as_u64().unwrap(), kubectl.names("nodes").len() as u64);
}
