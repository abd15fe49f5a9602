//! A world in this process whose time passes by itself: what `nodeless local` serves and `nodeless demo` shows.

pub(crate) mod drive;
pub(crate) mod kubeconfig;
pub(crate) mod listen;
pub(crate) mod log;
mod operations;

use crate::error::CliError;
use drive::{Pace, drive};
use jiff::{SignedDuration, Timestamp};
use listen::Port;
use nodeless_operations::Context;
use nodeless_simulation::ec2::{Ec2, InstanceState, aws_router_with_clock};
use nodeless_simulation::kubernetes::resource::{NODES, PODS};
use nodeless_simulation::kubernetes::{ApiServer, ListOptions, Resource};
use nodeless_simulation::memory::{Faults, MemoryClaims, MemoryQueue};
use nodeless_simulation::ports::{MemoryCatalogSource, MemoryCloud, MemoryCluster};
use nodeless_simulation::world::{World, WorldClock, WorldOptions};
use nodeless_telemetry::Sink;
use operations::Ports;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;

/// A running world.
#[derive(Clone, Debug)]
pub(crate) struct LocalWorld {
    pub(crate) api: ApiServer,
    pub(crate) ec2: Ec2,
    pub(crate) clock: WorldClock,
    pub(crate) options: WorldOptions,
    pub(crate) pace: Pace,
    /// The claims table.
    pub(crate) claims: MemoryClaims,
    /// How many instance types EC2 has here.
    pub(crate) instance_types: usize,
}

/// Whether nodeless works in a world, and where it logs.
pub(crate) enum Controllers {
    /// It does.
    Work(Arc<dyn Sink>),
    /// It does not; functions elsewhere do.
    LeftOut(Arc<dyn Sink>),
}

impl LocalWorld {
    /// Starts an empty cluster and an EC2 account.
    ///
    /// # Errors
    /// When what is compiled in is damaged.
    pub(crate) fn start(cluster_name: &str, speed: f64, controllers: &Controllers) -> Result<Self, CliError> {
        let options =
            WorldOptions { start: Timestamp::now(), cluster_name: cluster_name.to_owned(), ..WorldOptions::default() };
        let world = World::new(options.clone())?;
        let local = Self {
            api: world.api().clone(),
            ec2: world.ec2().clone(),
            clock: world.clock().clone(),
            pace: Pace::new(options.start, speed),
            claims: MemoryClaims::new(Faults::default()),
            instance_types: world.catalog().types.len(),
            options,
        };
        let (events, listener) = unbounded_channel();
        let sink = match controllers {
            Controllers::LeftOut(sink) => sink,
            Controllers::Work(sink) => {
                operations::start(&local.context(sink), &local.clock, &local.ports(&world), &local.api, listener);
                sink
            }
        };
        tokio::spawn(drive(world, local.pace, events, sink.clone()));
        let reviews = local.api.clone();
        tokio::spawn(async move { reviews.run_reviews().await });
        Ok(local)
    }

    fn context(&self, sink: &Arc<dyn Sink>) -> Context {
        let clock = Arc::new(self.clock.clone());
        Context { cluster_name: self.options.cluster_name.clone(), clock, sink: sink.clone() }
    }

    fn ports(&self, world: &World) -> Ports {
        let WorldOptions { cluster_name, version, .. } = &self.options;
        Ports {
            claims: Arc::new(self.claims.clone()),
            cluster: Arc::new(MemoryCluster::new(self.api.clone(), self.clock.clone())),
            cloud: Arc::new(MemoryCloud::new(self.ec2.clone(), cluster_name)),
            source: Arc::new(MemoryCatalogSource::new(
                self.ec2.clone(),
                world.catalog().clone(),
                cluster_name,
                version,
            )),
            queue: MemoryQueue::new(Arc::new(self.clock.clone()), Faults::default()),
        }
    }

    /// Answers over HTTP: the Kubernetes API on one port, the AWS APIs on another. EKS tells where the former is.
    pub(crate) fn serve(&self, kubernetes: Port, aws: Port) {
        let WorldOptions { cluster_name, version, start, .. } = &self.options;
        let url = kubernetes.url();
        self.ec2.change_account(|account| account.add_cluster(cluster_name, &url, "", version, *start));
        kubernetes.serve(self.api.router());
        let clock = self.clock.clone();
        aws.serve(aws_router_with_clock(self.ec2.clone(), move || clock.time()));
    }

    /// How much of the world's time has passed.
    pub(crate) fn age(&self) -> SignedDuration {
        self.clock.time().duration_since(self.options.start)
    }

    /// What there is now, in words.
    pub(crate) fn summary(&self) -> String {
        let instances =
            self.ec2.instances().iter().filter(|instance| instance.state != InstanceState::Terminated).count();
        let spent = self.ec2.spent();
        format!(
            "{}, {} and {}; ${spent:.4} spent",
            counted(self.count(&NODES), "node"),
            counted(self.count(&PODS), "pod"),
            counted(instances, "instance"),
        )
    }

    fn count(&self, resource: &Resource) -> usize {
        self.api.list(resource, &ListOptions::default()).map_or(0, |list| list.items.len())
    }
}

/// `1 node`, `2 nodes`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A duration as people say it: `0.4 s`, `41 s`, `3 min 5 s`, `2 h 4 min`.
pub(crate) fn spoken(duration: Duration) -> String {
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
    fn durations_are_spoken() {
        let spoken: Vec<String> =
            [0.04, 9.9, 10.2, 59.9, 185.0, 7_480.0].map(|s| spoken(Duration::from_secs_f64(s))).to_vec();
        assert_eq!(spoken, ["0.0 s", "9.9 s", "10 s", "59 s", "3 min 5 s", "2 h 4 min"]);
    }
}
