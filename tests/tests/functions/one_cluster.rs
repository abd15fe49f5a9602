//! The functions through the Lambda Runtime API, with the claims table and the queues on moto and the cluster and EC2
//! simulated over HTTP: from pending pods to nodes and back, and what bad input does.

use axum::http::StatusCode;
use jiff::SignedDuration;
use nodeless_fake_aws::Cluster;
use nodeless_fake_aws::requests::Describe;
use nodeless_fake_kubernetes::{PatchOptions, PatchType, Resource, resource};
use nodeless_tests::lambda::{Function, binary, sample};
use nodeless_tests::proxy::{Outage, WITHOUT_TRACE};
use nodeless_tests::stage::{INSTALLER_ROLE, Service, Stage, node_class};
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|list| list.iter().any(|c| c["type"] == kind && c["status"] == status))
}

pub(crate) fn all_failed(answer: &Value) -> Vec<&str> {
    let failures = answer["batchItemFailures"].as_array();
    failures.map(|list| list.iter().filter_map(|f| f["itemIdentifier"].as_str()).collect()).unwrap_or_default()
}

pub(crate) async fn unschedulable_pods(stage: &Stage, count: usize) {
    stage
        .until("the kube-scheduler has given up on the pods", |stage| {
            let pods = stage.list(&resource::PODS);
            pods.iter().filter(|pod| has_condition(pod, "PodScheduled", "False")).count() == count
        })
        .await;
}

pub(crate) fn running(pods: &[Arc<Value>]) -> usize {
    pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
}

/// The functions that work together.
pub(crate) struct Functions {
    pub(crate) planner: Function,
    pub(crate) lifecycle: Function,
}

impl Functions {
    /// Lets lifecycle work through its queue, once.
    pub(crate) async fn claims(&mut self, stage: &Stage) {
        let messages = stage.claims_messages().await;
        if messages["Records"].as_array().is_some_and(|records| !records.is_empty()) {
            let answer = self.lifecycle.invoke(&messages).await.unwrap();
            assert!(all_failed(&answer).is_empty(), "{answer}");
        }
    }

    pub(crate) async fn plan(&mut self) {
        let answer = self.planner.invoke_sample("planner.heartbeat.json").await.unwrap();
        assert!(all_failed(&answer).is_empty(), "{answer}");
    }

    pub(crate) async fn sweep(&mut self) {
        let answer = self.lifecycle.invoke_sample("lifecycle.sweep.json").await.unwrap();
        assert!(all_failed(&answer).is_empty(), "{answer}");
    }
}

/// The functions in a cluster in which a number of pods wait for nodes, and whose EC2NodeClass is ready.
pub(crate) async fn waiting_pods(stage: &Stage, count: u32) -> Functions {
    stage.create_inflate(count);
    unschedulable_pods(stage, usize::try_from(count).unwrap()).await;

    let mut catalog = stage.function(&binary("catalog")).await;
    catalog.invoke_sample("catalog.schedule.json").await.unwrap();
    let mut functions = Functions {
        planner: stage.function(&binary("planner")).await,
        lifecycle: stage.function(&binary("lifecycle")).await,
    };
    // The function that launches asks EC2 whether it would, before the class is ready.
    assert!(has_condition(&stage.list(&NODE_CLASSES)[0], "ValidationSucceeded", "Unknown"));
    functions.claims(stage).await;
    assert!(has_condition(&stage.list(&NODE_CLASSES)[0], "Ready", "True"), "{:?}", stage.list(&NODE_CLASSES));
    functions
}

/// The functions in a cluster in which a number of pods run on nodes of nodeless.
async fn running_pods(stage: &Stage, count: u32) -> Functions {
    let mut functions = waiting_pods(stage, count).await;
    let count = usize::try_from(count).unwrap();
    functions.plan().await;
    // A doubled wake-up launches nothing twice.
    functions.plan().await;
    while running(&stage.list(&resource::PODS)) < count {
        functions.claims(stage).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    functions
}

#[tokio::test(flavor = "multi_thread")]
async fn from_pending_pods_to_nodes_and_back() {
    let Some(stage) = Stage::start().await else { return };
    let mut functions = running_pods(&stage, 5).await;
    let nodes = stage.list(&resource::NODES);
    let claims = stage.list(&NODE_CLAIMS);
    assert_eq!(nodes.len(), claims.len(), "{claims:?}");
    assert!(nodes.len() <= 2, "five small pods do not need {} nodes", nodes.len());

    // Interruption messages about instances that are not ours are done with; a malformed one alone comes back.
    let mut interruption = stage.function(&binary("interruption")).await;
    for file in ["spot-warning", "rebalance", "state-change", "scheduled-change", "capacity-reservation"] {
        let answer = interruption.invoke_sample(&format!("interruption.{file}.json")).await.unwrap();
        assert!(all_failed(&answer).is_empty(), "{file}: {answer}");
    }
    interruption.expect_problem("message-unreadable");
    let poisoned = interruption.invoke_sample("interruption.poisoned.json").await.unwrap();
    let first = sample("interruption.poisoned.json")["Records"][0]["messageId"].clone();
    assert_eq!(all_failed(&poisoned), [first.as_str().unwrap()]);

    let patch = json!({ "spec": { "replicas": 0 } });
    let options = PatchOptions::default();
    stage.api().patch(&resource::DEPLOYMENTS, "default", "inflate", None, PatchType::Merge, &patch, &options).unwrap();
    while !(stage.list(&resource::NODES).is_empty() && stage.list(&NODE_CLAIMS).is_empty()) {
        functions.plan().await;
        functions.sweep().await;
        functions.claims(&stage).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let calls = stage.calls();
    assert!(calls.keys().any(|name| name.starts_with("SQS SendMessage")), "{calls:?}");
    assert_eq!(calls.get(WITHOUT_TRACE), None, "Lambda would not see that these continue a chain of messages");
}

/// EC2 launches a group, its answer is lost, and the repeated call differs: meanwhile another subnet has the most free addresses.
/// EC2 then describes the instances late, one after another, and their tags later still.
#[tokio::test(flavor = "multi_thread")]
async fn instances_of_a_launch_whose_answer_is_lost_are_found_by_their_tag() {
    let Some(stage) = Stage::start().await else { return };
    let ec2 = stage.world.lock().unwrap().ec2().clone();
    ec2.change_account(|account| {
        let seconds: Vec<_> = account.subnets.iter().map(|subnet| (subnet.clone(), subnet.id.clone())).collect();
        for (mut second, first) in seconds {
            second.id = first.replace("subnet-0a", "subnet-0b");
            second.cidr = second.cidr.replace("10.0.", "10.1.");
            account.tags.insert(second.id.clone(), account.tags[&first].clone());
            account.subnets.push(second);
        }
        account.timing.visibility_delay = SignedDuration::from_secs(6);
        account.timing.visibility_spread = SignedDuration::from_secs(4);
        account.timing.tags_delay = SignedDuration::from_secs(3);
    });
    let mut functions = waiting_pods(&stage, 6).await;
    functions.lifecycle.expect_any_problem();
    let sizes = json!({ "spec": { "template": { "spec": { "requirements": [
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
        { "key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"] },
    ] } } } });
    let options = PatchOptions::default();
    stage.api().patch(&NODE_POOLS, "", "default", None, PatchType::Merge, &sizes, &options).unwrap();

    stage.lose_answers(Service::Ec2, Some("EC2 CreateFleet"));
    functions.plan().await;
    stage.forget_calls();
    while ec2.instances().is_empty() {
        functions.claims(&stage).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stage.lose_answers(Service::Ec2, None);
    let mut launched: Vec<String> = ec2.instances().into_iter().map(|instance| instance.id).collect();
    launched.sort_unstable();
    assert!(launched.len() >= 2, "{launched:?}");

    while running(&stage.list(&resource::PODS)) < 6 {
        functions.claims(&stage).await;
        functions.sweep().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let refused: Vec<_> =
        ec2.calls().into_iter().filter(|call| call.api == "CreateFleet" && call.error.is_some()).collect();
    let refused: Vec<_> = refused.into_iter().filter_map(|call| call.error).collect();
    assert!(refused.contains(&"IdempotentParameterMismatch".to_owned()), "the answer was not repeated: {refused:?}");
    let instances = ec2.instances();
    assert!(instances.iter().all(|instance| instance.state.is_alive()), "a healthy instance was terminated");
    assert_eq!(instances.len(), launched.len(), "nothing was launched twice");
    let claims = stage.list(&NODE_CLAIMS);
    let mut owned: Vec<&str> =
        claims.iter().filter_map(|claim| claim["status"]["providerID"].as_str()?.rsplit('/').next()).collect();
    owned.sort_unstable();
    assert_eq!(owned, launched, "each instance has one claim");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_leaves_whose_instance_ec2_plans_to_retire() {
    let Some(stage) = Stage::start().await else { return };
    let mut functions = running_pods(&stage, 1).await;
    let ec2 = stage.world.lock().unwrap().ec2().clone();
    let id = ec2.instances().pop().unwrap().id;
    assert!(ec2.plan_event(&id, "instance-retirement", ec2.now() + SignedDuration::from_hours(48)));
    let alive = || ec2.instances().iter().any(|instance| instance.id == id && instance.state.is_alive());
    while alive() {
        functions.sweep().await;
        functions.plan().await;
        functions.claims(&stage).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let events = stage.list(&resource::EVENTS);
    let reported = |event: &Arc<Value>| {
        event["reason"] == "InstanceUnhealthy" && event.to_string().contains("EC2 plans instance-retirement")
    };
    assert!(events.iter().any(reported), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn terraform_destroys_and_no_launch_template_is_left() {
    let Some(stage) = Stage::start().await else { return };
    let functions = running_pods(&stage, 1).await;
    drop(functions);
    let ec2 = stage.world.lock().unwrap().ec2().clone();
    let templates = || ec2.describe_launch_templates(&Describe::default()).unwrap().0.len();
    let made = templates();
    assert!(made > 0);
    stage.forget_calls();
    let mut catalog = stage.function(&binary("catalog")).await;
    let mut event = sample("catalog.leave.json");
    event["tf"]["action"] = json!("update");
    catalog.invoke(&event).await.unwrap();
    assert_eq!(templates(), made);
    let answer = catalog.invoke_sample("catalog.leave.json").await.unwrap();
    assert_eq!((answer["launchTemplatesDeleted"].as_array().map(Vec::len), templates()), (Some(made), 0), "{answer}");
    assert_eq!(stage.calls().get("EKS GET /clusters/example"), None, "the cluster may be gone already");
}

/// No schedule is needed: a plan finds the class, and the catalog function gets a message.
#[tokio::test(flavor = "multi_thread")]
async fn an_ec2nodeclass_is_resolved_when_it_is_new_and_when_it_is_changed() {
    let Some(stage) = Stage::start().await else { return };
    let mut catalog = stage.function(&binary("catalog")).await;
    catalog.invoke(&json!({ "required": true })).await.unwrap();
    let mut functions = Functions {
        planner: stage.function(&binary("planner")).await,
        lifecycle: stage.function(&binary("lifecycle")).await,
    };
    let records = |event: &Value| event["Records"].as_array().map_or(0, Vec::len);
    let class = || stage.list(&NODE_CLASSES).remove(0);

    stage.create(&NODE_CLASSES, node_class("default"));
    for generation in 1..=2 {
        functions.plan().await;
        let messages = stage.catalog_messages().await;
        assert_eq!(records(&messages), 1, "{messages}");
        let body: Value = serde_json::from_str(messages["Records"][0]["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["changed"][0]["generation"], generation, "{body}");
        let answer = catalog.invoke(&messages).await.unwrap();
        assert!(all_failed(&answer).is_empty(), "{answer}");
        functions.claims(&stage).await;
        let resolved = class();
        assert!(has_condition(&resolved, "Ready", "True"), "{resolved}");
        let ready = resolved["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!(ready["observedGeneration"], generation, "{ready}");

        functions.plan().await;
        assert_eq!(records(&stage.catalog_messages().await), 0, "a class that is resolved needs nothing");
        let patch = json!({ "spec": { "tags": { "team": "search" } } });
        let options = PatchOptions::default();
        stage.api().patch(&NODE_CLASSES, "", "default", None, PatchType::Merge, &patch, &options).unwrap();
    }
}

/// The installer reads the mode of the cluster by the SDK.
#[tokio::test(flavor = "multi_thread")]
async fn no_webhook_is_installed_where_the_control_plane_may_not_reach_it() {
    let Some(stage) = Stage::start().await else { return };
    let ec2 = stage.world.lock().unwrap().ec2().clone();
    let mode = |mode: Option<&str>| {
        let set = |cluster: &mut Cluster| cluster.egress_mode = mode.map(str::to_owned);
        ec2.change_account(|account| account.clusters.iter_mut().for_each(set));
    };
    let installed = || !stage.list(&resource::VALIDATING_WEBHOOK_CONFIGURATIONS).is_empty();
    let mut installer = stage.function(&binary("installer")).await;
    installer.expect_any_problem();
    let mut event = sample("installer.install.json");
    let cases = [
        (None, false, true),
        (Some("CUSTOMER_ROUTED"), false, false),
        (Some("CUSTOMER_ROUTED"), true, true),
        (Some("CUSTOMER_ISOLATED"), false, false),
        (Some("AWS_MANAGED"), false, true),
    ];
    for (egress, own_endpoint, expected) in cases {
        mode(egress);
        event["ownEndpoint"] = json!(own_endpoint);
        installer.invoke(&event).await.unwrap();
        assert_eq!(installed(), expected, "{egress:?}, endpoint of one's own: {own_endpoint}");
    }
}

/// The access policies of the installer's role in EKS.
fn policies_of_installer(stage: &Stage) -> Vec<String> {
    let world = stage.world.lock().unwrap();
    world.ec2().with_account(|account| account.clusters[0].access_entries[INSTALLER_ROLE].keys().cloned().collect())
}

/// The calls to EKS, in their order.
fn calls_to_eks(stage: &Stage) -> Vec<String> {
    let calls = stage.world.lock().unwrap().ec2().calls();
    calls.into_iter().filter(|call| call.service == "eks").map(|call| call.api).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_installer_is_cluster_admin_only_while_it_works() {
    let Some(stage) = Stage::start().await else { return };
    let ec2 = stage.world.lock().unwrap().ec2().clone();
    let mut installer = stage.function(&binary("installer")).await;
    // An invocation that ended in between left its policy.
    let left = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy";
    ec2.change_account(|account| {
        let entry = account.clusters[0].access_entries.get_mut(INSTALLER_ROLE).unwrap();
        entry.insert(left.to_owned(), "cluster".to_owned());
    });
    installer.invoke(&sample("installer.install.json")).await.unwrap();
    assert_eq!(calls_to_eks(&stage), ["DescribeCluster", "AssociateAccessPolicy", "DisassociateAccessPolicy"]);
    assert_eq!(policies_of_installer(&stage), Vec::<String>::new());

    stage.fail(Service::Kubernetes, Some(Outage::Status(StatusCode::BAD_REQUEST)));
    installer.expect_any_problem();
    installer.invoke(&sample("installer.uninstall.json")).await.unwrap_err();
    assert_eq!(calls_to_eks(&stage)[3..], ["DescribeCluster", "AssociateAccessPolicy", "DisassociateAccessPolicy"]);
    assert_eq!(policies_of_installer(&stage), Vec::<String>::new());
    stage.fail(Service::Kubernetes, None);

    ec2.change_account(|account| account.clusters[0].authentication_mode = "CONFIG_MAP".to_owned());
    let error = installer.invoke(&sample("installer.install.json")).await.unwrap_err();
    assert!(error["errorMessage"].as_str().unwrap().contains("authenticationMode=API_AND_CONFIG_MAP"), "{error}");
    assert_eq!(calls_to_eks(&stage)[6..], ["DescribeCluster"]);
}

/// The test fails if a finding is not logged, or another problem is.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_way_of_nodeless_is_logged_after_an_installation() {
    let Some(stage) = Stage::start().await else { return };
    stage.create_inflate(2);
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "never", "namespace": "default" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "inflate" } } },
    });
    stage.create(&resource::POD_DISRUPTION_BUDGETS, budget);
    stage.create(&resource::DEPLOYMENTS, karpenter());
    let merge = |of: &Resource, name: &str, subresource: Option<&str>, patch: Value| {
        let options = PatchOptions::default();
        stage.api().patch(of, "", name, subresource, PatchType::Merge, &patch, &options).unwrap();
    };
    let time = "2026-01-10T12:00:00Z";
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "False", "reason": reason, "message": "", "lastTransitionTime": time, "observedGeneration": 1,
        })
    };
    let conditions = [condition("SubnetsReady", "SubnetsNotFound"), condition("AMIsReady", "AMINotFound")];
    merge(&NODE_CLASSES, "default", Some("status"), json!({ "status": { "conditions": conditions } }));
    let helm = json!({ "metadata": {
        "labels": { "app.kubernetes.io/managed-by": "Helm" },
        "annotations": { "meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system" },
    } });
    merge(&resource::CUSTOM_RESOURCE_DEFINITIONS, "nodepools.karpenter.sh", None, helm);
    unschedulable_pods(&stage, 3).await;

    let mut installer = stage.function(&binary("installer")).await;
    for (check, object) in [
        ("definitions", "CustomResourceDefinition nodepools.karpenter.sh"),
        ("karpenter", "Deployment kube-system/karpenter"),
        ("nodeClasses", "EC2NodeClass default"),
        ("discovery", "EC2NodeClass default"),
        ("disruptionBudgets", "PodDisruptionBudget default/never"),
    ] {
        let line = r#""cluster":"example","event":"cluster-finding","level":"WARN""#;
        installer.expect_problem(&format!(r#""check":"{check}",{line},"object":"{object}""#));
    }
    installer.invoke(&sample("installer.install.json")).await.unwrap();
}

/// A Deployment that runs Karpenter.
fn karpenter() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "karpenter", "namespace": "kube-system" },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "karpenter" } },
            "template": {
                "metadata": { "labels": { "app": "karpenter" } },
                "spec": { "containers": [{ "name": "controller", "image": "public.ecr.aws/karpenter/controller:1.1.0" }] },
            },
        },
    })
}

/// The cluster is deleted and created again under the same name: its endpoint is another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_created_again_is_served_at_its_new_endpoint() {
    let Some(stage) = Stage::start().await else { return };
    let mut functions = running_pods(&stage, 1).await;
    let ec2 = stage.world.lock().unwrap().ec2().clone();
    functions.planner.expect_any_problem();
    functions.lifecycle.expect_any_problem();
    stage.fail(Service::Kubernetes, Some(Outage::Refuse));
    let before = ec2.call_counts()["eks:DescribeCluster"];
    for _ in 0..4 {
        functions.plan().await;
    }
    assert_eq!(ec2.call_counts()["eks:DescribeCluster"], before + 1, "EKS is not asked again for a minute");

    stage.create_cluster_again().await;
    functions.sweep().await;
    functions.sweep().await;
    stage.until("a sweep completes", |_| functions.lifecycle.publishes("NodeCount")).await;
}
