//! The log lines.

use nodeless_ports::queue::WakeSource;
use nodeless_telemetry::lines;

lines! {
    /// A plan was made. `woken` is what requested it: `webhook` and `object` are calls of the API server.
    PlanMade, "plan-made", Info {
        pods: usize,
        placed: usize,
        claims: &'a [String],
        unschedulable: usize,
        leaving: &'a [String],
        woken: &'a [WakeSource],
        milliseconds: u64,
    }
    /// No plan was made for pods that the last plan placed less than ten seconds ago. The next one is made after `seconds`.
    PlanDelayed, "plan-delayed", Info { pods: usize, seconds: f64, why: &'a str, }
    /// An earlier plan did not finish, so this one skips optional work and has a lower work limit.
    PlanUnfinished, "plan-unfinished", Warn { plan: &'a str, began: &'a str, consecutive: u32, }
    /// A NodePool or another object could not be used. The plan continued without it.
    ObjectSkipped, "object-skipped", Warn { kind: &'a str, name: &'a str, why: &'a str, }
    /// Voluntary disruption was skipped because an object could not be decoded.
    DisruptionSkipped, "disruption-skipped", Warn { why: &'a str, }
    /// Voluntary disruption of a NodePool has stopped, because it evicted many pods and did not lower the price.
    DisruptionStopped, "disruption-stopped", Warn { node_pool: &'a str, why: &'a str, }
    /// What the nodes of a NodePool cost was recorded: prices now, and dollars of this day and month in UTC.
    CostsRecorded, "costs-recorded", Info {
        node_pool: &'a str,
        nodes: usize,
        dollars_per_hour: f64,
        dollars_today: f64,
        dollars_this_month: f64,
        dollars_this_month_at_this_pace: f64,
        idle_dollars_per_hour: f64,
        on_demand_dollars_per_hour: f64,
    }
    /// Nodes cost more this month than the budget of a NodePool, or of the cluster, or will at the present pace.
    BudgetExceeded, "budget-exceeded", Warn {
        node_pool: Option<&'a str>,
        dollars_per_month: f64,
        dollars_this_month: f64,
        dollars_this_month_at_this_pace: f64,
    }
    /// A claim was not created.
    ClaimRefused, "claim-refused", Warn { claim: &'a str, node_pool: Option<&'a str>, why: &'a str, }
    /// A disruption command advanced.
    CommandStepped, "command-stepped", Info { command: &'a str, to: &'a str, summary: &'a str, }
    /// A disruption command could not continue in this plan.
    CommandWaits, "command-waits", Warn { command: &'a str, why: &'a str, }
    /// Nodes were nominated for their pods before they open, or again because nominations were cleared. `changed` counts the pods that
    /// changed meanwhile.
    PodsNominated, "pods-nominated", Info { claims: &'a [String], pods: usize, changed: usize, }
    /// The right to nominate nodes for pods is missing, so nodes open without nominations.
    NominationsDenied, "nominations-denied", Warn { why: &'a str, }
    /// A claim was written.
    ClaimStepped, "claim-stepped", Info {
        claim: &'a str,
        node_pool: Option<&'a str>,
        from: &'a str,
        to: &'a str,
        instance: Option<&'a str>,
        instance_type: Option<&'a str>,
        zone: Option<&'a str>,
        capacity_type: Option<&'a str>,
        price_per_hour: Option<f64>,
        why: Option<&'a str>,
    }
    /// A claim could not be reconciled in this run.
    ClaimWaits, "claim-waits", Warn { claim: &'a str, why: &'a str, }
    /// A launch was answered.
    LaunchAnswered, "launch-answered", Info { claim: &'a str, group: &'a str, asked: usize, launched: usize, failures: Vec<String>, }
    /// A launch failed as a whole.
    LaunchFailed, "launch-failed", Warn { claim: &'a str, why: &'a str, }
    /// EC2 is called to reboot the instance of an unhealthy node.
    Rebooting, "rebooting", Warn { claim: &'a str, instance: &'a str, why: &'a str, }
    /// A PodDisruptionBudget, or an admission webhook of the cluster, rejected an eviction for now.
    EvictionBlocked, "eviction-blocked", Info { claim: &'a str, pod: &'a str, why: &'a str, }
    /// The successor of a pod on a draining node is created before the pod is removed.
    SurgeBegun, "surge-begun", Info { claim: &'a str, pod: &'a str, deployment: &'a str, mode: &'a str, }
    /// The replicas of a Deployment that were raised for a drain are lowered again.
    SurgeEnded, "surge-ended", Info { claim: &'a str, pod: &'a str, deployment: &'a str, }
    /// An orphan was handled, or a claim that has to be terminated.
    Collected, "collected", Info { what: &'a str, name: &'a str, why: &'a str, }
    /// A sweep ended.
    SweepEnded, "sweep-ended", Info { claims: usize, instances: usize, collected: usize, requeued: usize, problems: &'a [String], }
    /// The zones that the cluster is shifted away from have changed.
    ZonalShiftsChanged, "zonal-shifts-changed", Warn { zones: Vec<&'a str>, }
    /// Zonal shifts could not be read. The known ones stay in effect until their end.
    ZonalShiftsUnread, "zonal-shifts-unread", Warn { known: &'a [String], why: &'a str, }
    /// The usage counters of a NodePool were wrong.
    UsageCorrected, "usage-corrected", Warn { node_pool: &'a str, }
    /// EC2 announced an interruption of an instance.
    InterruptionReceived, "interruption-received", Info { kind: &'a str, instance: &'a str, claim: Option<&'a str>, action: &'a str, }
    /// EC2 announced an interruption of an instance that does not belong to the cluster, such as one of another cluster.
    InterruptionForeign, "interruption-foreign", Debug { kind: &'a str, instance: &'a str, }
    /// A message was ignored.
    MessageIgnored, "message-ignored", Debug { source: &'a str, detail_type: &'a str, why: &'a str, }
    /// The catalog was read.
    CatalogRefreshed, "catalog-refreshed", Info { version: &'a str, instance_types: usize, changed: bool, }
    /// Subnets of an EC2NodeClass are in zones that the catalog does not have, so no node is launched there. A zone that was opted in is in the catalog within an hour.
    SubnetZonesUnknown, "subnet-zones-unknown", Warn { node_class: &'a str, zones: &'a [&'a str], }
    /// The report of costs was sent to a topic.
    CostReportSent, "cost-report-sent", Info { topic: &'a str, subject: &'a str, bytes: usize, }
    /// No report of costs was sent, because there is nothing to report, or it was sent before.
    CostReportSkipped, "cost-report-skipped", Info { topic: &'a str, why: &'a str, }
    /// EC2 dry runs checked whether instances can be launched from an EC2NodeClass.
    LaunchChecked, "launch-checked", Info { node_class: &'a str, instance_type: &'a str, refusal: Option<&'a str>, problem: Option<&'a str>, }
    /// A secondary operation failed, and the work continued.
    Failed, "failed", Warn { what: &'a str, why: &'a str, }
}
