//! A simulated cluster in this process whose time follows the wall clock, for `nodeless local` and `nodeless demo`.

mod catalog;
mod cluster_faults;
pub(crate) mod drive;
pub(crate) mod faults;
mod guard;
pub(crate) mod kubeconfig;
pub(crate) mod listen;
pub(crate) mod log;
mod node_pool;
mod replaced;
pub(crate) mod running;
mod table;
pub(crate) mod times;

use crate::error::CliError;
use crate::plural::counted;
use axum::Router;
use drive::{Pace, Worker};
use jiff::{SignedDuration, Timestamp};
use listen::Port;
use nodeless_catalog::{Catalog, Facts};
use nodeless_driver::{Driver, FunctionSettings, Schedule};
use nodeless_fake_aws::{Ec2, InstanceState, aws_router_with_clock};
use nodeless_fake_kubernetes::resource::{NODES, PODS};
use nodeless_fake_kubernetes::{ApiServer, ListOptions, Resource, WallClock};
use nodeless_model::Dollars;
use nodeless_telemetry::Sink;
use nodeless_world::fault_injection::FaultInjection;
use nodeless_world::memory::MemoryState;
use nodeless_world::ports::MemoryCatalogSource;
use nodeless_world::{World, WorldClock, WorldOptions};
use std::sync::Arc;
use std::time::Duration;

/// A running simulated cluster.
#[derive(Clone, Debug)]
pub(crate) struct LocalWorld {
    pub(crate) api: ApiServer,
    pub(crate) ec2: Ec2,
    pub(crate) clock: WorldClock,
    pub(crate) options: WorldOptions,
    pub(crate) pace: Pace,
    /// The claims table.
    pub(crate) claims: MemoryState,
    /// The instance types that the simulated EC2 offers, with their prices.
    pub(crate) catalog: Arc<Catalog>,
}

/// Whether nodeless runs in the simulated cluster, with its log and settings.
pub(crate) enum Controllers {
    /// nodeless runs.
    Work(Arc<dyn Sink>, FunctionSettings),
    /// nodeless does not run; its functions may run elsewhere.
    LeftOut(Arc<dyn Sink>),
}

impl LocalWorld {
    /// Starts an empty cluster and an EC2 account.
    ///
    /// # Errors
    /// When the embedded data is damaged.
    pub(crate) fn start(
        cluster_name: &str,
        region: &str,
        speed: f64,
        controllers: &Controllers,
    ) -> Result<Self, CliError> {
        let home = WorldOptions::default();
        // In the region of the embedded catalog the zones are the catalog's, so that `plan` and `view` know all of them.
        let zones = if region == home.region { home.zones.clone() } else { Vec::new() };
        let options = WorldOptions {
            start: Timestamp::now(),
            cluster_name: cluster_name.to_owned(),
            region: region.to_owned(),
            zones,
            ..home
        };
        let world = World::new(options.clone())?;
        let (api, ec2, clock) = (world.api().clone(), world.ec2().clone(), world.clock().clone());
        replaced::refuse(&api)?;
        api.keep_events_at_speed(speed);
        ec2.change_account(|account| account.add_placement_groups(cluster_name));
        let catalog = world.catalog().clone();
        let (worker, claims, sink) = match controllers {
            Controllers::LeftOut(sink) => (Worker::World(Box::new(world)), MemoryState::default(), sink),
            Controllers::Work(sink, settings) => {
                let faults = FaultInjection::scripted(clock.clone());
                let driver = Driver::with_fault_injection(world, Schedule::default(), sink.clone(), faults, *settings);
                let claims = driver.claims().clone();
                (Worker::Driver(Box::new(driver)), claims, sink)
            }
        };
        let pace = Pace::new(options.start, speed);
        drive::start(worker, pace, sink.clone())?;
        let reviews = api.clone();
        tokio::spawn(async move { reviews.run_reviews().await });
        Ok(Self { api, ec2, clock, options, pace, claims, catalog })
    }

    /// Serves the Kubernetes API and the AWS APIs over HTTP, each on its own port. DescribeCluster of EKS returns the endpoint.
    ///
    /// # Errors
    /// When the timestamps of the Kubernetes API cannot be converted to the wall clock, or the embedded data is damaged.
    pub(crate) fn serve(&self, kubernetes: Port, aws: Port) -> Result<(), CliError> {
        let WorldOptions { cluster_name, region, version, start, .. } = &self.options;
        let url = kubernetes.url();
        self.ec2.change_account(|account| account.add_cluster(cluster_name, &url, "", version, *start));
        kubernetes.serve(self.router()?);
        let clock = self.clock.clone();
        let services = aws_router_with_clock(self.ec2.clone(), move || clock.time());
        let (ec2, catalog) = (self.ec2.clone(), self.catalog.clone());
        let source = MemoryCatalogSource::new(ec2, catalog, cluster_name.clone(), version.clone());
        let facts = Facts::of_region(region).map_err(CliError::Region)?;
        let services = catalog::with_catalog(services, facts, source);
        aws.serve(table::with_table(services, cluster_name, &self.claims, self.wall_clock()));
        Ok(())
    }

    /// The Kubernetes API, with timestamps from which clients can compute ages.
    fn router(&self) -> Result<Router, CliError> {
        match self.wall_clock() {
            Some(wall) => times::on_the_wall_clock(&self.api, wall).map_err(CliError::Timestamps),
            None => Ok(self.api.router()),
        }
    }

    /// The clock of clients, if simulated time runs at another speed.
    fn wall_clock(&self) -> Option<WallClock> {
        let speed = self.pace.speed();
        (speed != 1.0).then_some(WallClock { start: self.options.start, speed })
    }

    /// The simulated time since the start.
    pub(crate) fn age(&self) -> SignedDuration {
        self.clock.time().duration_since(self.options.start)
    }

    /// The current nodes, pods, instances and cost, as text.
    pub(crate) fn summary(&self) -> String {
        let instances =
            self.ec2.instances().iter().filter(|instance| instance.state != InstanceState::Terminated).count();
        let spent = self.ec2.spent();
        format!(
            "{}, {} and {}; cost {}",
            counted(self.count(&NODES), "node"),
            counted(self.count(&PODS), "pod"),
            counted(instances, "instance"),
            Dollars(spent)
        )
    }

    fn count(&self, resource: &Resource) -> usize {
        self.api.list(resource, &ListOptions::default()).map_or(0, |list| list.items.len())
    }
}

/// A duration in words: `0.4 s`, `41 s`, `3 min 5 s`, `2 h 4 min`.
pub(crate) fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_readable_units() {
        let durations: Vec<String> =
            [0.04, 9.9, 10.2, 59.9, 185.0, 7_480.0].map(|s| human_duration(Duration::from_secs_f64(s))).to_vec();
        assert_eq!(durations, ["0.0 s", "9.9 s", "10 s", "59 s", "3 min 5 s", "2 h 4 min"]);
    }
}
