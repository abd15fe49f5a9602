//! A stage for the functions: the claims table and the queues on moto, or the table in DynamoDB Local, the cluster and EC2
//! simulated, everything over HTTP and in real time. What a function calls is counted by the [`Proxy`]s in front.

use crate::Server;
use crate::lambda::{Function, sample};
use crate::proxy::{Counts, Outage, Proxy};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use aws_sdk_sqs::types::QueueAttributeName;
use jiff::{SignedDuration, Timestamp};
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_fake_aws::aws_router_with_clock;
use nodeless_fake_kubernetes::{ApiServer, CreateOptions, ListOptions, Resource, resource};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use nodeless_world::{JoinTiming, World, WorldOptions};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

/// The URLs of the queues.
struct Queues {
    plan: String,
    claims: String,
    interruption: String,
    catalog: String,
}

impl Queues {
    /// The queues of a cluster, as the Terraform module names them.
    async fn create(sqs: &aws_sdk_sqs::Client, cluster: &str) -> Self {
        let create = async |suffix: &str| create_queue(sqs, &format!("nodeless-{cluster}-{suffix}")).await;
        Self {
            plan: create("plan.fifo").await,
            claims: create("claims").await,
            interruption: create("interruption").await,
            catalog: create("catalog.fifo").await,
        }
    }

    /// The ARN of the queue of each function.
    fn arns(&self) -> Value {
        json!({
            "planner": arn(&self.plan), "lifecycle": arn(&self.claims), "interruption": arn(&self.interruption),
            "catalog": arn(&self.catalog),
        })
    }
}

/// The ARN of a queue with this URL.
fn arn(url: &str) -> String {
    format!("arn:aws:sqs:us-east-1:111122223333:{}", url.rsplit('/').next().unwrap_or_default())
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
            account.add_cluster(cluster, &kubernetes_proxy.url, "", "1.33", Timestamp::now());
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

    /// Creates a topic. Returns its ARN, and the URL of a queue that gets its messages.
    ///
    /// # Panics
    /// When moto refuses it.
    pub async fn topic(&self, name: &str) -> (String, String) {
        let (sns, sqs) = (aws_sdk_sns::Client::new(&self.config), aws_sdk_sqs::Client::new(&self.config));
        let topic = sns.create_topic().name(name).send().await.expect("moto makes a topic");
        let topic = topic.topic_arn.expect("a topic has an ARN");
        let queue = create_queue(&sqs, &format!("{name}-subscriber")).await;
        let read = sqs.get_queue_attributes().queue_url(&queue).attribute_names(QueueAttributeName::QueueArn);
        let attributes = read.send().await.expect("moto describes a queue").attributes.unwrap_or_default();
        let subscribe =
            sns.subscribe().topic_arn(&topic).protocol("sqs").endpoint(&attributes[&QueueAttributeName::QueueArn]);
        subscribe.send().await.expect("moto subscribes a queue");
        (topic, queue)
    }

    /// Takes the messages that a topic has sent to this queue.
    ///
    /// # Panics
    /// When moto gives none.
    pub async fn published(&self, queue: &str) -> Vec<Value> {
        let taken = self.take(queue).await;
        let body = |record: &Value| serde_json::from_str(record["body"].as_str().unwrap_or_default());
        let bodies = taken["Records"].as_array().into_iter().flatten().map(body);
        bodies.collect::<Result<_, _>>().expect("a topic sends JSON")
    }

    /// Writes an item of the claims table of this cluster: a version of 1, a record, and more numbers and texts.
    ///
    /// # Panics
    /// When the table cannot be written.
    pub async fn put_record(&self, sort: &str, record: Vec<u8>, more: &[(&str, AttributeValue)]) {
        let table = aws_sdk_dynamodb::Client::new(&config(&self.table().url).await);
        let mut put = table
            .put_item()
            .table_name(TABLE)
            .item("pk", AttributeValue::S(self.cluster.clone()))
            .item("sk", AttributeValue::S(sort.to_owned()))
            .item("version", AttributeValue::N("1".to_owned()))
            .item("record", AttributeValue::B(record.into()));
        for (name, value) in more {
            put = put.item(*name, value.clone());
        }
        put.send().await.expect("the table takes the item");
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

    /// The records of this kind in the claims table of this cluster, by their sort key.
    ///
    /// # Panics
    /// When the table cannot be read.
    pub async fn records(&self, prefix: &str) -> BTreeMap<String, Value> {
        let table = config(&self.table().url).await;
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let query = aws_sdk_dynamodb::Client::new(&table)
            .query()
            .table_name(TABLE)
            .consistent_read(true)
            .key_condition_expression("pk = :cluster AND begins_with(sk, :prefix)")
            .expression_attribute_values(":cluster", text(&self.cluster))
            .expression_attribute_values(":prefix", text(prefix));
        let items = query.send().await.expect("moto answers queries").items.unwrap_or_default();
        let of = |item: &HashMap<String, AttributeValue>, name: &str| Some(item.get(name)?.as_s().ok()?.clone());
        let record = |item| Some((of(&item, "sk")?, serde_json::from_str(&of(&item, "record")?).ok()?));
        items.into_iter().filter_map(record).collect()
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

    /// Takes all messages that are due from the plan queue, as the event that Lambda would make of them.
    pub async fn plan_messages(&self) -> Value {
        self.take(&self.queues.plan).await
    }

    /// Takes all messages that are due from the claims queue, as the event that Lambda would make of them.
    pub async fn claims_messages(&self) -> Value {
        self.take(&self.queues.claims).await
    }

    /// Takes all messages that are due from the catalog queue, as the event that Lambda would make of them.
    pub async fn catalog_messages(&self) -> Value {
        self.take(&self.queues.catalog).await
    }

    async fn take(&self, queue: &str) -> Value {
        let mut records = Vec::new();
        let sqs = aws_sdk_sqs::Client::new(&self.config);
        loop {
            let request = sqs.receive_message().queue_url(queue).max_number_of_messages(10);
            let received = request.send().await.expect("moto gives messages");
            if received.messages().is_empty() {
                return json!({ "Records": records });
            }
            for message in received.messages() {
                records.push(json!({
                    "messageId": message.message_id(), "body": message.body(), "receiptHandle": message.receipt_handle(),
                    "attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs", "eventSourceARN": arn(queue),
                }));
                let handle = message.receipt_handle().expect("a message has a handle");
                let delete = sqs.delete_message().queue_url(queue).receipt_handle(handle);
                delete.send().await.expect("moto deletes a message");
            }
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

/// A queue of this name; a FIFO queue where the name reports it.
async fn create_queue(sqs: &aws_sdk_sqs::Client, name: &str) -> String {
    let mut request = sqs.create_queue().queue_name(name);
    if name.ends_with(".fifo") {
        request = request.attributes(QueueAttributeName::FifoQueue, "true");
    }
    request.send().await.expect("moto makes a queue").queue_url.expect("a queue has a URL")
}

/// The table as the Terraform module makes it.
///
/// # Panics
/// When it cannot be created.
pub async fn create_table(config: &SdkConfig) {
    let key = |name: &str, kind| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().expect("a key is whole")
    };
    let attribute = |name: &str| {
        let text = AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
        text.build().expect("an attribute is whole")
    };
    let index = GlobalSecondaryIndex::builder()
        .index_name("instance")
        .key_schema(key("instanceId", KeyType::Hash))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
        .expect("an index is whole");
    aws_sdk_dynamodb::Client::new(config)
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("pk"))
        .attribute_definitions(attribute("sk"))
        .attribute_definitions(attribute("instanceId"))
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .global_secondary_indexes(index)
        .send()
        .await
        .expect("the table is created");
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
