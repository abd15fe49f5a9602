//! A new node while it is being filled, and what stays the same meanwhile.

use crate::classes::{Class, Classes};
use crate::constraints::AlternativeId;
use crate::dense::{self, Amounts};
use crate::hosts::HostCounts;
use crate::limits::{Limits, Share};
use crate::pools::{Choice, Pool, SetId};
use crate::problem::Options;
use crate::topology::{Target, Topology};
use nodeless_model::pod::HostPort;

/// A node to be launched, while it is being filled.
#[derive(Clone, Debug)]
pub(crate) struct Bin {
    /// Which labels it may have.
    pub(crate) set: SetId,
    /// The pods: class and how many.
    pub(crate) contents: Vec<(usize, u32)>,
    /// What the pods take.
    pub(crate) used: Amounts,
    /// Ports that the pods take.
    pub(crate) ports: Vec<HostPort>,
    /// What it holds of topology groups over the host name.
    pub(crate) hosts: HostCounts,
    /// The instance type by which it was sized: a place in the NodePool's types.
    pub(crate) shape: usize,
    /// What it takes of the limits at the least: that of its shape, or of as many instance types as `minValues` asks for.
    pub(crate) share: Share,
    /// Whether the instance types that hold it are too few for `minValues`.
    pub(crate) min_values_relaxed: bool,
    /// The capacity reservation of which it uses one instance.
    pub(crate) reservation: Option<String>,
}

/// Pending pods of a class, assigned to domains where topology requires that.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) class: usize,
    /// None better than another.
    pub(crate) alternatives: Vec<AlternativeId>,
    /// The domains that they are assigned to.
    pub(crate) target: Target,
    /// How many there were at first.
    pub(crate) assigned: u32,
    /// How many are still pending.
    pub(crate) pending: u32,
}

/// What does not change while nodes are packed.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c, 'a> {
    pub(crate) classes: &'c Classes<'a>,
    /// The level of preferences.
    pub(crate) level: usize,
    pub(crate) options: &'c Options,
}

/// What each node costs in addition to its price, in dollars per hour: about the price of its root volume (20 GiB of
/// gp3 at $0.08 per GiB and month). It keeps plans from buying many small nodes for a rounding error.
pub(crate) const NODE: f64 = 0.002;

/// What a node takes of the limits at the least: `own`, the share of its shape, and with it that of the cheapest instance
/// types that together reach `minValues`. `None` when those that keep the limits do not reach it.
pub(crate) fn least_share(pool: &Pool<'_>, limits: &Limits, bin: &Bin, own: &Share) -> Option<Share> {
    if limits.room_for(own, 1) == 0 {
        return None;
    }
    let mut share = own.clone();
    if pool.min_values.is_empty() {
        return Some(share);
    }
    let mut kinds = vec![bin.shape];
    let mut others = standing_in(pool, bin).filter(|choice| limits.room_for(&choice.share, 1) > 0);
    while pool.first_short(&kinds).is_some() {
        let choice = others.next()?;
        kinds.push(choice.kind);
        share = share.max(&choice.share);
    }
    Some(share)
}

/// The choices that have capacity for the pods of a node, the cheapest first.
pub(crate) fn holding<'p>(pool: &'p Pool<'_>, bin: &'p Bin) -> impl Iterator<Item = &'p Choice> + Clone {
    pool.set(bin.set).offer.choices.iter().filter(move |choice| {
        let kind = &pool.types[choice.kind];
        dense::fits(&bin.used, &kind.room)
            && !bin.ports.iter().any(|port| kind.daemon_ports.iter().any(|taken| port.conflicts_with(taken)))
    })
}

/// Those of them that a node may be launched as beside its shape. Where dollars are limited they are bought as the shape is.
pub(crate) fn standing_in<'p>(pool: &'p Pool<'_>, bin: &'p Bin) -> impl Iterator<Item = &'p Choice> + Clone {
    let shape = pool.set(bin.set).choice(bin.shape).filter(|_| pool.limits.dollars().is_some());
    let bought = shape.map(|shape| shape.bought);
    holding(pool, bin).filter(move |choice| bought.is_none_or(|bought| choice.bought == bought))
}

impl Bin {
    pub(crate) fn empty(set: SetId, shape: usize, share: Share, resources: usize) -> Self {
        Self {
            set,
            contents: Vec::new(),
            used: vec![0; resources].into_boxed_slice(),
            ports: Vec::new(),
            hosts: HostCounts::default(),
            shape,
            share,
            min_values_relaxed: false,
            reservation: None,
        }
    }

    /// Whether both hold the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.set == other.set
            && self.shape == other.shape
            && self.contents == other.contents
            && self.reservation == other.reservation
    }

    /// Adds more pods of a class that the node has.
    pub(crate) fn add_more(&mut self, place: usize, class: &Class<'_>, level: usize, count: u32) {
        self.contents[place].1 += count;
        dense::add(&mut self.used, &class.requests, count);
        self.hosts.add(class, level, count);
    }

    pub(crate) fn add(&mut self, index: usize, class: &Class<'_>, level: usize, count: u32) {
        self.contents.push((index, count));
        dense::add(&mut self.used, &class.requests, count);
        self.ports.extend(class.host_ports.iter().cloned());
        self.hosts.add(class, level, count);
    }
}

impl Context<'_, '_> {
    /// Whether each class on a node with these counts allows the others there.
    pub(crate) fn hosts_allow<'b>(
        &self,
        hosts: &HostCounts,
        mut contents: impl Iterator<Item = &'b (usize, u32)>,
        topology: &Topology<'_>,
    ) -> bool {
        contents.all(|(class, _)| hosts.allows(&self.classes.list[*class], self.level, topology))
    }
}
