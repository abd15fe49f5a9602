//! Adds pods to new nodes that are launched anyway.

use crate::constraints::AlternativeId;
use crate::dense;
use crate::packing::bin::{Bin, Context, Unit, holding};
use crate::pools::{Pool, SetId};
use crate::topology::Topology;

/// Adds pods of a unit to a new node, as far as its shape has capacity for them at the same price. For pods that
/// require other pods on their node, the node grows.
pub(crate) fn join(
    pool: &mut Pool<'_>,
    bin: &mut Bin,
    unit: &mut Unit,
    context: Context<'_, '_>,
    topology: &mut Topology<'_>,
) {
    pool.work.add(1);
    let class = &context.classes.list[unit.class];
    // Adding to a node could leave too few instance types for `minValues`.
    if !pool.min_values.is_empty() || !class.ports_free(&bin.ports) {
        return;
    }
    if !class.is_met_by(context.level, &unit.target, topology, &pool.types[bin.shape].daemons) {
        return;
    }
    let gathers = class.gathers(context.level, topology);
    for place in 0..unit.alternatives.len() {
        let mut most = unit.pending.min(class.max_per_node());
        if class.is_related() {
            pool.work.add(class.extra_work(context.level));
            most = most.min(bin.hosts.max_added(class, context.level, topology));
        }
        if most == 0 {
            return;
        }
        let times = fitting(pool, bin, unit, context, most, place);
        let (set, times) = match times {
            Some((set, times)) if times == most || !gathers => (set, times),
            fitted => match grow(pool, bin, unit.alternatives[place], context, unit.class, most).or(fitted) {
                Some(grown) => grown,
                None => continue,
            },
        };
        bin.set = set;
        bin.add(unit.class, class, context.level, times);
        bin.hosts.drop_preferences();
        topology.record_host(&class.selected_hosts, times);
        unit.pending -= times;
    }
}

/// The number of pods that can be added without a change of the shape or its price.
fn fitting(
    pool: &mut Pool<'_>,
    bin: &Bin,
    unit: &Unit,
    context: Context<'_, '_>,
    most: u32,
    place: usize,
) -> Option<(SetId, u32)> {
    let class = &context.classes.list[unit.class];
    let kind = &pool.types[bin.shape];
    let mut free = kind.allocatable.clone();
    dense::take(&mut free, &bin.used, 1);
    let times = bin.volumes.times(class.mounts(), &free, dense::times_fitting(&class.requests, &free, most));
    if times == 0 || !class.ports_free(&kind.daemons.ports) {
        return None;
    }
    let present = pool.set(bin.set).choice(bin.shape)?.price;
    let set = pool.admit(bin.set, unit.alternatives[place], &context.classes.alternatives)?;
    if bin.reservation.as_ref().is_some_and(|id| !pool.may_use(set, bin.shape, id)) {
        return None;
    }
    let same = pool.set(set).choice(bin.shape).is_some_and(|choice| choice.price <= present);
    same.then_some((set, times))
}

/// Changes the node to the cheapest shape with capacity for most of the added pods.
fn grow(
    pool: &mut Pool<'_>,
    bin: &mut Bin,
    alternative: AlternativeId,
    context: Context<'_, '_>,
    class: usize,
    most: u32,
) -> Option<(SetId, u32)> {
    if bin.reservation.is_some() {
        return None;
    }
    let of_class = &context.classes.list[class];
    let set = pool.admit_class(bin.set, alternative, &context.classes.alternatives, of_class.needs(class))?;
    let class = of_class;
    let mut limits = pool.limits.clone();
    limits.refund(&bin.share);
    let wider = Bin { set, ..bin.clone() };
    let mut best: Option<(u32, usize)> = None;
    for choice in holding(pool, &wider) {
        let kind = &pool.types[choice.kind];
        if limits.allowed(&choice.share, 1) == 0 || !class.ports_free(&kind.daemons.ports) {
            continue;
        }
        let mut free = kind.allocatable.clone();
        dense::take(&mut free, &bin.used, 1);
        let times = bin.volumes.times(class.mounts(), &free, dense::times_fitting(&class.requests, &free, most));
        if times > best.map_or(0, |(times, _)| times) {
            best = Some((times, choice.kind));
        }
    }
    let (times, kind) = best?;
    bin.shape = kind;
    pool.limits.refund(&bin.share);
    bin.share = pool.set(set).choice(kind)?.share.clone();
    pool.limits.charge(&bin.share, 1);
    Some((set, times))
}
