//! The catalog is read, and claims learn from it.

use crate::common::Harness;
use crate::scenarios::running_cluster;
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus};
use nodeless_catalog::Catalog;
use nodeless_operations::{CapacitySettings, CatalogCache};
use nodeless_ports::{CatalogSource, ErrorKind, PortError};
use nodeless_refresher::Refresher;
use nodeless_telemetry::{Captured, Metric};
use nodeless_world::resources::NODE_CLASSES;
use serde_json::json;
use std::sync::{Arc, Mutex};

/// EC2 as the catalog function sees it.
#[derive(Default)]
struct TestSource {
    fails: Mutex<bool>,
    /// When spot prices were read, if that is known.
    prices_read: Mutex<Option<jiff::Timestamp>>,
    released: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl CatalogSource for TestSource {
    async fn catalog(&self, _previous: Option<&Catalog>) -> Result<Catalog, PortError> {
        if *self.fails.lock().unwrap() {
            return Err(PortError::new(ErrorKind::Throttled, "EC2 DescribeInstanceTypes", "slow down"));
        }
        Ok(Catalog { read: *self.prices_read.lock().unwrap(), ..crate::common::small_catalog() })
    }

    async fn resolve(&self, node_class: &EC2NodeClass) -> Result<EC2NodeClassStatus, PortError> {
        let mut status = node_class.status.clone().unwrap_or_default();
        status.instance_profile = Some("resolved".into());
        Ok(status)
    }

    async fn release(&self, node_class: &EC2NodeClass) -> Result<(), PortError> {
        self.released.lock().unwrap().push(node_class.metadata.name.clone().unwrap());
        Ok(())
    }

    async fn certificate_authority(&self) -> Option<String> {
        None
    }
}

fn refresher(harness: &Harness, source: Arc<TestSource>) -> Refresher {
    Refresher {
        context: harness.context(),
        claims: harness.ports.claims.clone(),
        queue: harness.ports.queue.clone(),
        cluster: harness.ports.cluster.clone(),
        source,
        catalog: CatalogCache::default(),
        capacity: CapacitySettings::default(),
        dry_runs: true,
    }
}

#[tokio::test]
async fn the_capacity_settings_of_the_deployment_are_kept_with_the_catalog() {
    let harness = Harness::new().await;
    let capacity = CapacitySettings { reserved_enis: 1, memory_overhead: "0.1".parse().unwrap() };
    let refresher = Refresher { capacity, ..refresher(&harness, Arc::new(TestSource::default())) };
    harness.queue.clear();
    assert!(refresher.run().await.unwrap().catalog_changed);
    assert!(harness.queue.take_plan().is_some());
    let catalog = Catalog::decode(&harness.claims.catalog().await.unwrap().unwrap().1).unwrap();
    let class = harness.cluster.node_class();
    let settings = nodeless_operations::node_class::settings_with(&class, &catalog).unwrap();
    assert_eq!(settings.reserved_enis, 1);
    assert!((settings.vm_memory_overhead_percent - 0.1).abs() < 1e-12);
    let least = |settings| catalog.instance_types(settings, &nodeless_catalog::UnavailableOfferings::default());
    let plain = nodeless_operations::node_class::settings(&class).unwrap();
    for (given, default) in least(&settings).iter().zip(&least(&plain)) {
        for resource in ["memory", "pods"] {
            assert!(given.capacity.get(resource) < default.capacity.get(resource), "{resource} of {}", given.name);
        }
    }
    assert!(!refresher.run().await.unwrap().catalog_changed, "and then it is the same");
}

#[tokio::test]
async fn a_refresh_stores_what_changed_and_wakes_the_planner() {
    let harness = running_cluster(1).await;
    let source = Arc::new(TestSource::default());
    let refresher = refresher(&harness, source.clone());
    harness.queue.clear();
    let first = refresher.run().await.unwrap();
    assert_eq!((first.catalog_changed, first.resolved.len()), (false, 1), "the same catalog is not written again");
    assert!(harness.queue.take_plan().is_some());
    let events = |sink: &Captured| sink.take().into_iter().map(|line| line["event"].clone()).collect::<Vec<_>>();
    assert!(!events(&harness.sink).contains(&json!("subnet-zones-unknown")));
    let second = refresher.run().await.unwrap();
    assert!(second.resolved.is_empty() && harness.queue.take_plan().is_none(), "{second:?}");

    // A zone that was opted in after the catalog was read.
    let local = json!({ "id": "subnet-bos", "zone": "us-east-1-bos-1a" });
    harness.cluster.patch_status(&NODE_CLASSES, "default", json!({ "subnets": [local] }));
    refresher.run().await.unwrap();
    let lines = harness.sink.take();
    let line = lines.iter().find(|line| line["event"] == "subnet-zones-unknown").unwrap();
    assert_eq!((&line["nodeClass"], &line["zones"]), (&json!("default"), &json!(["us-east-1-bos-1a"])));
    harness.queue.clear();

    harness.claims.put_catalog("0", b"\x63of another release", harness.clock.time()).await.unwrap();
    assert!(refresher.run().await.unwrap().catalog_changed);
    *source.fails.lock().unwrap() = true;
    let failed = refresher.run().await.unwrap();
    assert!(failed.problems[0].contains("DescribeInstanceTypes"), "{failed:?}");

    harness.cluster.delete(&NODE_CLASSES, "default");
    refresher.run().await.unwrap();
    assert!(source.released.lock().unwrap().is_empty(), "a claim still needs it");
    for claim in harness.records().await {
        harness.claims.delete(&claim).await.unwrap();
    }
    refresher.run().await.unwrap();
    assert_eq!(*source.released.lock().unwrap(), ["default"]);
    assert!(harness.cluster.list(&NODE_CLASSES).is_empty());
    harness.faults.fail("cluster node classes", ErrorKind::Unavailable);
    refresher.run().await.unwrap_err();
}

/// The age is that of the last refresh that read everything, not that of the last change.
#[tokio::test]
async fn the_age_of_the_catalog_grows_while_something_cannot_be_read() {
    let harness = running_cluster(1).await;
    let source = Arc::new(TestSource::default());
    let refresher = refresher(&harness, source.clone());
    let age = async || {
        harness.clock.advance_to(harness.clock.time() + jiff::SignedDuration::from_mins(60));
        drop(refresher.run().await);
        harness.sink.forget_metrics();
        harness.sweeper().run().await.unwrap();
        harness.sink.totals().get(Metric::CatalogAgeSeconds).to_vec()
    };
    assert_eq!(age().await, [0.0; 0], "it is published only from a quarter of an hour on");
    assert_eq!(age().await, [0.0; 0], "although nothing changed");
    *source.fails.lock().unwrap() = true;
    assert_eq!(age().await, [3600.0], "the catalog cannot be read");
    *source.fails.lock().unwrap() = false;
    harness.faults.fail("cluster node class status", ErrorKind::Denied);
    assert_eq!(age().await, [7200.0], "the EC2NodeClass cannot be resolved");
    harness.faults.end_outages();
    assert_eq!(age().await, [0.0; 0]);
    *source.prices_read.lock().unwrap() = Some(harness.clock.time());
    assert_eq!(age().await, [0.0; 0], "spot prices are an hour old");
    assert_eq!(age().await, [3600.0], "spot prices are two hours old");
}
