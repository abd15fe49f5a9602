//! What needs attention: the problems of a picture, the most urgent first.

use crate::line::Target;
use crate::objects::cluster_settings::{ClusterRow, SYSTEM};
use crate::objects::node::NodeRow;
use crate::objects::node_class::NodeClassRow;
use crate::objects::node_state::{NodeState, Waiting};
use crate::objects::pending::PendingRow;
use crate::objects::pool::{BudgetRow, LimitRow, PoolRow};
use crate::text::{counted, dollars, percent};
use crate::timeline::FailedLaunches;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::money::{Dollars, HOURS_PER_MONTH};
use serde::Serialize;
use std::collections::BTreeMap;

/// kube-scheduler reports a pod before nodeless has planned it, so pods without an answer of nodeless are shown after this time.
const UNANSWERED: SignedDuration = SignedDuration::from_mins(1);
/// A pod that was nominated for longer than this has not got the node that was planned for it.
const NOMINATED: SignedDuration = SignedDuration::from_mins(10);
/// A drain that a pod blocks is stuck after this time.
const BLOCKED: SignedDuration = SignedDuration::from_mins(5);
/// A drain that no pod blocks waits for volumes; it is stuck after this time.
const UNBLOCKED: SignedDuration = SignedDuration::from_mins(15);
/// A node that is not ready for longer than this needs attention.
const NOT_READY: SignedDuration = SignedDuration::from_mins(2);
/// A limit is nearly reached from this share on.
const NEARLY: f64 = 0.9;
/// The start of nodeless's messages about pods; it repeats what the sentence states.
const FAILED: &str = "Failed to schedule pod, ";

/// The kinds of problems, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Problem {
    /// Pods have no node.
    PendingPods,
    /// A drain does not end.
    StuckDrain,
    /// A node is not ready.
    NodeNotReady,
    /// A NodePool launches no nodes.
    NodePoolNotReady,
    /// An EC2NodeClass launches no nodes.
    NodeClassNotReady,
    /// A limit is reached or nearly reached.
    Limit,
    /// A budget in dollars a month is exceeded, or will be.
    Budget,
    /// An annotation of nodeless is invalid or has no effect.
    InvalidOption,
}

/// Something that needs attention.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// The kind of problem.
    pub problem: Problem,
    /// What is wrong, to which object: a sentence without the full stop.
    pub text: String,
    /// Since when; `null` if it is not known.
    pub since: Option<Timestamp>,
    /// Whether something does not work now; otherwise it will not work soon.
    pub urgent: bool,
    /// The object to open; of several pods, the oldest.
    pub object: Option<Target>,
    /// The number of objects with the problem.
    pub count: usize,
}

/// The rows of a picture that may need attention.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) at: Timestamp,
    pub(crate) cluster: &'a ClusterRow,
    pub(crate) node_pools: &'a [PoolRow],
    pub(crate) node_classes: &'a [NodeClassRow],
    pub(crate) nodes: &'a [NodeRow],
    pub(crate) pending: &'a [PendingRow],
    pub(crate) failed_launches: &'a FailedLaunches,
}

impl Attention {
    /// What needs attention in a rows.
    pub(crate) fn find(rows: Rows<'_>) -> Vec<Self> {
        let drains = rows.nodes.iter().filter_map(|node| stuck(node, rows.at));
        let nodes = rows.nodes.iter().filter_map(|node| node_not_ready(node, rows.at));
        let pools = rows.node_pools.iter().filter_map(|pool| {
            Some(not_ready(Problem::NodePoolNotReady, "NodePool", pool.name.as_deref()?, pool.not_ready.as_deref()?))
        });
        let classes = rows.node_classes.iter().filter_map(|class| {
            Some(not_ready(Problem::NodeClassNotReady, "EC2NodeClass", &class.name, class.not_ready.as_deref()?))
        });
        let mut all = pending(rows);
        all.extend(drains.chain(nodes).chain(pools).chain(classes));
        all.extend(limits(rows));
        all.extend(budgets(rows));
        all.extend(options(rows));
        all
    }

    fn new(problem: Problem, text: String) -> Self {
        Self { problem, text, since: None, urgent: true, object: None, count: 1 }
    }
}

/// The pods without a node, by workload and reason: the groups with most pods first.
fn pending(rows: Rows<'_>) -> Vec<Attention> {
    let mut groups = BTreeMap::<(Option<String>, String), Vec<&PendingRow>>::new();
    for pod in rows.pending {
        let failed = rows.failed_launches.get(&(pod.namespace.clone(), pod.name.clone()));
        let Some(reason) = reason(pod, failed, rows.at) else { continue };
        // Pods without a workload are grouped by reason alone.
        groups.entry((pod.workload.clone(), reason)).or_default().push(pod);
    }
    let mut all: Vec<Attention> = groups.iter().filter_map(|((_, reason), pods)| group(pods, reason)).collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.count), one.since));
    all
}

/// Why a pod has no node; `None` while a plan is expected to place it. `failed` is why the launches for it fail, if they do.
fn reason(pod: &PendingRow, failed: Option<&String>, at: Timestamp) -> Option<String> {
    let waited = pod.created.map_or(SignedDuration::MAX, |created| at.duration_since(created));
    let failed = failed.map(|why| format!("launches for it failed, the last one because: {why}"));
    if pod.nominated {
        let late = "a node was planned more than 10 minutes ago, and kube-scheduler has not scheduled the pod";
        return failed.or_else(|| (waited > NOMINATED).then(|| late.to_owned()));
    }
    let answered = pod.reported_by.as_deref().is_some_and(|by| by != "kube-scheduler" && by != "default-scheduler");
    let reason = pod.reason.strip_prefix(FAILED).unwrap_or(&pod.reason);
    let failed = failed.map(|failed| format!("; {failed}")).unwrap_or_default();
    (answered || waited > UNANSWERED).then(|| format!("{reason}{failed}"))
}

/// Pods of one workload with one reason, the oldest first.
fn group(pods: &[&PendingRow], reason: &str) -> Option<Attention> {
    let first = pods.first()?;
    let of = first.workload.as_ref().map(|workload| format!(" of {workload}")).unwrap_or_default();
    let who = match pods.len() {
        1 => format!("Pod {}{of} has", first.key()),
        count => format!("{count} pods{of} have"),
    };
    Some(Attention {
        since: first.created,
        object: Some(Target::Pod(first.key())),
        count: pods.len(),
        ..Attention::new(Problem::PendingPods, format!("{who} no node: {reason}"))
    })
}

/// The drain of a node that does not end by itself.
fn stuck(node: &NodeRow, at: Timestamp) -> Option<Attention> {
    let since = node.draining_since.filter(|_| node.state == NodeState::Draining)?;
    let blocking: Vec<&Waiting> = node.waits_for.iter().filter(|one| !one.ends).collect();
    let patience = if blocking.is_empty() { UNBLOCKED } else { BLOCKED };
    if at.duration_since(since) <= patience {
        return None;
    }
    let cost = cost(node);
    let why = match blocking.split_first() {
        Some((first, [])) => format!("{} blocks it: {}", first.pod, first.why),
        Some((first, rest)) => {
            format!("{} and {} block it: {}", first.pod, counted(rest.len(), "other pod"), first.why)
        }
        None if node.waits_for.is_empty() => "no pod blocks it, and its volumes may still be attached".to_owned(),
        None => format!("{} do not end", counted(node.waits_for.len(), "pod")),
    };
    Some(Attention {
        since: Some(since),
        object: Some(Target::Node(node.name.clone())),
        ..Attention::new(Problem::StuckDrain, format!("The drain of node {}{cost} is stuck: {why}", node.name))
    })
}

fn cost(node: &NodeRow) -> String {
    node.price_per_hour.map(|price| format!(", which costs {},", dollars(price))).unwrap_or_default()
}

/// A node whose kubelet does not report that it is ready.
fn node_not_ready(node: &NodeRow, at: Timestamp) -> Option<Attention> {
    let since = node.not_ready_since.filter(|since| at.duration_since(*since) > NOT_READY)?;
    let pods = match &node.pods[..] {
        [] => "without pods".to_owned(),
        [pod] => format!("with the pod {}", pod.key()),
        [pod, rest @ ..] => format!("with {} and {}", pod.key(), counted(rest.len(), "other pod")),
    };
    let (name, cost) = (&node.name, cost(node));
    let repair = if node.node_pool.is_some() {
        "; nodeless replaces such a node only with the feature gate NodeRepair"
    } else {
        ""
    };
    Some(Attention {
        since: Some(since),
        object: Some(Target::Node(name.clone())),
        ..Attention::new(Problem::NodeNotReady, format!("Node {name}{cost} is not ready, {pods}{repair}"))
    })
}

/// The annotations of nodeless that are invalid or have no effect.
fn options(rows: Rows<'_>) -> impl Iterator<Item = Attention> {
    let of_cluster = rows.cluster.invalid.iter().map(|why| format!("Namespace {SYSTEM}: {why}"));
    let of_pools = rows.node_pools.iter().flat_map(|pool| {
        let name = pool.name.as_deref().unwrap_or_default();
        pool.invalid.iter().map(move |why| format!("NodePool {name}: {why}"))
    });
    of_cluster.chain(of_pools).map(|text| Attention { urgent: false, ..Attention::new(Problem::InvalidOption, text) })
}

fn not_ready(problem: Problem, kind: &str, name: &str, why: &str) -> Attention {
    Attention::new(problem, format!("{kind} {name} is not ready and launches no nodes: {why}"))
}

fn limits(rows: Rows<'_>) -> impl Iterator<Item = Attention> {
    let of_cluster = rows.cluster.limits.iter().map(|limit| limit_of("The cluster", limit));
    let of_pools = rows.node_pools.iter().flat_map(|pool| {
        let name = format!("NodePool {}", pool.name.as_deref().unwrap_or_default());
        pool.limits.iter().map(move |limit| limit_of(&name, limit))
    });
    of_cluster.chain(of_pools).flatten()
}

fn limit_of(who: &str, limit: &LimitRow) -> Option<Attention> {
    let LimitRow { resource, used, limit, share } = limit;
    let resource = resource.strip_prefix("nodeless.sh/").unwrap_or(resource);
    let text = format!("{who} uses {} of its limit {resource}: {used} of {limit}", percent(*share));
    (*share >= NEARLY).then(|| Attention { urgent: *share >= 1.0, ..Attention::new(Problem::Limit, text) })
}

fn budgets(rows: Rows<'_>) -> impl Iterator<Item = Attention> {
    let of_cluster = rows.cluster.budget.iter().map(|budget| (String::from("The cluster"), budget));
    let of_pools = rows.node_pools.iter().filter_map(|pool| {
        Some((format!("NodePool {}", pool.name.as_deref().unwrap_or_default()), pool.budget.as_ref()?))
    });
    let all: Vec<_> = of_cluster.chain(of_pools).collect();
    all.into_iter().filter_map(|(who, budget)| budget_of(&who, budget))
}

/// A budget that the present price exceeds, or an Event states so: nodeless counts what the month has cost so far.
fn budget_of(who: &str, budget: &BudgetRow) -> Option<Attention> {
    let (whole, allowed) = (budget.price_per_hour * HOURS_PER_MONTH, Dollars(budget.dollars_per_month));
    let text = if whole > budget.dollars_per_month {
        let whole = Dollars(whole);
        format!("{who} costs {whole} in a month of 730 hours at its present price, more than its budget of {allowed}")
    } else if budget.reported {
        format!(
            "{who} is over its budget of {allowed}, or will be at the present pace: an Event states so, not verified"
        )
    } else {
        return None;
    };
    Some(Attention { urgent: false, ..Attention::new(Problem::Budget, text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, claim_value, cluster, event_value, node_value, pod_value, pool_value};
    use crate::objects::decode::ShownKind;
    use crate::picture::Picture;
    use nodeless_catalog::Catalog;
    use serde_json::{Value, json};

    fn found(objects: &[(ShownKind, Value)], minute: i64) -> Vec<(Problem, String)> {
        let picture = Picture::new(&cluster(objects), &Catalog::embedded().unwrap(), at(minute));
        picture.attention.into_iter().map(|one| (one.problem, one.text)).collect()
    }

    fn of_web(name: &str) -> (ShownKind, Value) {
        let mut pod = pod_value(name, None);
        pod["metadata"]["labels"] = json!({ "pod-template-hash": "7d4b9" });
        pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9", "uid": "u", "controller": true }]);
        (ShownKind::Pod, pod)
    }

    fn failed(pod: &str, why: &str) -> (ShownKind, Value) {
        (ShownKind::Event, event_value("Pod", pod, "FailedScheduling", &format!("Failed to schedule pod, {why}")))
    }

    #[test]
    fn nothing_is_wrong_with_a_healthy_cluster() {
        let objects = [
            (ShownKind::NodePool, pool_value("default")),
            (ShownKind::Node, node_value("a", "m5.xlarge")),
            (ShownKind::Pod, pod_value("web", Some("a"))),
        ];
        assert_eq!(found(&objects, 5), []);
    }

    #[test]
    fn pods_without_a_node_are_grouped_by_workload_and_reason() {
        let large = "no instance type has enough cpu";
        let objects = [
            (ShownKind::Pod, pod_value("alone", None)),
            of_web("web-1"),
            of_web("web-2"),
            of_web("web-3"),
            failed("alone", large),
            failed("web-1", large),
            failed("web-2", large),
            failed("web-3", "limit cpu 16 reached"),
        ];
        let text = |text: &str| (Problem::PendingPods, text.to_owned());
        assert_eq!(
            found(&objects, 5),
            [
                text("2 pods of Deployment shop/web have no node: no instance type has enough cpu"),
                text("Pod shop/alone has no node: no instance type has enough cpu"),
                text("Pod shop/web-3 of Deployment shop/web has no node: limit cpu 16 reached"),
            ]
        );
    }

    #[test]
    fn pods_that_a_plan_places_or_will_evaluate_need_no_attention() {
        let nominated = [
            of_web("web-1"),
            (ShownKind::Event, event_value("Pod", "web-1", "Nominated", "Pod should schedule on: node/a")),
        ];
        assert_eq!(found(&nominated, 10), []);
        assert!(found(&nominated, 11)[0].1.contains("a node was planned more than 10 minutes ago"));
        assert_eq!(found(&[of_web("web-1")], 1), []);
        assert!(found(&[of_web("web-1")], 2)[0].1.ends_with("no scheduler has reported a reason yet"));
    }

    #[test]
    fn pods_whose_launches_fail_are_named_with_the_cause() {
        let nominated = |claim: &str, time: &str| {
            let target = format!("Pod should schedule on: nodeclaim/{claim}");
            let mut event = event_value("Pod", "web-1", "Nominated", &target);
            event["metadata"]["name"] = json!(format!("web-1.{claim}"));
            event["firstTimestamp"] = json!(time);
            (ShownKind::Event, event)
        };
        let failed = |claim: &str, message: &str| {
            (ShownKind::Event, event_value("NodeClaim", claim, "InsufficientCapacityError", message))
        };
        let mut objects = vec![
            of_web("web-1"),
            nominated("default-a", "2026-01-01T00:01:00Z"),
            failed("default-a", "Disrupting NodeClaim: m5.large spot in a: InsufficientInstanceCapacity: none"),
        ];
        let text = |why: &str| {
            let who = "Pod shop/web-1 of Deployment shop/web has no node";
            vec![(Problem::PendingPods, format!("{who}: launches for it failed, the last one because: {why}"))]
        };
        assert_eq!(found(&objects, 5), text("EC2 has no capacity for it"));
        objects.push(nominated("default-b", "2026-01-01T00:02:00Z"));
        assert_eq!(found(&objects, 5), [], "one launch failed, and the next one is on its way");
        let node = (ShownKind::Event, event_value("Pod", "web-1", "Nominated", "Pod should schedule on: node/a"));
        assert_eq!(found(&[&objects[..2], &[objects[2].clone(), node]].concat(), 5), [], "it fits on a node now");
        objects.push(failed("default-b", "Disrupting NodeClaim: m5.large spot in a: VcpuLimitExceeded (x): none"));
        let quota = "VcpuLimitExceeded: raise the account's quota of on-demand vCPUs in Service Quotas";
        assert_eq!(found(&objects, 5), text(quota));
        objects.push(nominated("default-c", "2026-01-01T00:03:00Z"));
        assert_eq!(found(&objects, 5), text(quota), "launches keep failing");
    }

    #[test]
    fn a_drain_is_stuck_when_a_pod_blocks_it() {
        let budget = json!({
            "metadata": { "name": "db", "namespace": "shop" },
            "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "db" } } },
            "status": { "disruptionsAllowed": 0 }
        });
        let mut claim = claim_value("c", Some("a"), &["Initialized", "Drained"]);
        claim["metadata"]["annotations"] = json!({ "nodeless.sh/price-per-hour": "0.192" });
        let mut ends = pod_value("ends", Some("a"));
        ends["metadata"]["deletionTimestamp"] = json!("2026-01-01T02:00:00Z");
        let mut objects = vec![
            (ShownKind::Node, node_value("a", "m5.xlarge")),
            (ShownKind::NodeClaim, claim),
            (ShownKind::Pod, pod_value("db", Some("a"))),
            (ShownKind::Pod, ends.clone()),
            (ShownKind::PodDisruptionBudget, budget),
        ];
        // It drains since the first minute.
        assert_eq!(found(&objects, 6), []);
        let blocked = "The drain of node a, which costs $0.1920/h, is stuck: shop/db blocks it: PodDisruptionBudget db allows no \
                       disruption";
        assert_eq!(found(&objects, 7), [(Problem::StuckDrain, blocked.to_owned())]);
        objects.push((ShownKind::Pod, pod_value("db-2", Some("a"))));
        assert!(found(&objects, 7)[0].1.contains("shop/db and 1 other pod block it"), "{:?}", found(&objects, 7));
        objects.retain(|(kind, pod)| *kind != ShownKind::Pod || *pod == ends);
        assert_eq!(found(&objects, 7), [], "a pod that is being deleted ends by itself");
    }

    #[test]
    fn a_node_that_is_not_ready_is_named_with_its_pods_and_its_price() {
        let mut node = node_value("a", "m5.xlarge");
        node["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!("on-demand");
        node["status"]["conditions"] =
            json!([{ "type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:05:00Z" }]);
        let objects = |pods: &[&str]| -> Vec<_> {
            let pods = pods.iter().map(|pod| (ShownKind::Pod, pod_value(pod, Some("a"))));
            [(ShownKind::Node, node.clone())].into_iter().chain(pods).collect()
        };
        assert_eq!(found(&objects(&["db"]), 7), [], "it may be ready again soon");
        let text = |pods: &str| {
            let repair = "nodeless replaces such a node only with the feature gate NodeRepair";
            (Problem::NodeNotReady, format!("Node a, which costs $0.1920/h, is not ready, {pods}; {repair}"))
        };
        assert_eq!(found(&objects(&["db"]), 8), [text("with the pod shop/db")]);
        assert_eq!(found(&objects(&["db", "web"]), 8), [text("with shop/db and 1 other pod")]);
        assert_eq!(found(&objects(&[]), 8), [text("without pods")]);
    }

    #[test]
    fn annotations_that_are_invalid_or_unknown_are_named() {
        let mut pool = pool_value("default");
        pool["metadata"]["annotations"] =
            json!({ "nodeless.sh/pause-disruption": "maybe", "nodeless.sh/slep": "0 20 * * * for 11h" });
        let found = found(&[(ShownKind::NodePool, pool)], 5);
        let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
        assert!(found.iter().all(|(problem, _)| *problem == Problem::InvalidOption), "{found:?}");
        assert!(
            matches!(texts[..], [invalid, unknown]
            if invalid.starts_with("NodePool default: ") && invalid.contains("\"maybe\"")
                && unknown.ends_with("did you mean nodeless.sh/sleep?")),
            "{texts:?}"
        );
    }

    #[test]
    fn node_pools_and_classes_that_are_not_ready_are_named() {
        let conditions = |why: &str| {
            json!([{ "type": "Ready", "status": "False", "reason": "NotReady", "message": why,
                "lastTransitionTime": "2026-01-01T00:01:00Z" }])
        };
        let mut pool = pool_value("gpu");
        pool["status"]["conditions"] = conditions("NodeClassReady=False");
        let class = json!({ "metadata": { "name": "gpu" }, "status": { "conditions": conditions("SubnetsNotFound") } });
        assert_eq!(
            found(&[(ShownKind::NodePool, pool), (ShownKind::NodeClass, class)], 5),
            [
                (
                    Problem::NodePoolNotReady,
                    "NodePool gpu is not ready and launches no nodes: NodeClassReady=False".to_owned()
                ),
                (
                    Problem::NodeClassNotReady,
                    "EC2NodeClass gpu is not ready and launches no nodes: SubnetsNotFound".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn limits_count_from_nine_tenths_on() {
        let with = |used: &str| {
            let mut pool = pool_value("default");
            pool["status"]["resources"]["cpu"] = json!(used);
            Picture::new(&cluster(&[(ShownKind::NodePool, pool)]), &Catalog::embedded().unwrap(), at(5)).attention
        };
        assert_eq!(with("14"), []);
        let nearly = with("15");
        assert_eq!(
            (nearly[0].text.as_str(), nearly[0].urgent),
            ("NodePool default uses 94% of its limit cpu: 15 of 16", false)
        );
        assert!(with("16")[0].urgent);
    }

    #[test]
    fn budgets_count_by_the_price_and_by_what_nodeless_reports() {
        let mut pool = pool_value("default");
        pool["metadata"]["annotations"] = json!({ "nodeless.sh/dollars-per-month": "20" });
        let mut objects = vec![(ShownKind::NodePool, pool), (ShownKind::Node, node_value("a", "m5.xlarge"))];
        let at_this_price = found(&objects, 5);
        assert!(
            at_this_price[0].1.starts_with("NodePool default costs $")
                && at_this_price[0].1.ends_with("budget of $20.0000"),
            "{at_this_price:?}"
        );
        objects.push((
            ShownKind::Event,
            event_value("NodePool", "default", "BudgetExceeded", "pay at http://example.com"),
        ));
        assert_eq!(found(&objects, 5), at_this_price);
        objects.remove(1);
        let text = "NodePool default is over its budget of $20.0000, or will be at the present pace: an Event states so, not verified";
        assert_eq!(found(&objects, 5), [(Problem::Budget, text.to_owned())]);
    }
}
