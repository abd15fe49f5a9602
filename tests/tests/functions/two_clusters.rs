//! Two clusters that share the functions of one deployment, each function in one process: a fault of one cluster affects only its own
//! messages.

use axum::http::StatusCode;
use nodeless_fake_kubernetes::resource;
use nodeless_tests::lambda::{Function, binary};
use nodeless_tests::proxy::Outage;
use nodeless_tests::stage::{Service, Stage};
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES};
use serde_json::{Value, json};
use std::time::Duration;

const BLUE: &str = r#""cluster":"example""#;
const GREEN: &str = r#""cluster":"green""#;

fn failed(answer: &Value) -> Vec<&str> {
    let failures = answer["batchItemFailures"].as_array().unwrap();
    failures.iter().map(|failure| failure["itemIdentifier"].as_str().unwrap()).collect()
}

fn running(stage: &Stage) -> bool {
    let pods = stage.list(&resource::PODS);
    !pods.is_empty() && pods.iter().all(|pod| pod["status"]["phase"] == "Running")
}

/// The functions of the first cluster's deployment.
struct Functions {
    planner: Function,
    lifecycle: Function,
    interruption: Function,
    catalog: Function,
}

impl Functions {
    async fn start(stage: &Stage) -> Self {
        Self {
            planner: stage.function(&binary("planner")).await,
            lifecycle: stage.function(&binary("lifecycle")).await,
            interruption: stage.function(&binary("interruption")).await,
            catalog: stage.function(&binary("catalog")).await,
        }
    }

    async fn plan(&mut self, stage: &Stage) {
        let answer = self.planner.invoke(&stage.delivered("planner.heartbeat.json")).await.unwrap();
        assert!(failed(&answer).is_empty(), "{answer}");
    }

    async fn sweep(&mut self, stage: &Stage) {
        let answer = self.lifecycle.invoke(&stage.delivered("lifecycle.sweep.json")).await.unwrap();
        assert!(failed(&answer).is_empty(), "{answer}");
    }

    async fn claims(&mut self, stage: &Stage) {
        let messages = stage.claims_messages().await;
        if !messages["Records"].as_array().unwrap().is_empty() {
            let answer = self.lifecycle.invoke(&messages).await.unwrap();
            assert!(failed(&answer).is_empty(), "{answer}");
        }
    }

    /// Plans and launches until the pods of a cluster run.
    async fn scale_up(&mut self, stage: &Stage) {
        while !running(stage) {
            self.claims(stage).await;
            self.plan(stage).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Each cluster gets its own nodes, and the other's instances are no orphans.
#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_share_functions() {
    let Some(blue) = Stage::start().await else { return };
    let green = Box::pin(blue.beside("green")).await;
    let mut functions = Functions::start(&blue).await;
    for stage in [&blue, &green] {
        stage.create_inflate(2);
        let answer = functions.catalog.invoke(&json!({ "required": true, "cluster": stage.cluster })).await.unwrap();
        assert_eq!(answer["catalogChanged"], true, "each cluster has a catalog of its own: {answer}");
    }
    for stage in [&blue, &green] {
        functions.scale_up(stage).await;
    }
    for stage in [&blue, &green] {
        functions.sweep(stage).await;
        let instances = stage.world.lock().unwrap().ec2().instances();
        let alive: Vec<_> = instances.iter().filter(|instance| instance.state.is_alive()).collect();
        assert_eq!(alive.len(), stage.list(&NODE_CLAIMS).len(), "{alive:?}");
        let owned = format!("kubernetes.io/cluster/{}", stage.cluster);
        assert!(alive.iter().all(|instance| instance.tags.contains_key(&owned)), "{alive:?}");
    }
}

/// The API server of one cluster fails, then does not answer until the function's timeout; and its queues contain messages that
/// cannot be read. The functions that have just handled this serve the other cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_one_cluster_does_not_hold_up_another() {
    let Some(blue) = Stage::start().await else { return };
    let green = Box::pin(blue.beside("green")).await;
    let mut functions = Functions::start(&blue).await;
    for stage in [&blue, &green] {
        stage.create_inflate(1);
    }
    for words in [BLUE, "503", "did not end before the function's timeout"] {
        functions.planner.expect_problem(words);
    }
    functions.lifecycle.expect_problem(BLUE);
    functions.lifecycle.expect_problem(GREEN);
    functions.interruption.expect_problem(BLUE);
    functions.catalog.expect_problem(BLUE);

    blue.fail(Service::Kubernetes, Some(Outage::Status(StatusCode::SERVICE_UNAVAILABLE)));
    functions.plan(&blue).await;
    functions.sweep(&blue).await;
    let refreshed = functions.catalog.invoke(&blue.delivered("catalog.schedule.json")).await.unwrap();
    assert!(failed(&refreshed).is_empty(), "{refreshed}");

    blue.fail(Service::Kubernetes, Some(Outage::Hang));
    functions.planner.set_timeout(Duration::from_secs(4));
    functions.plan(&blue).await;
    functions.planner.set_timeout(Duration::from_secs(60));

    for stage in [&blue, &green] {
        let mut poisoned = stage.delivered("lifecycle.sqs.json");
        for record in poisoned["Records"].as_array_mut().unwrap() {
            record["body"] = json!("{");
        }
        let answer = functions.lifecycle.invoke(&poisoned).await.unwrap();
        assert_eq!(failed(&answer).len(), poisoned["Records"].as_array().unwrap().len(), "{answer}");
    }
    let poisoned = blue.delivered("interruption.poisoned.json");
    let answer = functions.interruption.invoke(&poisoned).await.unwrap();
    assert_eq!(failed(&answer), [poisoned["Records"][0]["messageId"].as_str().unwrap()]);

    let refreshed = functions.catalog.invoke(&green.delivered("catalog.schedule.json")).await.unwrap();
    assert_eq!(refreshed["catalogChanged"], true, "{refreshed}");
    functions.scale_up(&green).await;
    let answer = functions.interruption.invoke(&green.delivered("interruption.spot-warning.json")).await.unwrap();
    assert!(failed(&answer).is_empty(), "{answer}");
    assert!(blue.list(&NODE_CLAIMS).is_empty());

    // The outage ends, and the same functions serve this cluster again.
    blue.fail(Service::Kubernetes, None);
    functions.catalog.invoke(&blue.delivered("catalog.schedule.json")).await.unwrap();
    assert_eq!(blue.list(&NODE_CLASSES).len(), 1);
    functions.scale_up(&blue).await;
}

/// Neither a queue nor a name that no cluster is registered with is served in the name of another cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_registered_is_refused() {
    const REFUSED: &str = "belongs to no cluster that this function serves";
    let Some(blue) = Stage::start().await else { return };
    let green = Box::pin(blue.beside("green")).await;
    let mut functions = Functions::start(&blue).await;
    for function in
        [&mut functions.planner, &mut functions.lifecycle, &mut functions.interruption, &mut functions.catalog]
    {
        function.expect_problem(REFUSED);
    }
    let unknown = |file: &str| {
        let mut event = green.delivered(file);
        event["Records"][0]["eventSourceARN"] = json!("arn:aws:sqs:us-east-1:111122223333:nodeless-red-queue");
        event["Records"].as_array_mut().unwrap().truncate(1);
        event
    };
    let refused = [
        functions.planner.invoke(&unknown("planner.heartbeat.json")).await,
        functions.lifecycle.invoke(&unknown("lifecycle.sweep.json")).await,
        functions.interruption.invoke(&unknown("interruption.spot-warning.json")).await,
        functions.catalog.invoke(&unknown("catalog.schedule.json")).await,
        functions.catalog.invoke(&json!({ "action": "leave", "cluster": "red" })).await,
        // A queue of another function is none of this one.
        functions.planner.invoke(&green.delivered("lifecycle.sweep.json")).await,
    ];
    for answer in refused {
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(REFUSED), "{error}");
    }
    assert!(blue.list(&NODE_CLAIMS).is_empty() && green.list(&NODE_CLAIMS).is_empty());
}
