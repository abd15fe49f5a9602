//! Calls against moto, an independent implementation of EC2: types and offerings as AWS describes them, and launches.

use crate::support::{candidate, claim, class, config, context, control_plane, details};
use nodeless_catalog::Facts;
use nodeless_catalog::stored::{OnDemandPriceSource, SpotPriceSource};
use nodeless_ec2::{AwsCatalogSource, Ec2Cloud};
use nodeless_model::{CapacityType, StringMap};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{CatalogSource, Cloud};
use serde_json::json;

#[tokio::test]
async fn motos_types_are_read_like_aws_describes_them() {
    let Some(moto) = nodeless_tests::moto() else { return };
    let source =
        AwsCatalogSource::new(&config(&moto.url).await, details(), control_plane(), None, false, context()).unwrap();
    let catalog = source.catalog(None).await.unwrap();
    assert!(catalog.types.len() > 1_000, "{}", catalog.types.len());
    assert!(catalog.types.iter().all(|entry| entry.facts.cpus > 0 && entry.facts.memory_mib > 0));
    let embedded = Facts::embedded().unwrap();
    for name in ["m5.large", "c7g.16xlarge", "g5.xlarge", "inf2.xlarge", "m5d.large"] {
        let read = &catalog.get(name).unwrap_or_else(|| panic!("{name}")).facts;
        let known = &embedded.instance_types[name];
        assert_eq!((read.cpus, read.memory_mib), (known.v_cpu_info.default_v_cpus, known.memory_info.size_in_mib));
        assert_eq!(
            read.local_storage_gb,
            known.instance_storage_info.as_ref().and_then(|disks| disks.total_size_in_gb)
        );
        assert_eq!(read.gpus.len(), known.gpu_info.as_ref().map_or(0, |info| info.gpus.len()), "{name}");
    }
    // Moto has no Price List, which is no reason to have no catalog. Its spot prices are all alike.
    assert_eq!(catalog.on_demand_price_source, OnDemandPriceSource::Embedded);
    assert_ne!(catalog.spot_price_source, SpotPriceSource::Synthetic);
}

#[tokio::test]
async fn instances_are_launched_tagged_and_terminated_in_moto() {
    let Some(moto) = nodeless_tests::moto() else { return };
    let config = config(&moto.url).await;
    let ec2 = aws_sdk_ec2::Client::new(&config);
    let subnets = ec2.describe_subnets().send().await.unwrap();
    let subnet = subnets.subnets().iter().find(|subnet| subnet.availability_zone() == Some("us-east-1a")).unwrap();
    let groups = ec2.describe_security_groups().send().await.unwrap();
    let images = ec2.describe_images().owners("amazon").send().await.unwrap();
    let image =
        images.images().iter().find(|image| image.architecture().is_some_and(|a| a.as_str() == "x86_64")).unwrap();
    let iam = aws_sdk_iam::Client::new(&config);
    let policy = json!({ "Version": "2012-10-17", "Statement": [] }).to_string();
    iam.create_role().role_name("node").assume_role_policy_document(policy).send().await.unwrap();

    let source = AwsCatalogSource::new(&config, details(), control_plane(), None, false, context()).unwrap();
    let mut class = class(&json!({
        "role": "node",
        "amiFamily": "AL2023",
        "amiSelectorTerms": [{ "id": image.image_id() }],
        "subnetSelectorTerms": [{ "id": subnet.subnet_id() }],
        "securityGroupSelectorTerms": [{ "id": groups.security_groups()[0].group_id() }],
    }));
    class.status = Some(source.resolve(&class).await.unwrap());
    let conditions = &class.status.as_ref().unwrap().conditions;
    assert!(conditions.iter().any(|c| c.type_ == "Ready" && c.reason == "Ready"), "{conditions:?}");

    let cloud = Ec2Cloud::new(&config, details(), control_plane(), context());
    let candidates = [candidate("m5.large", "a", CapacityType::OnDemand, 0.096)];
    let request = LaunchRequest { claim: &claim("group-1", 2), node_class: &class, candidates: &candidates };
    let outcome = cloud.launch(request).await.unwrap();
    assert_eq!(outcome.instances.len(), 2, "{outcome:?}");
    let ids: Vec<String> = outcome.instances.iter().map(|instance| instance.id.clone()).collect();
    let all = cloud.all_instances().await.unwrap();
    assert_eq!(all.iter().map(|instance| instance.id.clone()).collect::<Vec<_>>(), ids);
    assert_eq!((all[0].zone.as_str(), all[0].instance_type.as_str()), ("us-east-1a", "m5.large"));
    assert_eq!(all[0].tags["nodeless.sh/launch-group"], "group-1");
    cloud.tag(&ids[0], &StringMap::from([("karpenter.sh/nodeclaim".to_owned(), "x".to_owned())])).await.unwrap();
    assert_eq!(cloud.instances(&ids[..1]).await.unwrap()[0].tags["karpenter.sh/nodeclaim"], "x");
    cloud.terminate(&ids).await.unwrap();
    assert!(cloud.all_instances().await.unwrap().is_empty());
    source.release(&class).await.unwrap();
    assert!(iam.list_instance_profiles().send().await.unwrap().instance_profiles().is_empty());
    assert!(ec2.describe_launch_templates().send().await.unwrap().launch_templates().is_empty());
}
