//! Stores the objects of each kind.

use super::metadata::HasMetadata;
use super::{DEFAULT_NAMESPACE, Incoming, Reader};
use crate::complete;
use crate::decode::{Undecoded, decode};
use crate::documents::Body;
use crate::fault::explained;
use crate::kinds::{PlannedKind, identity};
use crate::objects::{Key, Objects, ReadPod};
use crate::workloads::{Autoscaler, VerticalAutoscaler, Workload, WrittenPodGroup, WrittenVerticalAutoscaler};
use nodeless_api::admission::RuntimeClass;
use nodeless_api::convert::ConvertError;
use nodeless_api::daemon_sets::ReadDaemonSet;
use nodeless_api::default_spread::ObjectSelector;
use nodeless_api::limit_ranges::LimitRange;
use nodeless_api::pod_shapes::ReadShape;
use nodeless_api::{CapacityBuffer, EC2NodeClass, NodeOverlay, slim};
use nodeless_model as model;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The workloads whose selectors default topology spread constraints depend on.
const SELECTING: [&str; 4] = ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"];

impl Reader {
    /// Stores an object with what planning uses of it.
    pub(super) fn object(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        match incoming.kind {
            PlannedKind::Node => self.node(incoming, body),
            PlannedKind::Pod => self.pod(incoming, body),
            PlannedKind::PodDisruptionBudget => self.disruption_budget(incoming, body),
            PlannedKind::Namespace => self.namespace(incoming, body),
            PlannedKind::PersistentVolume => self.store(incoming, body, |to| &mut to.persistent_volumes),
            PlannedKind::PersistentVolumeClaim => self.store(incoming, body, |to| &mut to.persistent_volume_claims),
            PlannedKind::StorageClass => self.store(incoming, body, |to| &mut to.storage_classes),
            PlannedKind::CsiNode => self.store(incoming, body, |to| &mut to.csi_nodes),
            PlannedKind::ResourceSlice => self.store(incoming, body, |to| &mut to.resource_slices),
            PlannedKind::DeviceClass => self.store(incoming, body, |to| &mut to.device_classes),
            PlannedKind::ResourceClaim => self.store(incoming, body, |to| &mut to.resource_claims),
            PlannedKind::ResourceClaimTemplate => self.store(incoming, body, |to| &mut to.resource_claim_templates),
            PlannedKind::PriorityClass => self.store(incoming, body, |to| &mut to.priority_classes),
            PlannedKind::DaemonSet => {
                let convert = |set: &slim::DaemonSet| ReadDaemonSet::try_from(set);
                self.store_converted(incoming, body, convert, |to| &mut to.daemon_sets);
            }
            PlannedKind::RuntimeClass => {
                let convert = |class: &slim::RuntimeClass| RuntimeClass::try_from(class);
                self.store_converted(incoming, body, convert, |to| &mut to.runtime_classes);
            }
            PlannedKind::LimitRange => {
                let convert = |range: &slim::LimitRange| LimitRange::try_from(range);
                self.store_converted(incoming, body, convert, |to| &mut to.limit_ranges);
            }
            PlannedKind::ResourceQuota => {
                let convert = |quota: &slim::ResourceQuota| model::ResourceQuota::try_from(quota);
                self.store_converted(incoming, body, convert, |to| &mut to.resource_quotas);
            }
            PlannedKind::VerticalPodAutoscaler => {
                let convert = |scaler: &WrittenVerticalAutoscaler| VerticalAutoscaler::try_from(scaler);
                self.store_converted(incoming, body, convert, |to| &mut to.vertical_autoscalers);
            }
            PlannedKind::PodGroup => {
                let read = self.slim::<WrittenPodGroup>(incoming, body);
                let least = read.map(|(key, group)| (key, group.least()));
                self.keep(incoming, least, |to| &mut to.pod_groups);
            }
            PlannedKind::NodePool => self.node_pool(incoming, body),
            PlannedKind::NodeClass => {
                let read = self.custom::<EC2NodeClass>(incoming, body, complete::node_class);
                self.keep(incoming, read, |to| &mut to.node_classes);
            }
            PlannedKind::NodeClaim => self.node_claim(incoming, body),
            PlannedKind::NodeOverlay => self.node_overlay(incoming, body),
            PlannedKind::CapacityBuffer => self.capacity_buffer(incoming, body),
            PlannedKind::PodTemplate => {
                self.shape("PodTemplate", body, |template: &slim::StoredPodTemplate| template.try_into());
            }
            PlannedKind::Selecting(kind) => self.selecting_by_labels(incoming, kind, body),
            PlannedKind::Autoscaler(kind) => match Autoscaler::read(kind, body) {
                Ok(scaler) => drop(self.objects.autoscalers.insert((kind, incoming.key(body)), scaler)),
                Err(undecoded) => self.refuse(incoming, body, undecoded),
            },
            PlannedKind::Workload(kind) => {
                self.controller(incoming, kind, body);
                self.shape(kind, body, |workload: &slim::Scalable| workload.try_into());
                self.workload(incoming, body, || Workload::read(incoming.place, kind, body));
            }
            PlannedKind::Templated(path) => self.workload(incoming, body, || path.read(incoming.place, body)),
        }
    }

    /// Stores an object of a built-in kind.
    fn store<T: DeserializeOwned + HasMetadata>(
        &mut self,
        incoming: &Incoming<'_>,
        body: &Body<'_>,
        into: fn(&mut Objects) -> &mut BTreeMap<Key, T>,
    ) {
        let read = self.slim::<T>(incoming, body);
        self.keep(incoming, read, into);
    }

    /// Stores what an object of a built-in kind is converted to.
    fn store_converted<T: DeserializeOwned + HasMetadata, M>(
        &mut self,
        incoming: &Incoming<'_>,
        body: &Body<'_>,
        convert: impl Fn(&T) -> Result<M, ConvertError>,
        into: fn(&mut Objects) -> &mut BTreeMap<Key, M>,
    ) {
        let read = self.slim::<T>(incoming, body);
        let converted = self.converted(incoming, body, read, convert);
        self.keep(incoming, converted, into);
    }

    fn node(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        let read = self.slim::<slim::Node>(incoming, body);
        let completed = read.map(|(key, mut node)| {
            complete::node(&mut node);
            (key, node)
        });
        self.objects.note_heartbeat(body);
        let converted = self.converted(incoming, body, completed, |node| model::Node::try_from(node));
        self.keep(incoming, converted, |to| &mut to.nodes);
    }

    fn pod(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        let read = self.slim::<slim::Pod>(incoming, body);
        let mut converted = self.converted(incoming, body, read, ReadPod::new);
        if let Some((_, read)) = &mut converted {
            self.objects.share_running(read);
        }
        if let Some(((namespace, name), read)) = &converted
            && read.pod.template.volume_claims.iter().any(|claim| claim.ephemeral)
        {
            self.objects.note_ephemeral(namespace, name, body);
        }
        self.keep(incoming, converted, |to| &mut to.pods);
    }

    fn disruption_budget(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        let read = self.slim::<slim::PodDisruptionBudget>(incoming, body);
        let spec = read.as_ref().map(|(_, budget)| budget.spec.clone()).unwrap_or_default();
        let converted = self.converted(incoming, body, read, |budget| model::PodDisruptionBudget::try_from(budget));
        if let Some((key, _)) = &converted {
            self.objects.note_budget(key, body, spec);
        }
        self.keep(incoming, converted, |to| &mut to.disruption_budgets);
    }

    fn namespace(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        let read = self.slim::<slim::Namespace>(incoming, body);
        if let Some(((_, name), _)) = &read {
            self.objects.note_namespace(name, body);
        }
        self.keep(incoming, read, |to| &mut to.namespaces);
    }

    fn node_overlay(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        let read = self.custom::<NodeOverlay>(incoming, body, complete::status);
        let converted = self.converted(incoming, body, read, |overlay| {
            let status = overlay.status.clone().unwrap_or_default();
            Ok((model::NodeOverlay::try_from(overlay)?, status))
        });
        self.keep(incoming, converted, |to| &mut to.node_overlays);
    }

    fn capacity_buffer(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        let read = self.custom::<CapacityBuffer>(incoming, body, complete::status);
        let converted = self.converted(incoming, body, read, |buffer| {
            let status = buffer.status.clone().unwrap_or_default();
            Ok((model::CapacityBuffer::try_from(buffer)?, status))
        });
        self.keep(incoming, converted, |to| &mut to.capacity_buffers);
    }

    fn selecting_by_labels(&mut self, incoming: &Incoming<'_>, kind: &'static str, body: &Body<'_>) {
        let read = self.slim::<slim::SelectingByLabels>(incoming, body);
        if let Some((_, object)) = read {
            self.objects.selectors.add(kind, object.into());
        }
    }

    /// The pods that a workload selects, if constraints depend on it.
    fn controller(&mut self, incoming: &Incoming<'_>, kind: &'static str, body: &Body<'_>) {
        if self.scheduler_config.is_empty() || !SELECTING.contains(&kind) {
            return;
        }
        if kind == "ReplicationController" {
            return self.selecting_by_labels(incoming, kind, body);
        }
        let read = self.slim::<slim::Controller>(incoming, body);
        let converted = self.converted(incoming, body, read, |object| ObjectSelector::try_from(object));
        if let Some((_, object)) = converted {
            self.objects.selectors.add(kind, object);
        }
    }

    /// An object that a buffer may refer to. If it is malformed, this is reported only if a buffer refers to it.
    fn shape<T: DeserializeOwned + HasMetadata>(
        &mut self,
        kind: &'static str,
        body: &Body<'_>,
        convert: impl Fn(&T) -> Result<ReadShape, ConvertError>,
    ) {
        let (namespace, name) = identity(body);
        let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE.to_owned() } else { namespace };
        let shape = match decode::<T>(body) {
            Ok(mut object) => {
                object.metadata().namespace = Some(namespace.clone());
                convert(&object).map_err(|error| format!("{}: {}", error.field, explained(&error.problem)))
            }
            Err(undecoded) => Err(format!("{}: {}", undecoded.field, explained(&undecoded.problem))),
        };
        self.objects.shapes.insert((kind, (namespace, name)), shape);
    }

    /// A workload whose pods are to be created.
    fn workload(&mut self, incoming: &Incoming<'_>, body: &Body<'_>, read: impl Fn() -> Result<Workload, Undecoded>) {
        if !self.create_pods {
            return;
        }
        let (namespace, name) = incoming.key(body);
        match read() {
            Ok(_) if name.is_empty() => {
                let problem = "it is missing".to_owned();
                self.refuse(incoming, body, Undecoded { field: "metadata.name".to_owned(), problem });
            }
            Ok(workload) => {
                let key = (incoming.kind.name(), (namespace, name));
                if self.replacing {
                    self.objects.replaced_workloads.insert(key.clone());
                }
                self.objects.workloads.insert(key, workload);
            }
            Err(undecoded) => self.refuse(incoming, body, undecoded),
        }
    }
}
