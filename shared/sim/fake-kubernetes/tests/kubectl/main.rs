//! The served API against the real `kubectl`, and over plain HTTP for what kubectl does not show. Without kubectl its tests
//! report that and pass.
#![allow(clippy::unwrap_used)]

mod webhooks;

use jiff::Timestamp;
use nodeless_fake_kubernetes::resource::{CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, PODS};
use nodeless_fake_kubernetes::{
    ApiServer, CreateOptions, DeleteOptions, Options, PatchOptions, PatchType, Resource, UpdateOptions,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A served cluster, and a temporary folder for its kubeconfig.
struct Cluster {
    server: ApiServer,
    address: String,
    folder: PathBuf,
}

static CLUSTERS: AtomicUsize = AtomicUsize::new(0);

impl Cluster {
    async fn start(history: usize) -> Self {
        let mut options = Options::with_clock(Arc::new(Timestamp::now));
        options.history = history;
        let server = ApiServer::new(options).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = server.router();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let reviews = server.clone();
        tokio::spawn(async move { reviews.run_reviews().await });
        let number = CLUSTERS.fetch_add(1, Ordering::SeqCst);
        let folder = std::env::temp_dir().join(format!("nodeless-kubectl-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "s",
            "clusters": [{"name": "s", "cluster": {"server": address}}],
            "users": [{"name": "s", "user": {"token": "any"}}],
            "contexts": [{"name": "s", "context": {"cluster": "s", "user": "s"}}],
        });
        std::fs::write(folder.join("config"), kubeconfig.to_string()).unwrap();
        Self { server, address, folder }
    }

    /// Runs kubectl, with an object on standard input if there is one: exit status, and all output.
    async fn kubectl(&self, arguments: &str, input: Option<Value>) -> (bool, String) {
        let mut command = Command::new("kubectl");
        command.args(arguments.split_whitespace());
        command.env("KUBECONFIG", self.folder.join("config")).env("HOME", &self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = tokio::task::spawn_blocking(move || {
            use std::io::Write as _;
            let mut child = command.spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            if let Some(input) = input {
                stdin.write_all(input.to_string().as_bytes()).unwrap();
            }
            drop(stdin);
            child.wait_with_output().unwrap()
        });
        let output = output.await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    async fn succeeds(&self, arguments: &str, input: Option<Value>, expected: &str) {
        let (success, output) = self.kubectl(arguments, input).await;
        assert!(success, "kubectl {arguments}: {output}");
        assert!(output.contains(expected), "kubectl {arguments}: {output}");
    }

    async fn fails(&self, arguments: &str, input: Option<Value>, expected: &str) {
        let (success, output) = self.kubectl(arguments, input).await;
        assert!(!success && output.contains(expected), "kubectl {arguments}: {output}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn has_kubectl() -> bool {
    nodeless_tests::has("kubectl", &["version", "--client"])
}

fn deployment(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "inflate"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "inflate"}}, "template": {
            "metadata": {"labels": {"app": "inflate"}},
            "spec": {"containers": [{"name": "c", "image": "pause:3", "resources": {"requests": {"cpu": 1}}}]},
        }},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_discovers_applies_scales_and_deletes() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start(10_000).await;
    cluster.succeeds("api-resources", None, "poddisruptionbudgets").await;
    cluster.succeeds("version", None, "Server Version: v1.36").await;
    cluster.succeeds("apply -f -", Some(deployment(1)), "deployment.apps/inflate created").await;
    cluster.succeeds("apply -f -", Some(deployment(1)), "unchanged").await;
    cluster.fails("diff -f -", Some(deployment(2)), "+  replicas: 2").await;
    cluster.succeeds("apply -f -", Some(deployment(2)), "configured").await;
    cluster.succeeds("apply --server-side -f -", Some(deployment(2)), "serverside-applied").await;
    cluster.succeeds("scale deployment inflate --replicas=5", None, "scaled").await;
    cluster.fails("apply --server-side -f -", Some(deployment(2)), "conflict").await;
    cluster.succeeds("apply --server-side --force-conflicts -f -", Some(deployment(3)), "applied").await;
    cluster.succeeds("get deployment inflate", None, "0/3").await;
    cluster.succeeds("get deployment inflate -o jsonpath={.spec.replicas}", None, "3").await;
    cluster.succeeds("label deployment inflate a=b", None, "labeled").await;
    cluster.succeeds("annotate deployment inflate a=b", None, "annotated").await;
    cluster.succeeds("set image deployment/inflate c=pause:4", None, "image updated").await;
    cluster.succeeds("describe deployment inflate", None, "pause:4").await;
    cluster.succeeds("get deployments -l a=b -o name", None, "deployment.apps/inflate").await;
    cluster.succeeds("delete deployment inflate", None, "deleted").await;
    cluster.succeeds("get all", None, "service/kubernetes").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_creates_what_newer_versions_send_as_protobuf() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start(10_000).await;
    cluster.succeeds("create deployment web --image=nginx:1 --replicas=0", None, "created").await;
    cluster.succeeds("get deployment web", None, "0/0").await;
    cluster.succeeds("create namespace t", None, "namespace/t created").await;
    cluster.succeeds("-n t create configmap m --from-literal=a=b", None, "created").await;
    cluster.succeeds("-n t get configmap m -o jsonpath={.data.a}", None, "b").await;
    cluster.succeeds("create pdb p --selector=app=x --min-available=50%", None, "created").await;
    cluster.succeeds("get pdb p", None, "50%").await;
    cluster.succeeds("auth can-i create pods", None, "yes").await;
    cluster.succeeds("delete namespace t", None, "deleted").await;
    cluster.fails("get namespace t", None, "not found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_what_is_wrong() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start(10_000).await;
    cluster.fails("get pod missing", None, "pods \"missing\" not found").await;
    cluster.fails("get unicorns", None, "doesn't have a resource type").await;
    cluster.fails("create deployment Upper --image=x", None, "RFC 1123").await;
    let mut typo = deployment(1);
    typo["spec"]["template"]["spec"]["containers"][0]["imagee"] = json!("x");
    let expected = "unknown field \"spec.template.spec.containers[0].imagee\"";
    cluster.fails("apply -f -", Some(typo.clone()), expected).await;
    // The field is removed, so that the next apply does not meet it.
    cluster.succeeds("apply --validate=warn -f -", Some(typo.clone()), &format!("Warning: {expected}")).await;
    let made = cluster.server.get(&DEPLOYMENTS, "default", "inflate").unwrap();
    assert!(made["spec"]["template"]["spec"]["containers"][0].get("imagee").is_none(), "{made}");
    typo["spec"]["replicas"] = json!(2);
    cluster.succeeds("apply --validate=warn -f -", Some(typo), &format!("Warning: {expected}")).await;
    cluster.succeeds("apply --server-side --force-conflicts -f -", Some(deployment(3)), "applied").await;
    for version in ["example.com/v1", "apps/v1", "v1"] {
        let unknown = json!({"apiVersion": version, "kind": "Unicorn", "metadata": {"name": "u"}});
        let expected = format!("no matches for kind \"Unicorn\" in version \"{version}\"");
        cluster.fails("apply -f -", Some(unknown.clone()), &expected).await;
        cluster.fails("create -f -", Some(unknown), &expected).await;
    }
    cluster.succeeds("run p --image=x", None, "created").await;
    let resize = r#"patch pod p --subresource=resize --patch={"spec":{"containers":[{"name":"p","resources":{"requests":{"cpu":"2"}}}]}}"#;
    cluster.succeeds(resize, None, "patched").await;
    cluster.succeeds("get pod p -o jsonpath={.spec.containers[0].resources.requests.cpu}", None, "2").await;
    cluster.fails("logs p", None, "no logs").await;
    cluster.fails("exec p -- ls", None, "not possible").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_cordons_taints_and_drains_within_the_budget() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start(10_000).await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.succeeds("create -f -", Some(node), "node/n created").await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}});
    cluster.succeeds("create -f -", Some(pod), "pod/p created").await;
    cluster.succeeds("create pdb b --selector=app=x --min-available=1", None, "created").await;
    let mut running = cluster.server.get(&PODS, "default", "p").unwrap().as_ref().clone();
    running["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    cluster.server.update_status(&PODS, running, &UpdateOptions::default()).unwrap();
    cluster.server.refresh_disruption_budgets().unwrap();

    cluster.succeeds("wait --for=condition=Ready node/n --timeout=5s", None, "condition met").await;
    cluster.succeeds("taint node n a=b:NoSchedule", None, "tainted").await;
    cluster.succeeds("cordon n", None, "cordoned").await;
    cluster.succeeds("get nodes", None, "Ready,SchedulingDisabled").await;
    cluster.succeeds("describe node n", None, "a=b:NoSchedule").await;
    let expected = "Cannot evict pod as it would violate the pod's disruption budget.";
    cluster.fails("drain n --force --timeout=1s", None, expected).await;
    cluster.succeeds("delete pdb b", None, "deleted").await;
    // Nothing stops the container here, so the test does not wait for the drain.
    cluster.fails("drain n --force --timeout=1s", None, "evicting pod default/p").await;
    cluster.succeeds("get pod p", None, "Terminating").await;
    cluster.succeeds("delete pod p --force --grace-period=0", None, "deleted").await;
    cluster.succeeds("drain n", None, "drained").await;
}

/// A minimal client, to read the raw responses.
async fn request(address: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let host = address.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn lines(body: &str) -> Vec<Value> {
    body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn add_pods(cluster: &Cluster, names: &[&str]) {
    for name in names {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
        cluster.server.create(&PODS, pod, &CreateOptions::default()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_page_states_how_many_objects_of_its_moment_remain() {
    for path in ["/api/v1/pods", "/api/v1/namespaces/default/pods"] {
        let cluster = Cluster::start(100).await;
        add_pods(&cluster, &["a", "b", "c", "d", "e"]);
        let mut next = format!("{path}?limit=2");
        let mut pages = Vec::new();
        loop {
            let page: Value = serde_json::from_str(&request(&cluster.address, "GET", &next, None).await.1).unwrap();
            let items = page["items"].as_array().unwrap();
            let names: Vec<&str> = items.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
            pages.push((names.join(" "), page["metadata"]["remainingItemCount"].as_u64()));
            // A pod that is created or deleted meanwhile does not count.
            add_pods(&cluster, &[["ca", "da", "f"][pages.len() - 1]]);
            cluster.server.delete(&PODS, "default", "e", &DeleteOptions::default()).ok();
            let Some(token) = page["metadata"]["continue"].as_str() else { break };
            next = format!("{path}?limit=2&continue={token}");
        }
        assert_eq!(pages, [("a b".into(), Some(3)), ("c d".into(), Some(1)), ("e".into(), None)], "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_one_moment_until_it_is_forgotten() {
    let cluster = Cluster::start(100).await;
    add_pods(&cluster, &["a", "b", "c"]);
    let get = async |path: String| {
        let (code, body) = request(&cluster.address, "GET", &path, None).await;
        (code, serde_json::from_str::<Value>(&body).unwrap())
    };
    let (_, first) = get("/api/v1/namespaces/default/pods?limit=2".into()).await;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    add_pods(&cluster, &["d"]);
    let next = format!("/api/v1/namespaces/default/pods?limit=2&continue={token}");
    let (_, second) = get(next.clone()).await;
    let names: Vec<_> = second["items"].as_array().unwrap().iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names, ["c"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    cluster.server.compact();
    let (code, gone) = get(next).await;
    assert_eq!((code, &gone["reason"]), (410, &json!("Expired")));
    // The rest can be read at the latest revision.
    let token = gone["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = get(format!("/api/v1/namespaces/default/pods?limit=2&continue={token}")).await;
    let names: Vec<_> = rest["items"].as_array().unwrap().iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names, ["c", "d"]);
    let ahead = "/api/v1/pods?resourceVersion=999999&resourceVersionMatch=NotOlderThan";
    assert_eq!(get(ahead.into()).await.0, 504);
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_and_limits_are_read_as_by_the_real_server() {
    let cluster = Cluster::start(100).await;
    add_pods(&cluster, &["a"]);
    let old = cluster.server.revision();
    add_pods(&cluster, &["b"]);
    let get = async |query: &str| request(&cluster.address, "GET", &format!("/api/v1/pods?{query}"), None).await;
    for (query, code) in [
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Newest", 422),
        ("sendInitialEvents=true", 422),
        ("limit=x", 400),
        ("resourceVersion=x", 400),
        ("watch=1&timeoutSeconds=1&resourceVersion=x", 500),
        ("watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan", 422),
        ("watch=1&timeoutSeconds=1&resourceVersion=999999", 200),
    ] {
        let (answered, body) = get(query).await;
        assert_eq!(answered, code, "{query}: {body}");
    }
    let one = request(&cluster.address, "GET", "/api/v1/nodes/n?resourceVersion=999999", None).await;
    assert_eq!(one.0, 504);
    let names = async |query: &str| {
        let list: Value = serde_json::from_str(&get(query).await.1).unwrap();
        let items = list["items"].as_array().unwrap();
        assert!(items.iter().all(|pod| pod.get("kind").is_none()), "the list alone has the kind");
        items.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("limit=-1").await, ["a", "b"]);
    assert_eq!(names(&format!("resourceVersion={old}&limit=5")).await, ["a"]);
    assert_eq!(names("resourceVersion=0&limit=1").await, ["a", "b"]);
}

/// A definition whose objects have a weight with this schema.
fn shelves(weight: &Value) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"weight": weight, "color": {"type": "string"}}},
            "status": {"type": "object", "properties": {"books": {"type": "integer"}}},
        },
    });
    json!({
        "metadata": {"name": "shelves.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "shelves", "singular": "shelf", "kind": "Shelf", "listKind": "ShelfList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_its_definition_refuses_today_can_be_changed_elsewhere() {
    let cluster = Cluster::start(100).await;
    let shelves = |weight: Value| shelves(&weight);
    let anything = json!({"x-kubernetes-preserve-unknown-fields": true});
    cluster.server.create(&CUSTOM_RESOURCE_DEFINITIONS, shelves(anything), &CreateOptions::default()).unwrap();
    let shelf = json!({
        "apiVersion": "example.com/v1", "kind": "Shelf", "metadata": {"name": "a"}, "spec": {"weight": "heavy"},
    });
    let path = "/apis/example.com/v1/shelves";
    assert_eq!(request(&cluster.address, "POST", path, Some(&shelf)).await.0, 201);
    let mut strict = shelves(json!({"type": "integer"}));
    let stored = cluster.server.get(&CUSTOM_RESOURCE_DEFINITIONS, "", "shelves.example.com").unwrap();
    strict["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    cluster.server.update(&CUSTOM_RESOURCE_DEFINITIONS, strict, &UpdateOptions::default()).unwrap();

    let resource = Resource::custom("example.com", "v1", "shelves", "Shelf", false);
    let patch = |part: Option<&str>, change: Value| {
        let options = PatchOptions::default();
        cluster
            .server
            .patch(&resource, "", "a", part, PatchType::Merge, &change, &options)
            .map_err(|status| status.code)
    };
    assert_eq!(patch(Some("status"), json!({"status": {"books": 3}})).unwrap()["status"]["books"], 3);
    assert!(patch(None, json!({"metadata": {"finalizers": ["example.com/hold"]}})).is_ok());
    assert!(patch(None, json!({"spec": {"color": "red"}})).is_ok());
    assert_eq!(patch(None, json!({"spec": {"weight": "heavier"}})), Err(422));
    assert_eq!(patch(None, json!({"spec": {"color": 5}})), Err(422));
    assert_eq!(patch(None, json!({"spec": {"weight": 5}})).unwrap()["spec"]["weight"], 5);
    let other = json!({"apiVersion": "example.com/v1", "kind": "Shelf", "metadata": {"name": "b"}, "spec": {"weight": "heavy"}});
    assert_eq!(request(&cluster.address, "POST", path, Some(&other)).await.0, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_begin_end_and_expire_as_asked() {
    let cluster = Cluster::start(100).await;
    add_pods(&cluster, &["a"]);
    let start = cluster.server.revision();
    add_pods(&cluster, &["b"]);
    let watch = async |query: &str| {
        let path = format!("/api/v1/namespaces/default/pods?watch=true&timeoutSeconds=1&{query}");
        let (code, body) = request(&cluster.address, "GET", &path, None).await;
        assert_eq!(code, 200, "{body}");
        lines(&body)
    };
    let events = watch(&format!("resourceVersion={start}")).await;
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["type"], &events[0]["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("b")));

    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let events = watch(query).await;
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["ADDED", "ADDED", "BOOKMARK"]);
    assert_eq!(events[2]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");

    cluster.server.compact();
    let events = watch(&format!("resourceVersion={start}")).await;
    assert_eq!((&events[0]["type"], &events[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_a_bookmark_of_the_current_revision() {
    let cluster = Cluster::start(100).await;
    let start = cluster.server.revision();
    add_pods(&cluster, &["a"]);
    let nodes = format!("/api/v1/nodes?watch=true&resourceVersion={start}&timeoutSeconds=3&allowWatchBookmarks=true");
    let (code, body) = request(&cluster.address, "GET", &nodes, None).await;
    let events = lines(&body);
    assert_eq!((code, events.len(), &events[0]["type"]), (200, 1, &json!("BOOKMARK")), "{body}");
    let revision = cluster.server.revision().to_string();
    assert_eq!(events[0]["object"]["metadata"]["resourceVersion"], json!(revision));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_with_a_selector_sees_objects_come_and_go() {
    let cluster = Cluster::start(100).await;
    add_pods(&cluster, &["a"]);
    let start = cluster.server.revision();
    cluster.server.bind("default", "a", "n1").unwrap();
    let path = |node: &str| {
        format!("/api/v1/pods?watch=True&timeoutSeconds=1&resourceVersion={start}&fieldSelector=spec.nodeName%3D{node}")
    };
    let (_, body) = request(&cluster.address, "GET", &path("n1"), None).await;
    assert_eq!(lines(&body)[0]["type"], "ADDED");
    let (_, body) = request(&cluster.address, "GET", &path(""), None).await;
    let gone = &lines(&body)[0];
    assert_eq!(gone["type"], "DELETED");
    // It is the last state that the selector matched.
    assert!(gone["object"]["spec"].get("nodeName").is_none(), "{gone}");
    assert_eq!(gone["object"]["metadata"]["resourceVersion"], json!(cluster.server.revision().to_string()));
}
