//! Mixes of pods.

mod diverse;
mod enterprise;
mod gpu_and_web;
mod plain;
mod soft;
mod stateful;

use crate::catalog;
use crate::{Workload, build, node_pool};
use nodeless_model::{CapacityType, Pod, test_support};

/// A mix of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Web pods that request only cpu and memory.
    Plain,
    /// Web pods, of which one in a hundred requests a GPU.
    GpuAndWeb,
    /// StatefulSets of 3 to 9 pods: hard zone spread with `maxSkew` 1, required anti-affinity over hostname.
    Stateful,
    /// Deployments with `ScheduleAnyway` zone spread and preferred anti-affinity over hostname, and five DaemonSets.
    Soft,
    /// Groups of 2 to 20 pods with log-normal sizes, and five DaemonSets: three fifths as in [`Mix::Soft`], a fifth with hard
    /// zone spread, a tenth with required anti-affinity over hostname, the others plain.
    Enterprise,
    /// As [`Mix::Enterprise`], with groups of log-normal size: most have one to five pods.
    Teams,
    /// StatefulSets with hard zone spread, and requests and numbers of pods as in [`Mix::Teams`].
    ZonalSets,
    /// Karpenter's benchmark: a fifth each plain, spread over zones, spread over hosts, with affinity to themselves in a
    /// zone, and with anti-affinity over hosts.
    Diverse,
}

impl Mix {
    /// All mixes.
    pub const ALL: [Self; 8] = [
        Self::Plain,
        Self::GpuAndWeb,
        Self::Stateful,
        Self::Soft,
        Self::Enterprise,
        Self::Teams,
        Self::ZonalSets,
        Self::Diverse,
    ];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::GpuAndWeb => "gpu_and_web",
            Self::Stateful => "stateful",
            Self::Soft => "soft",
            Self::Enterprise => "enterprise",
            Self::Teams => "teams",
            Self::ZonalSets => "zonal_sets",
            Self::Diverse => "diverse",
        }
    }

    /// The mix with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mix| mix.name() == name)
    }

    /// The instance categories that its NodePool allows.
    #[must_use]
    pub const fn categories(self) -> &'static [&'static str] {
        if matches!(self, Self::GpuAndWeb) { &["c", "g", "m", "p", "r"] } else { &["c", "m", "r"] }
    }

    /// A number of pending pods. Pods of different seeds have different names, and do not select each other except for
    /// [`Mix::Diverse`].
    #[must_use]
    pub fn pods(self, count: usize, seed: u64) -> Vec<Pod> {
        match self {
            Self::Plain => plain::pods(count, seed),
            Self::GpuAndWeb => gpu_and_web::pods(count, seed),
            Self::Stateful => stateful::pods(count, seed),
            Self::Soft => soft::pods(count, seed),
            Self::Enterprise => enterprise::pods(count, seed),
            Self::Teams => enterprise::of_teams(count, seed, false),
            Self::ZonalSets => enterprise::of_teams(count, seed, true),
            Self::Diverse => diverse::pods(count, seed),
        }
    }

    /// An empty cluster with a number of pending pods, and one NodePool. Karpenter's diverse mix has 400 types, all others the
    /// embedded catalog.
    #[must_use]
    pub fn pending(self, count: usize, seed: u64) -> Workload {
        let diverse = self == Self::Diverse;
        let instance_types = if diverse { catalog::one_shape(400) } else { catalog::embedded() };
        let bought = [CapacityType::OnDemand, CapacityType::Spot];
        let pool =
            if diverse { test_support::node_pool("default") } else { node_pool("default", self.categories(), &bought) };
        let with_daemons = matches!(self, Self::Soft | Self::Enterprise | Self::Teams | Self::ZonalSets);
        let daemon_sets = if with_daemons { build::five_daemon_sets() } else { Vec::new() };
        let pending = self.pods(count, seed);
        Workload { node_pools: vec![pool], instance_types, pending, daemon_sets, ..Workload::default() }.shared()
    }
}
