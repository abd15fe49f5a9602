//! Executors that have no effects of their own: for plans that are displayed, recorded or replayed.

use crate::action::{Action, Batch, Written};
use crate::execute::{Execute, costs_of};
use crate::snapshot::Snapshot;
use async_trait::async_trait;
use nodeless_lifecycle::charge_when_written;
use nodeless_model::NodeClaim;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The error of a read of something that the snapshot does not have.
const NOT_IN_SNAPSHOT: &str = "the snapshot does not have it";

/// Executes nothing and reports success: for plans that are only displayed.
pub(crate) struct Assumed<'a> {
    pub(crate) snapshot: &'a Snapshot,
}

#[async_trait]
impl Execute for Assumed<'_> {
    async fn carry_out(&self, batch: &Batch) -> Vec<Written> {
        self.answers(batch)
    }

    fn has_time(&self) -> bool {
        true
    }
}

impl Assumed<'_> {
    /// The assumed result of each action.
    pub(crate) fn answers(&self, batch: &Batch) -> Vec<Written> {
        batch.actions.iter().map(|action| self.one(action)).collect()
    }

    fn one(&self, action: &Action) -> Written {
        match action {
            Action::UpdateClaim(claim) | Action::ChangeClaim(claim) => Written::Version(claim.version + 1),
            Action::RetireClaim(claim) => {
                let mut written = NodeClaim { version: claim.version + 1, ..claim.as_ref().clone() };
                written.spec.charge = charge_when_written(claim, None).unwrap_or(written.spec.charge);
                Written::There(Box::new(written))
            }
            Action::StartClaim(claim, charge, _) => {
                let mut written = NodeClaim { version: claim.version + 1, ..claim.as_ref().clone() };
                written.spec.charge = charge.clone();
                Written::There(Box::new(written))
            }
            Action::CreateReplacement(claim, _) => {
                Written::There(Box::new(NodeClaim { version: 1, ..claim.as_ref().clone() }))
            }
            Action::PutRecord(_, record) => Written::Version(record.version + 1),
            Action::PutCommand(record) => Written::Version(record.version + 1),
            Action::ReadWork => Written::Work(self.snapshot.work.disruption),
            Action::ReadCosts => match &self.snapshot.costs {
                Some(read) => costs_of(read),
                None => Written::Failed(NOT_IN_SNAPSHOT.to_owned()),
            },
            Action::PutCosts(open, _) => Written::Version(open.version + 1),
            Action::ReadChurn => match &self.snapshot.churn {
                Some(Ok(stored)) => Written::Churn(stored.clone()),
                Some(Err(why)) => Written::Failed(why.to_string()),
                None => Written::Failed(NOT_IN_SNAPSHOT.to_owned()),
            },
            _ => Written::Done,
        }
    }
}

/// The results of all actions of a plan, and whether there was time. With these, a plan with rejected writes can be replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answers {
    /// The result of each action, for each batch with actions.
    written: VecDeque<Vec<Written>>,
    /// Whether there was time for another command, for each call of `has_time`.
    had_time: VecDeque<bool>,
}

/// Records the executed actions, in order, with their results.
pub(crate) struct Recorded<'a> {
    inner: &'a dyn Execute,
    kept: Mutex<(Vec<Batch>, Answers)>,
}

impl<'a> Recorded<'a> {
    pub(crate) fn new(inner: &'a dyn Execute) -> Self {
        Self { inner, kept: Mutex::default() }
    }

    /// The executed actions, with their results.
    pub(crate) fn kept(self) -> (Vec<Batch>, Answers) {
        self.kept.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<Batch>, Answers)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Execute for Recorded<'_> {
    async fn carry_out(&self, batch: &Batch) -> Vec<Written> {
        let written = self.inner.carry_out(batch).await;
        if !batch.actions.is_empty() {
            let mut kept = self.lock();
            kept.0.push(batch.clone());
            kept.1.written.push_back(written.clone());
        }
        written
    }

    fn has_time(&self) -> bool {
        let has_time = self.inner.has_time();
        self.lock().1.had_time.push_back(has_time);
        has_time
    }
}

/// Executes nothing and returns the recorded results.
pub(crate) struct Answered<'a> {
    assumed: Assumed<'a>,
    answers: Mutex<Answers>,
}

impl<'a> Answered<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, answers: Answers) -> Self {
        Self { assumed: Assumed { snapshot }, answers: Mutex::new(answers) }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Execute for Answered<'_> {
    async fn carry_out(&self, batch: &Batch) -> Vec<Written> {
        if batch.actions.is_empty() {
            return Vec::new();
        }
        let before = self.lock().written.pop_front();
        match before.filter(|written| written.len() == batch.actions.len()) {
            Some(written) => written,
            None => self.assumed.carry_out(batch).await,
        }
    }

    fn has_time(&self) -> bool {
        self.lock().had_time.pop_front().unwrap_or(true)
    }
}
