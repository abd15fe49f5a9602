//! EC2 with faults.

use super::FaultInjection;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::StringMap;
use nodeless_model::instance::{Instance, InstanceFault, LaunchOutcome};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{Cloud, PortError};
use nodeless_state::Refusal;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The Cloud port with faults injected.
pub struct FaultyCloud {
    inner: Arc<dyn Cloud>,
    fault_injection: FaultInjection,
    /// The last list of all instances, and the time at which it was current.
    last: Mutex<Option<(Timestamp, Vec<Instance>)>>,
    /// The last description of each instance that was read by its id, and the time at which it was current.
    known: Mutex<BTreeMap<String, (Timestamp, Instance)>>,
}

impl FaultyCloud {
    /// This port, with these faults.
    #[must_use]
    pub fn new(inner: Arc<dyn Cloud>, fault_injection: FaultInjection) -> Self {
        Self { inner, fault_injection, last: Mutex::default(), known: Mutex::default() }
    }
}

#[async_trait]
impl Cloud for FaultyCloud {
    async fn launch(&self, request: LaunchRequest<'_>) -> Result<LaunchOutcome, PortError> {
        let subject = request.claim.name.clone();
        let accepted = |outcome: &LaunchOutcome| !outcome.instances.is_empty();
        let outcome = self.fault_injection.write("cloud launch", subject, accepted, self.inner.launch(request)).await?;
        let empty = self.fault_injection.empties_launch_responses();
        Ok(if empty { LaunchOutcome::default() } else { outcome })
    }

    async fn dry_run(&self, request: LaunchRequest<'_>) -> Result<Option<Refusal>, PortError> {
        self.fault_injection.read("cloud dry run", self.inner.dry_run(request)).await
    }

    /// The description of an instance may be stale, even if the instance no longer exists.
    async fn instances(&self, ids: &[String]) -> Result<Vec<Instance>, PortError> {
        let fresh = self.fault_injection.read("cloud instances", self.inner.instances(ids)).await?;
        let now = self.fault_injection.clock().time();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| self.fault_injection.recent(*at));
        let mut answer = Vec::new();
        for id in ids {
            let old =
                known.get(id).filter(|(at, _)| self.fault_injection.repeats(*at)).map(|(_, instance)| instance.clone());
            if let Some(instance) = old {
                answer.push(instance);
            } else if let Some(instance) = fresh.iter().find(|instance| instance.id == *id) {
                known.insert(id.clone(), (now, instance.clone()));
                answer.push(instance.clone());
            }
        }
        Ok(answer)
    }

    async fn all_instances(&self) -> Result<Vec<Instance>, PortError> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, instances)) = last
            && self.fault_injection.repeats(at)
        {
            return Ok(instances);
        }
        let instances = self.fault_injection.read("cloud all instances", self.inner.all_instances()).await?;
        let read = (self.fault_injection.clock().time(), instances.clone());
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
        Ok(instances)
    }

    /// Recently launched instances may be missing, independently of each other, for as long as reads may be stale.
    async fn group_instances(&self, group: &str) -> Result<Vec<Instance>, PortError> {
        let mut instances =
            self.fault_injection.read("cloud group instances", self.inner.group_instances(group)).await?;
        instances.retain(|instance| !self.fault_injection.repeats(instance.launched));
        Ok(instances)
    }

    async fn instance_faults(&self) -> Result<Vec<InstanceFault>, PortError> {
        let mut faults = self.fault_injection.read("cloud instance faults", self.inner.instance_faults()).await?;
        faults.extend(self.fault_injection.instance_faults());
        Ok(faults)
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), PortError> {
        self.fault_injection.write("cloud terminate", ids.join(" "), |()| true, self.inner.terminate(ids)).await
    }

    async fn stop(&self, ids: &[String]) -> Result<(), PortError> {
        self.fault_injection.write("cloud stop", ids.join(" "), |()| true, self.inner.stop(ids)).await
    }

    async fn start(&self, ids: &[String]) -> Result<(), PortError> {
        self.fault_injection.write("cloud start", ids.join(" "), |()| true, self.inner.start(ids)).await
    }

    async fn reboot(&self, id: &str) -> Result<(), PortError> {
        self.fault_injection.write("cloud reboot", id.to_owned(), |()| true, self.inner.reboot(id)).await
    }

    async fn tag(&self, id: &str, tags: &StringMap) -> Result<(), PortError> {
        self.fault_injection.write("cloud tag", id.to_owned(), |()| true, self.inner.tag(id, tags)).await
    }

    async fn delete_unused_launch_templates(
        &self,
        since: Timestamp,
        max_count: usize,
    ) -> Result<Vec<String>, PortError> {
        let call = self.inner.delete_unused_launch_templates(since, max_count);
        self.fault_injection
            .write("cloud delete launch templates", String::new(), |names| !names.is_empty(), call)
            .await
    }
}
