//! The spread constraints of pods that have none: `systemDefaultConstraints` of kube-scheduler's `PodTopologySpread`.
//!
//! The constraints select the pods of the Services that select the pod, and of the ReplicationController, ReplicaSet or StatefulSet that
//! controls it (`DefaultSelector`). A pod without any of these is not spread.

use super::spec::{TopologySpread, WhenUnsatisfiable};
use crate::controllers::object::{all, list, namespace, text};
use crate::server::path::Path as _;
use crate::server::resource::{REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS};
use crate::server::{ApiServer, Status};
use nodeless_model::{LabelSelector, StringMap};
use serde_json::Value;
use std::sync::Arc;

/// Topology keys and their `maxSkew`.
const DEFAULTS: [(&str, i64); 2] = [("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5)];

/// The Services, whose selectors count for the pods of their namespaces.
pub(super) struct Defaults<'a> {
    api: &'a ApiServer,
    services: Vec<Arc<Value>>,
}

impl<'a> Defaults<'a> {
    pub(super) fn read(api: &'a ApiServer) -> Result<Self, Status> {
        Ok(Self { api, services: all(api, &SERVICES)? })
    }

    /// The constraints for a pod.
    pub(super) fn spreads_for(&self, pod: &Value) -> Result<Vec<TopologySpread>, Status> {
        let selector = self.selector(pod)?;
        if selector.match_labels.is_empty() && selector.match_expressions.is_empty() {
            return Ok(Vec::new());
        }
        let constraint = |(key, max_skew): (&str, i64)| TopologySpread {
            max_skew,
            topology_key: key.to_owned(),
            when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
            label_selector: Some(selector.clone()),
            match_label_keys: Vec::new(),
            min_domains: None,
            node_affinity_policy: None,
            node_taints_policy: None,
        };
        Ok(DEFAULTS.into_iter().map(constraint).collect())
    }

    fn selector(&self, pod: &Value) -> Result<LabelSelector, Status> {
        let labels = labels(pod, "/metadata/labels");
        let mut selector = LabelSelector::default();
        for service in self.services.iter().filter(|service| namespace(service) == namespace(pod)) {
            let selected = self::labels(service, "/spec/selector");
            if !selected.is_empty() && selected.iter().all(|(key, value)| labels.get(key) == Some(value)) {
                selector.match_labels.extend(selected);
            }
        }
        let Some(owner) = list(pod, "/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true)
        else {
            return Ok(selector);
        };
        let resource = match (text(owner, "/apiVersion"), text(owner, "/kind")) {
            ("v1", "ReplicationController") => &REPLICATION_CONTROLLERS,
            ("apps/v1", "ReplicaSet") => &REPLICA_SETS,
            ("apps/v1", "StatefulSet") => &STATEFUL_SETS,
            _ => return Ok(selector),
        };
        let owner = match self.api.get(resource, namespace(pod), text(owner, "/name")) {
            Ok(owner) => owner,
            Err(missing) if missing.code == 404 => return Ok(selector),
            Err(error) => return Err(error),
        };
        if resource == &REPLICATION_CONTROLLERS {
            selector.match_labels.extend(self::labels(&owner, "/spec/selector"));
        } else if let Some(of_owner) = owner.at("/spec/selector")
            && let Ok(of_owner) = serde_json::from_value::<LabelSelector>(of_owner.clone())
        {
            selector.match_labels.extend(of_owner.match_labels);
            selector.match_expressions.extend(of_owner.match_expressions);
        }
        Ok(selector)
    }
}

fn labels(object: &Value, path: &str) -> StringMap {
    object.at(path).cloned().and_then(|labels| serde_json::from_value(labels).ok()).unwrap_or_default()
}
