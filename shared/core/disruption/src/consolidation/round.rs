//! An evaluation of all candidates: the packed cluster, the prices of new nodes, and the decisions so far.

use super::prediction::Prediction;
use super::replacement::ROUNDING;
use super::savings::balanced::Totals;
use super::savings::just_launched::JustLaunched;
use super::savings::paid::{self, Paid};
use super::zone_guard::ZoneGuard;
use super::{Candidate, Found, State};
use crate::candidates::{self, Eligible, Lookup, consolidatable_from};
use crate::cluster::{Cluster, ClusterNode, Options};
use crate::output::{Command, Method, PodPlacement, Replacement};
use crate::pods;
use crate::policy::min_savings;
use crate::policy::on_demand_minimum::OnDemandMinimums;
use crate::policy::schedules::{launches, may_launch};
use crate::reasons::KeptReason;
use crate::simulation::node_prices::{Asker, NodePrices, Scheduler};
use crate::simulation::packed::{Classes, Mover, Moves, Packed, Repelling, Scope};
use crate::simulation::{self, Expected};
use jiff::Timestamp;
use nodeless_commitments::Instance;
use nodeless_model::hashed::HashMap;
use nodeless_model::{CapacityType, DisruptionReason, NillableDuration, ResourceIndex};
use nodeless_scheduling::{BoundPods, ExistingNode, Launch, MinValuesPolicy, PoolOffer, Prepared, Problem};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// NodePools prepared for the pods of these nodes.
pub(super) fn prepared<'c, 'a>(
    offers: &'c [PoolOffer<'a>],
    cluster: &Cluster<'a>,
    eligible: &[Eligible<'c, 'a>],
    options: &Options,
) -> Prepared<'c> {
    let moving = eligible.iter().flat_map(|one| pods::reschedulable(&one.of.pods));
    // A single reason is enough for pods that cannot be scheduled. `minValues` are relaxed for pods that need a node, and, as in Karpenter,
    // not to save.
    let min_values = MinValuesPolicy::Strict;
    let scheduling = nodeless_scheduling::Options { max_explained: 1, min_values, ..options.scheduling };
    Prepared::new(offers, cluster.daemon_sets, moving, cluster.facts, &scheduling)
}

/// The options of a decision, and its time.
#[derive(Clone, Copy)]
pub(super) struct Setting<'o> {
    pub(super) options: &'o Options,
    pub(super) now: Timestamp,
}

/// An evaluation of all candidates.
pub(super) struct Round<'c, 'a, 'o> {
    pub(super) options: &'o Options,
    /// The scheduling options.
    pub(super) scheduler: &'o mut dyn Scheduler,
    pub(super) now: Timestamp,
    pub(super) packed: Packed<'a>,
    pub(super) node_prices: NodePrices<'a>,
    totals: Totals,
    just_launched: JustLaunched,
    minimums: OnDemandMinimums,
    /// What is paid with commitments; not for planned nodes.
    paid: Option<Paid<'c>>,
    /// Where pods of commands are predicted to be bound; not for planned nodes.
    pub(super) prediction: Option<Prediction<'c, 'a>>,
    /// The spread over zones that commands keep, if a NodePool asks for it.
    pub(super) zones: Option<ZoneGuard<'a>>,
    /// Whether the nodes are only planned: then moving pods disrupts nothing, and launches need not be cheaper for every choice
    /// of EC2.
    pub(super) planned: bool,
    /// In the order in which they are evaluated.
    pub(super) candidates: Vec<Candidate<'c, 'a>>,
    /// The candidate of each node of the row.
    pub(super) by_leaf: Vec<Option<usize>>,
    pub(super) commands: Vec<Command>,
    /// The work without that of the packed cluster, in the units of [`nodeless_scheduling::Solution::work`].
    spent: u64,
}

impl<'c, 'a, 'o> Round<'c, 'a, 'o> {
    pub(super) fn new(
        cluster: &'c Cluster<'a>,
        eligible: &[Eligible<'c, 'a>],
        lookup: &Lookup<'c, 'a>,
        expected: &'c Expected<'a>,
        setting: Setting<'o>,
        scheduler: &'o mut dyn Scheduler,
    ) -> Self {
        let now = setting.now;
        let price = |place: usize| cluster.nodes[place].claim.map_or(0.0, |claim| lookup.price(claim));
        let offers = cluster.node_pools.iter().filter(|offer| may_launch(offer.pool, now)).cloned().collect();
        let (candidates, classes) = candidates_of(cluster, eligible, &[], scheduler.resources());
        let problem = problem(cluster, expected, &candidates, now);
        let round = Self::over(candidates, classes, problem, offers, setting, scheduler);
        let prices = cluster.nodes.iter().enumerate().map(|(place, node)| (node, price(place)));
        let just_launched = JustLaunched::new(prices, &cluster.pending_pods, now);
        let minimums = OnDemandMinimums::of_cluster(cluster);
        let paid = Paid::new(cluster, price);
        Self { totals: Totals::new(cluster, price), just_launched, minimums, paid, ..round }
    }

    /// An evaluation of planned nodes. `beside` contains the existing nodes with their pods.
    pub(super) fn planned(
        cluster: &'c Cluster<'a>,
        eligible: &[Eligible<'c, 'a>],
        beside: &Problem<'a>,
        options: &'o Options,
        scheduler: &'o mut dyn Scheduler,
    ) -> Self {
        let now = Timestamp::MAX;
        let offers = cluster.node_pools.iter().filter(|offer| launches(offer.pool)).cloned().collect();
        let (candidates, classes) = candidates_of(cluster, eligible, &beside.bound_pods, scheduler.resources());
        let mut row = problem(cluster, &Expected::default(), &candidates, now);
        // Existing nodes stay in any case.
        let planned = std::mem::replace(&mut row.nodes, beside.nodes.clone());
        row.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        row.nodes.extend(planned);
        row.bound_pods.extend(beside.bound_pods.iter().cloned());
        let round = Self::over(candidates, classes, row, offers, Setting { options, now }, scheduler);
        Self { planned: true, ..round }
    }

    /// An evaluation of candidates, whose nodes are those of the problem.
    fn over(
        mut candidates: Vec<Candidate<'c, 'a>>,
        classes: Classes<'a>,
        problem: Problem<'a>,
        offers: Vec<PoolOffer<'a>>,
        setting: Setting<'o>,
        scheduler: &'o mut dyn Scheduler,
    ) -> Self {
        let resources = scheduler.resources().clone();
        let leaves: HashMap<&str, usize> =
            problem.nodes.iter().enumerate().map(|(leaf, node)| (node.name.as_str(), leaf)).collect();
        let mut by_leaf = vec![None; problem.nodes.len()];
        for (place, candidate) in candidates.iter_mut().enumerate() {
            match leaves.get(candidate.one.node.name.as_str()) {
                Some(leaf) => {
                    candidate.leaf = *leaf;
                    by_leaf[*leaf] = Some(place);
                }
                // Cordoned: it takes no pods, and may still be removed.
                None => candidate.leaf = usize::MAX,
            }
        }
        let demand = demand(&candidates, &classes, &resources);
        let node_prices = NodePrices::new(offers, &resources, demand);
        let packed = Packed::new(problem, classes, resources);
        for candidate in &mut candidates {
            let scopes = candidate.movers.iter().map(|mover| packed.scope(mover));
            candidate.scope = scopes.max().unwrap_or(Scope::Small);
        }
        Self {
            options: setting.options,
            scheduler,
            now: setting.now,
            totals: Totals::default(),
            just_launched: JustLaunched::default(),
            minimums: OnDemandMinimums::default(),
            paid: None,
            prediction: None,
            zones: None,
            planned: false,
            packed,
            node_prices,
            candidates,
            by_leaf,
            commands: Vec::new(),
            spent: 0,
        }
    }

    /// What replacing these nodes by the launches costs more in dollars an hour, most likely and at most: with commitments, what is
    /// paid.
    pub(super) fn cost(&mut self, places: &[usize], launches: &[Launch]) -> (f64, f64) {
        let price: f64 = places.iter().map(|place| self.candidates[*place].price).sum();
        let Some(paid) = &self.paid else {
            let likely: f64 = launches.iter().map(|launch| launch.offering.price).sum();
            let most: f64 = launches.iter().map(|launch| launch.charge.dollars_per_hour).sum();
            return (likely - price, most - price);
        };
        let (removed, offers) = (self.instances(places), &self.node_prices.offers);
        let likely = -paid.saving(&removed, paid::likely(launches, offers));
        let most = -paid.saving(&removed, paid::dearest(launches, offers));
        let work = paid.work().saturating_mul(2);
        self.spend(work);
        (likely, most)
    }

    /// Whether a command saves enough for its NodePools, by their annotation and the policy `Balanced`, and for nodes that were just
    /// launched.
    pub(super) fn approve(&self, places: &[usize], savings: f64) -> Result<(), KeptReason> {
        if self.planned {
            return Ok(());
        }
        let candidates: Vec<&Candidate<'_, '_>> = places.iter().map(|place| &self.candidates[*place]).collect();
        min_savings::check(candidates.iter().map(|candidate| candidate.one.offer.pool), savings)?;
        self.just_launched.approve(&candidates, savings)?;
        self.totals.approve(&candidates, savings)
    }

    /// What replacing these nodes by the launches saves, in dollars an hour: with commitments, what is no longer paid.
    ///
    /// # Errors
    /// If that is nothing, whichever instance type EC2 chooses.
    pub(super) fn saving(&mut self, places: &[usize], launches: &[Launch]) -> Result<f64, KeptReason> {
        let price: f64 = places.iter().map(|place| self.candidates[*place].price).sum();
        let Some(paid) = &self.paid else {
            let added: f64 = launches.iter().map(|launch| launch.offering.price).sum();
            return Ok(price - added);
        };
        let (removed, offers) = (self.instances(places), &self.node_prices.offers);
        let least = paid.saving(&removed, paid::dearest(launches, offers));
        let likely = if launches.is_empty() { least } else { paid.saving(&removed, paid::likely(launches, offers)) };
        let work = paid.work().saturating_mul(2);
        self.spend(work);
        if least <= price * ROUNDING { Err(KeptReason::PaidNoLess { price, saving: least }) } else { Ok(likely) }
    }

    /// The instances of nodes, at the prices of the candidates.
    fn instances(&self, places: &[usize]) -> Vec<Instance> {
        let of = |place: &usize| {
            let candidate = &self.candidates[*place];
            Some(paid::at_price(candidate.one.of.instance.as_ref()?, candidate.price))
        };
        places.iter().filter_map(of).collect()
    }

    /// Whether replacing these nodes by the launches leaves no NodePool with less on demand than its minimum.
    pub(super) fn keeps_minimums(&self, places: &[usize], launches: &[Launch]) -> Result<(), KeptReason> {
        self.minimums.check(&self.claims(places), launches.iter(), &self.node_prices.offers)
    }

    /// Limits the replacements of nodes to on-demand as far as minimums need it.
    pub(super) fn limit_to_minimums(&self, places: &[usize], launches: &mut [Launch]) {
        self.minimums.limit_replacements(&self.claims(places), launches, &self.node_prices.offers);
    }

    /// Why these launches, limited to on-demand, do not replace nodes: with the minimum, if it is why they were limited.
    pub(super) fn because_of_minimum(&self, places: &[usize], launches: &[Launch], why: KeptReason) -> KeptReason {
        match self.keeps_minimums(places, launches) {
            Err(KeptReason::OnDemandMinimum { node_pool, minimum, .. }) => {
                KeptReason::OnDemandMinimum { node_pool, minimum, instead: Some(Box::new(why)) }
            }
            _ => why,
        }
    }

    fn claims(&self, places: &[usize]) -> Vec<&'a str> {
        places.iter().map(|place| self.candidates[*place].one.claim.name.as_str()).collect()
    }

    /// Queries the prices of new nodes.
    pub(super) fn query_node_prices<T>(&mut self, ask: impl FnOnce(&mut NodePrices<'a>, &mut Asker<'_, 'a>) -> T) -> T {
        let mut asker = Asker { scheduler: &mut *self.scheduler, classes: &self.packed.classes, work: 0 };
        let answer = ask(&mut self.node_prices, &mut asker);
        let work = asker.work;
        self.spend(work);
        answer
    }

    /// The work so far, in the units of [`nodeless_scheduling::Solution::work`].
    pub(super) fn work(&self) -> u64 {
        self.spent.saturating_add(self.packed.work())
    }

    /// The remaining work.
    pub(super) fn work_left(&self) -> u64 {
        self.options.max_work.saturating_sub(self.work())
    }

    /// Places pods on the packed cluster, as [`Packed::place_within`]. Fails, without moves, once the work limit is reached.
    pub(super) fn place(&mut self, movers: &[Mover<'a>], all: bool) -> Result<Moves, KeptReason> {
        let max_work = self.work_left();
        let end = self.packed.work().saturating_add(max_work / 2);
        let moves = self.packed.place_within(movers, all, max_work);
        if self.packed.work() >= end && !moves.left.is_empty() {
            self.packed.undo(movers, &moves);
            return Err(KeptReason::NotEvaluated);
        }
        Ok(moves)
    }

    /// Fails once the work limit is reached.
    pub(super) fn has_work_left(&self) -> Result<(), KeptReason> {
        if self.work_left() == 0 { Err(KeptReason::NotEvaluated) } else { Ok(()) }
    }

    /// Counts work.
    pub(super) fn spend(&mut self, work: u64) {
        self.spent = self.spent.saturating_add(work);
    }

    pub(super) fn close(&mut self, place: usize) {
        let leaf = self.candidates[place].leaf;
        if leaf != usize::MAX {
            self.packed.close(leaf);
        }
    }

    pub(super) fn reopen(&mut self, place: usize) {
        let leaf = self.candidates[place].leaf;
        if leaf != usize::MAX {
            self.packed.open(leaf);
        }
    }

    /// Adds a command. Its nodes are closed, and its moves are made.
    pub(super) fn command(
        &mut self,
        places: &[usize],
        movers: &[Mover<'a>],
        placed: &[(usize, usize)],
        replacements: Vec<Replacement>,
    ) {
        let launches = || replacements.iter().map(|replacement| &replacement.launch);
        let claims = self.claims(places);
        self.minimums.apply(&claims, launches(), &self.node_prices.offers);
        self.node_prices.charge(launches());
        let replaced = !replacements.is_empty();
        let launched: Vec<Launch> = replacements.iter().map(|replacement| replacement.launch.clone()).collect();
        let removed = self.instances(places);
        let price: f64 = places.iter().map(|place| self.candidates[*place].price).sum();
        let mut savings = price - launched.iter().map(|launch| launch.offering.price).sum::<f64>();
        if let Some(paid) = &mut self.paid {
            let offers = &self.node_prices.offers;
            savings = paid.saving(&removed, paid::likely(&launched, offers));
            paid.apply(&removed, paid::likely(&launched, offers));
        }
        let mut command = self.command_of(places, replacements, savings);
        command.placements = placed
            .iter()
            .map(|(mover, leaf)| PodPlacement {
                pod: movers[*mover].pod.key(),
                node: self.packed.problem.nodes[*leaf].name.clone(),
            })
            .collect();
        command.placements.sort();
        for place in places {
            let candidate = &mut self.candidates[*place];
            candidate.state = State::Goes;
            // The domains of new nodes are unknown: until they exist, their pods count on their current nodes.
            if !replaced {
                self.packed.forget(&candidate.one.node.name, &candidate.movers);
            }
        }
        self.packed.commit(movers, placed);
        let of_places = places.iter().filter(|_| !replaced).flat_map(|place| &self.candidates[*place].movers);
        let leaving: Vec<Mover<'a>> = of_places.copied().collect();
        let placed_movers: Vec<(Mover<'a>, usize)> =
            placed.iter().map(|(mover, leaf)| (movers[*mover], *leaf)).collect();
        self.note_moves(&leaving, &placed_movers);
        let receiving: BTreeSet<usize> = placed.iter().filter_map(|(_, leaf)| self.by_leaf[*leaf]).collect();
        for place in receiving {
            let candidate = &mut self.candidates[place];
            if candidate.state == State::Open {
                candidate.state = State::Stays;
                candidate.reasons = vec![KeptReason::Receives(command.id.clone())];
            }
        }
        self.commands.push(command);
    }

    /// A command that removes candidates, without placements of pods. `savings` is in dollars per hour.
    pub(super) fn command_of(&self, places: &[usize], replacements: Vec<Replacement>, savings: f64) -> Command {
        let method = if places.len() > 1 { Method::MultiNodeConsolidation } else { Method::SingleNodeConsolidation };
        let nodes: Vec<Eligible<'c, 'a>> = places.iter().map(|place| self.candidates[*place].one).collect();
        let command = candidates::command(method, DisruptionReason::Underutilized, &nodes, replacements, self.now);
        let candidates: Vec<&Candidate<'_, '_>> = places.iter().map(|place| &self.candidates[*place]).collect();
        Command { savings_per_hour: savings, score: self.totals.score(&candidates, savings), ..command }
    }

    pub(super) fn finish(self, found: &mut Found) {
        for candidate in self.candidates {
            if candidate.state == State::Goes {
                continue;
            }
            if candidate.reasons.contains(&KeptReason::NotEvaluated) {
                found.not_evaluated.insert(candidate.one.node.name.clone());
            }
            let mut reasons = candidate.reasons;
            if reasons.is_empty() {
                reasons.push(KeptReason::NoReplacement);
            }
            found.kept.entry(candidate.one.node.name.clone()).or_default().extend(reasons);
        }
        found.commands.extend(self.commands);
    }
}

/// The candidates in the order in which they are evaluated, and the classes of their pods. `beside` has pods on other nodes.
fn candidates_of<'c, 'a>(
    cluster: &Cluster<'a>,
    eligible: &[Eligible<'c, 'a>],
    beside: &[BoundPods<'a>],
    resources: &ResourceIndex,
) -> (Vec<Candidate<'c, 'a>>, Classes<'a>) {
    let of_cluster = cluster.nodes.iter().flat_map(|node| &node.pods);
    let repelling = Repelling::new(of_cluster.chain(beside.iter().flat_map(|node| &node.pods)).copied());
    let mut classes = Classes::default();
    let mut candidates: Vec<Candidate<'c, 'a>> =
        eligible.iter().map(|one| candidate(one, cluster, &mut classes, resources, &repelling)).collect();
    let unseen = |one: &Candidate<'_, '_>| cluster.not_evaluated.contains(&one.one.node.name);
    candidates.sort_by(|a, b| {
        unseen(b)
            .cmp(&unseen(a))
            .then_with(|| (b.price / b.cost).total_cmp(&(a.price / a.cost)))
            .then_with(|| a.one.node.name.cmp(&b.one.node.name))
    });
    (candidates, classes)
}

fn candidate<'c, 'a>(
    one: &Eligible<'c, 'a>,
    cluster: &Cluster<'a>,
    classes: &mut Classes<'a>,
    resources: &ResourceIndex,
    repelling: &Repelling<'a>,
) -> Candidate<'c, 'a> {
    let mut movers: Vec<Mover<'a>> = pods::reschedulable(&one.of.pods)
        .map(|pod| Mover { class: classes.class_of(pod, cluster, resources, repelling), pod })
        .collect();
    movers.sort_by(|a, b| {
        let asked = |mover: &Mover<'_>| Reverse(&classes.list[mover.class].asked);
        asked(a).cmp(&asked(b)).then_with(|| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)))
    });
    let instance = one.claim.status.instance.as_ref();
    Candidate {
        price: one.price,
        cost: pods::reschedule_cost(&one.of.pods),
        capacity_type: instance.map_or(CapacityType::OnDemand, |instance| instance.capacity_type),
        instance_type: instance.map_or("", |instance| &instance.instance_type),
        leaf: usize::MAX,
        scope: Scope::Small,
        movers,
        one: *one,
        state: State::Open,
        reasons: Vec::new(),
    }
}

/// The nodes that may take pods of others, those that stay longest first, including all pods that are assigned to them.
fn problem<'a>(
    cluster: &Cluster<'a>,
    expected: &Expected<'a>,
    candidates: &[Candidate<'_, 'a>],
    now: Timestamp,
) -> Problem<'a> {
    let mut problem = simulation::problem(cluster, |node| takes_pods(cluster, node, now));
    problem.node_pools.clear();
    expected.subtract_expected(&mut problem);
    let ranks: HashMap<&str, usize> =
        candidates.iter().enumerate().map(|(rank, one)| (one.one.node.name.as_str(), rank)).collect();
    let rank = |node: &ExistingNode| Reverse(ranks.get(node.name.as_str()).copied().unwrap_or(usize::MAX));
    problem.nodes.sort_by_cached_key(|node| (rank(node), node.name.clone()));
    problem
}

/// Whether pods may be moved to a node voluntarily: not before it is ready, and not while `consolidateAfter` protects it.
pub(super) fn takes_pods(cluster: &Cluster<'_>, node: &ClusterNode<'_>, now: Timestamp) -> bool {
    let Some(claim) = node.claim else { return node.is_initialized() || node.node_pool().is_none() };
    if !node.is_initialized() {
        return false;
    }
    let pool = cluster.node_pools.iter().find(|offer| claim.is_of(&offer.pool.name));
    let after = pool.map_or(NillableDuration::Never, |offer| offer.pool.disruption.consolidate_after);
    consolidatable_from(claim, after).is_none_or(|(_, until)| until <= now)
}

/// The total requests of the candidates' pods.
fn demand(candidates: &[Candidate<'_, '_>], classes: &Classes<'_>, resources: &ResourceIndex) -> Box<[i64]> {
    let mut sum = vec![0_i64; resources.len()];
    for mover in candidates.iter().flat_map(|candidate| &candidate.movers) {
        for (sum, asked) in sum.iter_mut().zip(&classes.list[mover.class].asked) {
            *sum = sum.saturating_add(*asked);
        }
    }
    sum.into()
}
