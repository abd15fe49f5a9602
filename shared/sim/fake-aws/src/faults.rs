//! Injected faults, and the record of calls.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde_json::Value;

use super::error::Ec2Error;
use super::objects::offering::{CapacityType, Offering};

/// A pattern for offerings: an absent field matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfferingPattern {
    /// Instance type.
    pub instance_type: Option<String>,
    /// Zone name.
    pub zone: Option<String>,
    /// On-demand or spot.
    pub capacity_type: Option<CapacityType>,
}

impl OfferingPattern {
    /// Whether the pattern matches the offering.
    pub fn matches(&self, offering: &Offering) -> bool {
        self.instance_type.as_ref().is_none_or(|expected| *expected == offering.instance_type)
            && self.zone.as_ref().is_none_or(|expected| *expected == offering.zone)
            && self.capacity_type.is_none_or(|expected| expected == offering.capacity_type)
    }
}

impl From<Offering> for OfferingPattern {
    fn from(offering: Offering) -> Self {
        Self {
            instance_type: Some(offering.instance_type),
            zone: Some(offering.zone),
            capacity_type: Some(offering.capacity_type),
        }
    }
}

/// The fault of a launched machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchFault {
    /// Stays `pending`.
    NeverStarts,
    /// Runs, but its kubelet does not join.
    NeverJoins,
    /// Goes from `pending` straight to `terminated` with `Server.InternalError`.
    FailsToStart,
}

/// A recorded call.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCall {
    /// `ec2`, `iam`, `ssm`, `pricing`, `eks` or `sts`.
    pub service: &'static str,
    /// The API's name.
    pub api: String,
    /// The parameters, in the SDK's member names.
    pub parameters: Value,
    /// The virtual time.
    pub at: Timestamp,
    /// The error code of the answer, if any.
    pub error: Option<String>,
}

/// Calls that are kept in full; older ones are only counted, to limit memory.
const CALLS_KEPT: usize = 10_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    /// Errors for the next calls, by API name; `None` if they are throttled.
    scripted: BTreeMap<String, VecDeque<Option<Ec2Error>>>,
    /// Errors for every call until removed, by API name.
    standing: BTreeMap<String, Ec2Error>,
    /// Offerings that fail with this error until restored.
    pub(super) refused: Vec<(OfferingPattern, Ec2Error)>,
    /// Offerings that provide this total number of machines and no more, until restored.
    pub(super) scarce: Vec<(OfferingPattern, u64)>,
    /// The faults of the next machines.
    launches: Vec<(OfferingPattern, LaunchFault, u32)>,
    calls: VecDeque<RecordedCall>,
    counts: BTreeMap<(&'static str, String), u64>,
}

impl Faults {
    /// The next calls fail with this error; without one, they are throttled.
    pub(super) fn script(&mut self, api: &str, error: Option<&Ec2Error>, times: u32) {
        let queue = self.scripted.entry(api.to_owned()).or_default();
        queue.extend((0..times).map(|_| error.cloned()));
    }

    pub(super) fn stand(&mut self, api: &str, error: Option<Ec2Error>) {
        match error {
            Some(error) => drop(self.standing.insert(api.to_owned(), error)),
            None => drop(self.standing.remove(api)),
        }
    }

    pub(super) fn stands(&self, api: &str) -> bool {
        self.standing.contains_key(api)
    }

    /// The error of a call to `api` that is injected before the call is handled.
    pub(super) fn next(&mut self, service: &str, api: &str) -> Option<Ec2Error> {
        let scripted = self.scripted.get_mut(api).and_then(VecDeque::pop_front);
        let scripted = scripted.map(|error| error.unwrap_or_else(|| Ec2Error::throttled_by(service)));
        scripted.or_else(|| self.standing.get(api).cloned())
    }

    pub(super) fn spoil_launches(&mut self, pattern: OfferingPattern, fault: LaunchFault, times: u32) {
        self.launches.push((pattern, fault, times));
    }

    pub(super) fn end_launch_faults(&mut self) {
        self.launches.clear();
    }

    /// The fault of a machine that is launched now.
    pub(super) fn take_launch_fault(&mut self, offering: &Offering) -> Option<LaunchFault> {
        let found = self.launches.iter_mut().find(|(pattern, _, left)| *left > 0 && pattern.matches(offering))?;
        found.2 -= 1;
        Some(found.1)
    }

    pub(super) fn record(&mut self, call: RecordedCall) {
        *self.counts.entry((call.service, call.api.clone())).or_default() += 1;
        if self.calls.len() == CALLS_KEPT {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }

    pub(super) fn calls(&self) -> Vec<RecordedCall> {
        self.calls.iter().cloned().collect()
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.iter().map(|((service, api), count)| (format!("{service}:{api}"), *count)).collect()
    }
}
