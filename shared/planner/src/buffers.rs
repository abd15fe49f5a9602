//! CapacityBuffers: their virtual pods in a plan, and their statuses afterwards.

use crate::action::Action;
use crate::pools::conditions::{condition, limited_by_quotas};
use jiff::Timestamp;
use nodeless_api::CapacityBufferStatus;
use nodeless_api::capacitybuffer::PodTemplateReference;
use nodeless_model::{BufferError, BufferSource, Pod, QuotaBalance};
use nodeless_ports::cluster::{BufferView, ClusterView};
use std::collections::BTreeSet;

/// A buffer, and its virtual pods.
pub(super) struct Reserved<'a> {
    view: &'a BufferView,
    /// The result of computing its chunks; one virtual pod each.
    pub(super) pods: Result<Vec<Pod>, BufferError>,
    /// Why it has fewer chunks than it asks for, if ResourceQuotas do not allow all.
    pub(super) limited: Option<String>,
}

impl Reserved<'_> {
    /// The buffer's name, with its namespace.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.view.buffer.namespace, self.view.buffer.name)
    }
}

/// All buffers of the cluster, with the virtual pods that ResourceQuotas allow.
pub(super) fn reserve<'a>(view: &'a ClusterView, quotas: &mut QuotaBalance<'_>) -> Vec<Reserved<'a>> {
    view.capacity_buffers.iter().map(|buffer| reserve_for(buffer, quotas)).collect()
}

fn reserve_for<'a>(view: &'a BufferView, quotas: &mut QuotaBalance<'_>) -> Reserved<'a> {
    let BufferView { buffer, shape, .. } = view;
    let shape = match shape {
        Ok(shape) => shape,
        Err(error) => return Reserved { view, pods: Err(error.clone()), limited: None },
    };
    let chunks = match buffer.chunks(shape) {
        Ok(chunks) => chunks,
        Err(error) => return Reserved { view, pods: Err(error), limited: None },
    };
    let (allowed, why) = quotas.take_some(&buffer.namespace, shape, chunks);
    let limited = why.map(|why| format!("{allowed} of {chunks} chunks: {why}"));
    Reserved { view, pods: Ok(buffer.virtual_pods(shape, allowed)), limited }
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
        Ok(pods) if pods.is_empty() => {
            let why =
                if one.limited.is_some() { "its ResourceQuotas allow no chunk" } else { "the buffer has no chunks" };
            (Ok("Resolved"), Err(("BufferEmpty", why.to_owned())))
        }
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
        conditions: [
            condition("ReadyForProvisioning", ready, &before.conditions, now),
            condition("Provisioning", provisioned, &before.conditions, now),
        ]
        .into_iter()
        .chain(limited_by_quotas(one.limited.as_deref(), &before.conditions, now))
        .collect(),
    }
}
