//! Checks that the pods of a command fit where the kube-scheduler is predicted to bind them.
//!
//! A placement of the scheduler is a plan that the kube-scheduler does not know. It binds each pod by its own scores, and if one
//! of them then fits on no node, another node is launched, most likely equal to the removed one. So a command is accepted only
//! if its pods fit under [`nodeless_scheduling::Bindings`], in several orders.

use super::prediction::Nodes;
use super::round::Round;
use crate::reasons::KeptReason;
use crate::simulation::packed::Mover;
use nodeless_model::Pod;
use nodeless_scheduling::{BindingLimits, BindingNode, Bound, Launch, SavedNode};

/// In how many orders the pods have to fit. A command whose pods do not fit in half of all orders passes with a probability
/// of 3%, and at its validation a later snapshot is tried again; each order takes work in proportion.
const ORDERS: u64 = 5;

/// The maximum number of pods of accepted commands that are bound together with those of the next command, in every order. Beyond
/// that the pods of accepted commands are bound first, in one order, so that the work for a command does not grow with their
/// number.
const MAX_TOGETHER: usize = 16;

/// Why the pods of a command are not predicted to run.
pub(super) enum Unpredicted {
    /// These pods, `namespace/name`, would stay pending, in one order.
    Pending(Vec<String>),
    Kept(KeptReason),
}

impl From<KeptReason> for Unpredicted {
    fn from(why: KeptReason) -> Self {
        Self::Kept(why)
    }
}

impl From<Unpredicted> for KeptReason {
    fn from(why: Unpredicted) -> Self {
        match why {
            Unpredicted::Pending(pods) => Self::PredictedPending { pod: pods.into_iter().next().unwrap_or_default() },
            Unpredicted::Kept(why) => why,
        }
    }
}

impl<'c, 'a> Round<'c, 'a, '_> {
    /// Accepts a command if its pods fit where the kube-scheduler is predicted to bind them, once its replacements have
    /// joined; together with the pods of the commands that were accepted before. With `first_only`, any pod that does not fit may be the
    /// reason.
    pub(super) fn predict(
        &mut self,
        places: &[usize],
        movers: &[Mover<'a>],
        launches: &[Launch],
        first_only: bool,
    ) -> Result<(), KeptReason> {
        self.predict_pods(places, movers, launches, first_only).map_err(KeptReason::from)
    }

    /// [`Self::predict`], with all pods that do not fit in one order unless `first_only` is set.
    pub(super) fn predict_pods(
        &mut self,
        places: &[usize],
        movers: &[Mover<'a>],
        launches: &[Launch],
        first_only: bool,
    ) -> Result<(), Unpredicted> {
        let Some(mut prediction) = self.prediction.take() else { return Ok(()) };
        let mut nodes = prediction.nodes.take().unwrap_or_else(|| {
            let movers = self.candidates.iter().flat_map(|candidate| &candidate.movers);
            let movers = prediction.declared(&movers.copied().collect::<Vec<_>>());
            Nodes::new(&prediction, self.packed.resources.clone(), pods(&movers))
        });
        let movers = prediction.declared(movers);
        let before = nodes.bindings.work();
        let outcome = self.predict_on(&mut nodes, places, &movers, launches, first_only);
        self.spend(nodes.bindings.work() - before);
        prediction.nodes = Some(nodes);
        self.prediction = Some(prediction);
        outcome
    }

    fn predict_on(
        &mut self,
        nodes: &mut Nodes<'a>,
        places: &[usize],
        movers: &[Mover<'a>],
        launches: &[Launch],
        first_only: bool,
    ) -> Result<(), Unpredicted> {
        let (bound_before, waiting_before) = (nodes.bound.len(), nodes.waiting.clone());
        let mut saved = Vec::new();
        if waiting_before.len() > MAX_TOGETHER {
            nodes.bind_waiting();
        } else if !launches.is_empty() {
            // The pods of removals are evicted at once, and those of a command with launches when its nodes are ready, most of a minute
            // later.
            saved = nodes.bind_waiting();
        }
        let names = places.iter().map(|place| &self.candidates[*place].one.node.name);
        let closing: Vec<usize> = names.filter_map(|name| nodes.by_name.get(name)).copied().collect();
        closing.iter().for_each(|node| nodes.bindings.close(*node));
        let count = nodes.bindings.len();
        for launch in launches {
            let offer = self.node_prices.offers.iter().find(|offer| offer.pool.name == launch.node_pool);
            let name = format!("replacement-{}", nodes.bindings.len());
            let node = offer.and_then(|offer| BindingNode::launched(&name, launch, offer, &mut nodes.converted).ok());
            if let Some(node) = node {
                nodes.bindings.add(node);
            }
        }
        match self.bound_queue(nodes, &closing, movers, first_only) {
            Ok(queue) => {
                nodes.bound.retain(|(node, _)| !closing.contains(node));
                nodes.waiting = queue;
                Ok(())
            }
            Err(why) => {
                nodes.bindings.truncate(count);
                closing.iter().for_each(|node| nodes.bindings.open(*node));
                if !saved.is_empty() {
                    saved.into_iter().rev().for_each(|node| nodes.bindings.restore(node));
                    nodes.bound.truncate(bound_before);
                    nodes.waiting = waiting_before;
                }
                Err(why)
            }
        }
    }

    /// The pods that wait when those of a command do too, if all of them fit.
    fn bound_queue(
        &mut self,
        nodes: &mut Nodes<'a>,
        closing: &[usize],
        movers: &[Mover<'a>],
        first_only: bool,
    ) -> Result<Vec<Mover<'a>>, Unpredicted> {
        let moving: Vec<Mover<'a>> = {
            let again = nodes.bound.iter().filter(|(node, _)| closing.contains(node));
            again.map(|(_, mover)| *mover).chain(movers.iter().copied()).collect()
        };
        let all: Vec<Mover<'a>> = nodes.waiting.iter().chain(&moving).copied().collect();
        if all.is_empty() {
            return Ok(all);
        }
        if self.no_zones_count(&all) && nodes.bindings.always_bound(&pods(&all)) {
            return Ok(all);
        }
        self.has_work_left()?;
        let limits = BindingLimits { max_work: self.work_left(), first_only };
        let found = nodes.bindings.bind(&pods(&all), 0..ORDERS, limits);
        match &found.all_unbound()[..] {
            [first, ..] if first_only => Err(Unpredicted::Pending(vec![all[*first].pod.key()])),
            [] if found.out_of_work => Err(KeptReason::NotEvaluated.into()),
            [] => {
                let staying = nodes.bound.iter().filter(|(node, _)| !closing.contains(node));
                let bound: Vec<(usize, Mover<'a>)> = staying.copied().collect();
                self.check_bound_zones(&nodes.bindings, &bound, &all, &found)?;
                Ok(all)
            }
            pending => Err(Unpredicted::Pending(pending.iter().map(|pod| all[*pod].pod.key()).collect())),
        }
    }

    /// Counts the pods of an accepted command on their new nodes, and those of launches on none, unless they still run.
    pub(super) fn note_moves(&mut self, leaving: &[Mover<'a>], placed: &[(Mover<'a>, usize)]) {
        let Some(prediction) = &mut self.prediction else { return };
        let leaving = prediction.declared(leaving);
        let (movers, leaves): (Vec<Mover<'a>>, Vec<usize>) = placed.iter().copied().unzip();
        let placed = prediction.declared(&movers);
        let Some(nodes) = &mut prediction.nodes else { return };
        leaving.iter().for_each(|mover| nodes.bindings.move_running(mover.pod, None));
        for (mover, leaf) in placed.iter().zip(leaves) {
            nodes.bindings.move_running(mover.pod, Some(&self.packed.problem.nodes[leaf].name));
        }
    }
}

impl Nodes<'_> {
    /// Binds the pods of accepted commands, in the first order in which all of them fit. Those that fit on no node wait on. Returns the
    /// nodes as they were before each pod.
    fn bind_waiting(&mut self) -> Vec<SavedNode> {
        let waiting = std::mem::take(&mut self.waiting);
        let pods = pods(&waiting);
        let mut orders = (0..ORDERS).map(|seed| self.bindings.bind(&pods, [seed], BindingLimits::NONE));
        let first = orders.next().unwrap_or_default();
        let all_fit = |bound: &Bound| bound.unbound().is_none();
        let bound = if all_fit(&first) { first } else { orders.find(all_fit).unwrap_or(first) };
        let mut saved = Vec::new();
        for (mover, node) in waiting.into_iter().zip(bound.orders.into_iter().flatten()) {
            match node {
                Some(node) => {
                    saved.push(self.bindings.save(node));
                    self.bindings.place(node, mover.pod);
                    self.bound.push((node, mover));
                }
                None => self.waiting.push(mover),
            }
        }
        saved
    }
}

fn pods<'a>(movers: &[Mover<'a>]) -> Vec<&'a Pod> {
    movers.iter().map(|mover| mover.pod).collect()
}
