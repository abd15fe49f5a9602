//! User data has the newest certificate authority of the cluster that can be read.

use crate::support::{SimulatedAws, candidate, claim, details};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_ec2::Ec2Cloud;
use nodeless_launch::authority_digests;
use nodeless_model::CapacityType::OnDemand;
use nodeless_model::labels::CERTIFICATE_AUTHORITY;
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{Clock, Cloud as _, ControlPlane, DescribeControlPlane, ErrorKind, PortError};
use nodeless_telemetry::Context;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

/// A control plane that has a successor of its certificate authority, and can fail.
#[derive(Default)]
struct Rotated {
    asked: AtomicUsize,
    fails: AtomicBool,
}

impl Rotated {
    const SUCCESSOR: &str = "Q0EgYW5kIHN1Y2Nlc3Nvcg==";
}

#[async_trait]
impl DescribeControlPlane for Rotated {
    async fn control_plane(&self) -> Result<ControlPlane, PortError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(PortError::new(ErrorKind::Throttled, "EKS DescribeCluster", "slow down"));
        }
        Ok(ControlPlane { version: "1.33".to_owned(), certificate_authority: Some(Self::SUCCESSOR.to_owned()) })
    }
}

/// The time that a test sets.
#[derive(Default)]
struct Adjusted {
    seconds: AtomicI64,
}

#[async_trait]
impl Clock for Adjusted {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.seconds.load(Ordering::Relaxed)).unwrap()
    }

    async fn sleep(&self, _duration: Duration) {}
}

#[tokio::test]
async fn a_certificate_authority_that_the_class_states_is_read_before_the_launch() {
    let world = SimulatedAws::new().await;
    let mut class = world.resolved(json!({})).await;
    let candidates = [candidate("m5.large", "a", OnDemand, 0.096)];
    let eks = Arc::new(Rotated::default());
    let clock = Arc::new(Adjusted::default());
    let cloud =
        Ec2Cloud::new(&world.config, details(), eks.clone(), Context { clock: clock.clone(), ..world.context() });
    let mut launches = 0;
    let mut trusted = async |class: &EC2NodeClass| {
        launches += 1;
        let claim = claim(&format!("group-{launches}"), 1);
        let request = LaunchRequest { claim: &claim, node_class: class, candidates: &candidates };
        let outcome = cloud.launch(request).await.unwrap();
        let found = world.cloud().instances(&[outcome.instances[0].id.clone()]).await.unwrap();
        (found[0].tags[CERTIFICATE_AUTHORITY].clone(), eks.asked.load(Ordering::Relaxed))
    };
    let (before, after) = (authority_digests("Q0E="), authority_digests(Rotated::SUCCESSOR));
    assert_eq!(trusted(&class).await, (before.clone(), 0), "the class states none");
    let mut stated = |digest: &str| {
        let annotations = class.metadata.annotations.get_or_insert_default();
        annotations.insert(CERTIFICATE_AUTHORITY.to_owned(), digest.to_owned());
        class.clone()
    };
    assert_eq!(trusted(&stated(&before)).await, (before.clone(), 0));
    let rotated = stated(&after);
    assert_eq!(trusted(&rotated).await, (before.clone(), 0), "the cluster was described less than a minute ago");
    clock.seconds.store(60, Ordering::Relaxed);
    eks.fails.store(true, Ordering::Relaxed);
    assert_eq!(trusted(&rotated).await, (before, 1), "a launch does not wait for EKS");
    assert!(world.events().contains_key("control-plane-unread"));
    clock.seconds.store(120, Ordering::Relaxed);
    eks.fails.store(false, Ordering::Relaxed);
    assert_eq!(trusted(&rotated).await, (after.clone(), 2));
    clock.seconds.store(600, Ordering::Relaxed);
    assert_eq!(trusted(&rotated).await, (after, 2), "it is not read again while the class states the same");
}
