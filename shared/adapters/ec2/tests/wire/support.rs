//! An account on loopback, and things to launch in it.

use async_trait::async_trait;
use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use jiff::{SignedDuration, Timestamp};
use nodeless_api::{EC2NodeClass, test_support};
use nodeless_catalog::Facts;
use nodeless_ec2::{AwsCatalogSource, ClusterDetails, Ec2Cloud, NodeProfile};
use nodeless_fake_aws::{Account, Ec2, RegionFacts, aws_router};
use nodeless_model::claim::LaunchGroup;
use nodeless_model::instance::LaunchOutcome;
use nodeless_model::{CapacityType, NodeClaim, NodeClaimSpec, NodeClaimStatus, Phase, ResourceList, StringMap};
use nodeless_ports::cloud::{LaunchCandidate, LaunchRequest};
use nodeless_ports::{CatalogSource, Cloud as _, ControlPlane, DescribeControlPlane, PortError};
use nodeless_telemetry::{Captured, Context, Null, Sink, SystemClock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

pub(crate) const CLUSTER: &str = "prod";
pub(crate) const ACCOUNT: &str = "123456789012";

const TYPES: [&str; 5] = ["g5.xlarge", "m5.large", "m5.metal", "m5.xlarge", "m6g.large"];

/// All that two zones of us-east-1 sell.
pub(crate) fn facts() -> Facts {
    Facts::embedded().unwrap().within_zones(&["us-east-1a", "us-east-1b"])
}

/// A simulated account that is served for as long as the test runs.
pub(crate) struct SimulatedAws {
    pub(crate) ec2: Ec2,
    pub(crate) config: SdkConfig,
    lines: Arc<Captured>,
    service: Service,
}

/// The wall clock, as the simulated account has it, and a log.
fn logging_to(sink: Arc<dyn Sink>) -> Context {
    Context { cluster_name: CLUSTER.into(), clock: Arc::new(SystemClock), sink }
}

pub(crate) fn context() -> Context {
    logging_to(Arc::new(Null))
}

/// What a test changes about the service.
#[derive(Clone)]
struct Service {
    ec2: Ec2,
    filters_fail: Arc<AtomicBool>,
    /// Milliseconds of the account's time that a call takes.
    call_takes: Arc<AtomicI64>,
}

/// Lets time pass, and refuses DescribeInstances without ids, where that is asked for.
async fn as_asked_for(State(service): State<Service>, request: Request, next: Next) -> Response {
    let now = service.ec2.now() + SignedDuration::from_millis(service.call_takes.load(Ordering::Relaxed));
    service.ec2.advance_to(now);
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 1 << 20).await else { return StatusCode::BAD_REQUEST.into_response() };
    let text = String::from_utf8_lossy(&body);
    if service.filters_fail.load(Ordering::Relaxed)
        && text.contains("Action=DescribeInstances&")
        && !text.contains("InstanceId.1=")
    {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

pub(crate) async fn config(url: &str) -> SdkConfig {
    config_in("us-east-1", url).await
}

async fn config_in(region: &str, url: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new(region.to_owned()))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1)))
        .endpoint_url(url)
        .load()
        .await
}

pub(crate) fn details() -> ClusterDetails {
    ClusterDetails {
        name: CLUSTER.into(),
        version: "1.33".into(),
        endpoint: "https://api.example.com".into(),
        certificate_authority: "Q0E=".into(),
        service_cidr: Some("10.100.0.0/16".into()),
    }
}

/// A control plane that is not upgraded.
struct NotUpgraded;

#[async_trait]
impl DescribeControlPlane for NotUpgraded {
    async fn control_plane(&self) -> Result<ControlPlane, PortError> {
        let details = details();
        Ok(ControlPlane { version: details.version, certificate_authority: Some(details.certificate_authority) })
    }
}

pub(crate) fn control_plane() -> Arc<dyn DescribeControlPlane> {
    Arc::new(NotUpgraded)
}

impl SimulatedAws {
    /// An account with a network, images and a node role for the cluster, in two zones that sell a few types.
    pub(crate) async fn new() -> Self {
        let mut facts = facts();
        facts.instance_types.retain(|name, _| TYPES.contains(&name.as_str()));
        Self::selling(&facts).await
    }

    /// Like [`Self::new`], in zones that sell these instance types.
    pub(crate) async fn selling(facts: &Facts) -> Self {
        let now = Timestamp::now();
        let account = Account::for_cluster(ACCOUNT, RegionFacts::from_catalog(facts), CLUSTER, "1.33", now);
        let ec2 = Ec2::new(account, now);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Service { ec2: ec2.clone(), filters_fail: Arc::default(), call_takes: Arc::default() };
        let router = aws_router(ec2.clone()).layer(axum::middleware::from_fn_with_state(service.clone(), as_asked_for));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { config: config_in(&facts.region, &url).await, ec2, lines: Arc::default(), service }
    }

    /// Has DescribeInstances answer calls with ids alone, as EC2 does while a zone is impaired.
    pub(crate) fn impair_a_zone(&self) {
        self.service.filters_fail.store(true, Ordering::Relaxed);
    }

    /// Has the account's time advance with each call. Without it, no token of a bucket is refilled.
    pub(crate) fn calls_take(&self, milliseconds: i64) {
        self.service.call_takes.store(milliseconds, Ordering::Relaxed);
    }

    /// A cloud that remembers nothing, as after a cold start.
    pub(crate) fn cloud(&self) -> Ec2Cloud {
        Ec2Cloud::new(&self.config, details(), control_plane(), self.context())
    }

    pub(crate) fn context(&self) -> Context {
        logging_to(self.lines.clone())
    }

    /// The events of the log lines since the last call, with their other fields.
    pub(crate) fn events(&self) -> BTreeMap<String, Value> {
        self.lines.take().into_iter().map(|line| (line["event"].as_str().unwrap().to_owned(), line)).collect()
    }

    pub(crate) fn source(&self) -> AwsCatalogSource {
        self.source_in(false)
    }

    /// The source of a deployment that uses commitments.
    pub(crate) fn source_with_commitments(&self) -> AwsCatalogSource {
        self.source().with_commitments(&self.config)
    }

    /// The source of functions in an isolated VPC.
    pub(crate) fn isolated_source(&self) -> AwsCatalogSource {
        self.source_in(true)
    }

    fn source_in(&self, isolated: bool) -> AwsCatalogSource {
        let made = NodeProfile { role: format!("{CLUSTER}-node"), name: format!("{CLUSTER}-node") };
        AwsCatalogSource::new(&self.config, details(), control_plane(), Some(made), isolated, self.context()).unwrap()
    }

    /// The class of these fields, resolved.
    pub(crate) async fn resolved(&self, fields: Value) -> EC2NodeClass {
        let mut class = class(&fields);
        class.status = Some(self.source().resolve(&class).await.unwrap());
        class
    }

    /// How often an API was called, such as `ec2:CreateFleet`.
    pub(crate) fn calls(&self, api: &str) -> u64 {
        self.ec2.call_counts().get(api).copied().unwrap_or_default()
    }
}

/// An EC2NodeClass that selects what [`SimulatedAws::new`] makes, with these fields in its spec; null removes one.
pub(crate) fn class(fields: &Value) -> EC2NodeClass {
    let mut class = test_support::ec2_node_class("default", CLUSTER, fields);
    class.spec.tags.entry("team".to_owned()).or_insert_with(|| "a".to_owned());
    class.metadata.uid = Some("11111111-2222-3333-4444-555555555555".to_owned());
    class.metadata.generation = Some(4);
    class
}

/// A member of a launch group.
pub(crate) fn claim(group: &str, size: u32) -> NodeClaim {
    NodeClaim {
        name: "default-abcde".into(),
        uid: format!("uid-of-{group}"),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: Timestamp::UNIX_EPOCH,
        version: 1,
        spec: NodeClaimSpec {
            labels: StringMap::from([("karpenter.sh/nodepool".to_owned(), "default".to_owned())]),
            launch_group: Some(LaunchGroup { id: group.into(), index: 0, size, all_or_none: false }),
            ..NodeClaimSpec::default()
        },
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    }
}

/// An offering to launch: type, zone letter, capacity type, dollars an hour.
pub(crate) fn candidate(instance_type: &str, zone: &str, capacity_type: CapacityType, price: f64) -> LaunchCandidate {
    let is_arm = instance_type.split('.').next().unwrap().ends_with('g');
    LaunchCandidate {
        instance_type: instance_type.into(),
        architecture: if is_arm { "arm64".into() } else { "amd64".into() },
        labels: BTreeMap::new(),
        max_pods: 29,
        kube_reserved: ResourceList::new(),
        system_reserved: ResourceList::new(),
        zone: format!("us-east-1{zone}"),
        capacity_type,
        price,
        reservation_id: None,
        partition: None,
        efa_interfaces: 0,
        root_volume_gib: None,
    }
}

pub(crate) async fn launch(
    cloud: &Ec2Cloud,
    claim: &NodeClaim,
    node_class: &EC2NodeClass,
    candidates: &[LaunchCandidate],
) -> Result<LaunchOutcome, PortError> {
    cloud.launch(LaunchRequest { claim, node_class, candidates }).await
}

/// A world with an EC2NodeClass that has only defaults.
pub(crate) async fn ready() -> (SimulatedAws, EC2NodeClass) {
    let world = SimulatedAws::new().await;
    let class = world.resolved(json!({})).await;
    (world, class)
}

pub(crate) fn m5() -> [LaunchCandidate; 1] {
    [candidate("m5.large", "a", CapacityType::OnDemand, 0.096)]
}

pub(crate) fn ids(outcome: &LaunchOutcome) -> Vec<String> {
    outcome.instances.iter().map(|instance| instance.id.clone()).collect()
}
