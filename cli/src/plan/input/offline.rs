//! Plans of clusters that do not exist, such as one with other manifests. No I/O and no clock.

use jiff::Timestamp;
use nodeless_api::view::ClusterView;
use nodeless_catalog::Catalog;
use nodeless_commitments::Commitments;
use nodeless_model::NodeClaim;
use nodeless_planner::{DryRun, DryRunInput, PlanSettings};
use nodeless_scheduling::Options;

/// What such plans have in common.
#[derive(Clone, Copy)]
pub(crate) struct Offline<'o> {
    pub(crate) catalog: &'o Catalog,
    pub(crate) options: Options,
    pub(crate) at: Timestamp,
    pub(crate) commitments: Option<&'o Commitments>,
}

impl Offline<'_> {
    /// A plan without zonal shifts. `with_disruption` also evaluates disruption, and the nodes of static NodePools.
    pub(crate) fn dry_run(&self, view: ClusterView, claims: Vec<NodeClaim>, with_disruption: bool) -> DryRun {
        DryRun::new(DryRunInput {
            view,
            claims,
            catalog: self.catalog.clone(),
            now: self.at,
            shifted: Vec::new(),
            settings: PlanSettings { scheduling: self.options, ..PlanSettings::default() },
            commitments: self.commitments.cloned(),
            disruption: with_disruption.then(Vec::new),
        })
    }
}
