//! Tokens that the API server rejects.

use crate::{Stopped, World, connect, node};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_kubernetes::{ApiServer as Address, Connection, KubeCluster};
use nodeless_ports::{ErrorKind, NodesAndPods as _, PlanningView as _};
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn a_call_with_a_rejected_token_is_repeated_with_a_new_token() {
    let world = World::installed().await;
    world.create(&NODES, node("a"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let address = Address { url: world.url.clone(), certificate_authority: None };
    let connection = Connection::with_tokens(&address, move |refused| {
        let token = if refused.is_some() { "right" } else { "expired" };
        seen.lock().unwrap().push(refused);
        async move { Ok(token.to_owned()) }
    });
    let cluster = KubeCluster::new(connection.await.unwrap(), Stopped::context());
    assert_eq!(cluster.view().await.unwrap().nodes.len(), 1);
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let first = asked.iter().filter(|refused| refused.is_none()).count();
    let again = asked.iter().filter(|refused| refused.as_deref() == Some("expired")).count();
    assert!(
        first > 0 && first == again && asked.len() == 2 * first,
        "each call requests a token, and a new one after the rejection: {asked:?}"
    );
}

#[tokio::test]
async fn a_call_is_not_repeated_without_a_new_token() {
    let world = World::installed().await;
    let cluster = KubeCluster::new(connect(&world.url, "wrong").await, Stopped::context());
    let _installing = world.requests();
    let refused = cluster.view().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Denied);
    let requests = world.requests();
    let mut distinct = requests.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(requests.len(), distinct.len(), "{requests:?}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_or_authenticate_puts_its_address_in_doubt() {
    let world = World::installed().await;
    let cluster = |connection: &Connection| KubeCluster::new(connection.clone(), Stopped::context());
    let right = connect(&world.url, "right").await;
    assert_eq!(cluster(&right).node("missing").await, Ok(None));
    assert!(!right.take_doubt(), "it answers");
    let wrong = connect(&world.url, "wrong").await;
    cluster(&wrong).node("missing").await.unwrap_err();
    assert!(wrong.take_doubt() && !wrong.take_doubt(), "until it is asked");
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = connect(&format!("http://{free}"), "right").await;
    cluster(&nobody).node("missing").await.unwrap_err();
    assert!(nobody.take_doubt());
}
