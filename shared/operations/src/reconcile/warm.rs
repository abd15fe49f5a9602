//! Starts the stopped instances of warm nodes.

use super::Reconciler;
use super::batch::Progress;
use crate::log_lines::LaunchFailed;
use nodeless_launch::shortage::lacks_capacity;
use nodeless_lifecycle::warm;
use nodeless_model::NodeClaim;
use nodeless_model::instance::OfferingFailure;
use nodeless_ports::PortError;
use nodeless_telemetry::Metric;

/// EC2's code for an instance in a state in which it cannot be started.
const INCORRECT_STATE: &str = "IncorrectInstanceState";

impl Reconciler {
    /// Starts the instance of a claim. Returns whether the record was written: EC2 rejected the start, so that its pods get another node.
    pub(super) async fn start(&self, claim: &NodeClaim, id: &str, progress: &mut Progress) -> Result<bool, PortError> {
        let Err(error) = self.cloud.start(id).await else { return Ok(false) };
        self.context.log(&LaunchFailed { claim: &claim.name, why: &error.to_string() });
        progress.metrics.count(Metric::LaunchFailures, 1);
        let Some(instance) = &claim.status.instance else { return Err(error) };
        let failure = OfferingFailure {
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            capacity_type: instance.capacity_type,
            lacks_capacity: lacks_capacity(&error.code),
            code: error.code.clone(),
            message: error.message.clone(),
            placement_group: None,
            reservation_id: None,
            partition: None,
        };
        // EC2 may report another state for a moment than that of the call before.
        let passes = error.is_retryable() || error.code == INCORRECT_STATE;
        let Some(step) = warm::not_started(claim, &failure, passes, self.context.now(), &self.settings) else {
            return Err(error);
        };
        if let Some(written) = self.write(claim, &step, progress).await? {
            self.follow(&step, &written, progress).await?;
        }
        Ok(true)
    }
}
