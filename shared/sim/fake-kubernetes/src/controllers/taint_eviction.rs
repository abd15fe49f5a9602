//! NoExecute taints: pods that do not tolerate them are deleted, at once or after their tolerationSeconds.

use super::Controller;
use super::feed::Feed;
use super::object::{NewEvent, after, all, delete, has_ended, is_deleting, name, publish, text, uid};
use super::scheduler::{PodInfo, executing_taints};
use crate::server::resource::{NODES, PODS, Resource};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use nodeless_model::Taint;
use serde_json::Value;
use std::collections::BTreeMap;

const WATCHED: &[Resource] = &[NODES, PODS];

/// Deletes pods from nodes with NoExecute taints.
#[derive(Debug)]
pub struct TaintEvictionController {
    feed: Feed,
    /// Since when a node, by uid, has a taint.
    since: BTreeMap<(String, Taint), Timestamp>,
}

impl Default for TaintEvictionController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED), since: BTreeMap::new() }
    }
}

impl Controller for TaintEvictionController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let mut since = BTreeMap::new();
        let mut tainted: BTreeMap<String, Vec<(Taint, Timestamp)>> = BTreeMap::new();
        for node in all(api, &NODES)? {
            for taint in executing_taints(&node) {
                let key = (uid(&node).to_owned(), taint.clone());
                let at = self.since.get(&key).copied().unwrap_or(now);
                since.insert(key, at);
                tainted.entry(name(&node).to_owned()).or_default().push((taint, at));
            }
        }
        self.since = since;
        if tainted.is_empty() {
            return Ok(());
        }
        for pod in all(api, &PODS)? {
            let Some(taints) = tainted.get(text(&pod, "/spec/nodeName")) else { continue };
            if is_deleting(&pod) || has_ended(&pod) {
                continue;
            }
            match leaves_at(&pod, taints) {
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
