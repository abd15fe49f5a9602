//! A new node during packing, and the data that is constant meanwhile.

use crate::classes::{Class, Classes};
use crate::constraints::AlternativeId;
use crate::dense::{self, Amounts};
use crate::packing::hosts::HostCounts;
use crate::pools::limits::{Limits, Share};
use crate::pools::{Choice, Pool, SetId};
use crate::problem::Options;
use crate::topology::{Target, Topology};
use crate::volumes::SharedVolumes;
use nodeless_model::pod::HostPort;
use std::rc::Rc;

/// A node to be launched, during packing.
#[derive(Clone, Debug)]
pub(crate) struct Bin {
    /// The possible labels.
    pub(crate) set: SetId,
    /// The pods: class and number.
    pub(crate) contents: Vec<(usize, u32)>,
    /// The requests of the pods.
    pub(crate) used: Amounts,
    /// Host ports of the pods.
    pub(crate) ports: Vec<HostPort>,
    /// The volumes that several pods mount.
    pub(crate) volumes: SharedVolumes,
    /// The pods by topology groups over the host name.
    pub(crate) hosts: HostCounts,
    /// The instance type that determines its size: an index into the NodePool's types.
    pub(crate) shape: usize,
    /// The minimum usage of the limits: that of the shape, or of as many instance types as `minValues` requires.
    pub(crate) share: Share,
    /// Whether too few instance types are large enough to satisfy `minValues`.
    pub(crate) min_values_relaxed: bool,
    /// Whether only types with the DaemonSets of its shape may be launched, because topology constraints concern their pods.
    pub(crate) keeps_daemons: bool,
    /// The capacity reservation of which it uses one instance.
    pub(crate) reservation: Option<String>,
}

/// Pending pods of a class, assigned to domains where topology requires that.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) class: usize,
    /// Equally preferred.
    pub(crate) alternatives: Vec<AlternativeId>,
    /// The domains of the pods.
    pub(crate) target: Target,
    /// The initial number.
    pub(crate) assigned: u32,
    /// The number of pods that are still pending.
    pub(crate) pending: u32,
}

/// The constant data during packing.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c, 'a> {
    pub(crate) classes: &'c Classes<'a>,
    /// The level of preferences.
    pub(crate) level: usize,
    pub(crate) options: &'c Options,
}

/// An additional price of each node in dollars per hour: about the price of its root volume (20 GiB of gp3 at $0.08 per GiB and
/// month). It prevents plans from launching many small nodes for a rounding error.
pub const NODE: f64 = 0.002;

/// The minimum usage of the limits by a node: `own`, the share of its shape, and with it that of the cheapest instance types that
/// together satisfy `minValues`. `None` if those within the limits do not satisfy it.
pub(crate) fn min_share(pool: &Pool<'_>, limits: &Limits, bin: &Bin, own: &Share) -> Option<Share> {
    if limits.allowed(own, 1) == 0 {
        return None;
    }
    let mut share = own.clone();
    if pool.min_values.is_empty() {
        return Some(share);
    }
    let mut kinds = vec![bin.shape];
    let mut others = standing_in(pool, bin).filter(|choice| limits.allowed(&choice.share, 1) > 0);
    while pool.first_short(&pool.set(bin.set).requirements, &kinds).is_some() {
        let choice = others.next()?;
        kinds.push(choice.kind);
        share = share.max(&choice.share);
    }
    Some(share)
}

/// The choices that are large enough for the pods of a node, the cheapest first.
pub(crate) fn holding<'p>(pool: &'p Pool<'_>, bin: &'p Bin) -> impl Iterator<Item = &'p Choice> + Clone {
    pool.set(bin.set).offer.choices.iter().filter(move |choice| {
        let kind = &pool.types[choice.kind];
        let daemons = &pool.types[bin.shape].daemons;
        (!bin.keeps_daemons || Rc::ptr_eq(&kind.daemons, daemons))
            && dense::fits(&bin.used, &kind.allocatable)
            && !bin.ports.iter().any(|port| kind.daemons.ports.iter().any(|taken| port.conflicts_with(taken)))
    })
}

/// The types of [`holding`] that may be launched instead of the node's shape. With a limit on dollars they have the shape's
/// capacity type.
pub(crate) fn standing_in<'p>(pool: &'p Pool<'_>, bin: &'p Bin) -> impl Iterator<Item = &'p Choice> + Clone {
    let shape = pool.set(bin.set).choice(bin.shape).filter(|_| pool.limits.has_dollars());
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
            volumes: SharedVolumes::default(),
            hosts: HostCounts::default(),
            shape,
            share,
            min_values_relaxed: false,
            keeps_daemons: false,
            reservation: None,
        }
    }

    /// Whether both nodes contain the same pods, with the same shape and reservation.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.set == other.set
            && self.shape == other.shape
            && self.contents == other.contents
            && self.reservation == other.reservation
    }

    /// Adds more pods of a class that is already on the node, with its volumes.
    pub(crate) fn add_more(&mut self, place: usize, class: &Class<'_>, level: usize, count: u32) {
        self.contents[place].1 += count;
        dense::add(&mut self.used, &class.requests, count);
        self.hosts.add(class, level, count);
    }

    pub(crate) fn add(&mut self, index: usize, class: &Class<'_>, level: usize, count: u32) {
        self.contents.push((index, count));
        dense::add(&mut self.used, &class.requests, count);
        self.volumes.add(class.mounts(), &mut self.used);
        self.volumes.attach(class.mounts());
        self.ports.extend(class.host_ports.iter().cloned());
        self.hosts.add(class, level, count);
    }
}

impl Context<'_, '_> {
    /// Whether each class on a node with these counts allows the other classes there.
    pub(crate) fn hosts_allow<'b>(
        &self,
        hosts: &HostCounts,
        mut contents: impl Iterator<Item = &'b (usize, u32)>,
        topology: &Topology<'_>,
    ) -> bool {
        contents.all(|(class, _)| hosts.allows(&self.classes.list[*class], self.level, topology))
    }
}
