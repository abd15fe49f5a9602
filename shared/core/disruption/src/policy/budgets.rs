//! The number of nodes of each NodePool that may be disrupted at this time.

use crate::cluster::{Cluster, ClusterNode};
use crate::policy::balance_zones::is_balanced;
use crate::reasons::KeptReason;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::cron::Cron;
use nodeless_model::events::{budgets_block, misconfigured};
use nodeless_model::node_pool::BudgetWindow;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{Budget, DisruptionReason, Node, NodePool, Phase};
use std::collections::BTreeMap;

/// The reasons of most commands. Node repair has budgets of its own ([`Budgets::of_repair`]).
const REASONS: [DisruptionReason; 3] =
    [DisruptionReason::Empty, DisruptionReason::Underutilized, DisruptionReason::Drifted];

/// The remaining budgets while commands are found.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    pools: BTreeMap<String, PoolBudget>,
    /// Events on the NodePools.
    pub(crate) events: Vec<ObjectEvent>,
}

#[derive(Debug, Default)]
struct PoolBudget {
    allowed: BTreeMap<DisruptionReason, Allowed>,
    disrupting: u32,
}

/// The number of nodes that may be disrupted at once.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    nodes: u32,
    /// The index of the smallest budget; `None` if none is active now.
    budget: Option<usize>,
}

impl Budgets {
    pub(crate) fn new(cluster: &Cluster<'_>, now: Timestamp) -> Self {
        let mut budgets = Self::default();
        for offer in &cluster.node_pools {
            let pool = offer.pool;
            // Budgets cannot name this reason, because Karpenter's CRD does not have it: those without reasons apply.
            let balanced = is_balanced(pool).then_some(DisruptionReason::Unbalanced);
            let reasons: Vec<DisruptionReason> = REASONS.into_iter().chain(balanced).collect();
            let (total, budget) = pool_budget(cluster, pool, &reasons, is_disrupting, now);
            budgets.report(pool, total, &budget.allowed, now);
            budgets.pools.insert(pool.name.clone(), budget);
        }
        budgets
    }

    /// The budgets for node repair, as in Karpenter: nodes that are only not ready do not count, because they are those to be repaired.
    pub(crate) fn of_repair(cluster: &Cluster<'_>, now: Timestamp) -> Self {
        let is_taken = |node: &ClusterNode<'_>| node.is_leaving() || node.is_rebooting();
        let of_pool = |pool: &NodePool| pool_budget(cluster, pool, &[DisruptionReason::Unhealthy], is_taken, now).1;
        let pools = cluster.node_pools.iter().map(|offer| (offer.pool.name.clone(), of_pool(offer.pool)));
        Self { pools: pools.collect(), events: Vec::new() }
    }

    /// Budgets that allow this number of nodes of each NodePool.
    pub(crate) fn even(cluster: &Cluster<'_>, nodes: u32) -> Self {
        let all = Allowed { nodes, budget: None };
        let allowed: BTreeMap<DisruptionReason, Allowed> = REASONS.into_iter().map(|reason| (reason, all)).collect();
        let of_pool = || PoolBudget { allowed: allowed.clone(), disrupting: 0 };
        let pools = cluster.node_pools.iter().map(|offer| (offer.pool.name.clone(), of_pool()));
        Self { pools: pools.collect(), events: Vec::new() }
    }

    /// Counts a node of a NodePool against its budget, or returns why the budget does not allow it.
    pub(crate) fn take(&mut self, node_pool: &str, reason: DisruptionReason) -> Result<(), KeptReason> {
        self.check(node_pool, reason)?;
        if let Some(budget) = self.pools.get_mut(node_pool) {
            budget.disrupting += 1;
        }
        Ok(())
    }

    /// The number of further nodes of a NodePool that may be disrupted for a reason.
    pub(crate) fn left(&self, node_pool: &str, reason: DisruptionReason) -> u32 {
        let Some(budget) = self.pools.get(node_pool) else { return 0 };
        budget.allowed.get(&reason).map_or(0, |allowed| allowed.nodes).saturating_sub(budget.disrupting)
    }

    /// Whether the budget of a NodePool allows another node.
    pub(crate) fn check(&self, node_pool: &str, reason: DisruptionReason) -> Result<(), KeptReason> {
        let Some(budget) = self.pools.get(node_pool) else { return Err(KeptReason::NoNodePool(node_pool.to_owned())) };
        let allowed = budget.allowed.get(&reason).copied().unwrap_or(Allowed { nodes: 0, budget: None });
        if budget.disrupting < allowed.nodes {
            return Ok(());
        }
        Err(KeptReason::Budget {
            node_pool: node_pool.to_owned(),
            budget: allowed.budget,
            reason,
            allowed: allowed.nodes,
            disrupting: budget.disrupting,
        })
    }

    /// For each reason, how many nodes of a NodePool may be disrupted at once, and how many are.
    pub(crate) fn standing(&self, node_pool: &str) -> Vec<(DisruptionReason, u32, u32)> {
        let Some(budget) = self.pools.get(node_pool) else { return Vec::new() };
        budget.allowed.iter().map(|(reason, allowed)| (*reason, allowed.nodes, budget.disrupting)).collect()
    }

    fn report(&mut self, pool: &NodePool, total: u32, allowed: &BTreeMap<DisruptionReason, Allowed>, now: Timestamp) {
        for (place, budget) in pool.disruption.budgets.iter().enumerate() {
            if let Some(message) = fault(place, budget, now) {
                self.events.push(misconfigured(pool, &budget_field(place), &message));
            }
        }
        let none: Vec<String> =
            allowed.iter().filter(|(_, allowed)| allowed.nodes == 0).map(|(reason, _)| format!("{reason:?}")).collect();
        if total > 0 && !none.is_empty() {
            self.events.push(budgets_block(pool.into(), &none.join(", ")));
        }
    }
}

/// The number of nodes of a NodePool that count, and its budgets for these reasons.
fn pool_budget(
    cluster: &Cluster<'_>,
    pool: &NodePool,
    reasons: &[DisruptionReason],
    is_disrupting: impl Fn(&ClusterNode<'_>) -> bool,
    now: Timestamp,
) -> (u32, PoolBudget) {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let nodes = || cluster.nodes.iter().filter(|node| node.node_pool() == Some(pool.name.as_str()) && counts(node));
    let total = number(nodes().count());
    let disrupting = number(nodes().filter(|node| is_disrupting(node)).count());
    let allowed = reasons.iter().map(|reason| (*reason, allowed_now(pool, *reason, total, now))).collect();
    (total, PoolBudget { allowed, disrupting })
}

fn budget_field(place: usize) -> String {
    format!("spec.disruption.budgets[{place}]")
}

/// The problem of a budget: it cannot be parsed, it is never active, or it is always active and allows nothing.
fn fault(place: usize, budget: &Budget, now: Timestamp) -> Option<String> {
    let field = budget_field(place);
    let Some(window) = &budget.window else {
        let nothing = budget.nodes.allowed(u32::MAX) == 0;
        let reasons: Vec<String> = budget.reasons.iter().map(|reason| format!("{reason:?}")).collect();
        let whom = if reasons.is_empty() { "any reason".to_owned() } else { reasons.join(", ") };
        return nothing.then(|| {
            format!("{field} admits no node for {whom} at any time; if that is meant only for a while, set schedule and duration")
        });
    };
    match window.schedule.parse::<Cron>() {
        Err(error) => Some(format!("{field} admits nothing, because {error}")),
        Ok(cron) if cron.next_after(now).is_none() => {
            Some(format!("{field} is never active: no time matches the schedule {:?}", window.schedule))
        }
        Ok(_) => None,
    }
}

/// Whether budgets with a percentage count a node.
fn counts(node: &ClusterNode<'_>) -> bool {
    node.claim.is_some_and(|claim| claim.phase < Phase::Terminating) && node.is_initialized()
}

fn is_disrupting(node: &ClusterNode<'_>) -> bool {
    node.is_leaving() || node.is_rebooting() || !node.node.is_some_and(Node::is_ready)
}

/// The number of nodes of a NodePool with this number of nodes that its budgets allow to be disrupted at once for a reason; `None` if no
/// budget is active now.
#[must_use]
pub fn allowed_disruptions(pool: &NodePool, reason: DisruptionReason, total: u32, now: Timestamp) -> Option<u32> {
    let allowed = allowed_now(pool, reason, total, now);
    allowed.budget.map(|_| allowed.nodes)
}

/// The smallest number that the active budgets for a reason allow.
fn allowed_now(pool: &NodePool, reason: DisruptionReason, total: u32, now: Timestamp) -> Allowed {
    let budgets = pool.disruption.budgets.iter().enumerate();
    budgets
        .filter(|(_, budget)| budget.reasons.is_empty() || budget.reasons.contains(&reason))
        .map(|(place, budget)| (allowed_by(budget, total, now), place))
        .min()
        .filter(|(nodes, _)| *nodes < u32::MAX)
        .map_or(Allowed { nodes: u32::MAX, budget: None }, |(nodes, place)| Allowed { nodes, budget: Some(place) })
}

/// A budget with an invalid schedule allows nothing: the user meant to limit disruption.
fn allowed_by(budget: &Budget, total: u32, now: Timestamp) -> u32 {
    match budget.window.as_ref().map(|window| is_active(window, now)) {
        None | Some(Some(true)) => budget.nodes.allowed(total),
        Some(Some(false)) => u32::MAX,
        Some(None) => 0,
    }
}

/// Whether a window is active, i.e. its latest start is less than its duration ago; `None` if the schedule is invalid.
fn is_active(window: &BudgetWindow, now: Timestamp) -> Option<bool> {
    let cron: Cron = window.schedule.parse().ok()?;
    let earliest = SignedDuration::try_from(window.duration).ok().and_then(|duration| now.checked_sub(duration).ok());
    let next = cron.next_after(earliest.unwrap_or(Timestamp::MIN));
    Some(next.is_some_and(|start| start <= now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::node_pool::BudgetNodes;
    use std::time::Duration;

    #[test]
    fn a_window_is_active_for_its_duration() {
        let window = BudgetWindow { schedule: "0 9 * * mon-fri".into(), duration: Duration::from_secs(8 * 3600) };
        for (now, active) in [
            ("2026-01-05T08:59:59Z", false),
            ("2026-01-05T09:00:00Z", true),
            ("2026-01-05T16:59:59Z", true),
            ("2026-01-05T17:00:00Z", false),
            ("2026-01-04T12:00:00Z", false),
        ] {
            assert_eq!(is_active(&window, now.parse().unwrap()), Some(active), "{now}");
        }
        // Berlin is an hour ahead of UTC in winter, and two in summer.
        let window = BudgetWindow { schedule: "CRON_TZ=Europe/Berlin 0 9 * * *".into(), ..window };
        for (now, active) in [
            ("2026-01-05T07:59:59Z", false),
            ("2026-01-05T08:00:00Z", true),
            ("2026-07-06T07:00:00Z", true),
            ("2026-07-06T15:00:00Z", false),
        ] {
            assert_eq!(is_active(&window, now.parse().unwrap()), Some(active), "{now}");
        }
        let bad = BudgetWindow { schedule: "nonsense".into(), duration: Duration::from_secs(60) };
        assert_eq!(is_active(&bad, Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn the_smallest_active_budget_for_a_reason_counts() {
        let budget = |reasons: &[DisruptionReason], nodes, window: Option<&str>| Budget {
            reasons: reasons.to_vec(),
            nodes,
            window: window.map(|it| BudgetWindow { schedule: it.into(), duration: Duration::from_secs(3600) }),
        };
        let mut pool = nodeless_model::test_support::node_pool("default");
        pool.disruption.budgets.clear();
        let now = "2026-01-05T09:30:00Z".parse().unwrap();
        let allowed = |pool: &NodePool| REASONS.map(|reason| allowed_disruptions(pool, reason, 15, now));
        assert_eq!(allowed(&pool), [None; 3]);
        pool.disruption.budgets = vec![
            budget(&[], BudgetNodes::Percent(10), None),
            budget(&[DisruptionReason::Drifted], BudgetNodes::Count(1), None),
            budget(&[], BudgetNodes::Count(0), Some("0 12 * * *")),
        ];
        assert_eq!(allowed(&pool), [Some(2), Some(2), Some(1)]);
    }
}
