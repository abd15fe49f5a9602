//! A launch of one node for given pods.

use crate::claims::Claims;
use crate::classes::{Classes, Order};
use crate::constraints::groups::{Groups, Kind};
use crate::engine::Prepared;
use crate::launch;
use crate::packing::bin::{Bin, holding, min_share};
use crate::pools::Pool;
use crate::pools::limits;
use crate::problem::solution::Launch;
use crate::problem::{Options, PoolOffer, PreferencePolicy, Problem};
use crate::topology::Topology;
use crate::work::Work;
use nodeless_model::{Requirements, ResourceIndex};

impl Prepared<'_> {
    /// The launch of one new node of a NodePool for all pods of a problem, within these requirements; `None` where no
    /// instance type has capacity for all of them within what `offer` leaves of its limits. Adds its work to `work`.
    ///
    /// For changing an existing plan: preferences and topology constraints are not evaluated, since they were when each
    /// pod was placed, and capacity reservations are not used.
    #[must_use]
    pub fn launch_together(
        &mut self,
        problem: &Problem<'_>,
        offer: &PoolOffer<'_>,
        within: &Requirements,
        work: &mut u64,
    ) -> Option<Launch> {
        let options = Options { preferences: PreferencePolicy::Ignore, ..self.options };
        let pool = self.pools.iter_mut().find(|pool| pool.pool.name == offer.pool.name)?;
        pool.reset(offer, &limits::shared(offer.cluster.as_ref()), Work::default());
        let launch = together(pool, problem, within, &self.resources, &self.claims, &options);
        *work = work.saturating_add(pool.work.done);
        launch
    }
}

fn together(
    pool: &mut Pool<'_>,
    problem: &Problem<'_>,
    within: &Requirements,
    resources: &ResourceIndex,
    claims: &Claims,
    options: &Options,
) -> Option<Launch> {
    let topology = Topology::new(problem, Groups::new(problem, false), std::slice::from_mut(pool));
    let order = Order { by_priority: false, some_taint_prefers: false };
    let classes = Classes::new(problem, options, resources, &topology, order, Some(claims));
    if !pool.reservations.is_empty() {
        pool.reservations.close();
        pool.reprice();
    }
    // Preferences are ignored, so levels differ only in the order of the alternatives of claims.
    let levels = classes.list.iter().map(|class| class.levels.len()).max().unwrap_or(1);
    (0..levels).find_map(|level| {
        let (mut bin, pods) = filled(pool, &classes, &topology, level, within, resources.len())?;
        let choice = holding(pool, &bin).find(|choice| pool.limits.allowed(&choice.share, 1) > 0)?.clone();
        bin.shape = choice.kind;
        bin.share = min_share(pool, &pool.limits, &bin, &choice.share)?;
        pool.limits.charge(&bin.share, 1);
        launch::launches(pool, &[bin], vec![pods], 0, resources, options).pop()
    })
}

/// A new node with all pods at a level, and the pods; `None` where no instance type admits them.
fn filled(
    pool: &mut Pool<'_>,
    classes: &Classes<'_>,
    topology: &Topology<'_>,
    level: usize,
    within: &Requirements,
    resources: usize,
) -> Option<(Bin, Vec<usize>)> {
    let mut bin = Bin::empty(pool.narrowed(within)?, 0, pool.limits.nothing(), resources);
    let mut pods = Vec::new();
    for (index, class) in classes.list.iter().enumerate() {
        let count = u32::try_from(class.pods.len()).ok()?;
        if count > class.max_per_node() || !class.ports_free(&bin.ports) {
            return None;
        }
        let alternatives = &class.level(level)?.alternatives;
        let asked = class.needs(index);
        bin.set = alternatives.iter().find_map(|id| pool.admit_class(bin.set, *id, &classes.alternatives, asked))?;
        // A pod that needs the pod of a DaemonSet beside it keeps one.
        let near = class.required.iter().filter(|group| topology.daemon_pods.selects_any(**group));
        for &group in near.filter(|group| topology.kind(**group) == Kind::Affinity) {
            if !class.is_selected_by(group) {
                bin.set = pool.narrowed_to(bin.set, |kind| topology.daemon_pods.has(&kind.daemons, group))?;
            }
        }
        bin.add(index, class, 0, count);
        pods.extend(&class.pods);
    }
    Some((bin, pods))
}
