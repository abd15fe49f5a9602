//! NoExecute taints: pods that do not tolerate them are deleted, at once or after their tolerationSeconds.

use super::Controller;
use super::feed::{Feed, Work};
use super::object::{NewEvent, after, all, delete, has_ended, is_deleting, name, namespace, publish, text, uid};
use super::scheduler::{PodInfo, executing_taints};
use crate::server::resource::{NODES, PODS, Resource};
use crate::server::{ApiServer, Change, Status};
use jiff::Timestamp;
use nodeless_model::Taint;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const WATCHED: &[Resource] = &[NODES, PODS];

/// Deletes pods from nodes with NoExecute taints.
#[derive(Debug)]
pub struct TaintEvictionController {
    feed: Feed,
    /// The nodes with NoExecute taints, by name.
    tainted: BTreeMap<String, Tainted>,
}

/// A node with NoExecute taints.
#[derive(Debug)]
struct Tainted {
    uid: String,
    /// The taints, and since when the node has each.
    taints: Vec<(Taint, Timestamp)>,
}

impl Default for TaintEvictionController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED), tainted: BTreeMap::new() }
    }
}

impl Controller for TaintEvictionController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        match self.feed.work(api, now)? {
            Work::Nothing => return Ok(()),
            Work::Changes(changes) => {
                let changed = changes.iter().filter(|change| change.resource == NODES);
                let changed: BTreeSet<&str> = changed.map(Change::name).collect();
                changed.into_iter().for_each(|name| self.note(name, api.get(&NODES, "", name).ok().as_deref(), now));
            }
            Work::Everything => {
                let nodes = all(api, &NODES)?;
                let names: BTreeSet<&str> = nodes.iter().map(|node| name(node)).collect();
                self.tainted.retain(|name, _| names.contains(name.as_str()));
                nodes.iter().for_each(|node| self.note(name(node), Some(node), now));
            }
        }
        let mut pods: Vec<Arc<Value>> = self.tainted.keys().flat_map(|node| api.pods_on(node)).collect();
        pods.sort_by(|a, b| (namespace(a), name(a)).cmp(&(namespace(b), name(b))));
        for pod in pods {
            let Some(tainted) = self.tainted.get(text(&pod, "/spec/nodeName")) else { continue };
            if is_deleting(&pod) || has_ended(&pod) {
                continue;
            }
            match leaves_at(&pod, &tainted.taints) {
                Some(at) if at <= now => {
                    let message =
                        format!("Marking for deletion Pod {}/{}", text(&pod, "/metadata/namespace"), name(&pod));
                    let (component, reason) = ("taint-eviction-controller", "TaintManagerEviction");
                    let event = NewEvent { component, kind: "Normal", reason, message: &message };
                    publish(api, &pod, &event, now)?;
                    delete(api, &PODS, &pod, None)?;
                }
                Some(at) => self.feed.wake_at(at),
                None => {}
            }
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

impl TaintEvictionController {
    /// Notes the taints of a node; `None` if it exists no more.
    fn note(&mut self, name: &str, node: Option<&Value>, now: Timestamp) {
        let before = self.tainted.remove(name).filter(|before| node.is_some_and(|node| uid(node) == before.uid));
        let since = |taint: &Taint| {
            let known = before.as_ref().and_then(|before| before.taints.iter().find(|(known, _)| known == taint));
            known.map_or(now, |(_, since)| *since)
        };
        let taints = node.map(executing_taints).unwrap_or_default().into_iter();
        let taints: Vec<(Taint, Timestamp)> = taints.map(|taint| (taint.clone(), since(&taint))).collect();
        if let Some(node) = node.filter(|_| !taints.is_empty()) {
            self.tainted.insert(name.to_owned(), Tainted { uid: uid(node).to_owned(), taints });
        }
    }
}

/// When a pod has to be deleted because of these taints; `None` if it may stay.
fn leaves_at(pod: &Value, taints: &[(Taint, Timestamp)]) -> Option<Timestamp> {
    let info = PodInfo::new(pod)?;
    let of_taint = |(taint, since): &(Taint, Timestamp)| {
        let tolerating: Vec<_> = info.tolerations().iter().filter(|it| it.tolerates(taint)).collect();
        if tolerating.is_empty() {
            return Some(*since);
        }
        // The minimum of the times counts; without any the pod stays.
        tolerating.iter().filter_map(|it| it.toleration_seconds).min().map(|seconds| after(*since, seconds.max(0)))
    };
    taints.iter().filter_map(of_taint).min()
}
