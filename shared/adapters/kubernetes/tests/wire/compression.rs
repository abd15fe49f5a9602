//! Long responses are compressed, as kube-apiserver does for clients that accept gzip when a response has 128 KiB or more.

use crate::{Stopped, World, connect, pod};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use nodeless_fake_kubernetes::resource::PODS;
use nodeless_kubernetes::KubeCluster;
use nodeless_ports::PlanningView as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const COMPRESSED_FROM: usize = 128 * 1024;

/// Compresses a long response if the request accepts it, and counts it.
async fn compress(request: Request, next: Next, compressed: Arc<AtomicUsize>) -> Response {
    let accepts = request.headers().get(ACCEPT_ENCODING).is_some_and(|value| value.to_str().unwrap().contains("gzip"));
    let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
    let response = next.run(request).await;
    if !accepts || watches {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    if body.len() < COMPRESSED_FROM {
        return Response::from_parts(parts, Body::from(body));
    }
    compressed.fetch_add(1, Ordering::Relaxed);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&body).unwrap();
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(encoder.finish().unwrap()))
}

#[tokio::test]
async fn long_responses_are_read_compressed() {
    let world = World::installed().await;
    for index in 0..600 {
        let mut pending = pod(&format!("pod-{index}"), None);
        pending["metadata"]["annotations"] = serde_json::json!({ "notes": "a".repeat(1024) });
        world.create(&PODS, pending);
    }
    let compressed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&compressed);
    let layer = axum::middleware::from_fn(move |request: Request, next: Next| compress(request, next, counter.clone()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = world.server.router().layer(layer);
    tokio::spawn(async move { axum::serve(listener, router).await });

    let cluster = KubeCluster::new(connect(&url, "right").await, Stopped::context());
    let view = cluster.view().await.unwrap();
    assert_eq!(view.pods.len(), 600);
    assert!(compressed.load(Ordering::Relaxed) > 0, "a page of 500 pods has more than 128 KiB");
}
