//! Checks whether a plan is valid, by a much simpler method than the engine's.
//!
//! The checker shares no code with the engine: pods are checked one by one, and their requirements are evaluated as in kube-scheduler,
//! expression by expression. The checker is slow, and only for tests and benches.

mod launches;
mod topology;

use self::topology::Occupancy;
use launches::{
    cluster_limit_violation, launch_violations, left_out, limit_violations, passed, reservation_violations, short_of,
    used_by,
};
use nodeless_model::pod::{HostPort, VolumeClaim};
use nodeless_model::requirement::{Operator, RequirementTerm};
use nodeless_model::{
    DaemonSet, EBS_DRIVER, InstanceType, Offering, Pod, Quantity, Requirement, Requirements, ResourceList, Taint,
    TaintEffect, labels, resources,
};
use nodeless_scheduling::{ExistingNode, MinValuesPolicy, Options, PoolOffer, Problem, Solution};
use std::collections::{BTreeMap, BTreeSet};

/// All errors of a solution, as sentences; none if it is valid.
#[must_use]
pub fn violations(problem: &Problem<'_>, solution: &Solution, options: &Options) -> Vec<String> {
    let mut wrong = each_pod_once(problem, solution);
    for (index, node) in problem.nodes.iter().enumerate() {
        let placed = solution.placements.iter().filter(|placement| placement.node == index);
        let pods: Vec<&Pod> = placed.map(|placement| problem.pods[placement.pod]).collect();
        if pods.is_empty() {
            continue;
        }
        let place = Place {
            name: format!("node {}", node.name),
            labels: &node.requirements,
            taints: &node.taints,
            available: &node.available,
            ports: &node.host_ports,
            ebs_volumes: None,
        };
        wrong.extend(place.violations(problem, &pods));
        wrong.extend(volume_violations(problem, node, &pods));
    }
    for (index, launch) in solution.launches.iter().enumerate() {
        wrong.extend(
            launch_violations(problem, launch, options).into_iter().map(|why| format!("launch {index}: {why}")),
        );
    }
    for offer in &problem.node_pools {
        wrong.extend(limit_violations(offer, solution));
    }
    wrong.extend(cluster_limit_violation(problem, solution));
    wrong.extend(reservation_violations(problem, solution));
    wrong.extend(Occupancy::new(problem, solution).violations());
    wrong
}

/// The NodePool and instance type of a new node for a single pod, in addition to the launches of a solution, if that is possible.
#[must_use]
pub fn fresh_node<'p>(
    problem: &'p Problem<'p>,
    solution: &Solution,
    pod: &'p Pod,
    options: &Options,
) -> Option<(String, String)> {
    let occupancy = Occupancy::new(problem, solution);
    problem.node_pools.iter().find_map(|offer| {
        let used = used_by(offer, solution);
        let mut fitting: Vec<&InstanceType> = Vec::new();
        fits_fresh(problem, offer, pod, |kind, labels| {
            let accepted = occupancy.accepts(pod, labels, offer);
            if accepted {
                fitting.push(kind);
            }
            accepted
        });
        let mut allowed = fitting;
        allowed.retain(|kind| {
            let mut total = used.clone();
            total.0.add(&kind.capacity);
            total.0.set(resources::name::NODES, total.0.get(resources::name::NODES) + Quantity::from_units(1));
            total.1 += kind.offerings.iter().filter(|offering| offering.available).map(|o| o.price).fold(0.0, f64::max);
            passed(offer, &total).is_none()
        });
        let enough = options.min_values == MinValuesPolicy::BestEffort || short_of(offer, &allowed).is_none();
        enough.then(|| Some((offer.pool.name.clone(), allowed.first()?.name.clone()))).flatten()
    })
}

/// Visits the possible new nodes of a NodePool for a pod, without regard to limits and other pods: the instance type, and the
/// labels of the node. If `take` returns true, it continues with the next instance type.
fn fits_fresh<'p>(
    problem: &Problem<'_>,
    offer: &'p PoolOffer<'_>,
    pod: &Pod,
    mut take: impl FnMut(&'p InstanceType, &Requirements) -> bool,
) {
    if !usable(offer) {
        return;
    }
    // Where most DaemonSets have space, of the types that hold the pod alone.
    let mut types: Vec<(Vec<bool>, &InstanceType)> = Vec::new();
    for kind in offer.instance_types.iter().filter(|kind| pod.template.requests.fits(&kind.allocatable())) {
        let labels = kind.offerings.iter().find_map(|offering| own_labels(problem, offer, kind, offering, pod));
        let labels = labels.filter(|labels| accepts_labels(pod, labels));
        types.extend(labels.map(|labels| (left_out(problem, offer, kind, &labels), kind)));
    }
    let best = types.iter().map(|(without, _)| without.clone()).min();
    for (_, kind) in types.into_iter().filter(|(without, _)| Some(without) == best.as_ref()) {
        for offering in kind.offerings.iter().filter(|offering| offering.available) {
            let Some(labels) = own_labels(problem, offer, kind, offering, pod) else { continue };
            let holds = |place: &Place<'_>| place.violations(problem, &[pod]).is_empty();
            if launched(problem, offer, kind, &labels, "fresh", holds) && take(kind, &labels) {
                break;
            }
        }
    }
}

fn each_pod_once(problem: &Problem<'_>, solution: &Solution) -> Vec<String> {
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let launched = solution.launches.iter().flat_map(|launch| launch.pods.iter().copied());
    let placed = solution.placements.iter().map(|placement| placement.pod);
    for pod in launched.chain(placed).chain(solution.unschedulable.iter().map(|pod| pod.pod)) {
        *seen.entry(pod).or_default() += 1;
    }
    let unexplained = solution.unschedulable.iter().filter(|pod| pod.reasons.is_empty());
    (0..problem.pods.len())
        .filter(|pod| seen.get(pod) != Some(&1))
        .map(|pod| format!("pod {} occurs {} times", problem.pods[pod].key(), seen.get(&pod).unwrap_or(&0)))
        .chain(unexplained.map(|pod| format!("pod {} has neither a node nor a reason", problem.pods[pod.pod].key())))
        .collect()
}

/// The properties of a node that affect pods.
struct Place<'p> {
    name: String,
    labels: &'p Requirements,
    taints: &'p [Taint],
    available: &'p ResourceList,
    ports: &'p [HostPort],
    /// The number of volumes of EBS that a new node attaches.
    ebs_volumes: Option<u32>,
}

impl Place<'_> {
    fn violations(&self, problem: &Problem<'_>, pods: &[&Pod]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut total = ResourceList::new();
        let mut ports: Vec<&HostPort> = self.ports.iter().collect();
        for pod in pods {
            total.add(&pod.template.requests);
            if pod.template.host_ports.iter().any(|port| ports.iter().any(|taken| taken.conflicts_with(port))) {
                wrong.push(format!("{}: a host port of pod {} is already used", self.name, pod.key()));
            }
            ports.extend(&pod.template.host_ports);
            if let Some(taint) = first_untolerated(self.taints, pod) {
                wrong.push(format!("{}: pod {} does not tolerate {taint}", self.name, pod.key()));
            }
            if !accepts_labels(pod, self.labels) {
                wrong.push(format!("{}: its labels do not match the requirements of pod {}", self.name, pod.key()));
            }
            if !accepts_volumes(problem, pod, self.labels) {
                wrong.push(format!("{}: the volumes of pod {} cannot be used there", self.name, pod.key()));
            }
        }
        if let Some(limit) = self.ebs_volumes {
            let claims = pods.iter().flat_map(|pod| claims(pod));
            let of_ebs = claims.filter(|claim| driver(problem, claim) == Some(EBS_DRIVER));
            let mounted = of_ebs.collect::<BTreeSet<_>>().len();
            if mounted > limit as usize {
                wrong.push(format!("{}: {mounted} volumes of EBS, and it attaches {limit}", self.name));
            }
        }
        if let Some((name, asked)) = total.iter().find(|(name, asked)| *asked > self.available.get(name)) {
            wrong.push(format!("{}: {asked} of {name} requested, {} available", self.name, self.available.get(name)));
        }
        wrong
    }
}

fn first_untolerated<'t>(taints: &'t [Taint], pod: &Pod) -> Option<&'t Taint> {
    let hard = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
    taints
        .iter()
        .filter(hard)
        .find(|taint| !pod.template.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

fn accepts_labels(pod: &Pod, labels: &Requirements) -> bool {
    let selector = pod
        .template
        .node_selector
        .iter()
        .all(|(key, value)| matches(&expression(key, Operator::In, std::slice::from_ref(value)), labels));
    let terms = &pod.template.required_node_affinity;
    let affinity = terms.is_empty()
        || terms.iter().any(|term| !term.is_empty() && term.iter().all(|expression| matches(expression, labels)));
    selector && affinity
}

/// Whether labels can match the requirements of a pod. A label that new nodes always have may be missing here.
fn may_accept_labels(pod: &Pod, node: &Requirements, exists: bool) -> bool {
    let possible = |expression: &RequirementTerm| match node.get(&expression.key) {
        None => (!exists && labels::is_well_known(&expression.key)) || matches_value(expression, None),
        Some(requirement) => match requirement.values() {
            Some(values) if !values.is_empty() => values.iter().any(|value| matches_value(expression, Some(value))),
            Some(_) => matches_value(expression, None),
            None => Requirement::from_term(expression).is_ok_and(|required| requirement.intersects(&required)),
        },
    };
    let selector = pod
        .template
        .node_selector
        .iter()
        .all(|(key, value)| possible(&expression(key, Operator::In, std::slice::from_ref(value))));
    let terms = &pod.template.required_node_affinity;
    selector && (terms.is_empty() || terms.iter().any(|term| !term.is_empty() && term.iter().all(possible)))
}

fn expression(key: &str, operator: Operator, values: &[String]) -> RequirementTerm {
    RequirementTerm { key: key.to_owned(), operator, values: values.to_vec(), min_values: None }
}

/// Whether an expression matches for every possible value of a label.
fn matches(expression: &RequirementTerm, labels: &Requirements) -> bool {
    let Some(requirement) = labels.get(&expression.key) else { return matches_value(expression, None) };
    match requirement.values() {
        Some(values) if !values.is_empty() => values.iter().all(|value| matches_value(expression, Some(value))),
        Some(_) => matches_value(expression, None),
        // The value is not exactly known: only an equal expression certainly matches.
        None => {
            Requirement::from_term(expression).is_ok_and(|required| requirement.intersection(&required) == *requirement)
        }
    }
}

fn matches_value(expression: &RequirementTerm, value: Option<&str>) -> bool {
    let listed = value.is_some_and(|value| expression.values.iter().any(|one| one == value));
    let compare = |holds: fn(i64, i64) -> bool| {
        let bound = expression.values.first().and_then(|bound| bound.parse().ok());
        value.and_then(|value| value.parse().ok()).zip(bound).is_some_and(|(value, bound)| holds(value, bound))
    };
    match expression.operator {
        Operator::In => listed,
        Operator::NotIn => !listed,
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt => compare(|value, bound| value > bound),
        Operator::Lt => compare(|value, bound| value < bound),
        Operator::Gte => compare(|value, bound| value >= bound),
        Operator::Lte => compare(|value, bound| value <= bound),
    }
}

fn accepts_volumes(problem: &Problem<'_>, pod: &Pod, labels: &Requirements) -> bool {
    pod.template.volume_claims.iter().all(|volume| {
        let topology = problem.facts.volumes.get(&format!("{}/{}", pod.namespace, volume.claim_name));
        topology.is_some_and(|terms| {
            let usable = |place: &Requirements| place.to_terms().iter().all(|expression| matches(expression, labels));
            terms.is_empty() || terms.iter().any(usable)
        }) && has_data(problem, pod, volume, labels)
    })
}

/// Whether a node has the data of a volume, if it is local to nodes of the problem.
fn has_data(problem: &Problem<'_>, pod: &Pod, volume: &VolumeClaim, labels: &Requirements) -> bool {
    let hosts = problem.facts.volume_hosts.get(&format!("{}/{}", pod.namespace, volume.claim_name));
    hosts.is_none_or(|hosts| {
        let is_host = |labels: &Requirements| {
            labels.get(labels::HOSTNAME).and_then(Requirement::single).is_some_and(|host| hosts.contains(host))
        };
        is_host(labels) || !problem.nodes.iter().any(|node| is_host(&node.requirements))
    })
}

/// The claims that a pod mounts, `namespace/name`.
fn claims(pod: &Pod) -> impl Iterator<Item = String> {
    pod.template.volume_claims.iter().map(|volume| format!("{}/{}", pod.namespace, volume.claim_name))
}

fn driver<'p>(problem: &Problem<'p>, claim: &str) -> Option<&'p str> {
    problem.facts.volume_drivers.get(claim).map(String::as_str)
}

/// Violations of the limits of volumes by a node's pods and those that are placed on it.
fn volume_violations(problem: &Problem<'_>, node: &ExistingNode, placed: &[&Pod]) -> Vec<String> {
    let mut limits = problem.facts.volume_limits.get(&node.name).cloned().unwrap_or_default();
    if !limits.contains_key(EBS_DRIVER) {
        limits.extend(limit_of_type(problem, node).map(|limit| (EBS_DRIVER.to_owned(), limit)));
    }
    let all = |pods: &[&Pod]| -> BTreeSet<String> {
        pods.iter().filter(|pod| !pod.is_terminal()).flat_map(|pod| claims(pod)).collect()
    };
    let running = problem.bound_pods.iter().find(|bound| bound.name == node.name);
    let before = all(running.map_or(&[][..], |bound| &bound.pods[..]));
    let after: BTreeSet<String> = before.union(&all(placed)).cloned().collect();
    let count =
        |claims: &BTreeSet<String>, of| claims.iter().filter(|claim| driver(problem, claim) == Some(of)).count();
    limits
        .iter()
        .filter(|(driver, limit)| {
            let attached = count(&after, driver);
            attached > **limit as usize && attached > count(&before, driver)
        })
        .map(|(driver, limit)| format!("node {}: more than {limit} volumes of {driver}", node.name))
        .collect()
}

/// The limit of a node whose CSINode is not expected yet: the least of its possible instance types.
fn limit_of_type(problem: &Problem<'_>, node: &ExistingNode) -> Option<u32> {
    if node.initialized {
        return None;
    }
    let pool = problem.node_pools.iter().find(|offer| Some(&offer.pool.name) == node.node_pool.as_ref())?;
    let named = node.requirements.get(labels::INSTANCE_TYPE)?.values()?;
    pool.instance_types.iter().filter(|kind| named.contains(&kind.name)).filter_map(|kind| kind.ebs_volumes).min()
}

fn usable(offer: &PoolOffer<'_>) -> bool {
    offer.pool.ready.is_ok() && !offer.pool.deleting && offer.pool.replicas.is_none()
}

/// The labels that nodes of a NodePool have or can have.
fn template_labels(offer: &PoolOffer<'_>) -> Requirements {
    let mut all = offer.pool.template.requirements.with(&Requirements::from_labels(&offer.pool.template.labels));
    all.add(labels::NODE_POOL, Requirement::one_of([offer.pool.name.as_str()]));
    all.add(labels::EC2_NODE_CLASS, Requirement::one_of([offer.pool.template.node_class.as_str()]));
    all
}

/// The labels of a node of this type and offering, if the NodePool allows it. User-defined labels for which the NodePool allows
/// several values have one that the pod requires.
fn own_labels(
    problem: &Problem<'_>,
    offer: &PoolOffer<'_>,
    kind: &InstanceType,
    offering: &Offering,
    pod: &Pod,
) -> Option<Requirements> {
    let template = template_labels(offer);
    if !template.intersects(&kind.requirements) || !offering.meets(&template) {
        return None;
    }
    let mut node = template.with(&kind.requirements).with(&offering.node_requirements());
    let open: Vec<String> = node
        .iter()
        .filter(|(key, r)| !labels::is_well_known(key) && r.single().is_none())
        .map(|(k, _)| k.to_owned())
        .collect();
    let mentioned: Vec<&String> = pod
        .template
        .node_selector
        .values()
        .chain(pod.template.required_node_affinity.iter().flatten().flat_map(|expression| &expression.values))
        .collect();
    for key in open {
        let allowed = node.get(&key).cloned().unwrap_or_else(Requirement::exists);
        let some = allowed.some_value();
        let candidates = mentioned.iter().map(|value| (*value).clone()).chain(some).filter(|value| allowed.has(value));
        let suits = |value: &String| {
            let mut tried = node.clone();
            tried.add(&key, Requirement::one_of([value.as_str()]));
            accepts_labels(pod, &tried) && accepts_volumes(problem, pod, &tried)
        };
        let chosen = candidates.clone().find(suits).or_else(|| candidates.clone().next());
        if let Some(value) = chosen {
            node.add(&key, Requirement::one_of([value]));
        }
    }
    Some(node)
}

/// Evaluates a function on a new node, whose capacity is that of its type without the requests of its DaemonSets.
fn launched(
    problem: &Problem<'_>,
    offer: &PoolOffer<'_>,
    kind: &InstanceType,
    node: &Requirements,
    name: &str,
    ask: impl FnOnce(&Place<'_>) -> bool,
) -> bool {
    let taints = &offer.pool.template.taints;
    let mut available = kind.allocatable();
    let mut ports = Vec::new();
    let on_board =
        daemon_sets_on(problem, offer, kind, node).into_iter().filter(|(_, has_space)| *has_space == Some(true));
    for (set, _) in on_board {
        available.subtract(&set.template.template.requests);
        ports.extend(set.template.template.host_ports.iter().cloned());
    }
    let ebs_volumes = kind.ebs_volumes;
    ask(&Place { name: name.to_owned(), labels: node, taints, available: &available, ports: &ports, ebs_volumes })
}

/// All DaemonSets by priority, then the smallest first: for those that run on a new node, whether they have space there beside those
/// before them.
fn daemon_sets_on<'p>(
    problem: &Problem<'p>,
    offer: &PoolOffer<'_>,
    kind: &InstanceType,
    node: &Requirements,
) -> Vec<(&'p DaemonSet, Option<bool>)> {
    let mut with_state = node.clone();
    with_state.add(labels::REGISTERED, Requirement::one_of(["true"]));
    with_state.add(labels::INITIALIZED, Requirement::one_of(["true"]));
    let taints = &offer.pool.template.taints;
    // 4 GiB of memory count as one CPU.
    let size = |set: &DaemonSet| {
        let requests = &set.template.template.requests;
        requests.get("cpu").milli().max(requests.get("memory").milli() / (4 << 30))
    };
    let mut sets: Vec<&DaemonSet> = problem.daemon_sets.iter().collect();
    sets.sort_by_key(|set| (-i64::from(set.template.template.priority), size(set), &set.namespace, &set.name));
    let mut left = kind.allocatable();
    let has_space = |set: &'p DaemonSet| {
        let requests = &set.template.template.requests;
        let runs = first_untolerated(taints, &set.template).is_none() && accepts_labels(&set.template, &with_state);
        let fits = requests.iter().all(|(name, asked)| asked <= left.get(name));
        if runs && fits {
            left.subtract(requests);
        }
        (set, runs.then_some(fits))
    };
    sets.into_iter().map(has_space).collect()
}
