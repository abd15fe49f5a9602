//! Reads the catalog from EC2, and resolves EC2NodeClasses.

use jiff::{SignedDuration, Timestamp};
use nodeless_api::EC2NodeClass;
use nodeless_catalog::Catalog;
use nodeless_catalog::stored::CapacitySettings;
use nodeless_launch::node_class::check;
use nodeless_model::claim::Phase;
use nodeless_model::events::waiting_on_node_claim_termination;
use nodeless_model::object::ObjectEvent;
use nodeless_operations::{
    events,
    log_lines::{CatalogRefreshed, Failed, ObjectSkipped, SubnetZonesUnknown},
    node_class,
    offers::{CatalogCache, CatalogError, catalog_version},
    ownership,
};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{CatalogSource, Cluster, PortError, Queue};
use nodeless_state::State;
use nodeless_telemetry::Context;
use nodeless_telemetry::{Metric, Metrics};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The age of spot prices, which are read each hour, from which on they are late.
const PRICES_LATE: SignedDuration = SignedDuration::from_mins(90);

/// Keeps catalog and EC2NodeClasses up to date.
pub struct Refresher {
    /// Time and logs.
    pub context: Context,
    /// The claims table, where the catalog is kept.
    pub claims: State,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// EC2, SSM, IAM and the Price List.
    pub source: Arc<dyn CatalogSource>,
    /// The catalog, kept between runs.
    pub catalog: CatalogCache,
    /// The settings of the deployment for the capacity of all nodes.
    pub capacity: CapacitySettings,
    /// Whether EC2 dry runs validate an EC2NodeClass before it becomes ready.
    pub dry_runs: bool,
}

/// The result of a refresh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefreshReport {
    /// Whether the catalog changed.
    pub catalog_changed: bool,
    /// The EC2NodeClasses whose status changed.
    pub resolved: Vec<String>,
    /// The errors.
    pub problems: Vec<String>,
    /// Why the catalog is out of date, if it is.
    pub catalog_problem: Option<String>,
}

/// The catalog as it was read.
struct Refreshed {
    /// Whether it differs from the one that was stored.
    changed: bool,
    /// That spot prices could not be read for a while, if so.
    late_prices: Option<String>,
    /// The names of its zones.
    zones: BTreeSet<String>,
}

/// Nothing could be refreshed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    /// Everything failed, and this is the first error.
    #[error("nothing was refreshed: {0}")]
    Port(#[from] PortError),
    /// The catalog could not be encoded.
    #[error("the catalog could not be stored: {0}")]
    Encode(String),
}

impl Refresher {
    /// Refreshes everything once. What cannot be read keeps its last state and does not affect the rest.
    ///
    /// # Errors
    /// If neither the catalog nor the EC2NodeClasses could be read or written.
    pub async fn run(&self) -> Result<RefreshReport, RefreshError> {
        let mut report = RefreshReport::default();
        let catalog = self.refresh_catalog().await;
        let zones = catalog.as_ref().ok().map(|refreshed| &refreshed.zones);
        let classes = self.resolve_all(zones, &mut report).await;
        let result = match (catalog, classes) {
            (Ok(refreshed), classes) => {
                report.catalog_changed = refreshed.changed;
                report.problems.extend(refreshed.late_prices);
                report.problems.extend(classes.err().map(|error| error.to_string()));
                Ok(report)
            }
            (Err(error), Ok(())) => {
                report.problems.push(error.to_string());
                report.catalog_problem = Some(error.to_string());
                Ok(report)
            }
            (Err(error), Err(_)) => Err(error),
        };
        let mut metrics = Metrics::new();
        if let Ok(report) = &result {
            if report.problems.is_empty()
                && let Err(error) = self.claims.put_catalog_refreshed(self.context.now()).await
            {
                self.context.log(&Failed { what: "record the refresh", why: &error.to_string() });
            }
            metrics.count(Metric::ReconcileErrors, report.problems.len());
            for why in &report.problems {
                self.context.log(&Failed { what: "refresh", why });
            }
            if (report.catalog_changed || !report.resolved.is_empty())
                && let Err(error) = self.queue.wake_planner(WakeSource::Catalog).await
            {
                self.context.log(&Failed { what: "wake the planner", why: &error.to_string() });
            }
        } else {
            metrics.count(Metric::ReconcileErrors, 1);
        }
        self.context.flush(&metrics);
        result
    }

    /// Reads the catalog and stores it if it changed.
    async fn refresh_catalog(&self) -> Result<Refreshed, RefreshError> {
        let previous = match self.catalog.current(&self.claims).await {
            Ok(catalog) => Some(catalog),
            Err(CatalogError::Port(error)) => return Err(error.into()),
            // The stored catalog is missing or from another release. The new one replaces it.
            Err(CatalogError::Missing | CatalogError::Damaged(_)) => None,
        };
        let fresh = Catalog { capacity: self.capacity, ..self.source.catalog(previous.as_deref()).await? };
        let now = self.context.now();
        let same = previous
            .as_ref()
            .is_some_and(|previous| **previous == Catalog { version: previous.version, ..fresh.clone() });
        let version = catalog_version(now);
        if !same {
            let encoded = fresh.encode().map_err(|error| RefreshError::Encode(error.to_string()))?;
            self.claims.put_catalog(&version, &encoded, now).await?;
        }
        self.context.log(&CatalogRefreshed { version: &version, instance_types: fresh.types.len(), changed: !same });
        let late_prices = late_prices(&fresh, now);
        let zones = fresh.zones.into_iter().map(|zone| zone.name).collect();
        Ok(Refreshed { changed: !same, late_prices, zones })
    }

    async fn resolve_all(&self, zones: Option<&BTreeSet<String>>, report: &mut RefreshReport) -> Result<(), PortError> {
        // This table may have no claims of an EC2NodeClass whose instance profile the nodes of the other deployment have.
        ownership::check(self.cluster.as_ref(), &self.claims).await?;
        let (classes, invalid) = self.cluster.node_classes().await?;
        for object in invalid {
            self.context.log(&ObjectSkipped { kind: &object.kind, name: &object.name, why: &object.message });
            report.problems.push(format!("{} {} is left out: {}", object.kind, object.name, object.message));
        }
        for class in &classes {
            let name = class.metadata.name.clone().unwrap_or_default();
            match self.resolve(&name, class, zones).await {
                Ok(true) => report.resolved.push(name),
                Ok(false) => {}
                Err(error) => report.problems.push(format!("EC2NodeClass {name}: {error}")),
            }
        }
        Ok(())
    }

    /// Resolves one EC2NodeClass, or removes its finalizer when it is being deleted and no claim uses it. Returns whether it
    /// changed.
    async fn resolve(
        &self,
        name: &str,
        class: &EC2NodeClass,
        zones: Option<&BTreeSet<String>>,
    ) -> Result<bool, PortError> {
        if class.metadata.deletion_timestamp.is_some() {
            let claims = self.claims.list().await?;
            let own = claims.iter().filter(|claim| claim.node_class == name && claim.phase != Phase::Gone);
            let own: Vec<&str> = own.map(|claim| claim.name.as_str()).collect();
            if !own.is_empty() {
                self.publish(&[waiting_on_node_claim_termination(events::class_reference(class), &own)]).await;
                return Ok(false);
            }
            self.source.release(class).await?;
            self.cluster.release_node_class(name).await?;
            return Ok(true);
        }
        let status = self.source.resolve(class).await?;
        let authority = self.source.certificate_authority().await;
        let used: BTreeSet<&str> = status.subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
        let unknown: Vec<&str> =
            used.into_iter().filter(|zone| zones.is_some_and(|all| !all.contains(*zone))).collect();
        if !unknown.is_empty() {
            self.context.log(&SubnetZonesUnknown { node_class: name, zones: &unknown });
        }
        let now = self.context.now();
        let status = match self.expression_problem(class).await {
            Some(why) => check::without_values(class, status, why, now),
            None => status,
        };
        if !self.dry_runs {
            let status = check::without_check(class, status, now);
            let changed = class.status.as_ref() != Some(&status);
            self.cluster.write_node_class_status(name, &status, authority.as_deref()).await?;
            return Ok(changed);
        }
        let check = self.claims.launch_check(name).await?;
        let due = check::can_be_checked(&status) && check::is_due(check.as_ref(), &check::key(class, &status), now);
        let status = check::apply(class, status, check.as_ref(), now);
        let changed = class.status.as_ref() != Some(&status);
        // Written even if it is unchanged: finalizer and hashes may be missing. The adapter writes only differences.
        self.cluster.write_node_class_status(name, &status, authority.as_deref()).await?;
        self.publish(&events::class_transitions(class, &status)).await;
        if due {
            // Lifecycle has the permissions to launch, so it validates the class and writes the result into the status.
            self.queue.check_node_class(name, Duration::ZERO).await?;
        }
        Ok(changed)
    }

    /// The first expression of the class's kubelet configuration without a usable value for an instance type of the region. None
    /// while the instance types are unknown: the class is resolved again, and no type without values is launched.
    async fn expression_problem(&self, class: &EC2NodeClass) -> Option<String> {
        let settings = node_class::settings(class).ok().filter(|settings| !settings.kubelet.expressions.is_empty())?;
        let catalog = self.catalog.current(&self.claims).await.ok()?;
        catalog.check_expressions(&settings).err().map(|error| error.to_string())
    }

    /// Publishes events. A lost event does not fail the refresh.
    async fn publish(&self, events: &[ObjectEvent]) {
        if !events.is_empty()
            && let Err(error) = self.cluster.publish(events).await
        {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
    }
}

/// The problem that spot prices could not be read for a while. In regions where they can never be read, they have no time.
fn late_prices(catalog: &Catalog, now: Timestamp) -> Option<String> {
    let read = catalog.read.filter(|read| now.duration_since(*read) > PRICES_LATE)?;
    Some(format!("spot prices could not be read since {read}"))
}
