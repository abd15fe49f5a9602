//! Karpenter's metrics, as far as the objects of a cluster show them at one time, in the text format of Prometheus.
//!
//! Names, labels, units and help texts are those of Karpenter 1.15 (`pkg/controllers/metrics`, `pkg/controllers/disruption/metrics.go`,
//! `pkg/controllers/provisioning/scheduling/metrics.go`) and of its library operatorpkg (`status/metrics.go`). Only gauges are here:
//! counters and histograms need what happened earlier, which objects do not show.

mod conditions;
mod more;
mod nodes;
mod offerings;
mod own;
mod pods;
mod pools;
mod text;

#[cfg(test)]
mod tests;

pub use more::Measurable;

use crate::objects::cluster::{Cluster, Store, Update};
use crate::objects::decode::{DecodeError, ShownKind};
use crate::picture::Picture;
use jiff::Timestamp;
use more::{More, PodMore, StatusMore};
use nodeless_catalog::Catalog;
use nodeless_catalog::stored::SpotPriceSource;
use nodeless_model::{StringMap, labels};
use std::collections::BTreeMap;
use text::Writer;

type Key = (String, String);

/// The objects of a cluster with what metrics need of them.
#[derive(Debug, Default)]
pub struct Measured {
    cluster: Cluster,
    pods: BTreeMap<Key, PodMore>,
    statuses: BTreeMap<(ShownKind, Key), StatusMore>,
}

/// The metrics of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposition {
    /// The text that Prometheus reads.
    pub text: String,
    /// A line for each kind that cannot be read, with the metrics that are left out.
    pub left_out: Vec<String>,
}

/// What metrics are computed from besides the objects of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'i> {
    /// The catalog with the prices of nodes.
    pub catalog: &'i Catalog,
    /// Whether the metrics of all instance types of the catalog are included.
    pub lists_catalog: bool,
    /// When the API server last answered, by kind.
    pub answered: &'i BTreeMap<ShownKind, Timestamp>,
    /// The time of this machine.
    pub clock: Timestamp,
}

/// What every family is computed from.
struct Sources<'s> {
    measured: &'s Measured,
    cluster: &'s Cluster,
    picture: &'s Picture,
    catalog: &'s Catalog,
    /// When the API server last answered, by kind.
    answered: &'s BTreeMap<ShownKind, Timestamp>,
    now: Timestamp,
}

impl Store for Measured {
    type Object = Measurable;

    fn decode(kind: ShownKind, object: &str) -> Result<Measurable, DecodeError> {
        more::measurable(kind, object)
    }

    fn apply(&mut self, update: Update<Measurable>) {
        let update = match update {
            Update::Listed { kind, objects } => {
                self.clear(kind);
                let objects = objects.into_iter().map(|(namespace, name, object)| {
                    let object = object.map(|object| self.keep(kind, &namespace, &name, object));
                    (namespace, name, object)
                });
                Update::Listed { kind, objects: objects.collect() }
            }
            Update::Present { kind, namespace, name, object } => {
                self.forget(kind, &namespace, &name);
                let object = object.map(|object| self.keep(kind, &namespace, &name, object));
                Update::Present { kind, namespace, name, object }
            }
            Update::Absent { kind, namespace, name } => {
                self.forget(kind, &namespace, &name);
                Update::Absent { kind, namespace, name }
            }
            Update::Missing { kind, why } => {
                self.clear(kind);
                Update::Missing { kind, why }
            }
            Update::Usage(usage) => Update::Usage(usage),
        };
        self.cluster.apply(update);
    }
}

impl Measured {
    /// The objects without what only metrics need.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The metrics now.
    #[must_use]
    pub fn exposition(&self, inputs: &Inputs<'_>) -> Exposition {
        let Inputs { catalog, lists_catalog, answered, clock } = *inputs;
        let now = self.cluster.now(clock);
        let picture = Picture::new(&self.cluster, catalog, now);
        let sources = Sources { measured: self, cluster: &self.cluster, picture: &picture, catalog, answered, now };
        let mut writer = Writer::new(&self.cluster.missing);
        nodes::write(&sources, &mut writer);
        pods::write(&sources, &mut writer);
        pools::write(&sources, &mut writer);
        conditions::write(&sources, &mut writer);
        if lists_catalog {
            offerings::write(&sources, &mut writer);
        }
        own::write(&sources, &mut writer);
        let (text, left_out) = writer.finish();
        Exposition { text, left_out }
    }

    fn keep(&mut self, kind: ShownKind, namespace: &str, name: &str, object: Measurable) -> crate::Object {
        let key = (namespace.to_owned(), name.to_owned());
        match object.more {
            More::None => {}
            More::Pod(more) => drop(self.pods.insert(key, *more)),
            More::Status(more) => drop(self.statuses.insert((kind, key), *more)),
        }
        object.object
    }

    fn forget(&mut self, kind: ShownKind, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        if kind == ShownKind::Pod {
            self.pods.remove(&key);
        } else {
            self.statuses.remove(&(kind, key));
        }
    }

    fn clear(&mut self, kind: ShownKind) {
        if kind == ShownKind::Pod {
            self.pods.clear();
        } else {
            self.statuses.retain(|(of, _), _| *of != kind);
        }
    }

    fn status(&self, kind: ShownKind, name: &str) -> Option<&StatusMore> {
        self.statuses.get(&(kind, (String::new(), name.to_owned())))
    }
}

impl Sources<'_> {
    /// The price of a node or NodeClaim with these labels in dollars per hour: `recorded`, or that of the catalog unless it is synthetic.
    fn price(&self, recorded: Option<f64>, all: &StringMap) -> Option<f64> {
        recorded.or_else(|| {
            let spot = all.get(labels::CAPACITY_TYPE).is_some_and(|it| it == "spot");
            if spot && !self.has_spot_prices() { None } else { self.catalog.node_price(all) }
        })
    }

    /// Whether the spot prices of the catalog are not synthetic.
    fn has_spot_prices(&self) -> bool {
        self.catalog.spot_price_source != SpotPriceSource::Synthetic
    }
}

/// The seconds from a time until now.
fn seconds(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64()
}

/// The name of a resource as the value of the label `resource_type`, as in Karpenter.
fn resource_type(resource: &str) -> String {
    resource.to_lowercase().replace('-', "_")
}

/// An amount of a resource, as in Karpenter: CPUs as fractions, other resources in whole units.
fn amount(resource: &str, quantity: nodeless_model::Quantity) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "Prometheus has only such numbers")]
    if resource == "cpu" { quantity.as_f64() } else { quantity.units() as f64 }
}

/// A number of objects.
fn count(objects: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "less than 2^52 objects")]
    let count = objects as f64;
    count
}
