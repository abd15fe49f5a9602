//! One node for given pods, whatever else could be done with them.

use crate::classes::{Classes, Order};
use crate::groups::Groups;
use crate::launch;
use crate::packing::{Bin, holding, least_share};
use crate::pools::{self, BASE, Pool};
use crate::problem::{Options, PreferencePolicy, Problem};
use crate::solution::Launch;
use crate::topology::Topology;
use nodeless_model::ResourceIndex;

/// The launch of one new node for all pods of a problem together, of its first NodePool by weight; `None` where that
/// launches nothing that holds all of them within its limits.
///
/// For changing a plan that there is: preferences and topology constraints are not looked at, since they had their say when
/// each of the pods was placed, and capacity reservations are not used.
#[must_use]
pub fn launch_together(problem: &Problem<'_>, options: &Options) -> Option<Launch> {
    let options = Options { preferences: PreferencePolicy::Ignore, ..*options };
    let daemons = problem.daemon_sets.iter().map(|set| &set.template.requests);
    let resources = ResourceIndex::of(problem.pods.iter().map(|pod| &pod.requests).chain(daemons));
    let offer = pools::order(&problem.node_pools).into_iter().next()?;
    if pools::unusable(offer.pool).is_some() {
        return None;
    }
    let mut pools = vec![Pool::new(offer, problem.daemon_sets, &resources, &options)];
    let topology = Topology::new(problem, Groups::of(problem, false), &mut pools);
    let order = Order { by_priority: false, some_taint_prefers: false };
    let classes = Classes::of(problem, &options, &resources, &topology, order);
    let pool = pools.first_mut()?;
    if !pool.reservations.is_empty() {
        pool.reservations.close();
        pool.reprice();
    }
    let mut bin = Bin::empty(BASE, 0, pool.limits.nothing(), resources.len());
    let mut pods = Vec::with_capacity(problem.pods.len());
    for (index, class) in classes.list.iter().enumerate() {
        let count = u32::try_from(class.pods.len()).ok()?;
        if count > class.most_per_node() || !class.ports_free(&bin.ports) {
            return None;
        }
        let alternatives = &class.levels.last()?.alternatives;
        bin.set = alternatives.iter().find_map(|id| pool.admit(bin.set, *id, &classes.alternatives))?;
        bin.add(index, class, 0, count);
        pods.extend(&class.pods);
    }
    let choice = holding(pool, &bin).find(|choice| pool.limits.room_for(&choice.share, 1) > 0)?.clone();
    bin.shape = choice.kind;
    bin.share = least_share(pool, &pool.limits, &bin, &choice.share)?;
    pool.limits.charge(&bin.share, 1);
    launch::launches(pool, &[bin], vec![pods], &resources, &options).pop()
}
