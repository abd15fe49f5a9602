//! Starts and stops the instances of warm nodes: many with one call, since EC2 accepts few of these calls.

use super::Reconciler;
use super::batch::Progress;
use super::{AT_ONCE, SOON};
use futures::stream::{self, StreamExt as _};
use nodeless_launch::shortage::lacks_capacity;
use nodeless_lifecycle::{Step, warm};
use nodeless_model::NodeClaim;
use nodeless_model::events::stop_refused;
use nodeless_model::instance::OfferingFailure;
use nodeless_model::object::ObjectEvent;
use nodeless_operations::{log_lines::LaunchFailed, refused_stops};
use nodeless_ports::{ErrorKind, PortError};
use nodeless_state::RecordKind;
use nodeless_telemetry::Metric;
use std::collections::{BTreeMap, BTreeSet};

/// EC2's code for an instance in a state in which it cannot be started or stopped.
const INCORRECT_STATE: &str = "IncorrectInstanceState";
/// The maximum number of instances in one call.
const IDS_A_CALL: usize = 100;

/// Whether a call with these instances may succeed later. EC2 may report another state for a moment than that of the call before.
fn passes(error: &PortError) -> bool {
    error.is_retryable() || error.code == INCORRECT_STATE
}

/// Whether EC2 will not stop the instance until a user changes something.
fn is_refusal(error: &PortError) -> bool {
    !passes(error) && error.kind != ErrorKind::NotFound
}

impl Reconciler {
    /// Starts the instances of these claims. If EC2 rejects one, the claim's pods get another node.
    pub(super) async fn start(&self, done: &mut [Progress]) {
        let mut calls = Calls::new(done.iter().filter_map(|progress| progress.start.as_ref()));
        while let Some(part) = calls.take_next() {
            if let Err(error) = self.cloud.start(&part.ids).await {
                calls.failed(part, error);
            }
        }
        let rejected = done.iter_mut().filter_map(|progress| {
            let claim = progress.start.take()?;
            let error = calls.error_of(&claim)?;
            Some(self.not_started(claim, error, progress))
        });
        stream::iter(rejected.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    async fn not_started(&self, claim: NodeClaim, error: PortError, progress: &mut Progress) {
        let Some(instance) = &claim.status.instance else { return };
        let failure = OfferingFailure {
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            capacity_type: instance.capacity_type,
            lacks_capacity: lacks_capacity(&error.code),
            code: error.code.clone(),
            message: error.message.clone(),
            placement_group: None,
            reservation_id: None,
            partition: None,
        };
        let Some(step) = warm::not_started(&claim, &failure, passes(&error), self.context.now(), &self.settings) else {
            progress.postpone(&error);
            return;
        };
        if !failure.lacks_capacity {
            self.context.log(&LaunchFailed { claim: &claim.name, why: &error.to_string() });
            progress.metrics.count(Metric::LaunchFailures, 1);
        }
        self.move_on(&claim, &step, progress).await;
    }

    /// Stops the instances of these claims. Once EC2 refuses that for one, nothing more is stopped for its NodePool, and the nodes are
    /// opened for pods.
    pub(super) async fn stop(&self, done: &mut [Progress]) {
        let claims = done.iter().filter_map(|progress| progress.stop.as_ref());
        let pools: BTreeSet<String> = claims.filter_map(|claim| claim.node_pool.clone()).collect();
        for pool in pools {
            let of_pool = |progress: &&mut Progress| progress.stop.as_ref().is_some_and(|claim| claim.is_of(&pool));
            let own = done.iter_mut().filter(of_pool).filter_map(|progress| Some((progress.stop.take()?, progress)));
            let own: Vec<(NodeClaim, &mut Progress)> = own.collect();
            let mut calls = Calls::new(own.iter().map(|(claim, _)| claim));
            let mut refused = self.stop_of(&pool, &mut calls).await;
            for (claim, progress) in own {
                match (calls.error_of(&claim), &mut refused) {
                    (Some(error), _) if !is_refusal(&error) => progress.postpone(&error),
                    (None, _) if !calls.has_left(&claim) => {}
                    (_, Ok(refused)) => {
                        progress.events.extend(refused.event.take());
                        self.open_again(&claim, &refused.why, progress).await;
                    }
                    (_, Err(error)) => progress.postpone(error),
                }
            }
        }
    }

    /// Makes the calls for a NodePool, until EC2 refuses one or if it did lately. A refusal is recorded before any node is opened.
    async fn stop_of(&self, name: &str, calls: &mut Calls) -> Result<Refused, PortError> {
        let pool = self.cluster.node_pool(name).await?;
        let record = self.claims.record(RecordKind::RefusedStops, name).await?.unwrap_or_default();
        let now = self.context.now();
        if refused_stops::in_effect(&record, pool.as_ref(), now) {
            return Ok(Refused { why: "EC2 refused a stop for its NodePool lately".to_owned(), event: None });
        }
        while let Some(part) = calls.take_next() {
            let Err(error) = self.cloud.stop(&part.ids).await else { continue };
            calls.failed(part, error);
            let Some((id, error)) = calls.errors.iter().find(|(_, error)| is_refusal(error)) else { continue };
            let record = refused_stops::refused(&record, name, pool.as_ref(), now)?;
            match self.claims.put_record(RecordKind::RefusedStops, &record).await {
                Err(failed) if failed.kind != ErrorKind::Conflict => return Err(failed),
                _ => {}
            }
            let event = pool.as_ref().map(|pool| stop_refused(pool, id, &error.to_string()));
            return Ok(Refused { why: error.message.clone(), event });
        }
        Ok(Refused::default())
    }

    async fn open_again(&self, claim: &NodeClaim, why: &str, progress: &mut Progress) {
        if let Some(step) = warm::not_stopped(claim, why, self.context.now()) {
            self.move_on(claim, &step, progress).await;
        }
    }

    /// Writes the step of a claim after EC2 rejected a call, and executes its effects.
    async fn move_on(&self, claim: &NodeClaim, step: &Step, progress: &mut Progress) {
        let moved = async {
            let Some(written) = self.write(claim, step, progress).await? else { return Ok(None) };
            self.follow(step, &written, progress).await?;
            Ok::<_, PortError>(Some(written.phase))
        };
        match moved.await {
            Ok(phase) => progress.ended(phase.or(Some(claim.phase)), Some(SOON)),
            Err(error) => progress.postpone(&error),
        }
    }
}

/// Why the nodes are opened whose instances were to be stopped.
#[derive(Default)]
struct Refused {
    why: String,
    event: Option<ObjectEvent>,
}

/// Instances of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// The instance type and the zone.
    offering: (String, String),
    ids: Vec<String>,
    /// The error of the call with these instances and others.
    error: Option<PortError>,
}

/// The calls that change the state of instances, which EC2 makes for all instances of a call or for none.
///
/// Instances of one type and zone are changed together. A call that fails is repeated with each half of its instances, and no more calls
/// are made once one fails that may be repeated later, such as one that EC2 throttles. The error of instances that are left then is that of
/// the last call with them.
#[derive(Debug)]
struct Calls {
    /// Those to be made, the next one last.
    parts: Vec<Part>,
    /// By instance.
    errors: BTreeMap<String, PortError>,
}

impl Calls {
    fn new<'a>(claims: impl Iterator<Item = &'a NodeClaim>) -> Self {
        let mut groups: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for instance in claims.filter_map(|claim| claim.status.instance.as_ref()) {
            let offering = (instance.instance_type.clone(), instance.zone.clone());
            groups.entry(offering).or_default().push(instance.id.clone());
        }
        let parts = groups.iter().flat_map(|(offering, ids)| {
            ids.chunks(IDS_A_CALL).map(|ids| Part { offering: offering.clone(), ids: ids.to_vec(), error: None })
        });
        Self { parts: parts.collect(), errors: BTreeMap::new() }
    }

    fn take_next(&mut self) -> Option<Part> {
        self.parts.pop()
    }

    fn error_of(&self, claim: &NodeClaim) -> Option<PortError> {
        self.errors.get(&claim.status.instance.as_ref()?.id).cloned()
    }

    /// Whether calls with the instance of a claim were left out.
    fn has_left(&self, claim: &NodeClaim) -> bool {
        let instance = claim.status.instance.as_ref();
        instance.is_some_and(|instance| self.parts.iter().any(|part| part.ids.contains(&instance.id)))
    }

    /// Evaluates the error of a call.
    fn failed(&mut self, mut part: Part, error: PortError) {
        let lacks_capacity = lacks_capacity(&error.code);
        if error.is_retryable() && !lacks_capacity {
            self.give_up(std::iter::once(part), &error);
            let rest = std::mem::take(&mut self.parts);
            self.give_up(rest.into_iter(), &error);
        } else if part.ids.len() > 1 {
            let half = part.ids.split_off(part.ids.len().div_ceil(2));
            part.error = Some(error);
            self.parts.extend([Part { ids: half, ..part.clone() }, part]);
        } else {
            let offering = part.offering.clone();
            self.give_up(std::iter::once(Part { error: None, ..part }), &error);
            if lacks_capacity {
                // Not even one: the others of the offering need more.
                let rest = self.parts.extract_if(.., |other| other.offering == offering).collect::<Vec<_>>();
                self.give_up(rest.into_iter(), &error);
            }
        }
    }

    /// No call is made for these instances any more.
    fn give_up(&mut self, parts: impl Iterator<Item = Part>, error: &PortError) {
        for part in parts {
            let error = part.error.as_ref().unwrap_or(error);
            self.errors.extend(part.ids.into_iter().map(|id| (id, error.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(zone: &str, numbers: std::ops::Range<usize>) -> Part {
        let ids = numbers.map(|number| format!("{zone}-{number}")).collect();
        Part { offering: ("m5.large".to_owned(), zone.to_owned()), ids, error: None }
    }

    fn error(code: &str) -> PortError {
        let kind = if code == "RequestLimitExceeded" { ErrorKind::Throttled } else { ErrorKind::Invalid };
        PortError::new(kind, "EC2 StartInstances", code).with_code(code)
    }

    /// Makes the calls of an EC2 that answers so. Returns the sizes of the calls, and how many instances have each error.
    fn made(
        parts: Vec<Part>,
        answer: impl Fn(usize, &[String]) -> Option<&'static str>,
    ) -> (Vec<usize>, Vec<(String, usize)>) {
        let (mut calls, mut sizes) = (Calls { parts, errors: BTreeMap::new() }, Vec::new());
        while let Some(part) = calls.take_next() {
            sizes.push(part.ids.len());
            if let Some(code) = answer(sizes.len(), &part.ids) {
                calls.failed(part, error(code));
            }
        }
        let mut errors: BTreeMap<String, usize> = BTreeMap::new();
        calls.errors.values().for_each(|error| *errors.entry(error.code.clone()).or_default() += 1);
        (sizes, errors.into_iter().collect())
    }

    fn counts(counts: &[(&str, usize)]) -> Vec<(String, usize)> {
        counts.iter().map(|(code, number)| ((*code).to_owned(), *number)).collect()
    }

    #[test]
    fn a_call_that_fails_is_halved_until_the_instance_that_is_refused() {
        let bad = |_: usize, ids: &[String]| ids.contains(&"a-13".to_owned()).then_some("OperationNotPermitted");
        let (sizes, errors) = made(vec![part("a", 0..16)], bad);
        assert_eq!(sizes, [16, 8, 8, 4, 4, 2, 1, 1, 2]);
        assert_eq!(errors, counts(&[("OperationNotPermitted", 1)]));
    }

    #[test]
    fn without_capacity_for_one_none_of_its_offering_is_tried_again() {
        let none = |_: usize, ids: &[String]| ids[0].starts_with('b').then_some("InsufficientInstanceCapacity");
        let (sizes, errors) = made(vec![part("a", 0..3), part("b", 0..90)], none);
        assert_eq!(sizes, [90, 45, 23, 12, 6, 3, 2, 1, 3], "and the other offering is started");
        assert_eq!(errors, counts(&[("InsufficientInstanceCapacity", 90)]));
    }

    #[test]
    fn no_call_is_made_after_one_that_is_throttled() {
        let (sizes, errors) = made(vec![part("a", 0..9), part("b", 0..9)], |_, _| Some("RequestLimitExceeded"));
        assert_eq!((sizes, errors), (vec![9], counts(&[("RequestLimitExceeded", 18)])));
        // What is left of a call that failed for another reason has that one.
        let later = |call: usize, _: &[String]| {
            Some(if call < 3 { "InsufficientInstanceCapacity" } else { "RequestLimitExceeded" })
        };
        let (sizes, errors) = made(vec![part("a", 0..7), part("b", 0..90)], later);
        assert_eq!(sizes, [90, 45, 23]);
        assert_eq!(errors, counts(&[("InsufficientInstanceCapacity", 90), ("RequestLimitExceeded", 7)]));
    }
}
