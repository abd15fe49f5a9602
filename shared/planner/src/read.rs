//! Reads the snapshot of a plan.

use super::stages::costs;
use crate::execute::PlanRevision;
use crate::execute::without_effects::Answers;
use crate::nodes::local_volumes;
use crate::pods::expected::places;
use crate::pods::{own_nominations, unmarked};
use crate::saved::SavedError;
use crate::snapshot::command_records::Commands;
use crate::snapshot::{RecordedCosts, Snapshot, WorkBudget};
use crate::{PlanError, Planner};
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_commitments::{Commitments, of_account};
use nodeless_disruption::spot_interruptions::avoids;
use nodeless_model::events::other_deployment;
use nodeless_model::object::ObjectRef;
use nodeless_model::{NodeClaim, Setting, check_owner};
use nodeless_operations::{Unread, log_lines::Failed, ownership, unadopted::unadopted, zonal_shift};
use nodeless_ports::PortError;
use nodeless_ports::cluster::{ClusterView, SYSTEM_NAMESPACE};
use nodeless_state::capacity::SpotInterruption;

use nodeless_state::plans::{StoredCommand, UnfinishedPlan};
use nodeless_state::{RecordKind, StoredRecord};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// The suffix of the id of the results of the plan's writes, beside its snapshot.
pub const ANSWERS: &str = ".answers";

/// The commitments of the catalog that are in effect, if there are any.
fn commitments(catalog: &Catalog, now: Timestamp) -> Option<Commitments> {
    let listed = catalog.commitments.as_ref()?;
    Some(of_account(listed, &catalog.region, now)).filter(|all| !all.is_empty())
}

/// What is read one after another, while all else is read.
struct ClusterRecords {
    records: Vec<NodeClaim>,
    view: ClusterView,
    commands: Vec<StoredCommand>,
    optional: OptionalRecords,
}

/// What a plan can do without, as in the [`Snapshot`].
struct OptionalRecords {
    interruptions: Result<Vec<SpotInterruption>, Unread>,
    refused_stops: Result<Vec<StoredRecord>, Unread>,
    churn: Option<Result<Vec<StoredRecord>, Unread>>,
    costs: Option<Result<RecordedCosts, Unread>>,
}

/// What is read, if it is to be read.
async fn when<T>(is_read: bool, read: impl Future<Output = T>) -> Option<T> {
    if is_read { Some(read.await) } else { None }
}

impl Planner {
    /// Reads the plan revision, and then the snapshot. If another plan decides something after that, it is not in the snapshot,
    /// and this plan may not decide anything. The process ends at `deadline`, if it has one.
    pub(super) async fn read(&self, deadline: Option<Timestamp>) -> Result<(Snapshot, PlanRevision), PlanError> {
        let now = self.context.now();
        let claims = &self.claims;
        let revision = PlanRevision::at(claims.plan_revision().await?);
        let (
            ClusterRecords { mut records, mut view, commands, optional },
            catalog,
            usage,
            unavailable,
            launch_budgets,
            shifted,
            registrations,
            memory,
            unfinished,
            not_yet_evaluated,
            waiting_pods,
        ) = futures::try_join!(
            self.cluster_records(now),
            async { Ok(self.catalog.current(claims).await?) },
            async { Ok(claims.usage().await?) },
            async { Ok(claims.unavailable(now).await?) },
            async { Ok(claims.launch_budgets(now).await?) },
            async { Ok(zonal_shift::in_effect(claims, self.settings.zonal_shift, now).await?) },
            // A plan can do without these.
            async { Ok(claims.records(RecordKind::Registrations).await.map_err(Unread::from)) },
            async { Ok(self.reported_memory().await) },
            async { Ok(self.unfinished(claims.unfinished_plan().await)) },
            async { Ok(self.not_yet_evaluated().await) },
            async { Ok(self.waiting_pods().await) },
        )?;
        self.check_view(&view, &records, now).await?;
        places::take(&mut records, &view, now);
        own_nominations::disregard(&mut view, &records);
        unmarked::count(&mut view, &records, now);
        local_volumes::note_closed(&mut view, &records, now);
        let OptionalRecords { interruptions, refused_stops, churn, costs } = optional;
        let failed = unfinished.as_ref().map_or(0, UnfinishedPlan::consecutive);
        let snapshot = Snapshot {
            cluster_name: self.context.cluster_name.clone(),
            now,
            settings: self.settings.clone(),
            // Reading a large cluster takes seconds, so the time that is left is computed after it.
            work: self.work_within(deadline).after_unfinished(failed),
            view,
            claims: records,
            usage,
            unavailable,
            interruptions,
            launch_budgets: Some(launch_budgets),
            shifted,
            registrations,
            refused_stops,
            reported_memory: memory,
            commands: Commands::decode(commands),
            churn,
            not_yet_evaluated,
            waiting_pods,
            unfinished,
            costs_due: self.costs_due(now),
            costs,
            commitments: commitments(&catalog, now),
            catalog,
        };
        Ok((snapshot, revision))
    }

    /// Checks that a plan may decide from the view: this deployment serves the cluster, and all NodeClaims have their records.
    async fn check_view(&self, view: &ClusterView, records: &[NodeClaim], now: Timestamp) -> Result<(), PlanError> {
        if let Err(other) = check_owner(view.options.table.valid().map(String::as_str), self.claims.table_name()) {
            self.publish(vec![other_deployment(ObjectRef::namespace(SYSTEM_NAMESPACE), &other.to_string())], now).await;
            return Err(ownership::denied(&other).into());
        }
        let unadopted = unadopted(&view.node_claims, &view.nodes, records);
        // A view that lacks the last changes has NodeClaims that were deleted with their records. Its plan decides nothing.
        if unadopted > 0 && self.cluster.confirm_view().await.is_ok() {
            return Err(PlanError::Unadopted(unadopted));
        }
        Ok(())
    }

    /// Reads the claims, and after them the cluster and the commands.
    async fn cluster_records(&self, now: Timestamp) -> Result<ClusterRecords, PlanError> {
        // Claims are read before the cluster: a node that joins in between is then matched to its claim. Commands are read after claims: if a
        // claim names a command that is missing now, the command has ended.
        let records = self.claims.list().await?;
        let (mut view, commands) = futures::try_join!(self.cluster.view(), self.claims.commands())?;
        self.read_pod_controllers(&mut view, &records, now).await;
        let optional = self.optional_records(&view, now).await;
        Ok(ClusterRecords { records, view, commands, optional })
    }

    /// Reads the workloads that are about to create pods, if pods are expected. Without them, none is.
    async fn read_pod_controllers(&self, view: &mut ClusterView, records: &[NodeClaim], now: Timestamp) {
        if !places::are_read(self.settings.expected_pods, view, records, now) {
            return;
        }
        let read = self.cluster.read_pod_controllers(view).await;
        self.reads_pod_controllers.store(read.is_ok(), Ordering::Relaxed);
        if let Err(error) = &read {
            let what = "read Deployments, StatefulSets and Jobs, so no pods are expected (infra/rbac/optional/expected-pods.yaml)";
            self.context.log(&Failed { what, why: &error.to_string() });
        }
    }

    /// Whether this process can read the workloads that are about to create pods. What it could not read is tried again, since the right may
    /// have been granted; a plan for pods reports why it cannot.
    pub(super) async fn reads_pod_controllers(&self) -> bool {
        if !self.reads_pod_controllers.load(Ordering::Relaxed) {
            let read = self.cluster.read_pod_controllers(&mut ClusterView::default()).await;
            self.reads_pod_controllers.store(read.is_ok(), Ordering::Relaxed);
        }
        self.reads_pod_controllers.load(Ordering::Relaxed)
    }

    /// Reads at once what the plan can do without.
    async fn optional_records(&self, view: &ClusterView, now: Timestamp) -> OptionalRecords {
        let claims = &self.claims;
        // Most clusters do not use them.
        let avoids_interruptions = view.node_pools.iter().any(avoids);
        let keeps_warm = view.node_pools.iter().any(|pool| pool.warm_nodes() != Setting::Unset);
        // If a snapshot is kept, all of it must be read before the plan begins.
        let is_kept = self.settings.keep_snapshots.is_some();
        let (interruptions, refused_stops, churn, costs) = futures::join!(
            async {
                if !avoids_interruptions {
                    return Ok(Vec::new());
                }
                claims.interruptions(now).await.map_err(Unread::from)
            },
            async {
                if !keeps_warm {
                    return Ok(Vec::new());
                }
                claims.records(RecordKind::RefusedStops).await.map_err(Unread::from)
            },
            when(is_kept, async { claims.records(RecordKind::Churn).await.map_err(Unread::from) }),
            when(is_kept && self.costs_due(now), self.recorded_costs(now)),
        );
        OptionalRecords { interruptions, refused_stops, churn, costs }
    }

    /// The work for which there is time now.
    pub(super) fn work_within(&self, deadline: Option<Timestamp>) -> WorkBudget {
        let Some(deadline) = deadline else { return WorkBudget::default() };
        WorkBudget::within(self.left(deadline), self.settings.memory_megabytes)
    }

    /// The recorded costs of nodes, or why they cannot be read. The open record is read before the instances that have
    /// ended, and both after the claims: a claim that is deleted in between is found in one of them.
    pub(super) async fn recorded_costs(&self, now: Timestamp) -> Result<RecordedCosts, Unread> {
        let open = self.claims.open_costs().await.map_err(Unread::from)?;
        let since = costs::ended_since(&open, now);
        let ended = self.claims.ended_nodes(since).await.map_err(Unread::from)?;
        Ok(RecordedCosts { open, ended })
    }

    /// The previous plan, if it did not finish. If that is unknown, nothing is skipped: the plan most likely ended.
    fn unfinished(&self, read: Result<Option<UnfinishedPlan>, PortError>) -> Option<UnfinishedPlan> {
        read.unwrap_or_else(|error| {
            self.context.log(&Failed { what: "read whether the last plan ended", why: &error.to_string() });
            None
        })
    }

    /// The nodes that the last decision did not evaluate, or why they cannot be read. Only the order of evaluation depends on it.
    async fn not_yet_evaluated(&self) -> Result<BTreeSet<String>, Unread> {
        if let Some(known) = self.known_not_yet_evaluated() {
            return Ok(known);
        }
        let read = self.claims.not_yet_evaluated().await.map_err(Unread::from)?;
        self.remember_not_yet_evaluated(Some(read.clone()));
        Ok(read)
    }

    /// The memory that nodes reported, or why it cannot be read.
    async fn reported_memory(&self) -> Result<StoredRecord, Unread> {
        let read = self.claims.record(RecordKind::ReportedMemory, "").await.map_err(Unread::from)?;
        Ok(read.unwrap_or_default())
    }

    /// The pods that wait although plans place them, or why they cannot be read.
    pub(super) async fn waiting_pods(&self) -> Result<StoredRecord, Unread> {
        if let Some(known) = self.known_waiting_pods() {
            return Ok(known);
        }
        let read = self.claims.record(RecordKind::WaitingPods, "").await.map_err(Unread::from)?.unwrap_or_default();
        self.remember_waiting_pods(Some(read.clone()));
        Ok(read)
    }

    /// Keeps the snapshot of a plan, if configured. Nothing depends on it.
    pub(super) async fn keep(&self, snapshot: &Snapshot) {
        if self.settings.keep_snapshots.is_some() {
            self.put(snapshot.now, "", snapshot.save()).await;
        }
    }

    /// Keeps the results of the plan's writes beside the snapshot.
    pub(super) async fn keep_answers(&self, snapshot: &Snapshot, answers: &Answers) {
        self.put(snapshot.now, ANSWERS, answers.save()).await;
    }

    async fn put(&self, at: Timestamp, what: &str, encoded: Result<Vec<u8>, SavedError>) {
        let keep = self.settings.keep_snapshots.unwrap_or_default();
        let until = at.saturating_add(keep).unwrap_or(Timestamp::MAX);
        // The text sorts by time, too.
        let id = format!("{}{what}", at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"));
        let kept = match encoded {
            Ok(encoded) => self.claims.put_snapshot(&id, &encoded, until).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = kept {
            self.context.log(&Failed { what: "keep what the plan is made from", why: &why });
        }
    }
}
