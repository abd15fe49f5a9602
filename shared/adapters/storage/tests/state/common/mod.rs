//! A table of a test's own, and claims to write into it.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use jiff::Timestamp;
use nodeless_model::claim::{Charge, LaunchedInstance};
use nodeless_model::{CapacityType, NodeClaim, NodeClaimSpec, NodeClaimStatus, Phase, Quantity, ResourceList};
use nodeless_state::State;
use nodeless_storage::DynamoTable;
use std::sync::Arc;

pub(crate) use nodeless_tests::stage::{TABLE, create_table};

pub(crate) async fn config(url: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(nodeless_tests::access_key(), "test", None, None, "test"))
        .endpoint_url(url)
        .load()
        .await
}

pub(crate) async fn table(config: &SdkConfig) -> State {
    create_table(config).await;
    State::new(Arc::new(table_of(config)))
}

pub(crate) fn table_of(config: &SdkConfig) -> DynamoTable {
    DynamoTable::new(config, TABLE, "test")
}

pub(crate) fn claim(name: &str, cpu: i64, dollars: f64) -> NodeClaim {
    NodeClaim {
        name: name.into(),
        uid: format!("uid-of-{name}"),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: Timestamp::UNIX_EPOCH,
        version: 0,
        spec: NodeClaimSpec { charge: charge(cpu, dollars), ..NodeClaimSpec::default() },
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    }
}

pub(crate) fn charge(cpu: i64, dollars: f64) -> Charge {
    let resources = ResourceList::from([("cpu", Quantity::from_units(cpu)), ("nodes", Quantity::from_units(1))]);
    Charge { resources, dollars_per_hour: dollars }
}

pub(crate) fn instance(id: &str) -> LaunchedInstance {
    LaunchedInstance {
        id: id.into(),
        instance_type: "m6i.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        price: 0.03,
        image_id: "ami-1".into(),
        private_dns_name: None,
        reservation_id: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
        launched: Timestamp::UNIX_EPOCH,
        certificate_authority: None,
    }
}
