//! The order of scheduling.

mod attempts;
mod binding;
mod equal_weights;
mod gathering;
mod learned;
pub(crate) mod new_nodes;
pub(crate) mod nodes;
pub(crate) mod one_node_launch;
mod outcome;
mod prepared;
mod within;

pub use prepared::Prepared;

use crate::claims::Claims;
use crate::classes::{CONSTRAINTS_PER_UNIT, Classes, Order};
use crate::constraints::AlternativeId;
use crate::constraints::groups::{GroupId, Groups, Kind};
use crate::packing::bin::{Bin, Context, Unit};
use crate::packing::joining;
use crate::pools::Pool;
use crate::problem::solution::Solution;
use crate::problem::{Options, PreferencePolicy, Problem};
use crate::topology::{Standing, Target, Topology};
use crate::work::Work;
use attempts::{Budget, Stage};
use gathering::Home;
use learned::Known;
use nodeless_model::hashed::HashMap;
use nodeless_model::{ResourceIndex, Taint, TaintEffect};
use nodes::PackedNode;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Makes a plan: places every pod on an existing node or a new node, or returns why it cannot be scheduled.
///
/// If limits do not allow all pods, those of lower priority are left out first.
///
/// ```
/// use nodeless_model::*;
/// use nodeless_scheduling::{Options, PoolOffer, Problem, solve};
///
/// // An instance type with 4 cpus that costs $0.20 per hour,
/// let cpu = |units| ResourceList::from([("cpu", Quantity::from_units(units)), ("pods", Quantity::from_units(50))]);
/// let only = |value: &str| Requirement::one_of([value]);
/// let xlarge = InstanceType {
///     name: "m6i.xlarge".into(),
///     requirements: Requirements::from([
///         (labels::INSTANCE_TYPE, only("m6i.xlarge")),
///         (labels::ZONE, only("us-east-1a")),
///         (labels::CAPACITY_TYPE, only("on-demand")),
///     ]),
///     capacity: cpu(4),
///     ebs_volumes: None,
///     root_volume: None,
///     overhead: Overhead::default(),
///     offerings: vec![Offering {
///         zone: "us-east-1a".into(),
///         capacity_type: CapacityType::OnDemand,
///         price: 0.2,
///         available: true,
/// #         lacks_price: false,
/// #         reservation: None,
/// #         requirements: Requirements::new(),
///     }],
/// };
/// // a NodePool that may launch it,
/// let pool = test_support::node_pool("default");
/// // and three pods, of which the last is larger than any instance type.
/// let pod = |name: &str, units| {
///     let requests = ResourceList::from([("cpu", Quantity::from_units(units))]);
///     Pod { name: name.into(), template: PodTemplate { requests, ..PodTemplate::default() }.into(), ..Pod::default() }
/// };
/// let pods = [pod("web-1", 2), pod("web-2", 2), pod("batch", 8)];
/// let offer = PoolOffer { pool: &pool, instance_types: vec![xlarge].into(), usage: Default::default(), cluster: None };
/// let problem = Problem { pods: pods.iter().collect(), node_pools: vec![offer], ..Problem::default() };
///
/// let solution = solve(&problem, &Options::default());
/// assert_eq!(solution.launches.len(), 1);
/// assert_eq!(solution.launches[0].pods, [0, 1]);
/// assert_eq!(solution.launches[0].offering.instance_type, "m6i.xlarge");
/// assert_eq!(solution.unschedulable[0].pod, 2);
/// assert_eq!(
///     solution.unschedulable[0].reasons[0].to_string(),
///     "NodePool default: no instance type has enough cpu: pod needs 8, the largest leaves 4"
/// );
/// ```
#[must_use]
pub fn solve(input: &Problem<'_>, options: &Options) -> Solution {
    let pods = input.pods.iter().copied();
    let mut prepared = Prepared::new(&input.node_pools, input.daemon_sets, pods, input.facts, options);
    let solution = prepared.solve(input);
    Solution { work: solution.work.saturating_add(prepared.work), ..solution }
}

fn solve_with(prepared: &mut Prepared<'_>, input: &Problem<'_>) -> Solution {
    let mut priorities = input.pods.iter().map(|pod| pod.template.priority);
    let first = priorities.next();
    let differ = priorities.any(|priority| Some(priority) != first);
    let max_work = prepared.options.max_work;
    // A second plan by priority may be necessary, and has half of the work, or what the first left of it.
    let half = max_work.map(|max| max / 2);
    let (solution, limited) = converge(prepared, input, false, if differ { half } else { max_work });
    if !limited || !differ {
        return solution;
    }
    let left = max_work.map(|max| max.saturating_sub(solution.work).max(max / 2));
    let (again, _) = converge(prepared, input, true, left);
    Solution { work: again.work.saturating_add(solution.work), ..again }
}

/// Plans until no placement depends on unschedulable pods.
///
/// Pods are assigned to domains before it is known whether all of them fit. If they do not, pods elsewhere may have depended on
/// them; then the plan is made again with the learned constraints.
fn converge(
    prepared: &mut Prepared<'_>,
    input: &Problem<'_>,
    by_priority: bool,
    max_work: Option<u64>,
) -> (Solution, bool) {
    let (mut known, mut spent) = (Known::default(), 0_u64);
    let mut budget = max_work.map(Budget::new);
    let mut groups = Groups::new(input, prepared.options.preferences == PreferencePolicy::Respect);
    let is_repeatable = groups.has_dependences();
    loop {
        let limit = budget.map(|budget| if is_repeatable { budget.of_attempt(known.stage) } else { budget.total });
        let mut engine = Engine::new(prepared, input, groups, Attempt { by_priority, max_work: limit, known: &known });
        engine.run();
        let is_repeated = known.attempts > 0 && known.stage == Stage::All;
        let charged = engine.work() - if is_repeated { 0 } else { engine.reading };
        budget.iter_mut().for_each(|budget| budget.charge(charged));
        match engine.learned(budget.is_some_and(|budget| budget.is_reserved())) {
            Some(more) => {
                spent = spent.saturating_add(engine.work());
                let pools = std::mem::take(&mut engine.pools);
                groups = std::mem::take(&mut engine.topology.groups);
                prepared.keep(pools);
                known = more;
            }
            None => {
                let (mut solution, limited, pools) = engine.finish();
                solution.work = solution.work.saturating_add(spent);
                prepared.keep(pools);
                return (solution, limited);
            }
        }
    }
}

/// After all levels: pending pods are assigned one by one, by the pods that were actually placed.
const ONE_BY_ONE: usize = usize::MAX;

/// The maximum number of rounds for the remaining pods, which bounds the work.
const MAX_SINGLE_ROUNDS: u32 = 64;

/// The work to read a problem, beside its constraints: for each pending pod, each running pod and each node.
const WORK_PER_POD: usize = 20;
const WORK_PER_RUNNING_POD: usize = 4;
const WORK_PER_NODE: usize = 20;

/// Level, class and target.
type Binding = (usize, usize, Target);

/// The targets of pods, and which of their alternatives remain possible there.
type Targets = Rc<[(Target, Vec<AlternativeId>)]>;

/// Alternatives, and the keys of which domains are combined, each with whether a node needs the label.
type TargetsKey = (Vec<AlternativeId>, Vec<(usize, bool)>);

/// The result of a binding.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    placed: u32,
    failed: bool,
}

/// When no target was left for pods of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InVain {
    level: usize,
    /// [`Topology::changes`] of that time.
    counts: u64,
    /// [`Engine::changes`] of that time.
    others: u64,
}

/// The input of an attempt beside the problem.
#[derive(Clone, Copy)]
struct Attempt<'p> {
    /// Whether pods of higher priority are placed first.
    by_priority: bool,
    max_work: Option<u64>,
    known: &'p Known,
}

struct Engine<'a, 'p, 'q> {
    input: &'p Problem<'a>,
    options: Options,
    known: &'p Known,
    resources: ResourceIndex,
    claims: Rc<Claims>,
    topology: Topology<'a>,
    classes: Classes<'a>,
    pools: Vec<Pool<'q>>,
    nodes: Vec<PackedNode<'p>>,
    /// Whether an alternative admits a node; `None` until first needed.
    allowed: Vec<Option<Box<[bool]>>>,
    /// By spread group, the domains in which a counted node can be launched, as far as computed.
    offered: HashMap<GroupId, Vec<bool>>,
    /// Whether pods with an alternative count for a group; the inner value is `None` where the alternative is unsatisfiable.
    standing: HashMap<(GroupId, AlternativeId), Option<Standing>>,
    /// By affinity that selects pods which own it, their classes.
    followers: HashMap<GroupId, Vec<usize>>,
    /// In this round, where the first pods of each group with affinity over the host name go.
    homes: HashMap<GroupId, Home>,
    /// Those of these groups that found no new node.
    homeless: BTreeSet<GroupId>,
    /// The minimum priority of the pods that are placed now.
    min_priority: i32,
    /// The classes in the order in which they fill existing nodes.
    order: Vec<usize>,
    /// The number of pending pods of each class.
    pending: Vec<u32>,
    /// The results of all bindings.
    outcomes: HashMap<Binding, Outcome>,
    /// Every combination of domains, by its inputs.
    targets: HashMap<TargetsKey, Targets>,
    /// By class, when no target was found last.
    without_gain: Vec<Option<InVain>>,
    /// The number of changes of the free capacity of existing nodes, or of prices.
    changes: u64,
    /// The nodes to launch, by NodePool.
    bins: Vec<Vec<Bin>>,
    /// Class, existing node and how many pods.
    placed: Vec<(usize, usize, u32)>,
    /// The work of the plan, without that of the NodePools.
    work: Work,
    /// The part of it for reading the problem, which is done whatever the limit.
    reading: u64,
    /// The work limit of this attempt, for the assignment of pods and, all NodePools together, for packing them.
    max_work: Option<u64>,
}

impl<'a, 'p, 'q> Engine<'a, 'p, 'q> {
    fn new(
        prepared: &mut Prepared<'q>,
        input: &'p Problem<'a>,
        groups: Groups<'a>,
        Attempt { by_priority, max_work, known }: Attempt<'p>,
    ) -> Self {
        let mut pools = prepared.pools_of(input, max_work);
        let (options, resources) = (prepared.options, prepared.resources.clone());
        let claims = Rc::clone(&prepared.claims);
        let mut topology = Topology::new(input, groups, &mut pools);
        let order = Order { by_priority, some_taint_prefers: some_taint_prefers(input) };
        let mut classes = Classes::new(input, &options, &resources, &topology, order, Some(&claims));
        let (nodes, counted) = nodes::nodes_of_problem(input, &resources, &claims, &classes, &mut topology);
        classes.refuse(|pod| claims.fault(&counted, pod, &input.facts));
        let mut work = Work::at_most(max_work);
        let running: usize = input.bound_pods.iter().map(|node| node.pods.len()).sum();
        let constraints = classes.size + topology.keys.len() * (nodes.len() + input.bound_pods.len());
        let reading = input.pods.len() * WORK_PER_POD
            + running * WORK_PER_RUNNING_POD
            + nodes.len() * WORK_PER_NODE
            + counted.work
            + constraints / CONSTRAINTS_PER_UNIT;
        work.add_beyond_limit(reading);
        let count = |pods: &[usize]| u32::try_from(pods.len()).unwrap_or(u32::MAX);
        Self {
            input,
            options,
            known,
            resources,
            claims,
            pending: classes.list.iter().map(|class| count(&class.pods)).collect(),
            followers: followers(&classes, &topology),
            homes: HashMap::default(),
            homeless: BTreeSet::new(),
            min_priority: i32::MIN,
            order: (0..classes.list.len()).collect(),
            allowed: Vec::new(),
            offered: HashMap::default(),
            standing: HashMap::default(),
            outcomes: HashMap::default(),
            targets: HashMap::default(),
            without_gain: vec![None; classes.list.len()],
            changes: 0,
            bins: pools.iter().map(|_| Vec::new()).collect(),
            placed: Vec::new(),
            reading: work.done,
            work,
            max_work,
            topology,
            classes,
            pools,
            nodes,
        }
    }

    /// Places all classes. If limits of the cluster do not allow all pods, those of each priority are placed in turn, because a
    /// NodePool would otherwise use up the limits for pods of a lower priority than those that only another one can run.
    fn run(&mut self) {
        self.sort_classes();
        let shares =
            self.input.node_pools.len() > 1 && self.input.node_pools.iter().any(|offer| offer.cluster.is_some());
        if self.classes.by_priority && shares {
            let mut priorities: Vec<i32> =
                self.classes.list.iter().map(|class| class.example.template.priority).collect();
            priorities.sort_unstable();
            priorities.dedup();
            for priority in priorities.into_iter().rev() {
                self.min_priority = priority;
                self.place();
            }
        } else {
            self.place();
        }
    }

    /// Places classes level by level: pods that do not fit at one level of their preferences continue at the next.
    fn place(&mut self) {
        let levels = self.classes.list.iter().map(|class| class.levels.len()).max().unwrap_or(0);
        for level in 0..levels {
            let mut first = true;
            while self.may_place(level, first) && self.round(level, first) && !self.is_out_of_work() {
                first = false;
            }
        }
        // Pods that were released may leave capacity for pods elsewhere.
        if self.known.attempts > 0 || self.outcomes.values().any(|outcome| outcome.failed) {
            for _ in 0..MAX_SINGLE_ROUNDS {
                if self.is_out_of_work() || !self.round(ONE_BY_ONE, false) {
                    break;
                }
            }
        }
    }

    /// The work of the plan so far.
    fn work(&self) -> u64 {
        self.pools.iter().fold(self.work.done, |sum, pool| sum.saturating_add(pool.work.done))
    }

    fn is_out_of_work(&self) -> bool {
        self.work.is_used_up() || self.pools.iter().any(|pool| pool.work.is_used_up())
    }

    /// Whether a round could place anything. It cannot if each pod requires another pod on its node and none runs yet, because
    /// the first of them would be alone on any node.
    fn may_place(&self, level: usize, first: bool) -> bool {
        let classes = self.classes.list.iter().zip(&self.pending).filter(|(_, pending)| **pending > 0);
        classes.map(|(class, _)| class).filter(|class| class.example.template.priority >= self.min_priority).any(
            |class| {
                class.is_tried(level, first)
                    && class.level(level).is_some_and(|level| {
                        level.hosts.iter().all(|&group| {
                            self.topology.kind(group) != Kind::Affinity
                                || class.is_selected_by(group)
                                || self.topology.matches_anywhere(group)
                                || self.topology.daemon_pods.selects_any(group)
                        })
                    })
            },
        )
    }

    /// Tries to place the pending pods once. Returns whether another attempt could place more: whether pods were
    /// placed, and pods are pending that this may affect.
    fn round(&mut self, level: usize, first: bool) -> bool {
        let before: u64 = self.pending.iter().map(|count| u64::from(*count)).sum();
        self.homes.clear();
        let mut units = self.assign(level, first);
        self.release(level, &mut units);
        self.fill_opened(level, &mut units);
        self.pack(level, &mut units);
        // A NodePool may have used up a reservation.
        self.changes += u64::from(self.pools.iter().any(|pool| !pool.reservations.is_empty()));
        let mut failed = self.note_homeless();
        for unit in units {
            failed |= self.take_back(level, &unit);
        }
        let after: u64 = self.pending.iter().map(|count| u64::from(*count)).sum();
        // Pods that did not fit in their target are assigned elsewhere the next time.
        (after < before || failed)
            && self.classes.list.iter().zip(&self.pending).any(|(class, left)| *left > 0 && class.is_related())
    }

    /// Counts the placed pods of a unit, and makes the others pending again. Returns whether it failed there for the
    /// first time.
    fn take_back(&mut self, level: usize, unit: &Unit) -> bool {
        self.pending[unit.class] += unit.pending;
        if unit.target.is_empty() {
            return false;
        }
        let standings = self.standings(unit.class, &unit.alternatives);
        let class = &self.classes.list[unit.class];
        self.topology.forget(&class.selected, &class.required, &standings, &unit.target, unit.pending);
        let outcome = self.outcomes.entry((level, unit.class, unit.target.clone())).or_default();
        outcome.placed += unit.assigned - unit.pending;
        let first = unit.pending > 0 && !outcome.failed;
        outcome.failed |= first;
        first
    }

    /// Fills free capacity of new nodes that were opened before, if that does not raise their price.
    fn fill_opened(&mut self, level: usize, units: &mut [Unit]) {
        let context = Context { classes: &self.classes, level, options: &self.options };
        for (pool, bins) in self.pools.iter_mut().zip(&mut self.bins) {
            for bin in bins {
                if pool.work.is_used_up() {
                    break;
                }
                for unit in units.iter_mut().filter(|unit| unit.pending > 0) {
                    joining::join(pool, bin, unit, context, &mut self.topology);
                }
            }
        }
    }
}

/// By affinity that selects pods which own it, the classes of these pods.
fn followers(classes: &Classes<'_>, topology: &Topology<'_>) -> HashMap<GroupId, Vec<usize>> {
    let mut followers: HashMap<GroupId, Vec<usize>> = HashMap::default();
    for (index, class) in classes.list.iter().enumerate() {
        for &group in class.levels.first().into_iter().flat_map(|level| level.bounded.iter().chain(&level.hosts)) {
            if topology.kind(group) == Kind::Affinity && class.is_selected_by(group) {
                followers.entry(group).or_default().push(index);
            }
        }
    }
    followers
}

/// Whether any taint that a pod could meet is `PreferNoSchedule`.
fn some_taint_prefers(input: &Problem<'_>) -> bool {
    let prefers = |taints: &[Taint]| taints.iter().any(|taint| taint.effect == TaintEffect::PreferNoSchedule);
    input.node_pools.iter().any(|offer| prefers(&offer.pool.template.taints))
        || input.nodes.iter().any(|node| prefers(&node.taints))
}
