//! The catalog of a view.

use crate::error::CliError;
use crate::plan::input::catalog::{CatalogArguments, LoadedCatalog, location};
use nodeless_api::view::ClusterView;
use nodeless_catalog::{Catalog, Location};
use nodeless_view::Cluster;
use std::sync::OnceLock;

/// The prices that a view shows for nodes whose NodeClaim has none, and plans with.
pub(crate) enum Prices {
    /// Those of a file, of a region that was chosen, or of a simulated EC2.
    Fixed(Box<LoadedCatalog>),
    /// The embedded ones of the region that the first node names; before that, those of us-east-1.
    OfCluster(Box<Found>),
}

/// The prices before a node names the region, and afterwards.
pub(crate) struct Found {
    first: LoadedCatalog,
    found: OnceLock<LoadedCatalog>,
}

impl Prices {
    pub(crate) fn load(arguments: &CatalogArguments) -> Result<Self, CliError> {
        let first = arguments.load(&Location::default())?;
        Ok(if arguments.follows_cluster() {
            Self::OfCluster(Box::new(Found { first, found: OnceLock::new() }))
        } else {
            Self::Fixed(Box::new(first))
        })
    }

    /// Chooses the region by the nodes of the cluster, once one names it.
    pub(crate) fn follow(&self, cluster: &Cluster) {
        let Self::OfCluster(prices) = self else { return };
        if prices.found.get().is_none() {
            let location = cluster.location();
            // A label may name a region that AWS does not have.
            if location.region().is_some()
                && let Ok(loaded) = LoadedCatalog::embedded(&location, None)
            {
                let _ = prices.found.set(loaded);
            }
        }
    }

    /// The catalog of the prices that are shown.
    pub(crate) fn shown(&self) -> &LoadedCatalog {
        match self {
            Self::Fixed(loaded) => loaded,
            Self::OfCluster(prices) => prices.found.get().unwrap_or(&prices.first),
        }
    }

    /// The catalog to plan with.
    pub(crate) fn planned(&self, view: &ClusterView) -> Result<Catalog, CliError> {
        Ok(match self {
            Self::Fixed(loaded) => loaded.catalog.clone(),
            Self::OfCluster(_) => LoadedCatalog::embedded(&location(view), None)?.catalog,
        })
    }
}
