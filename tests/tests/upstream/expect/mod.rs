//! What a case expects of scheduling.

mod disruption;

use self::disruption::DisruptionExpect;
use crate::names::key;
use crate::outcome::{CaseOutcome, Launched, is_named};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What has to hold. All pods have to be scheduled, and all objects read, unless it states otherwise.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Expect {
    /// The number of new nodes.
    nodes: Option<usize>,
    /// The number of new nodes of each NodePool that has any.
    pools: Option<BTreeMap<String, usize>>,
    /// The number of pods that cannot be scheduled, or which, and why.
    unschedulable: Option<Refused>,
    /// The pods that are not pending, each with a part of the reason.
    held: BTreeMap<String, String>,
    /// The nodes of pods; `new` for a new node.
    on: BTreeMap<String, String>,
    spread: Vec<Spread>,
    /// Pods on the same node.
    together: Vec<Vec<String>>,
    /// Pods on nodes of their own each.
    apart: Vec<Vec<String>>,
    /// Of all new nodes.
    each: Option<NodeExpect>,
    /// Of new nodes for certain pods or NodePools.
    launched: Vec<NodeExpect>,
    /// The capacity reservations in the status of EC2NodeClasses, each with its state.
    reservations: Option<BTreeMap<String, String>>,
    /// A part of an error about the input.
    invalid: Option<String>,
    /// A part of a warning.
    warning: Option<String>,
    disruption: Option<DisruptionExpect>,
}

/// Pods that cannot be scheduled.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Refused {
    Count(usize),
    Pods(RefusedPods),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusedPods {
    count: Option<usize>,
    pods: Option<Vec<String>>,
    because: Option<String>,
}

/// How many of some pods are in each domain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spread {
    /// The pods; all if there are none.
    pods: Option<String>,
    on: String,
    /// The numbers by domain, or in descending order whatever the domains are.
    counts: Option<Value>,
    /// The maximum difference between the domains that have pods.
    skew: Option<usize>,
    /// The number of domains that have pods.
    domains: Option<usize>,
}

/// A new node.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct NodeExpect {
    /// The node has such a pod.
    #[serde(rename = "for")]
    pub(crate) pods_of: Option<String>,
    /// The node is of this NodePool.
    of: Option<String>,
    /// The number of such nodes; at least one if there is none.
    count: Option<usize>,
    pool: Option<String>,
    /// The chosen instance type, zone and capacity type.
    #[serde(rename = "type")]
    kind: Option<String>,
    zone: Option<String>,
    capacity_type: Option<String>,
    /// The possible instance types: all of them, some of them, and some that are not among them.
    types: Option<BTreeSet<String>>,
    includes: Vec<String>,
    excludes: Vec<String>,
    min_types: Option<usize>,
    max_types: Option<usize>,
    /// The possible values of labels; null if there is no list of them.
    labels: BTreeMap<String, Value>,
    /// The number of pods.
    pods: Option<usize>,
    /// The requests of its pods, DaemonSets included.
    requests: BTreeMap<String, String>,
    /// The maximum price in dollars an hour.
    max_price: Option<f64>,
}

/// Adds a difference unless the values are equal.
pub(crate) fn compare<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, actual: &T, wrong: &mut Vec<String>) {
    if expected != actual {
        wrong.push(format!("{what}: expected {expected:?}, but it is {actual:?}"));
    }
}

impl Expect {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { held, on, spread, together, apart, launched, .. } = self;
        let lists = [
            held.is_empty(),
            on.is_empty(),
            spread.is_empty(),
            together.is_empty(),
            apart.is_empty(),
            launched.is_empty(),
        ];
        let Self { nodes, pools, unschedulable, each, reservations, invalid, warning, disruption, .. } = self;
        let none = [
            nodes.is_none(),
            pools.is_none(),
            unschedulable.is_none(),
            each.is_none(),
            reservations.is_none(),
            invalid.is_none(),
            warning.is_none(),
        ];
        lists.into_iter().chain(none).all(|empty| empty) && disruption.as_ref().is_none_or(DisruptionExpect::is_empty)
    }

    /// Whether disruption has to be decided.
    pub(crate) const fn concerns_disruption(&self) -> bool {
        self.disruption.is_some()
    }

    /// The differences between what is expected and the outcome.
    pub(crate) fn differences(&self, outcome: &CaseOutcome) -> Vec<String> {
        let mut wrong = Vec::new();
        self.input(outcome, &mut wrong);
        self.pods(outcome, &mut wrong);
        self.spread.iter().for_each(|one| one.check(outcome, &mut wrong));
        self.groups(outcome, &mut wrong);
        self.new_nodes(outcome, &mut wrong);
        if let Some(expected) = &self.reservations {
            compare("selected capacity reservations", expected, &outcome.reservations, &mut wrong);
        }
        if let Some(expected) = &self.disruption {
            expected.check(outcome, &mut wrong);
        }
        wrong
    }

    fn input(&self, outcome: &CaseOutcome, wrong: &mut Vec<String>) {
        match &self.invalid {
            None => compare("errors of the input", &Vec::new(), &outcome.faults, wrong),
            Some(part) if outcome.faults.iter().any(|fault| fault.contains(part)) => {}
            Some(part) => wrong.push(format!("expected an error with {part:?}, but there are {:?}", outcome.faults)),
        }
        let Some(part) = &self.warning else { return };
        if !outcome.warnings.iter().any(|warning| warning.contains(part)) {
            wrong.push(format!("expected a warning with {part:?}, but there are {:?}", outcome.warnings));
        }
    }

    fn pods(&self, outcome: &CaseOutcome, wrong: &mut Vec<String>) {
        let refused = &outcome.unschedulable;
        let names: Vec<&String> = refused.keys().collect();
        match &self.unschedulable {
            None if refused.is_empty() => {}
            None => wrong.push(format!("all pods have to be scheduled, but not these: {refused:?}")),
            Some(Refused::Count(count)) => compare("number of unschedulable pods", count, &names.len(), wrong),
            Some(Refused::Pods(expected)) => expected.check(outcome, wrong),
        }
        for (pod, part) in &self.held {
            if !outcome.held.get(pod).is_some_and(|why| why.contains(part)) {
                wrong.push(format!("pod {pod} has to be held because {part:?}; held are {:?}", outcome.held));
            }
        }
        for (pattern, node) in &self.on {
            let pods: Vec<(&String, &String)> =
                outcome.places.iter().filter(|(pod, _)| is_named(pod, pattern)).collect();
            let is_there = |place: &String| place == node || node == "new" && place.starts_with("new-");
            if pods.is_empty() || !pods.iter().all(|(_, place)| is_there(place)) {
                wrong.push(format!("pods {pattern} have to be on {node}, but they are on {pods:?}"));
            }
        }
    }

    fn groups(&self, outcome: &CaseOutcome, wrong: &mut Vec<String>) {
        let places = |group: &[String]| -> Vec<(String, String)> {
            let found = outcome.places.iter().filter(|(pod, _)| group.iter().any(|pattern| is_named(pod, pattern)));
            found.map(|(pod, place)| (pod.clone(), place.clone())).collect()
        };
        let of =
            |found: &[(String, String)]| found.iter().map(|(_, place)| place.clone()).collect::<BTreeSet<_>>().len();
        for group in &self.together {
            let found = places(group);
            if found.len() < 2 || of(&found) != 1 {
                wrong.push(format!("pods {group:?} have to share a node, but they are on {found:?}"));
            }
        }
        for group in &self.apart {
            let found = places(group);
            if found.len() < 2 || of(&found) != found.len() {
                wrong.push(format!("no two of the pods {group:?} may share a node, but they are on {found:?}"));
            }
        }
    }

    fn new_nodes(&self, outcome: &CaseOutcome, wrong: &mut Vec<String>) {
        let launches = &outcome.launches;
        if let Some(count) = &self.nodes {
            compare("number of new nodes", count, &launches.len(), wrong);
        }
        if let Some(pools) = &self.pools {
            let mut actual: BTreeMap<String, usize> = BTreeMap::new();
            launches.iter().for_each(|launch| *actual.entry(launch.pool.clone()).or_default() += 1);
            compare("new nodes by NodePool", pools, &actual, wrong);
        }
        self.each.iter().chain(&self.launched).for_each(|expected| expected.check(launches, wrong));
    }
}

impl RefusedPods {
    fn check(&self, outcome: &CaseOutcome, wrong: &mut Vec<String>) {
        let refused = &outcome.unschedulable;
        if let Some(count) = &self.count {
            compare("number of unschedulable pods", count, &refused.len(), wrong);
        }
        if let Some(pods) = &self.pods {
            let is_expected = |pod: &&String| pods.iter().any(|pattern| is_named(pod, pattern));
            let others: Vec<&String> = refused.keys().filter(|pod| !is_expected(pod)).collect();
            let is_refused = |pattern: &&String| refused.keys().any(|pod| is_named(pod, pattern));
            let scheduled: Vec<&String> = pods.iter().filter(|pattern| !is_refused(pattern)).collect();
            compare("other unschedulable pods", &Vec::new(), &others, wrong);
            compare("scheduled pods that have to be unschedulable", &Vec::new(), &scheduled, wrong);
        }
        let Some(part) = &self.because else { return };
        if refused.is_empty() || !refused.values().all(|reasons| reasons.iter().any(|reason| reason.contains(part))) {
            wrong.push(format!("expected unschedulable pods because {part:?}, but there are {refused:?}"));
        }
    }
}

impl Spread {
    fn check(&self, outcome: &CaseOutcome, wrong: &mut Vec<String>) {
        let on = key(&self.on);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let pods =
            outcome.places.iter().filter(|(pod, _)| self.pods.as_ref().is_none_or(|pattern| is_named(pod, pattern)));
        for (_, place) in pods {
            let values = outcome.labels.get(place).and_then(|labels| labels.get(&on));
            let values: Vec<&str> = values.into_iter().flatten().map(String::as_str).collect();
            *counts.entry(values.join("|")).or_default() += 1;
        }
        let what = format!("pods {} by {on}", self.pods.as_deref().unwrap_or_default());
        let mut sorted: Vec<usize> = counts.values().copied().collect();
        sorted.sort_unstable_by(|one, other| other.cmp(one));
        match &self.counts {
            Some(Value::Array(_)) if serde_json::json!(sorted) == *self.counts.as_ref().unwrap() => {}
            Some(Value::Object(_)) if serde_json::json!(counts) == *self.counts.as_ref().unwrap() => {}
            Some(expected) => wrong.push(format!("{what}: expected {expected}, but they are {counts:?}")),
            None => {}
        }
        if let Some(domains) = &self.domains {
            compare(&format!("domains of {what}"), domains, &counts.len(), wrong);
        }
        let skew = sorted.first().zip(sorted.last()).map_or(0, |(most, least)| most - least);
        if self.skew.is_some_and(|allowed| skew > allowed) {
            wrong.push(format!("{what}: expected a skew of at most {:?}, but they are {counts:?}", self.skew));
        }
    }
}

impl NodeExpect {
    fn concerns(&self, launch: &Launched) -> bool {
        let has_pod = |pattern: &String| launch.pods.iter().any(|pod| is_named(pod, pattern));
        self.pods_of.as_ref().is_none_or(has_pod) && self.of.as_ref().is_none_or(|pool| launch.pool == *pool)
    }

    /// Checks all new nodes that it concerns.
    pub(crate) fn check(&self, launches: &[Launched], wrong: &mut Vec<String>) {
        let concerned: Vec<&Launched> = launches.iter().filter(|launch| self.concerns(launch)).collect();
        let which = self.pods_of.iter().chain(&self.of).cloned().collect::<Vec<_>>().join(" of ");
        match self.count {
            Some(count) => compare(&format!("number of new nodes for {which}"), &count, &concerned.len(), wrong),
            None if concerned.is_empty() => wrong.push(format!("there is no new node for {which}: {launches:?}")),
            None => {}
        }
        concerned.into_iter().for_each(|launch| self.check_one(launch, wrong));
    }

    fn check_one(&self, launch: &Launched, wrong: &mut Vec<String>) {
        let before = wrong.len();
        let texts = [
            ("NodePool", &self.pool, &launch.pool),
            ("instance type", &self.kind, &launch.kind),
            ("zone", &self.zone, &launch.zone),
            ("capacity type", &self.capacity_type, &launch.capacity_type),
        ];
        for (what, expected, actual) in texts {
            expected.iter().for_each(|expected| compare(what, expected, actual, wrong));
        }
        self.check_types(launch, wrong);
        self.pods.iter().for_each(|count| compare("number of pods", count, &launch.pods.len(), wrong));
        for (resource, amount) in &self.requests {
            let actual = launch.requests.get(resource).cloned().unwrap_or_default();
            compare(&format!("requested {resource}"), amount, &actual, wrong);
        }
        for (short, expected) in &self.labels {
            let actual = launch.labels.get(&key(short)).map_or(Value::Null, |values| serde_json::json!(values));
            let expected = match expected {
                Value::Null | Value::Array(_) => expected.clone(),
                one => Value::Array(vec![one.clone()]),
            };
            compare(&format!("label {short}"), &expected, &actual, wrong);
        }
        if self.max_price.is_some_and(|price| launch.price > price) {
            wrong.push(format!("it costs more than {:?}", self.max_price));
        }
        if wrong.len() > before {
            wrong.push(format!("of the new node {launch:?}"));
        }
    }

    fn check_types(&self, launch: &Launched, wrong: &mut Vec<String>) {
        let actual: BTreeSet<String> = launch.types.iter().cloned().collect();
        self.types.iter().for_each(|types| compare("instance types", types, &actual, wrong));
        let missing: Vec<&String> = self.includes.iter().filter(|kind| !actual.contains(*kind)).collect();
        let present: Vec<&String> = self.excludes.iter().filter(|kind| actual.contains(*kind)).collect();
        compare("missing instance types", &Vec::new(), &missing, wrong);
        compare("instance types that may not be used", &Vec::new(), &present, wrong);
        let (least, most) = (self.min_types.unwrap_or(0), self.max_types.unwrap_or(usize::MAX));
        if !(least..=most).contains(&actual.len()) {
            wrong.push(format!("it has {} instance types", actual.len()));
        }
    }
}
