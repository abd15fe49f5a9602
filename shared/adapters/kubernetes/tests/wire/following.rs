//! Following a kind: a list, its changes, and a new list when the API server no longer has the changes.

use super::{World, node};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType};
use nodeless_kubernetes::follow::{Followed, Seen, follow};
use nodeless_ports::ErrorKind;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const ALL_NODES: Followed<'static> = Followed { kind: "Node", path: "/api/v1/nodes", fields: None };

/// Follows nodes, and returns what is seen as texts.
fn followed(world: &World) -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    let connection = world.connection.clone();
    tokio::spawn(async move {
        let ended = follow(&connection, ALL_NODES, |seen| {
            let text = match seen {
                Seen::ListBegins => "list".to_owned(),
                Seen::Listed(item) => format!("listed {}", item.name),
                Seen::ListEnds => "complete".to_owned(),
                Seen::Present(item) => format!("present {} {}", item.name, item.json.contains("unschedulable")),
                Seen::Absent(item) => format!("absent {}", item.name),
                Seen::Current => "current".to_owned(),
            };
            let _ = sender.send(text);
        });
        let _ = sender.send(format!("ended: {}", ended.await));
    });
    receiver
}

/// The next change; bookmarks may come at any time.
async fn change(seen: &mut UnboundedReceiver<String>) -> String {
    loop {
        let text = seen.recv().await.unwrap();
        if text != "current" {
            return text;
        }
    }
}

#[tokio::test]
async fn a_list_is_followed_by_its_changes() {
    let world = World::installed().await;
    world.create(&NODES, node("a"));
    let mut seen = followed(&world);
    for expected in ["list", "listed a", "complete", "current"] {
        assert_eq!(seen.recv().await.unwrap(), expected);
    }
    world.create(&NODES, node("b"));
    assert_eq!(change(&mut seen).await, "present b false");
    let cordon = json!({ "spec": { "unschedulable": true } });
    world.server.patch(&NODES, "", "a", None, PatchType::Merge, &cordon, &PatchOptions::default()).unwrap();
    assert_eq!(change(&mut seen).await, "present a true");
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    world.server.delete(&NODES, "", "b", &now).unwrap();
    assert_eq!(change(&mut seen).await, "absent b");
    let lists = world.requests().iter().filter(|it| it.contains("/nodes?") && !it.contains("watch")).count();
    assert_eq!(lists, 1, "changes are watched and not listed");
}

#[tokio::test]
async fn an_expired_version_leads_to_another_list() {
    let world = World::installed().await;
    world.create(&NODES, node("a"));
    let expired = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#;
    world.answer("GET /api/v1/nodes?&watch=true", [(410, expired.to_owned())]);
    let mut seen = followed(&world);
    for expected in ["list", "listed a", "complete", "list", "listed a", "complete"] {
        assert_eq!(seen.recv().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_not_found() {
    let world = World::bare().await;
    let pools = Followed { kind: "NodePool", path: "/apis/karpenter.sh/v1/nodepools", fields: None };
    let error = follow(&world.connection, pools, |_| {}).await;
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("does not serve NodePool") && error.message.contains("nodeless install"), "{error}");
}
