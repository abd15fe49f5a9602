//! The adapter against an API server in memory, over HTTP.
#![allow(clippy::unwrap_used)]

mod claims;
mod cluster_state;
mod compression;
mod deployments;
mod facts;
mod following;
mod installing;
mod nodes;
mod other_controllers;
mod pods;
mod tokens;
mod views;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_fake_kubernetes::{ApiServer, CreateOptions, Options, Resource};
use nodeless_kubernetes::install::{self, Rights, Wake};
use nodeless_kubernetes::{ApiServer as Address, Connection, KubeCluster, KubeObjects};
use nodeless_ports::Clock;
use nodeless_telemetry::{Captured, Context, Null, Sink};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// An API server and a connection to it.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) connection: Connection,
    pub(crate) url: String,
    requests: Requests,
    faults: Faults,
}

/// The requests that an API server received: method, path and query.
type Requests = Arc<Mutex<Vec<String>>>;

/// A clock that always shows [`Stopped::TIME`].
pub(crate) struct Stopped;

impl Stopped {
    pub(crate) const TIME: jiff::Timestamp = jiff::Timestamp::constant(1_800_000_000, 0);

    pub(crate) fn context() -> Context {
        Self::logging_to(Arc::new(Null))
    }

    pub(crate) fn logging_to(sink: Arc<dyn Sink>) -> Context {
        Context { cluster_name: "prod".to_owned(), clock: Arc::new(Self), sink }
    }
}

#[async_trait::async_trait]
impl Clock for Stopped {
    fn now(&self) -> jiff::Timestamp {
        Self::TIME
    }

    async fn sleep(&self, _duration: std::time::Duration) {}
}

/// Requests that the API server does not get: the prefix of a request, and the status code and body of its response.
type Faults = Arc<Mutex<Vec<(&'static str, u16, String)>>>;

impl World {
    /// An empty cluster without the CRDs.
    pub(crate) async fn bare() -> Self {
        let mut options = Options::with_clock(Arc::new(jiff::Timestamp::now));
        options.token = Some("right".to_owned());
        let server = ApiServer::new(options).unwrap();
        let (url, requests, faults) = serve(&server).await;
        let connection = connect(&url, "right").await;
        Self { server, connection, url, requests, faults }
    }

    /// A cluster with the CRDs.
    pub(crate) async fn installed() -> Self {
        let world = Self::bare().await;
        install::install(&world.connection, None, &Wake::Keep, Rights::default()).await.unwrap();
        world
    }

    pub(crate) fn cluster(&self) -> KubeCluster {
        KubeCluster::new(self.connection.clone(), Stopped::context())
    }

    /// A cluster that resumes watches of nodes and pods, however few there are.
    pub(crate) fn watching_cluster(&self) -> KubeCluster {
        KubeCluster::new(KubeObjects::watching_above(self.connection.clone(), 0), Stopped::context())
    }

    /// Like [`Self::watching_cluster`], and its log lines are kept.
    pub(crate) fn logging_cluster(&self) -> (KubeCluster, Arc<Captured>) {
        let lines = Arc::new(Captured::default());
        let objects = KubeObjects::watching_above(self.connection.clone(), 0);
        (KubeCluster::new(objects, Stopped::logging_to(lines.clone())), lines)
    }

    /// The requests since the last call of this function.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    /// Answers the next requests with this prefix, such as `GET /api/v1/nodes`, with these status codes and bodies.
    pub(crate) fn answer(&self, request: &'static str, answers: impl IntoIterator<Item = (u16, String)>) {
        self.faults.lock().unwrap().extend(answers.into_iter().map(|(code, body)| (request, code, body)));
    }

    pub(crate) fn create(&self, resource: &Resource, object: Value) -> Arc<Value> {
        self.server.create(resource, object, &CreateOptions::default()).unwrap()
    }
}

async fn serve(server: &ApiServer) -> (String, Requests, Faults) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (requests, faults) = (Requests::default(), Faults::default());
    let (seen, planned) = (Arc::clone(&requests), Arc::clone(&faults));
    let router = server.router().layer(axum::middleware::from_fn(move |request: Request, next: Next| {
        let line = format!("{} {}", request.method(), request.uri());
        let fault = {
            let mut planned = planned.lock().unwrap();
            let found = planned.iter().position(|(begins, ..)| line.starts_with(begins));
            found.map(|index| planned.remove(index))
        };
        seen.lock().unwrap().push(line);
        async move {
            match fault {
                Some((_, code, body)) => (StatusCode::from_u16(code).unwrap(), body).into_response(),
                None => next.run(request).await,
            }
        }
    }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, requests, faults)
}

pub(crate) async fn connect(url: &str, token: &'static str) -> Connection {
    let address = Address { url: url.to_owned(), certificate_authority: None };
    Connection::with_tokens(&address, move |_| async move { Ok(token.to_owned()) }).await.unwrap()
}

pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
        } },
        "spec": { "providerID": format!("aws:///us-east-1a/i-{name}") }
    })
}

pub(crate) fn pod(name: &str, node: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": "web" } },
        "spec": { "nodeName": node, "containers": [
            { "name": "c", "image": "c", "resources": { "requests": { "cpu": "1" } } }
        ] }
    })
}

pub(crate) fn node_pool(name: &str) -> Value {
    node_pool_manifest(name, &json!([]), &json!({}))
}

pub(crate) fn node_class(name: &str) -> Value {
    ec2_node_class_manifest(name, "example", &json!({}))
}
