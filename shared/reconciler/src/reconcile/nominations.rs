//! Nominates nodes for the pods that they were launched for, before the nodes are opened for pods.

use super::{AT_ONCE, Reconciler, daemon_sets};
use futures::future::{Either, select};
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use nodeless_lifecycle::opening::{self, JoinedNode, Nomination, may_nominate};
use nodeless_lifecycle::{Member, Nominations, Seen};
use nodeless_model::{Node, NodeClaim, Phase};
use nodeless_operations::log_lines::{Failed, NominationsDenied, PodsNominated};
use nodeless_ports::{ErrorKind, PortError};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often the pods are read again before nodes open, because attempts of the kube-scheduler clear nominations meanwhile.
const ROUNDS: usize = 3;
/// How long nominations may be written before nodes open. The function must also have time to open them.
const NOMINATED_WITHIN: Duration = Duration::from_secs(10);
/// How long nothing is nominated after the right to do so was missing.
const DENIED_FOR: Duration = Duration::from_mins(10);

/// Whether nodes are nominated for pods. Keep it between runs.
#[derive(Debug, Default)]
pub struct NominationSwitch {
    off: bool,
    /// When the right to nominate was last missing.
    denied: Mutex<Option<Timestamp>>,
}

impl NominationSwitch {
    /// Enables or disables nominations.
    #[must_use]
    pub fn new(on: bool) -> Self {
        Self { off: !on, denied: Mutex::default() }
    }

    fn is_on(&self, now: Timestamp) -> bool {
        let denied = *self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        !self.off && denied.is_none_or(|at| now.duration_since(at).unsigned_abs() >= DENIED_FOR)
    }

    /// Pauses nominations for [`DENIED_FOR`]. Returns whether this is the first time.
    fn deny(&self, now: Timestamp) -> bool {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).replace(now).is_none()
    }
}

/// The nominations of the nodes in one run.
#[derive(Default)]
pub(super) struct Opened {
    /// The state of each claim, by name.
    states: BTreeMap<String, Nominations>,
    /// The claims of other runs whose nodes open now.
    pub(super) others: Vec<String>,
}

impl Opened {
    /// Whether a node opens in this run.
    pub(super) fn any(&self) -> bool {
        self.states.values().any(|state| *state == Nominations::Written)
    }

    pub(super) fn state(&self, claim: &str) -> Nominations {
        self.states.get(claim).copied().unwrap_or_default()
    }
}

impl Reconciler {
    /// The claims of the same shard, other than these, whose nodes may have to open together with theirs.
    pub(super) async fn mates(
        &self,
        claims: &[NodeClaim],
        shard: impl Iterator<Item = &String>,
    ) -> Result<Vec<NodeClaim>, PortError> {
        let now = self.context.now();
        let joining = |claim: &&NodeClaim| claim.phase < Phase::Initialized && may_nominate(claim, now);
        let joining: Vec<&NodeClaim> = claims.iter().filter(joining).collect();
        let read: BTreeSet<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
        let names: Vec<String> = shard.filter(|name| !read.contains(name.as_str())).cloned().collect();
        if !self.nominations.is_on(now) || joining.is_empty() || names.is_empty() {
            return Ok(Vec::new());
        }
        let mut mates = self.claims.get_all(&names).await?;
        let is_of_plan = |mate: &NodeClaim| joining.iter().any(|claim| claim.created == mate.created);
        mates.retain(|mate| mate.phase < Phase::Initialized && is_of_plan(mate));
        Ok(mates)
    }

    /// Decides which nodes open, and nominates them for their pods. Nodes open even if pods cannot be nominated. `seen` returns the nodes of
    /// a claim, and whether the DaemonSets that they wait for are ready.
    pub(super) async fn nominate(
        &self,
        claims: &[NodeClaim],
        mates: &[NodeClaim],
        seen: impl Fn(&NodeClaim) -> (Seen<Vec<Node>>, bool),
    ) -> Opened {
        let now = self.context.now();
        let concerned = claims.iter().any(|claim| may_nominate(claim, now));
        if !self.nominations.is_on(now) || !concerned {
            return Opened::default();
        }
        let all = || claims.iter().chain(mates);
        let seen: Vec<_> = all().map(|claim| (claim, seen(claim))).collect();
        let members = seen.iter().map(|(claim, (nodes, daemon_sets_ready))| Member {
            claim,
            node: daemon_sets::only(nodes),
            daemon_sets_ready: *daemon_sets_ready,
        });
        let members: Vec<Member<'_>> = members.collect();
        let mut states = opening::open(&members, now);
        let written = |name: &str| states.get(name) == Some(&Nominations::Written);
        let open: Vec<JoinedNode<'_>> = members
            .iter()
            .filter(|member| written(&member.claim.name))
            .filter_map(|member| Some(JoinedNode { claim: member.claim, node: &member.node?.name }))
            .collect();
        if !open.is_empty() {
            let waiting = self.write_nominations(&open).await;
            // Nodes without pods to wait for open like others, and nothing is kept up for them.
            for (name, state) in &mut states {
                if *state == Nominations::Written && !waiting.contains(*name) {
                    *state = Nominations::None;
                }
            }
        }
        let opens = |claim: &&NodeClaim| open.iter().any(|place| place.claim.name == claim.name);
        let others = mates.iter().filter(opens).map(|claim| claim.name.clone()).collect();
        Opened { states: states.into_iter().map(|(name, state)| (name.to_owned(), state)).collect(), others }
    }

    /// Writes the nominations for pods of these nodes until none is missing. Returns the claims of which pods are not bound.
    async fn write_nominations(&self, open: &[JoinedNode<'_>]) -> BTreeSet<String> {
        let mut waiting = BTreeSet::new();
        let limit = self.context.clock.sleep(NOMINATED_WITHIN);
        let ended = match select(pin!(self.rounds(open, &mut waiting)), limit).await {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => Ok(()),
        };
        let now = self.context.now();
        match ended {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Denied => {
                if self.nominations.deny(now) {
                    self.context.log(&NominationsDenied { why: &error.to_string() });
                }
                waiting.clear();
            }
            Err(error) => self.context.log(&Failed { what: "nominate nodes for pods", why: &error.to_string() }),
        }
        waiting
    }

    async fn rounds(&self, open: &[JoinedNode<'_>], waiting: &mut BTreeSet<String>) -> Result<(), PortError> {
        for _ in 0..ROUNDS {
            let unbound = self.cluster.unbound_pods().await?;
            let (missing, unbound_of) = opening::nominations(open.iter().copied(), &unbound, self.context.now());
            *waiting = unbound_of.into_iter().map(str::to_owned).collect();
            if missing.is_empty() {
                return Ok(());
            }
            let written = self.write_all(&missing).await?;
            let claims: Vec<String> = open.iter().map(|place| place.claim.name.clone()).collect();
            self.context.log(&PodsNominated { claims: &claims, pods: written, changed: missing.len() - written });
        }
        Ok(())
    }

    /// Returns how many were written: not those of pods that have changed since they were read.
    async fn write_all(&self, missing: &[Nomination<'_>]) -> Result<usize, PortError> {
        let writes = missing.iter().map(async |one| match self.cluster.nominate(one.pod, one.node).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        });
        let mut writes = stream::iter(writes.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        let mut written = 0;
        while let Some(result) = writes.next().await {
            written += usize::from(result?);
        }
        Ok(written)
    }
}
