//! The steps of an evaluation, which are bounded.

use super::EvaluationError;

/// The most steps of an evaluation. Selectors take some tens of them; the kube-scheduler stops after 1,000,000 units of cost.
const MAX_STEPS: u32 = 20_000;

/// The number of steps that an evaluation has taken.
#[derive(Default)]
pub(super) struct Steps(pub(super) u32);

impl Steps {
    /// Counts steps.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), EvaluationError> {
        self.0 = self.0.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        if self.0 > MAX_STEPS { Err(EvaluationError::TooCostly { limit: MAX_STEPS }) } else { Ok(()) }
    }
}
