//! A stage for the functions: the claims table and the queues on moto, or the table in DynamoDB Local, the cluster and EC2
//! simulated, everything over HTTP and in real time. What a function calls is counted by the [`Proxy`]s in front.

mod tables;

pub use tables::create_table;

use crate::Server;
use crate::lambda::{Function, sample};
use crate::proxy::{Counts, Outage, Proxy};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::{SignedDuration, Timestamp};
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_fake_aws::aws_router_with_clock;
use nodeless_fake_kubernetes::{ApiServer, CreateOptions, ListOptions, Resource, resource};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use nodeless_world::{JoinTiming, World, WorldOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tables::Queues;

/// The name of the claims table.
pub const TABLE: &str = "nodeless";
/// The cluster's name in EKS.
pub const CLUSTER: &str = "example";
/// The role of the installer, which has an access entry in the cluster.
pub const INSTALLER_ROLE: &str = "arn:aws:iam::111122223333:role/nodeless-installer";
/// How long a test waits for something to become true; far more than anything takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A stage.
pub struct Stage {
    /// The cluster and EC2.
    pub world: Arc<Mutex<World>>,
    /// The cluster's name in EKS.
    pub cluster: String,
    /// Beside the world, which a step of the simulation locks.
    api: ApiServer,
    moto_proxy: Proxy,
    /// In front of DynamoDB Local, if the table is there.
    table_proxy: Option<Proxy>,
    aws_proxy: Proxy,
    kubernetes_proxy: Proxy,
    config: SdkConfig,
    queues: Queues,
    servers: Vec<Arc<Server>>,
}

/// A dependency of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// DynamoDB and SQS.
    Tables,
    /// EC2, EKS, IAM, SSM and Pricing.
    Ec2,
    /// The cluster's API server.
    Kubernetes,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stage")
    }
}

impl Stage {
    /// Sets the stage. `None` when moto is not installed.
    ///
    /// # Panics
    /// When something of it cannot be started.
    pub async fn start() -> Option<Self> {
        let moto = Arc::new(crate::moto()?);
        let moto_proxy = Proxy::start(&moto.url).await;
        create_table(&config(&moto.url).await).await;
        Some(Self::new(CLUSTER, vec![moto], moto_proxy, None).await)
    }

    /// Starts a stage with the table in DynamoDB Local, which reports the capacity units that calls consume. `None` when moto or DynamoDB
    /// Local is not installed.
    ///
    /// # Panics
    /// When a part of it cannot be started.
    pub async fn with_dynamodb_local() -> Option<Self> {
        let (moto, dynamodb) = (Arc::new(crate::moto()?), crate::dynamodb_local()?);
        let moto_proxy = Proxy::start(&moto.url).await;
        let table_proxy = Proxy::measuring(&dynamodb.url).await;
        create_table(&config(&dynamodb.url).await).await;
        Some(Self::new(CLUSTER, vec![moto, dynamodb], moto_proxy, Some(table_proxy)).await)
    }

    /// Another cluster whose functions are those of this stage, as Terraform registers it with `shared_functions`.
    ///
    /// # Panics
    /// When something of it cannot be started.
    pub async fn beside(&self, cluster: &str) -> Self {
        let other = Self::new(cluster, self.servers.clone(), self.moto_proxy.clone(), self.table_proxy.clone()).await;
        let environment: BTreeMap<String, String> = other.environment().into_iter().collect();
        let text = |value: String| AttributeValue::S(value);
        let table = config(&self.table().url).await;
        aws_sdk_dynamodb::Client::new(&table)
            .put_item()
            .table_name(TABLE)
            .item("pk", text("#clusters".to_owned()))
            .item("sk", text(format!("cluster#{cluster}")))
            .item("queues", text(other.queues.arns().to_string()))
            .item("environment", text(json!(environment).to_string()))
            .send()
            .await
            .expect("moto takes the item");
        other
    }

    async fn new(cluster: &str, servers: Vec<Arc<Server>>, moto_proxy: Proxy, table_proxy: Option<Proxy>) -> Self {
        // The first server is moto. Calls of the stage itself go past the proxies, so they are not counted.
        let config = config(&servers[0].url).await;
        let queues = Queues::create(&aws_sdk_sqs::Client::new(&config), cluster).await;
        let second = SignedDuration::from_secs(1);
        let options = WorldOptions {
            start: Timestamp::now(),
            cluster_name: cluster.to_owned(),
            // Machines that start at once: what is tested is not their patience.
            join: JoinTiming { registers_after: second, ready_after: second, ..JoinTiming::default() },
            ..WorldOptions::default()
        };
        let world = World::new(options).expect("the embedded facts are whole");
        let (api, ec2) = (world.api().clone(), world.ec2().clone());
        let kubernetes_proxy = Proxy::start(&serve(api.router()).await).await;
        ec2.change_account(|account| {
            account.add_cluster(cluster, &kubernetes_proxy.url, "", "1.36", Timestamp::now());
            let entries = account.clusters.iter_mut().map(|cluster| &mut cluster.access_entries);
            entries.for_each(|entries| drop(entries.insert(INSTALLER_ROLE.to_owned(), BTreeMap::new())));
            account.timing.start_up = second;
            account.timing.shut_down = second;
            // Measurements launch thousands of nodes. AWS raises this limit on request.
            account.launches_at_once = u32::MAX;
        });
        let aws_proxy = Proxy::start(&serve(aws_router_with_clock(ec2, Timestamp::now)).await).await;
        let world = Arc::new(Mutex::new(world));
        drive(&world);
        let cluster = cluster.to_owned();
        let stage =
            Self { world, cluster, api, moto_proxy, table_proxy, aws_proxy, kubernetes_proxy, config, queues, servers };
        stage.forget_calls();
        stage
    }

    /// The environment that Terraform would give the functions of this cluster.
    fn environment(&self) -> Vec<(String, String)> {
        let aws = self.aws_proxy.url.as_str();
        let variables = [
            ("AWS_ENDPOINT_URL_DYNAMODB", self.table().url.as_str()),
            ("AWS_ENDPOINT_URL_EC2", aws),
            ("AWS_ENDPOINT_URL_EKS", aws),
            ("AWS_ENDPOINT_URL_IAM", aws),
            ("AWS_ENDPOINT_URL_PRICING", aws),
            ("AWS_ENDPOINT_URL_SSM", aws),
            ("CLUSTER_NAME", &self.cluster),
            ("NODELESS_TABLE", TABLE),
            ("NODELESS_PLAN_QUEUE_URL", &self.queues.plan),
            ("NODELESS_CLAIMS_QUEUE_URL", &self.queues.claims),
            ("NODELESS_CATALOG_QUEUE_URL", &self.queues.catalog),
            ("NODELESS_INTERRUPTION_QUEUE_URL", &self.queues.interruption),
            ("NODELESS_WAKE_PATH", "/secret"),
            ("NODELESS_ROLE_ARN", INSTALLER_ROLE),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// Starts a function binary with the environment that Terraform would give it.
    pub async fn function(&self, binary: &str) -> Function {
        self.function_with(binary, &[]).await
    }

    /// Starts a function binary with this memory in megabytes.
    pub async fn function_of_memory(&self, binary: &str, megabytes: u32) -> Function {
        self.function_with(binary, &[("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &megabytes.to_string())]).await
    }

    /// Starts a function binary with these variables beside those of a module with its defaults.
    pub async fn function_with(&self, binary: &str, more: &[(&str, &str)]) -> Function {
        let environment = self.environment();
        let mut variables = vec![("AWS_ENDPOINT_URL", self.moto_proxy.url.as_str())];
        variables.extend(environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        variables.extend(more);
        Function::start(binary, &variables).await
    }

    /// A file of `events/` as the queue of this cluster delivers it to a function.
    ///
    /// # Panics
    /// When there is no such file, or it is not an event of a queue.
    #[must_use]
    pub fn delivered(&self, file: &str) -> Value {
        let mut event = sample(file);
        let function = file.split('.').next().unwrap_or_default();
        for record in event["Records"].as_array_mut().expect("it is an event of a queue") {
            record["eventSourceARN"] = self.queues.arns()[function].clone();
        }
        event
    }

    /// Deletes the cluster and creates it again under the same name, as its clients observe it: another endpoint leads to its API server,
    /// and the first one answers no more.
    ///
    /// # Panics
    /// When the API server cannot be served.
    pub async fn create_cluster_again(&self) {
        self.fail(Service::Kubernetes, Some(Outage::Refuse));
        let url = serve(self.api.router()).await;
        let ec2 = self.world.lock().unwrap_or_else(PoisonError::into_inner).ec2().clone();
        ec2.change_account(|account| {
            let own = account.clusters.iter_mut().filter(|cluster| cluster.name == self.cluster);
            own.for_each(|cluster| cluster.endpoint.clone_from(&url));
        });
    }

    /// Has a service fail every call like this from now on, or work again.
    pub fn fail(&self, service: Service, outage: Option<Outage>) {
        self.proxy(service).fail(outage);
    }

    /// Loses the answers to calls of this name, such as `EC2 CreateFleet`, from now on, or no more.
    pub fn lose_answers(&self, service: Service, name: Option<&str>) {
        self.proxy(service).lose_answers(name);
    }

    /// Has calls of this name, such as `DynamoDB TransactWriteItems`, take no effect and get no answer from now on, or no more.
    pub fn hold(&self, service: Service, name: Option<&str>) {
        self.proxy(service).hold(name);
    }

    fn proxy(&self, service: Service) -> &Proxy {
        match service {
            Service::Tables => self.table(),
            Service::Ec2 => &self.aws_proxy,
            Service::Kubernetes => &self.kubernetes_proxy,
        }
    }

    /// In front of the table.
    fn table(&self) -> &Proxy {
        self.table_proxy.as_ref().unwrap_or(&self.moto_proxy)
    }

    /// The Kubernetes API, in the process.
    #[must_use]
    pub fn api(&self) -> ApiServer {
        self.api.clone()
    }

    /// Creates an object.
    ///
    /// # Panics
    /// When the API server refuses it.
    pub fn create(&self, resource: &Resource, object: Value) {
        self.api().create(resource, object, &CreateOptions::default()).expect("the API server takes it");
    }

    /// All objects of a resource.
    ///
    /// # Panics
    /// When the API server refuses to list them.
    #[must_use]
    pub fn list(&self, resource: &Resource) -> Vec<Arc<Value>> {
        self.api().list(resource, &ListOptions::default()).expect("the API server lists it").items
    }

    /// Creates a NodePool, an EC2NodeClass and a number of pods of one CPU and one GiB.
    pub fn create_inflate(&self, replicas: u32) {
        self.create(&NODE_CLASSES, node_class_of(&self.cluster, "default"));
        self.create(&NODE_POOLS, node_pool("default"));
        self.create(&resource::DEPLOYMENTS, inflate(replicas));
    }

    /// Waits until something becomes true.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        while !holds(self) {
            assert!(tokio::time::Instant::now() < deadline, "it did not become true within a minute: {what}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The functions' calls since this was last called, without the calls of the stage itself.
    #[must_use]
    pub fn calls(&self) -> Counts {
        let mut counts = self.moto_proxy.take();
        let others = [Some(&self.aws_proxy), Some(&self.kubernetes_proxy), self.table_proxy.as_ref()];
        for (name, count) in others.into_iter().flatten().flat_map(Proxy::take) {
            *counts.entry(name).or_default() += count;
        }
        counts
    }

    /// Forgets the calls so far.
    pub fn forget_calls(&self) {
        let _forgotten = self.calls();
    }
}

/// Lets the world follow the wall clock for as long as anybody holds it. A large world takes at most half of the time of one core.
fn drive(world: &Arc<Mutex<World>>) {
    let world = Arc::downgrade(world);
    tokio::spawn(async move {
        let mut step = Duration::ZERO;
        loop {
            tokio::time::sleep(step.max(Duration::from_millis(20))).await;
            let Some(world) = world.upgrade() else { return };
            let started = std::time::Instant::now();
            let result = world.lock().unwrap_or_else(PoisonError::into_inner).jump_to(Timestamp::now());
            result.expect("the world continues");
            step = started.elapsed();
        }
    });
}

async fn serve(router: axum::Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

async fn config(url: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(url)
        .load()
        .await
}

/// A NodePool of amd64 machines, on demand, whose empty nodes go at once.
#[must_use]
pub fn node_pool(name: &str) -> Value {
    let requirements = json!([
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
    ]);
    let disruption = json!({ "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s" });
    node_pool_manifest(name, &requirements, &json!({ "disruption": disruption }))
}

/// An EC2NodeClass for the simulated account.
#[must_use]
pub fn node_class(name: &str) -> Value {
    node_class_of(CLUSTER, name)
}

/// An EC2NodeClass of another cluster.
#[must_use]
pub fn node_class_of(cluster: &str, name: &str) -> Value {
    ec2_node_class_manifest(name, cluster, &json!({}))
}

/// The deployment that everybody tries autoscalers with.
#[must_use]
pub fn inflate(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "inflate", "namespace": "default" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": "inflate" } },
            "template": {
                "metadata": { "labels": { "app": "inflate" } },
                "spec": { "containers": [{
                    "name": "inflate", "image": "registry.k8s.io/pause:3.10",
                    "resources": { "requests": { "cpu": "1", "memory": "1Gi" } },
                }] },
            },
        },
    })
}
