//! CapacityBuffers: their virtual pods in a plan, and their statuses afterwards.

use crate::plan::action::Action;
use crate::plan::pools::conditions::condition;
use jiff::Timestamp;
use nodeless_api::CapacityBufferStatus;
use nodeless_api::capacitybuffer::PodTemplateReference;
use nodeless_model::{BufferError, BufferSource, Pod};
use nodeless_ports::cluster::{BufferView, ClusterView};
use std::collections::BTreeSet;

/// A buffer, and its virtual pods.
pub(super) struct Reserved<'a> {
    view: &'a BufferView,
    /// The result of computing its chunks; one virtual pod each.
    pub(super) pods: Result<Vec<Pod>, BufferError>,
}

impl Reserved<'_> {
    /// The buffer's name, with its namespace.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.view.buffer.namespace, self.view.buffer.name)
    }
}

/// All buffers of the cluster, with their virtual pods.
pub(super) fn reserve(view: &ClusterView) -> Vec<Reserved<'_>> {
    view.capacity_buffers.iter().map(of).collect()
}

fn of(view: &BufferView) -> Reserved<'_> {
    let BufferView { buffer, shape, .. } = view;
    let pods = match shape {
        Ok(shape) => buffer.chunks(shape).map(|chunks| buffer.virtual_pods(shape, chunks)),
        Err(error) => Err(error.clone()),
    };
    Reserved { view, pods }
}

/// The status of buffers where it changes. These virtual pods, `namespace/name`, fit on existing or launching nodes.
pub(super) fn statuses(reserved: &[Reserved<'_>], fitting: &BTreeSet<String>, now: Timestamp) -> Vec<Action> {
    let changed = |one: &Reserved<'_>| {
        let own = one.pods.iter().flatten().filter(|pod| fitting.contains(&pod.key()));
        let status = status(one, own.count(), now);
        let (namespace, name) = (one.view.buffer.namespace.clone(), one.view.buffer.name.clone());
        let changes = status != one.view.status;
        changes.then(|| Action::WriteCapacityBufferStatus(namespace, name, Box::new(status)))
    };
    reserved.iter().filter_map(changed).collect()
}

/// The status of a buffer with this number of chunks that fit on existing or launching nodes.
fn status(one: &Reserved<'_>, fitting: usize, now: Timestamp) -> CapacityBufferStatus {
    let BufferView { buffer, status: before, shape } = one.view;
    let (ready, provisioned) = match &one.pods {
        Err(error) => {
            let why = (error.reason(), error.to_string());
            (Err(why), Err(("NotReadyForProvisioning", "see the condition ReadyForProvisioning".to_owned())))
        }
        Ok(pods) if pods.is_empty() => (Ok("Resolved"), Err(("BufferEmpty", "the buffer has no chunks".to_owned()))),
        Ok(pods) if fitting == pods.len() => (Ok("Resolved"), Ok("FitsExistingCapacity")),
        Ok(pods) => {
            let message = format!("{fitting} of {} chunks fit on existing or launching nodes", pods.len());
            (Ok("Resolved"), Err(("RequiresNewCapacity", message)))
        }
    };
    let template = match &buffer.source {
        Some(BufferSource::PodTemplate { name }) => Some(PodTemplateReference { name: name.clone() }),
        _ => None,
    };
    CapacityBufferStatus {
        pod_template_generation: shape.as_ref().ok().and_then(|shape| shape.generation),
        pod_template_ref: template.filter(|_| shape.is_ok()),
        replicas: one.pods.as_ref().ok().and_then(|pods| i32::try_from(pods.len()).ok()),
        provisioning_strategy: Some(buffer.strategy.clone()),
        conditions: vec![
            condition("ReadyForProvisioning", ready, &before.conditions, now),
            condition("Provisioning", provisioned, &before.conditions, now),
        ],
    }
}
