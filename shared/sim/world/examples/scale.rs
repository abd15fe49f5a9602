//! Times the simulation alone, without functions, at a number of nodes and pods: `scale NODES PODS_A_NODE`.
//!
//! A Deployment is created, its pods are found unschedulable, the instances are launched and join, the pods are bound and run, clients
//! list and watch over HTTP, and the Deployment and the instances are removed again. The clock of the world advances in steps as that of
//! a measurement does; what is printed is the time that this process takes.
#![allow(clippy::unwrap_used)]

use base64::Engine as _;
use jiff::SignedDuration;
use nodeless_fake_aws::aws_router;
use nodeless_fake_aws::requests::{RunInstances, Tag, TagSpecification, TerminateInstances};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NODES, PODS};
use nodeless_fake_kubernetes::{ChangeKind, CreateOptions, ListOptions, PatchOptions, PatchType, UpdateOptions};
use nodeless_world::{JoinTiming, World, WorldOptions};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// That of `measure-sizes`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// By how much the clock advances in a step.
const STEP: SignedDuration = SignedDuration::from_millis(100);
/// Instances of one launch.
const LAUNCHED_AT_ONCE: u32 = 250;
/// Clients that watch at once, and the changes of pods that they receive.
const WATCHES: usize = 4;
const WATCHED_CHANGES: usize = 10_000;
/// Ids of one DescribeInstances, as of a full shard of claims.
const IDS: usize = 256;
const SETTINGS: &str = "[settings.kubernetes.node-labels]\n\"karpenter.sh/nodepool\" = \"default\"\n";

struct Scale {
    world: World,
    pods_a_node: usize,
    /// The revision up to which nodes and pods have been read.
    seen: u64,
    ready: BTreeSet<String>,
    bound: usize,
    waiting: Vec<String>,
}

#[tokio::main]
async fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|it| it.parse().unwrap()).collect();
    let (nodes, pods_a_node) = (numbers[0], numbers[1]);
    let pods = nodes * pods_a_node;
    let world = World::new(WorldOptions::default()).unwrap();
    let mut scale = Scale { world, pods_a_node, seen: 0, ready: BTreeSet::new(), bound: 0, waiting: Vec::new() };
    timed("world of nothing", 0, |_| scale.step());
    timed("create", pods, |_| {
        scale.world.api().create(&DEPLOYMENTS, deployment(pods), &CreateOptions::default()).unwrap();
        scale.step();
    });
    timed("refuse", pods, |_| scale.refuse());
    timed("launch", nodes, |_| scale.launch(nodes));
    timed("join and bind", nodes, |steps| scale.until(steps, |scale| scale.bound == pods));
    timed("run", pods, |steps| scale.until(steps, |scale| scale.replicas("readyReplicas") == pods));
    let started = Instant::now();
    let mut steps = 0;
    while started.elapsed() < Duration::from_secs(1) {
        scale.step();
        steps += 1;
    }
    print("idle step", started.elapsed() / steps, 1);
    timed("one change", 1, |_| scale.touch(1));
    scale.over_http(nodes).await;
    timed("scale to zero", pods, |steps| {
        let none = json!({ "spec": { "replicas": 0 } });
        let (api, options) = (scale.world.api().clone(), PatchOptions::default());
        api.patch(&DEPLOYMENTS, "default", "inflate", None, PatchType::Merge, &none, &options).unwrap();
        scale.until(steps, |scale| scale.world.api().list(&PODS, &ListOptions::default()).unwrap().items.is_empty());
    });
    timed("terminate", nodes, |steps| {
        scale.terminate();
        scale.until(steps, |scale| scale.world.api().list(&NODES, &ListOptions::default()).unwrap().items.is_empty());
    });
}

fn timed(what: &str, count: usize, run: impl FnOnce(&mut usize)) {
    let (started, mut steps) = (Instant::now(), 0);
    run(&mut steps);
    print(what, started.elapsed(), count);
    if steps > 0 {
        println!("  in {steps} steps of {:.1} ms", started.elapsed().as_secs_f64() * 1000.0 / steps as f64);
    }
}

fn print(what: &str, elapsed: Duration, count: usize) {
    println!("{what} ({count}): {:.3} s", elapsed.as_secs_f64());
}

fn deployment(pods: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "inflate", "namespace": "default" },
        "spec": {
            "replicas": pods, "selector": { "matchLabels": { "app": "inflate" } },
            "template": {
                "metadata": { "labels": { "app": "inflate" } },
                "spec": { "schedulerName": "scale", "containers": [{
                    "name": "inflate", "image": "registry.k8s.io/pause:3.10",
                    "resources": { "requests": { "cpu": "10m", "memory": "64Mi" } },
                }] },
            },
        },
    })
}

impl Scale {
    fn step(&mut self) {
        let next = self.world.now().saturating_add(STEP).unwrap();
        self.world.jump_to(next).unwrap();
    }

    fn until(&mut self, steps: &mut usize, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            self.step();
            self.bind();
            *steps += 1;
            assert!(*steps < 10_000, "it does not end");
        }
    }

    fn replicas(&self, field: &str) -> usize {
        let deployment = self.world.api().get(&DEPLOYMENTS, "default", "inflate").unwrap();
        deployment["status"][field].as_u64().and_then(|count| count.try_into().ok()).unwrap_or_default()
    }

    /// Writes that the pods are unschedulable, as a scheduler does.
    fn refuse(&mut self) {
        let api = self.world.api().clone();
        for pod in api.list(&PODS, &ListOptions::default()).unwrap().items {
            self.waiting.push(pod["metadata"]["name"].as_str().unwrap().to_owned());
            let mut refused = Value::clone(&pod);
            refused["status"]["conditions"] =
                json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node" }]);
            api.update_status(&PODS, refused, &UpdateOptions::default()).unwrap();
        }
        self.step();
        self.seen = api.revision();
    }

    fn launch(&mut self, nodes: usize) {
        let seconds = SignedDuration::from_secs;
        let timing = JoinTiming {
            registers_after: seconds(1),
            ready_after: seconds(1),
            spread: seconds(15),
            ..JoinTiming::default()
        };
        self.world.set_join_timing(timing);
        let ec2 = self.world.ec2().clone();
        ec2.change_account(|account| {
            account.timing.start_up = seconds(5);
            account.timing.shut_down = seconds(1);
            account.launches_at_once = u32::MAX;
        });
        let (image, subnets) = ec2.with_account(|account| {
            let image = account.images.iter().find(|image| image.architecture == "x86_64").unwrap();
            (image.id.clone(), account.subnets.iter().map(|subnet| subnet.id.clone()).collect::<Vec<_>>())
        });
        let tags = (0..12).map(|number| Tag::new(format!("nodeless.sh/tag-{number}"), "a value of some length"));
        let tags: Vec<Tag> = tags.collect();
        let tagged = ["instance", "volume", "network-interface"]
            .map(|kind| TagSpecification { resource_type: Some(kind.to_owned()), tags: tags.clone() });
        let mut left = u32::try_from(nodes).unwrap();
        for subnet in subnets.iter().cycle() {
            let count = left.min(LAUNCHED_AT_ONCE);
            if count == 0 {
                break;
            }
            left -= count;
            let request = RunInstances {
                min_count: Some(count),
                max_count: Some(count),
                instance_type: Some("m5.2xlarge".to_owned()),
                image_id: Some(image.clone()),
                subnet_id: Some(subnet.clone()),
                user_data: Some(base64::engine::general_purpose::STANDARD.encode(SETTINGS)),
                tag_specifications: tagged.to_vec(),
                ..RunInstances::default()
            };
            // EC2 limits the rate of calls.
            while let Err(error) = ec2.run_instances(&request) {
                assert_eq!(error.code, "RequestLimitExceeded");
                self.step();
            }
        }
        self.step();
    }

    /// Binds pods to the nodes that have become ready.
    fn bind(&mut self) {
        let api = self.world.api().clone();
        let revision = api.revision();
        // So many changes that the history does not have all of them are those of pods that are deleted.
        for change in api.watch_since(Some(&NODES), self.seen).unwrap_or_default() {
            let conditions = change.object["status"]["conditions"].as_array();
            let is_ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
            let is_ready = conditions.into_iter().flatten().any(is_ready);
            let is_tainted = change.object["spec"].get("taints").is_some();
            if change.kind == ChangeKind::Deleted || !is_ready || is_tainted {
                continue;
            }
            if self.ready.insert(change.name().to_owned()) {
                for pod in self.waiting.split_off(self.waiting.len().saturating_sub(self.pods_a_node)) {
                    api.bind("default", &pod, change.name()).unwrap();
                    self.bound += 1;
                }
            }
        }
        self.seen = revision;
    }

    /// Changes an annotation of this many pods.
    fn touch(&mut self, count: usize) {
        let api = self.world.api().clone();
        let patch = json!({ "metadata": { "annotations": { "touched": self.world.api().revision().to_string() } } });
        for pod in api.list(&PODS, &ListOptions::default()).unwrap().items.iter().take(count) {
            let name = pod["metadata"]["name"].as_str().unwrap();
            api.patch(&PODS, "default", name, None, PatchType::Merge, &patch, &PatchOptions::default()).unwrap();
        }
        self.step();
    }

    fn terminate(&mut self) {
        let ec2 = self.world.ec2().clone();
        let ids: Vec<String> = ec2.instances().into_iter().map(|instance| instance.id).collect();
        for ids in ids.chunks(IDS) {
            let request = TerminateInstances { instance_ids: ids.to_vec(), dry_run: false };
            while ec2.terminate_instances(&request).is_err() {
                self.step();
            }
        }
    }

    async fn over_http(&mut self, nodes: usize) {
        let kubernetes = serve(self.world.api().router()).await;
        let started = Instant::now();
        let (mut path, mut listed) = ("/api/v1/pods?limit=500".to_owned(), 0);
        loop {
            let body: Value = serde_json::from_slice(&get(&kubernetes, &path).await).unwrap();
            listed += body["items"].as_array().unwrap().len();
            let Some(token) = body["metadata"]["continue"].as_str() else { break };
            path = format!("/api/v1/pods?limit=500&continue={token}");
            if listed % 10_000 == 0 {
                self.touch(1);
            }
        }
        print("list by page, with a change after each 20", started.elapsed(), listed);
        let started = Instant::now();
        let mut found = 0;
        for node in self.ready.iter().take(200) {
            let path = format!("/api/v1/pods?limit=500&fieldSelector=spec.nodeName%3D{node}");
            let body: Value = serde_json::from_slice(&get(&kubernetes, &path).await).unwrap();
            found += body["items"].as_array().unwrap().len();
        }
        print("lists of the pods of 200 nodes", started.elapsed(), found);
        let started = Instant::now();
        for _ in 0..20 {
            get(&kubernetes, "/api/v1/pods?limit=500&fieldSelector=spec.nodeName%3D").await;
            get(&kubernetes, "/api/v1/nodes?limit=500&labelSelector=%21karpenter.sh%2Fnodepool").await;
        }
        print("lists of no pods and no nodes", started.elapsed(), 40);
        self.watches(&kubernetes).await;
        let started = Instant::now();
        for node in self.ready.iter().take(500) {
            let body = r#"{"metadata":{"labels":{"touched":"yes"}}}"#;
            let request = format!(
                "PATCH /api/v1/nodes/{node} HTTP/1.0\r\ncontent-type: application/merge-patch+json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            ask(&kubernetes, &request).await;
        }
        print("patches of nodes", started.elapsed(), 500);
        timed("step after them", 1, |_| self.step());
        let aws = serve(aws_router(self.world.ec2().clone())).await;
        let started = Instant::now();
        let tag = "&Filter.1.Name=tag%3Anodeless.sh%2Ftag-1&Filter.1.Value.1=a+value+of+some+length";
        let first = format!("/?Action=DescribeInstances&MaxResults=1000{tag}");
        let (mut path, mut described) = (first.clone(), 0);
        loop {
            let body = String::from_utf8(get(&aws, &path).await).unwrap();
            described += body.matches("<instanceState>").count();
            let Some((_, token)) = body.split_once("<nextToken>") else { break };
            path = format!("{first}&NextToken={}", token.split('<').next().unwrap().replace('=', "%3D"));
        }
        print("DescribeInstances by tag", started.elapsed(), described);
        let started = Instant::now();
        let ids: Vec<String> = self.world.ec2().instances().into_iter().map(|instance| instance.id).collect();
        let mut described = 0;
        for ids in ids.chunks(IDS) {
            let ids = ids.iter().enumerate().map(|(index, id)| format!("&InstanceId.{}={id}", index + 1));
            let body = get(&aws, &format!("/?Action=DescribeInstances{}", ids.collect::<String>())).await;
            described += String::from_utf8(body).unwrap().matches("<instanceState>").count();
        }
        print("DescribeInstances by 256 ids", started.elapsed(), described);
        assert_eq!(described, nodes);
    }

    /// Several clients watch pods while these change.
    async fn watches(&mut self, kubernetes: &str) {
        let revision = self.world.api().revision();
        let path = format!("/api/v1/pods?watch=1&timeoutSeconds=600&resourceVersion={revision}");
        let received: Vec<Arc<Mutex<usize>>> = (0..WATCHES).map(|_| Arc::default()).collect();
        for count in received.clone() {
            let request = format!("GET {path} HTTP/1.0\r\n\r\n");
            let mut stream = TcpStream::connect(kubernetes).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                loop {
                    let read = stream.read(&mut buffer).unwrap_or(0);
                    if read == 0 {
                        return;
                    }
                    // Besides those of the changes, the head of the answer has lines.
                    *count.lock().unwrap() += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let started = Instant::now();
        self.touch(WATCHED_CHANGES);
        let changed = started.elapsed();
        while received.iter().any(|count| *count.lock().unwrap() < WATCHED_CHANGES) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        print("changes", changed, WATCHED_CHANGES);
        print("watches of them", started.elapsed(), WATCHES);
    }
}

async fn serve(router: axum::Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn get(address: &str, path: &str) -> Vec<u8> {
    ask(address, &format!("GET {path} HTTP/1.0\r\n\r\n")).await
}

/// Sends a request and returns the body of the answer.
async fn ask(address: &str, request: &str) -> Vec<u8> {
    let (address, request) = (address.to_owned(), request.to_owned());
    let exchange = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    };
    let mut answer = tokio::task::spawn_blocking(exchange).await.unwrap();
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    assert!(answer.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&answer));
    answer.split_off(head + 4)
}
