//! Requests for a plan that do not wait for the end of a batch window: their pods lose their node, or the one that was to run them does
//! not come.

use jiff::Timestamp;
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{PortError, Queue};
use nodeless_state::State;

/// Requests a plan at once. One planner runs for a cluster at a time, and the message waits behind one that waits for further pods: the item
/// of the table ends that wait.
///
/// # Errors
/// When the table cannot be written, or the queue cannot be reached.
pub async fn plan(claims: &State, queue: &dyn Queue, source: WakeSource, now: Timestamp) -> Result<(), PortError> {
    let requested = claims.request_plan(now).await;
    queue.wake_planner(source).await?;
    requested
}
