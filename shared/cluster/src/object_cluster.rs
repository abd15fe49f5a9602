//! The port over objects, and what all parts of it share.

use crate::failure::CallError;
use crate::objects::{Deletion, ObjectAt, Objects, unless_gone};
use crate::recent::Recent;
use jiff::Timestamp;
use nodeless_api::default_spread::SchedulerConfig;
use nodeless_telemetry::Context;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The maximum wait after the first conflict, and how often it is doubled for further ones.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_DOUBLING: u32 = 5;

/// A Kubernetes cluster. Keep it for the life of the execution environment, because its objects may be kept. Clones share what they keep.
#[derive(Clone)]
pub struct ObjectCluster<O> {
    pub(crate) objects: O,
    pub(crate) context: Context,
    pub(crate) recent: Arc<Recent>,
    pub(crate) scheduler_config: SchedulerConfig,
}

impl<O: Objects> ObjectCluster<O> {
    /// The cluster with these objects.
    #[must_use]
    pub fn new(objects: impl Into<O>, context: Context) -> Self {
        Self { objects: objects.into(), context, recent: Arc::default(), scheduler_config: SchedulerConfig::default() }
    }

    /// With the default topology spread constraints of the cluster's scheduler. If there are any, Services and the controllers of pods are
    /// read too, because their selectors are those of the constraints.
    #[must_use]
    pub fn with_scheduler_config(mut self, config: SchedulerConfig) -> Self {
        self.scheduler_config = config;
        self
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.context.now()
    }

    /// Deletes an object, and returns the response; `None` if the object does not exist, or has another uid.
    pub(crate) async fn remove(
        &self,
        operation: &str,
        at: ObjectAt<'_>,
        options: Deletion<'_>,
    ) -> Result<Option<Arc<Value>>, CallError> {
        unless_gone(self.objects.delete(operation, at, options).await)
    }

    /// Waits before an object that another process has changed is read and written again. The wait grows with each attempt and has a
    /// part that differs between processes, so that processes with a conflict do not conflict again.
    pub(crate) async fn after_conflict(&self, attempt: u32) {
        let longest = FIRST_PAUSE * 2_u32.saturating_pow(attempt.min(LAST_DOUBLING));
        let jitter = self.now().subsec_nanosecond().unsigned_abs() / 1_000 % 1_000;
        self.context.clock.sleep(longest / 2 + longest * jitter / 2_000).await;
    }
}
