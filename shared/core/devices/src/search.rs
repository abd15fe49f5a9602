//! The search for devices: the first solution in the order of the kube-scheduler.

use crate::allocation::{Allocation, DeviceId, Given, Taken, common_selector};
use crate::claim::{DeviceClass, ResourceClaim};
use crate::constraints::{Constraint, Verdict};
use crate::counters::Counters;
use crate::node_selector::Place;
use crate::pools::{Pool, State, is_device_for};
use crate::refusal::Refusal;
use crate::requests::{self, Choice, MAX_DEVICES, Request};
use crate::selector::{EvaluationError, Selectors};
use crate::slice::{Device, Slice};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// The most steps of a search. The kube-scheduler gives up after ten seconds (`filterTimeout`); a plan must not depend on the time.
const MAX_STEPS: u32 = 20_000;

/// A device: the indices of its pool and of itself.
type DeviceAt = (usize, usize);

/// A choice of a request: the indices of the claim, the request and the alternative.
type ChoiceAt = (usize, usize, usize);

/// Where the search is.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    claim: usize,
    request: usize,
    option: usize,
    /// The number of devices that the request has already.
    devices: usize,
    /// The first device that is tried. The devices of one request are tried in ascending order only, because another order of the same
    /// devices is no better.
    from: DeviceAt,
}

impl At {
    fn claim(claim: usize) -> Self {
        Self { claim, ..Self::default() }
    }

    const fn choice(self) -> ChoiceAt {
        (self.claim, self.request, self.option)
    }

    fn next_request(self) -> Self {
        Self { claim: self.claim, request: self.request + 1, ..Self::default() }
    }

    const fn after(self, (pool, device): DeviceAt) -> Self {
        Self { devices: self.devices + 1, from: (pool, device + 1), ..self }
    }
}

/// Why a branch of the search ends.
enum Stop {
    /// The claim would have more devices than it may have: fewer are needed, not others.
    TooMany,
    /// There is no allocation.
    Refused(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub(crate) struct Search<'a> {
    claims: &'a [&'a ResourceClaim],
    place: &'a Place<'a>,
    pools: &'a [Pool<'a>],
    requests: Rc<Vec<Vec<Request<'a>>>>,
    /// The devices of requests for all devices.
    all: HashMap<ChoiceAt, Vec<DeviceAt>>,
    constraints: Vec<Vec<Constraint<'a>>>,
    counters: Vec<Counters<'a>>,
    taken: Vec<Vec<bool>>,
    /// The claims that have a device in this solution.
    holders: HashMap<DeviceAt, Vec<usize>>,
    solution: Vec<Vec<(ChoiceAt, DeviceAt)>>,
    selectable: HashMap<(ChoiceAt, DeviceAt), bool>,
    steps: u32,
    furthest: (usize, usize),
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        claims: &'a [&'a ResourceClaim],
        place: &'a Place<'a>,
        pools: &'a [Pool<'a>],
        classes: &'a BTreeMap<String, DeviceClass>,
        taken: &Taken,
        selectors: &Selectors,
    ) -> Result<Self, Refusal> {
        let requests: Vec<Vec<Request<'a>>> =
            claims.iter().map(|claim| requests::of(claim, classes, selectors)).collect::<Result<_, _>>()?;
        let taken_of = |pool: &Pool<'_>| {
            let taken = taken.of_pool(&pool.id);
            pool.devices.iter().map(|(_, device)| taken.is_some_and(|taken| taken.contains(&device.name))).collect()
        };
        let mut search = Self {
            claims,
            place,
            pools,
            requests: Rc::new(requests),
            all: HashMap::new(),
            constraints: claims.iter().map(|claim| constraints(claim)).collect::<Result<_, _>>()?,
            counters: pools.iter().map(|pool| Counters::of(pool, taken.of_pool(&pool.id))).collect(),
            taken: pools.iter().map(taken_of).collect(),
            holders: HashMap::new(),
            solution: vec![Vec::new(); claims.len()],
            selectable: HashMap::new(),
            steps: 0,
            furthest: (0, 0),
        };
        search.count_devices()?;
        Ok(search)
    }

    /// Determines the devices of requests for all, and refuses claims with too many devices.
    fn count_devices(&mut self) -> Result<(), Refusal> {
        let requests = Rc::clone(&self.requests);
        for (claim, of_claim) in requests.iter().enumerate() {
            let mut least = 0_usize;
            for (request, of_request) in of_claim.iter().enumerate() {
                let mut least_of_request = usize::MAX;
                for (option, choice) in of_request.options.iter().enumerate() {
                    let at = (claim, request, option);
                    if choice.count.is_none() {
                        let devices = self.all_devices(at, of_request.name, choice)?;
                        self.all.insert(at, devices);
                    }
                    least_of_request = least_of_request.min(self.needed(at, choice));
                }
                least = least.saturating_add(least_of_request);
            }
            if least > MAX_DEVICES {
                let claim = self.claims[claim].name.clone();
                return Err(Refusal::TooManyDevices { claim, count: least, limit: MAX_DEVICES });
            }
        }
        Ok(())
    }

    fn all_devices(&mut self, at: ChoiceAt, request: &str, choice: &Choice<'_>) -> Result<Vec<DeviceAt>, Refusal> {
        let mut devices = Vec::new();
        for (index, pool) in self.pools.iter().enumerate() {
            let claim = || self.claims[at.0].name.clone();
            match &pool.state {
                State::Usable => {}
                State::Incomplete => {
                    let request = choice.full_name(request);
                    return Err(Refusal::Incomplete { claim: claim(), request, pool: pool.id.to_string() });
                }
                State::Invalid(why) => {
                    return Err(Refusal::InvalidPool { claim: claim(), pool: pool.id.to_string(), why: why.clone() });
                }
            }
            for device in 0..pool.devices.len() {
                if self.is_selectable(at, choice, (index, device))? {
                    devices.push((index, device));
                }
            }
        }
        Ok(devices)
    }

    /// The number of devices of a request.
    fn needed(&self, at: ChoiceAt, choice: &Choice<'_>) -> usize {
        choice.count.unwrap_or_else(|| self.all.get(&at).map_or(0, Vec::len))
    }

    /// The devices that each request, or each alternative of a request, selects.
    pub(crate) fn selected(mut self) -> Result<Vec<BTreeSet<DeviceAt>>, Refusal> {
        let requests = Rc::clone(&self.requests);
        let mut selected = Vec::new();
        for (claim, of_claim) in requests.iter().enumerate() {
            for (request, of_request) in of_claim.iter().enumerate() {
                for (option, choice) in of_request.options.iter().enumerate() {
                    selected.push(self.of_choice((claim, request, option), choice)?);
                }
            }
        }
        Ok(selected)
    }

    fn of_choice(&mut self, at: ChoiceAt, choice: &Choice<'_>) -> Result<BTreeSet<DeviceAt>, Refusal> {
        let mut devices = BTreeSet::new();
        for (index, pool) in self.pools.iter().enumerate().filter(|(_, pool)| pool.state == State::Usable) {
            for device in 0..pool.devices.len() {
                if self.is_selectable(at, choice, (index, device))? {
                    devices.insert((index, device));
                }
            }
        }
        Ok(devices)
    }

    pub(crate) fn run(mut self) -> Result<Vec<Allocation>, Refusal> {
        match self.next(At::claim(0), false) {
            Ok(true) => Ok(self.allocations()),
            Ok(false) | Err(Stop::TooMany) => Err(self.failure()),
            Err(Stop::Refused(refusal)) => Err(refusal),
        }
    }

    fn failure(&self) -> Refusal {
        let (claim, request) = self.furthest;
        let name = self.claims[claim].name.clone();
        let invalid = self.pools.iter().find_map(|pool| match &pool.state {
            State::Invalid(why) => Some((pool, why)),
            State::Usable | State::Incomplete => None,
        });
        if let Some((pool, why)) = invalid {
            return Refusal::InvalidPool { claim: name, pool: pool.id.to_string(), why: why.clone() };
        }
        let request = self.requests[claim].get(request).map_or_else(String::new, |request| request.name.to_owned());
        Refusal::NoDevice { claim: name, request }
    }

    /// Allocates the rest from here: whether that succeeds.
    fn next(&mut self, at: At, in_option: bool) -> Result<bool, Stop> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Refusal::TooManyAttempts { limit: MAX_STEPS }.into());
        }
        let requests = Rc::clone(&self.requests);
        let Some(of_claim) = requests.get(at.claim) else { return Ok(true) };
        let Some(request) = of_claim.get(at.request) else {
            return match self.next(At::claim(at.claim + 1), false) {
                // Another allocation of this claim may let the next claim have an alternative with fewer devices.
                Err(Stop::TooMany) => Ok(false),
                other => other,
            };
        };
        if !in_option && request.options.len() > 1 {
            return self.first_option(at, request.options.len());
        }
        let choice = &request.options[at.option];
        let needed = self.needed(at.choice(), choice);
        if choice.count.is_none() && needed == 0 {
            self.furthest = self.furthest.max((at.claim, at.request));
            return Ok(false);
        }
        if at.devices >= needed {
            return self.next(at.next_request(), false);
        }
        self.furthest = self.furthest.max((at.claim, at.request));
        if (self.solution[at.claim].len() + needed).saturating_sub(at.devices) > MAX_DEVICES {
            return Err(Stop::TooMany);
        }
        if choice.count.is_none() {
            self.given_device(at, request, choice)
        } else {
            self.any_device(at, request, choice)
        }
    }

    fn first_option(&mut self, at: At, options: usize) -> Result<bool, Stop> {
        let mut all_have_too_many = true;
        for option in 0..options {
            match self.next(At { option, ..at }, true) {
                Err(Stop::TooMany) => {}
                Ok(false) => all_have_too_many = false,
                other => return other,
            }
        }
        if all_have_too_many { Err(Stop::TooMany) } else { Ok(false) }
    }

    /// Allocates the next of all devices.
    fn given_device(&mut self, at: At, request: &Request<'a>, choice: &Choice<'a>) -> Result<bool, Stop> {
        let Some(device) = self.all.get(&at.choice()).and_then(|all| all.get(at.devices)).copied() else {
            return Ok(false);
        };
        let excluded = || Refusal::Excluded {
            claim: self.claims[at.claim].name.clone(),
            request: choice.full_name(request.name),
            device: self.id(device).to_string(),
        };
        let excluded = excluded();
        match self.take(at, request, choice, device)? {
            Take::Done => self.proceed(at, request, choice, device),
            Take::Violates => Err(excluded.into()),
            Take::Unavailable => Ok(false),
        }
    }

    /// Allocates the first device with which the rest can be allocated.
    fn any_device(&mut self, at: At, request: &Request<'a>, choice: &Choice<'a>) -> Result<bool, Stop> {
        let needed = self.needed(at.choice(), choice).saturating_sub(at.devices);
        if self.devices_from(at.from) < needed {
            return Ok(false);
        }
        for pool in at.from.0..self.pools.len() {
            if self.pools[pool].state != State::Usable {
                continue;
            }
            let first = if pool == at.from.0 { at.from.1 } else { 0 };
            for device in (first..self.pools[pool].devices.len()).map(|device| (pool, device)) {
                if !self.is_available(at, choice, device) || !self.is_selectable(at.choice(), choice, device)? {
                    continue;
                }
                if matches!(self.take(at, request, choice, device)?, Take::Done)
                    && self.proceed(at, request, choice, device)?
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The number of devices from one on.
    fn devices_from(&self, (pool, device): DeviceAt) -> usize {
        let all: usize = self.pools.get(pool..).into_iter().flatten().map(|pool| pool.devices.len()).sum();
        all.saturating_sub(device)
    }

    /// Allocates the rest after a device, or takes the device back.
    fn proceed(&mut self, at: At, request: &Request<'_>, choice: &Choice<'_>, device: DeviceAt) -> Result<bool, Stop> {
        let done = self.next(at.after(device), true);
        if !matches!(done, Ok(true)) {
            self.give_back(at, request, choice, device);
        }
        done
    }

    fn is_available(&self, at: At, choice: &Choice<'_>, device: DeviceAt) -> bool {
        let holders = self.holders.get(&device).map_or(&[][..], Vec::as_slice);
        if choice.admin_access {
            return !holders.contains(&at.claim);
        }
        !self.taken[device.0][device.1] && holders.is_empty()
    }

    fn take(&mut self, at: At, request: &Request<'a>, choice: &Choice<'a>, device: DeviceAt) -> Result<Take, Stop> {
        let (slice, it) = self.device(device);
        let repelled = it.taints.iter().any(|taint| taint.repels(&choice.request.tolerations));
        if !self.is_available(at, choice, device) || repelled || !self.counters[device.0].suffice_for(it) {
            return Ok(Take::Unavailable);
        }
        let name = (request.name, choice.alternative);
        let constraints = &mut self.constraints[at.claim];
        for place in 0..constraints.len() {
            let verdict = constraints[place].add(name, &slice.spec.driver, it);
            if verdict == Verdict::Meets {
                continue;
            }
            let attribute = constraints[place].attribute();
            constraints[..place].iter_mut().for_each(|constraint| constraint.remove(name));
            if verdict == Verdict::Violates {
                return Ok(Take::Violates);
            }
            return Err(Stop::Refused(Refusal::NotPublished {
                by: format!("a constraint of ResourceClaim {}", self.claims[at.claim].name),
                what: format!("attribute {attribute}"),
                driver: slice.spec.driver.clone(),
            }));
        }
        self.counters[device.0].take(it);
        self.holders.entry(device).or_default().push(at.claim);
        self.solution[at.claim].push((at.choice(), device));
        Ok(Take::Done)
    }

    fn give_back(&mut self, at: At, request: &Request<'_>, choice: &Choice<'_>, device: DeviceAt) {
        let name = (request.name, choice.alternative);
        self.constraints[at.claim].iter_mut().for_each(|constraint| constraint.remove(name));
        let (_, it) = self.device(device);
        self.counters[device.0].give_back(it);
        if let Some(holders) = self.holders.get_mut(&device) {
            holders.pop();
        }
        self.solution[at.claim].pop();
    }

    /// Whether the class, the request and the node's place select a device.
    fn is_selectable(&mut self, at: ChoiceAt, choice: &Choice<'_>, device: DeviceAt) -> Result<bool, Refusal> {
        if let Some(known) = self.selectable.get(&(at, device)) {
            return Ok(*known);
        }
        let is_selected = self.is_selected(at, choice, device)?;
        self.selectable.insert((at, device), is_selected);
        Ok(is_selected)
    }

    fn is_selected(&self, at: ChoiceAt, choice: &Choice<'_>, device: DeviceAt) -> Result<bool, Refusal> {
        let (slice, it) = self.device(device);
        if !it.binding_conditions.is_empty() {
            return Ok(false);
        }
        for (name, selector) in &choice.selectors {
            let matches = selector.matches(&slice.spec.driver, it).map_err(|error| match error {
                EvaluationError::NotPublished { what } => {
                    Refusal::NotPublished { by: name.to_string(), what, driver: slice.spec.driver.clone() }
                }
                error => Refusal::Evaluation { selector: name.clone(), device: self.id(device).to_string(), error },
            })?;
            if !matches {
                return Ok(false);
            }
        }
        if slice.spec.per_device_node_selection == Some(true) {
            let is_for = is_device_for(it, self.place).map_err(|error| Refusal::InvalidPool {
                claim: self.claims[at.0].name.clone(),
                pool: self.pools[device.0].id.to_string(),
                why: format!("the node selector of device {} is invalid: {error}", it.name),
            })?;
            if !is_for {
                return Ok(false);
            }
        }
        if it.allow_multiple_allocations == Some(true) {
            let what = format!("device {}, which several claims may share,", self.id(device));
            return Err(requests::unsupported(self.claims[at.0], self.requests[at.0][at.1].name, &what));
        }
        Ok(true)
    }

    fn device(&self, (pool, device): DeviceAt) -> (&'a Slice, &'a Device) {
        self.pools[pool].devices[device]
    }

    fn id(&self, device: DeviceAt) -> DeviceId {
        let pool = &self.pools[device.0].id;
        DeviceId { driver: pool.driver.clone(), pool: pool.name.clone(), device: self.device(device).1.name.clone() }
    }

    fn allocations(&self) -> Vec<Allocation> {
        let allocation = |of_claim: &Vec<(ChoiceAt, DeviceAt)>| {
            let given = of_claim.iter().map(|((claim, request, option), device)| {
                let request = &self.requests[*claim][*request];
                let choice = &request.options[*option];
                let admin_access = choice.admin_access;
                Given { request: choice.full_name(request.name), device: self.id(*device), admin_access }
            });
            let places = of_claim.iter().map(|(_, device)| match self.device(*device) {
                (slice, it) if slice.spec.per_device_node_selection == Some(true) => {
                    (it.node_name.as_deref(), it.node_selector.as_ref())
                }
                (slice, _) => (slice.spec.node_name.as_deref(), slice.spec.node_selector.as_ref()),
            });
            Allocation { devices: given.collect(), node_selector: common_selector(places) }
        };
        self.solution.iter().map(allocation).collect()
    }
}

/// Whether a device was allocated.
enum Take {
    Done,
    /// It is in use or tainted, or counters do not suffice.
    Unavailable,
    /// A constraint excludes it.
    Violates,
}

fn constraints(claim: &ResourceClaim) -> Result<Vec<Constraint<'_>>, Refusal> {
    let known = claim.devices.constraints.iter().enumerate().map(|(index, constraint)| {
        Constraint::of(constraint).ok_or_else(|| {
            requests::unsupported(claim, &format!("constraint {index}"), "a constraint of an unknown kind")
        })
    });
    known.collect()
}
