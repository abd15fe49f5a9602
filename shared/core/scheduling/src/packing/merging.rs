//! Merges nodes at no cost.
//!
//! The rule: if a node is less than [`FULL`] full, and one node for its pods and those of another costs no more than both, it
//! replaces the two. Full nodes are not merged, however cheap one large node for all of them would be, because its failure would
//! affect more pods.

use crate::dense;
use crate::dense::dominant_share;
use crate::packing::bin::{Bin, Context, NODE, holding, min_share};
use crate::pools::Pool;
use crate::topology::Topology;
use std::rc::Rc;

/// The fraction of its shape from which a node counts as full.
const FULL: f64 = 0.8;

/// The maximum number of nodes that are compared, so that the work is bounded; the smallest come first.
const MAX_MERGE_CANDIDATES: usize = 64;

/// The work of pricing two nodes as one.
const WORK_OF_PAIR: usize = 10;

/// Sums of prices are rounded.
const ROUNDING: f64 = 1e-9;

/// Merges nodes by the rule above until none can be merged. Returns whether it merged any.
pub(crate) fn merge(
    pool: &mut Pool<'_>,
    context: Context<'_, '_>,
    topology: &Topology<'_>,
    bins: &mut Vec<Bin>,
) -> bool {
    let mut given_up: Vec<usize> = Vec::new();
    let mut any = false;
    for _ in 0..MAX_MERGE_CANDIDATES {
        if pool.work.is_used_up() {
            break;
        }
        let Some(loose) = loosest(pool, bins, &given_up) else { break };
        match partner(pool, context, topology, bins, loose) {
            Some((other, merged)) => {
                any = true;
                pool.limits.refund(&bins[loose].share);
                pool.limits.refund(&bins[other].share);
                pool.limits.charge(&merged.share, 1);
                // The indices of others stay the same up to the later of the two.
                let (kept, gone) = (loose.min(other), loose.max(other));
                bins[kept] = merged;
                bins.remove(gone);
                given_up.retain(|index| *index != kept && *index != gone);
                given_up.iter_mut().filter(|index| **index > gone).for_each(|index| *index -= 1);
            }
            None => given_up.push(loose),
        }
    }
    any
}

fn price(pool: &Pool<'_>, bin: &Bin) -> f64 {
    pool.set(bin.set).choice(bin.shape).map_or(0.0, |choice| choice.price)
}

/// The cheapest of the nodes that are not full and can still be merged; among equals the last.
fn loosest(pool: &Pool<'_>, bins: &[Bin], given_up: &[usize]) -> Option<usize> {
    let full = |bin: &Bin| dominant_share(&bin.used, &pool.types[bin.shape].allocatable) >= FULL;
    let loose = bins.iter().enumerate().rev().filter(|(index, bin)| !given_up.contains(index) && !full(bin));
    loose.min_by(|(_, a), (_, b)| price(pool, a).total_cmp(&price(pool, b))).map(|(index, _)| index)
}

/// The node that forms the cheapest pair with the given one, and the result of merging both.
fn partner(
    pool: &mut Pool<'_>,
    context: Context<'_, '_>,
    topology: &Topology<'_>,
    bins: &[Bin],
    loose: usize,
) -> Option<(usize, Bin)> {
    let mut best: Option<(f64, usize, Bin)> = None;
    for other in 0..bins.len() {
        let same_as_before = other > 0 && other - 1 != loose && bins[other - 1].is_like(&bins[other]);
        if other == loose || same_as_before {
            continue;
        }
        pool.work.add(WORK_OF_PAIR);
        let together = price(pool, &bins[loose]) + price(pool, &bins[other]);
        let (a, b) = (&bins[loose], &bins[other]);
        let Some((merged, price)) = merged(pool, context, topology, a, b, together) else { continue };
        let saved = together - price;
        if best.as_ref().is_none_or(|(most, _, _)| saved > most + ROUNDING) {
            best = Some((saved, other, merged));
        }
    }
    best.map(|(_, other, merged)| (other, merged))
}

/// A node for the pods of two nodes, if it costs no more than both together.
fn merged(
    pool: &mut Pool<'_>,
    context: Context<'_, '_>,
    topology: &Topology<'_>,
    a: &Bin,
    b: &Bin,
    together: f64,
) -> Option<(Bin, f64)> {
    let reserved = a.reservation.is_some() || b.reservation.is_some();
    if reserved || a.min_values_relaxed || b.min_values_relaxed {
        return None;
    }
    let crowded = a.contents.iter().any(|(class, count)| {
        let more = b.contents.iter().find(|(other, _)| other == class).map_or(0, |(_, more)| *more);
        count.saturating_add(more) > context.classes.list[*class].max_per_node()
    });
    let ports_clash = a.ports.iter().any(|port| b.ports.iter().any(|other| port.conflicts_with(other)));
    let daemons_differ = a.keeps_daemons && !Rc::ptr_eq(&pool.types[a.shape].daemons, &pool.types[b.shape].daemons);
    if crowded || ports_clash || daemons_differ {
        return None;
    }
    let mut hosts = a.hosts.clone();
    for (class, count) in &b.contents {
        hosts.add(&context.classes.list[*class], context.level, *count);
    }
    if !context.hosts_allow(&hosts, a.contents.iter().chain(&b.contents), topology) {
        return None;
    }
    let set = pool.merge(a.set, b.set)?;
    let cheap = pool.set(set).offer.choices.iter().take_while(|choice| choice.price <= together + NODE);
    let mut used = a.used.clone();
    dense::add(&mut used, &b.used, 1);
    let mut volumes = a.volumes.clone();
    volumes.join(&b.volumes, &mut used);
    if !cheap.clone().any(|choice| dense::fits(&used, &pool.types[choice.kind].allocatable)) {
        return None;
    }
    let mut bin = Bin { set, used, volumes, hosts, ..a.clone() };
    bin.contents.extend(&b.contents);
    bin.ports.extend(b.ports.iter().cloned());
    let mut limits = pool.limits.clone();
    limits.refund(&a.share);
    limits.refund(&b.share);
    let choice = holding(pool, &bin).find(|choice| limits.allowed(&choice.share, 1) > 0)?.clone();
    bin.shape = choice.kind;
    bin.share = min_share(pool, &limits, &bin, &choice.share)?;
    (choice.price <= together + NODE).then_some((bin, choice.price))
}
