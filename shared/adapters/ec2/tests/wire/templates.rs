//! Launch templates.

use crate::support::{CLUSTER, SimulatedAws, candidate, claim, ids, launch, m5, ready};
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::requests::{CreateLaunchTemplate, DeleteLaunchTemplate, Describe, Tag, TagSpecification};
use nodeless_model::CapacityType::{OnDemand, Spot};
use nodeless_ports::Cloud as _;
use serde_json::json;

#[tokio::test]
async fn a_template_is_created_once_for_its_contents() {
    let (world, class) = ready().await;
    let cloud = world.cloud();
    launch(&cloud, &claim("group-1", 1), &class, &m5()).await.unwrap();
    launch(&cloud, &claim("group-2", 1), &class, &m5()).await.unwrap();
    assert_eq!(world.calls("ec2:CreateLaunchTemplate"), 1);
    // After a cold start it is found.
    launch(&world.cloud(), &claim("group-3", 1), &class, &m5()).await.unwrap();
    assert_eq!(world.calls("ec2:CreateLaunchTemplate"), 1);
    assert_eq!(world.calls("ec2:DescribeLaunchTemplates"), 2, "one call of each process");
    let templates = templates(&world).await;
    assert_eq!(templates.len(), 1, "{templates:?}");

    // Other content is another template.
    let other = world.resolved(json!({ "userData": "#!/bin/sh\necho other\n" })).await;
    launch(&cloud, &claim("group-4", 1), &other, &m5()).await.unwrap();
    assert_eq!(self::templates(&world).await.len(), 2);
}

#[tokio::test]
async fn launches_at_once_create_their_template_once() {
    let (world, class) = ready().await;
    let (cloud, first, second) = (world.cloud(), claim("group-1", 1), claim("group-2", 1));
    let types = m5();
    let (one, other) = tokio::join!(launch(&cloud, &first, &class, &types), launch(&cloud, &second, &class, &types));
    assert_eq!((one.unwrap().instances.len(), other.unwrap().instances.len()), (1, 1));
    assert_eq!(world.calls("ec2:CreateLaunchTemplate"), 1);
}

#[tokio::test]
async fn a_template_that_was_deleted_is_made_again() {
    let (world, class) = ready().await;
    let cloud = world.cloud();
    launch(&cloud, &claim("group-1", 1), &class, &m5()).await.unwrap();
    for name in templates(&world).await {
        let request = DeleteLaunchTemplate { launch_template_name: Some(name), ..DeleteLaunchTemplate::default() };
        world.ec2.delete_launch_template(&request).unwrap();
    }
    let outcome = launch(&cloud, &claim("group-2", 1), &class, &m5()).await.unwrap();
    assert_eq!(outcome.instances.len(), 1, "{outcome:?}");
    assert_eq!(templates(&world).await.len(), 1);
}

pub(crate) async fn templates(world: &SimulatedAws) -> Vec<String> {
    let answer = aws_sdk_ec2::Client::new(&world.config).describe_launch_templates().send().await.unwrap();
    answer.launch_templates().iter().map(|template| template.launch_template_name().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn templates_that_no_launch_uses_any_more_go() {
    let (world, class) = ready().await;
    let cloud = world.cloud();
    launch(&cloud, &claim("group-1", 1), &class, &m5()).await.unwrap();
    let now = Timestamp::now();
    let kept = cloud.delete_unused_launch_templates(now - SignedDuration::from_hours(48), 10).await.unwrap();
    assert!(kept.is_empty(), "{kept:?}");
    let names = templates(&world).await;
    let deleted = cloud.delete_unused_launch_templates(now + SignedDuration::from_hours(48), 10).await.unwrap();
    assert_eq!(deleted, names);
    assert!(templates(&world).await.is_empty());
    // The next launch makes it again, though this cloud once knew it.
    let outcome = launch(&cloud, &claim("group-2", 1), &class, &m5()).await.unwrap();
    assert_eq!(outcome.instances.len(), 1);
}

#[tokio::test]
async fn of_unused_templates_so_many_go_at_once() {
    let (world, class) = ready().await;
    let cloud = world.cloud();
    let candidates = [candidate("m5.large", "a", OnDemand, 0.096), candidate("m6g.large", "b", OnDemand, 0.077)];
    launch(&cloud, &claim("group-1", 1), &class, &candidates).await.unwrap();
    assert_eq!(templates(&world).await.len(), 2);
    let later = Timestamp::now() + SignedDuration::from_hours(48);
    assert_eq!(cloud.delete_unused_launch_templates(later, 1).await.unwrap().len(), 1);
    assert_eq!(templates(&world).await.len(), 1);
}

#[tokio::test]
async fn all_templates_of_a_cluster_that_is_left_go_and_no_others() {
    let (world, class) = ready().await;
    let outcome = launch(&world.cloud(), &claim("group-1", 1), &class, &m5()).await.unwrap();
    let of_karpenter = CreateLaunchTemplate {
        launch_template_name: Some("karpenter.k8s.aws/123".into()),
        launch_template_data: Some(serde_json::from_value(json!({ "InstanceType": "m5.large" })).unwrap()),
        tag_specifications: vec![TagSpecification {
            resource_type: Some("launch-template".into()),
            tags: vec![Tag::new("eks:eks-cluster-name", CLUSTER)],
        }],
        ..CreateLaunchTemplate::default()
    };
    world.ec2.create_launch_template(&of_karpenter).unwrap();
    assert_eq!(nodeless_ec2::delete_launch_templates(&world.config, "another").await.unwrap(), [""; 0]);
    assert_eq!(nodeless_ec2::delete_launch_templates(&world.config, CLUSTER).await.unwrap().len(), 1);
    assert_eq!(templates(&world).await, ["karpenter.k8s.aws/123"]);
    assert_eq!(world.cloud().instances(&ids(&outcome)).await.unwrap().len(), 1, "instances run on");
    assert_eq!(nodeless_ec2::delete_launch_templates(&world.config, CLUSTER).await.unwrap(), [""; 0]);
}

/// Numbers and truth values as texts, as the wire has them; what is null is not there.
fn texts(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Bool(_) | Value::Number(_) => Value::String(value.to_string()),
        Value::Array(items) => items.into_iter().map(texts).collect(),
        Value::Object(fields) => {
            fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key, texts(value))).collect()
        }
        other => other,
    }
}

#[tokio::test]
async fn the_sdk_sends_what_the_launch_crate_renders() {
    let world = SimulatedAws::new().await;
    let class = world
        .resolved(json!({
            "associatePublicIPAddress": false,
            "ipPrefixCount": 1,
            "connectionTracking": { "udpTimeout": 30 },
            "detailedMonitoring": true,
            "metadataOptions": { "httpTokens": "optional", "httpPutResponseHopLimit": 2 },
            "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "ebs": {
                "volumeSize": "30Gi", "volumeType": "gp3", "iops": 4000, "throughput": 200, "encrypted": true } }],
            "cpuOptions": { "nestedVirtualization": "enabled" },
            "enclaveOptions": { "enabled": true },
        }))
        .await;
    let claim = claim("group-1", 1);
    let candidates = [candidate("m5.large", "a", Spot, 0.03)];
    launch(&world.cloud(), &claim, &class, &candidates).await.unwrap();

    let plan = nodeless_launch::fleet::plan(&class, &claim, &candidates).unwrap();
    let variant = plan.groups.keys().next().unwrap();
    let spec = nodeless_launch::template::TemplateSpec::new(&crate::support::details(), &claim, &class, variant, true)
        .unwrap();
    let (templates, _) = world.ec2.describe_launch_templates(&Describe::default()).unwrap();
    assert_eq!(templates.len(), 1);
    assert_eq!(templates[0].name, spec.name());
    let sent = serde_json::to_value(&templates[0].versions[0].data).unwrap();
    assert_eq!(texts(sent), texts(nodeless_launch::request::launch_template_data(&spec)));
}
