//! The search for devices: the first solution in the order of the kube-scheduler.

mod supply;

use crate::allocation::{Allocation, Given, common_selector};
use crate::attempts::Attempts;
use crate::checked_claims::CheckedClaims;
use crate::constraints::{Constraint, Verdict};
use crate::refusal::Refusal;
use crate::requests::{self, Choice, MAX_DEVICES, Request};
use crate::selector::EvaluationError;
use crate::site::{DeviceAt, SiteDevices};
use crate::slices::counters::Counters;
use crate::slices::pools::{State, is_device_for};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use supply::Supply;

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
    /// The first device that is tried. The devices of one request, and of requests that are alike, are tried in ascending order only,
    /// because another order of the same devices is no better.
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

    const fn after(self, device: DeviceAt) -> Self {
        Self { devices: self.devices + 1, from: (device.0, device.1 + 1), ..self }
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

/// The search for devices for one pod after the other, on one node.
pub(crate) struct Search<'s> {
    checked: &'s CheckedClaims<'s>,
    site: &'s SiteDevices<'s>,
    attempts: &'s mut Attempts,
    /// The devices of requests for all devices.
    all: HashMap<ChoiceAt, Vec<DeviceAt>>,
    constraints: Vec<Vec<Constraint<'s>>>,
    counters: Vec<Counters<'s>>,
    taken: Vec<Vec<bool>>,
    /// The claims that have a device in this solution.
    holders: HashMap<DeviceAt, Vec<usize>>,
    solution: Vec<Vec<(ChoiceAt, DeviceAt)>>,
    /// By the number of the selection.
    selectable: HashMap<(usize, DeviceAt), bool>,
    furthest: (usize, usize),
    /// What the last pod got of each request with alternatives: their indices.
    pub(crate) alternatives: Vec<usize>,
}

impl<'s> Search<'s> {
    pub(crate) fn new(
        checked: &'s CheckedClaims<'s>,
        site: &'s SiteDevices<'s>,
        attempts: &'s mut Attempts,
    ) -> Result<Self, Refusal> {
        let mut search = Self {
            checked,
            site,
            attempts,
            all: HashMap::new(),
            constraints: checked.constraints.clone(),
            counters: site.counters.clone(),
            taken: site.taken.clone(),
            holders: HashMap::new(),
            solution: vec![Vec::new(); checked.claims.len()],
            selectable: HashMap::new(),
            furthest: (0, 0),
            alternatives: Vec::new(),
        };
        search.attempts.begin();
        search.count_devices()?;
        Ok(search)
    }

    /// Determines the devices of requests for all, and refuses claims with too many devices.
    fn count_devices(&mut self) -> Result<(), Refusal> {
        let checked = self.checked;
        for (claim, of_claim) in checked.requests.iter().enumerate() {
            let mut least = 0_usize;
            for (request, of_request) in of_claim.iter().enumerate() {
                self.attempts.add(1)?;
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
                let claim = checked.claims[claim].name.clone();
                return Err(Refusal::TooManyDevices { claim, count: least, limit: MAX_DEVICES });
            }
        }
        Ok(())
    }

    fn all_devices(&mut self, at: ChoiceAt, request: &str, choice: &Choice<'_>) -> Result<Vec<DeviceAt>, Refusal> {
        for pool in self.site.pools {
            let claim = || self.checked.claims[at.0].name.clone();
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
        }
        self.selected_by(at, choice)
    }

    /// The number of devices of a request.
    fn needed(&self, at: ChoiceAt, choice: &Choice<'_>) -> usize {
        choice.count.unwrap_or_else(|| self.all.get(&at).map_or(0, Vec::len))
    }

    /// The devices that the requests and their alternatives select, without regard to what is taken: those of each selection.
    pub(crate) fn selected(mut self) -> Result<Vec<BTreeSet<DeviceAt>>, Refusal> {
        let checked = self.checked;
        let mut selected: BTreeMap<usize, BTreeSet<DeviceAt>> = BTreeMap::new();
        for (claim, of_claim) in checked.requests.iter().enumerate() {
            for (request, of_request) in of_claim.iter().enumerate() {
                for (option, choice) in of_request.options.iter().enumerate() {
                    if let Entry::Vacant(of_selection) = selected.entry(choice.selection) {
                        let devices = self.selected_by((claim, request, option), choice)?;
                        of_selection.insert(devices.into_iter().collect());
                    }
                }
            }
        }
        Ok(selected.into_values().collect())
    }

    fn selected_by(&mut self, at: ChoiceAt, choice: &Choice<'_>) -> Result<Vec<DeviceAt>, Refusal> {
        let mut devices = Vec::new();
        for device in self.devices_from((0, 0)) {
            self.attempts.add(1)?;
            if self.is_selectable(at, choice, device)? {
                devices.push(device);
            }
        }
        Ok(devices)
    }

    /// The devices for another pod, which it has from now on.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn allocate(&mut self) -> Result<Vec<Allocation>, Refusal> {
        self.attempts.begin();
        self.furthest = (0, 0);
        match self.next(At::claim(0), false) {
            Ok(true) => {
                let allocations = self.allocations();
                self.note_alternatives();
                self.keep_devices();
                Ok(allocations)
            }
            Ok(false) | Err(Stop::TooMany) => Err(self.failure()),
            Err(Stop::Refused(refusal)) => Err(refusal),
        }
    }

    fn note_alternatives(&mut self) {
        let choices = self.solution.iter().flatten().map(|((claim, request, option), _)| ((*claim, *request), *option));
        let has_others = |(claim, request): (usize, usize)| self.checked.requests[claim][request].options.len() > 1;
        let by_request: BTreeMap<(usize, usize), usize> = choices.filter(|(at, _)| has_others(*at)).collect();
        self.alternatives = by_request.into_values().collect();
    }

    /// Prepares the search for the next pod: the devices of this solution are taken. Devices with administrative access are not taken.
    fn keep_devices(&mut self) {
        let checked = self.checked;
        for ((claim, request, option), device) in self.solution.iter_mut().flat_map(|of_claim| of_claim.drain(..)) {
            if checked.requests[claim][request].options[option].admin_access {
                self.counters[device.0].give_back(self.site.device(device).1);
            } else {
                self.taken[device.0][device.1] = true;
            }
        }
        self.holders.clear();
        self.constraints.iter_mut().flatten().for_each(Constraint::clear);
    }

    fn failure(&self) -> Refusal {
        let (claim, request) = self.furthest;
        let name = self.checked.claims[claim].name.clone();
        let invalid = self.site.pools.iter().find_map(|pool| match &pool.state {
            State::Invalid(why) => Some((pool, why)),
            State::Usable | State::Incomplete => None,
        });
        if let Some((pool, why)) = invalid {
            return Refusal::InvalidPool { claim: name, pool: pool.id.to_string(), why: why.clone() };
        }
        let request =
            self.checked.requests[claim].get(request).map_or_else(String::new, |request| request.name.to_owned());
        Refusal::NoDevice { claim: name, request }
    }

    /// Allocates the rest from here: whether that succeeds.
    fn next(&mut self, at: At, in_option: bool) -> Result<bool, Stop> {
        self.attempts.add(1)?;
        let checked = self.checked;
        let Some(of_claim) = checked.requests.get(at.claim) else { return Ok(true) };
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
    fn given_device(&mut self, at: At, request: &Request<'s>, choice: &Choice<'s>) -> Result<bool, Stop> {
        let Some(device) = self.all.get(&at.choice()).and_then(|all| all.get(at.devices)).copied() else {
            return Ok(false);
        };
        let excluded = || Refusal::Excluded {
            claim: self.checked.claims[at.claim].name.clone(),
            request: choice.full_name(request.name),
            device: self.site.id(device).to_string(),
        };
        let excluded = excluded();
        match self.take(at, request, choice, device)? {
            Take::Done => self.proceed(at, request, choice, device),
            Take::Violates => Err(excluded.into()),
            Take::Unavailable => Ok(false),
        }
    }

    /// Allocates the first device with which the rest can be allocated.
    fn any_device(&mut self, mut at: At, request: &Request<'s>, choice: &Choice<'s>) -> Result<bool, Stop> {
        if at.devices == 0
            && let Some(before) = self.checked.alike_before(at.claim, at.request)
            && let Some((_, (pool, device))) =
                self.solution[before.claim].iter().rfind(|((_, request, _), _)| *request == before.request)
        {
            at.from = (*pool, device + 1);
        }
        let needed = self.needed(at.choice(), choice).saturating_sub(at.devices);
        let devices = match self.supply(at, request, choice, self.needed_together(at, needed))? {
            Supply::Enough => self.devices_from(at.from).collect(),
            Supply::Among(devices) => devices,
            Supply::Short(devices) => {
                self.note_short(at, needed, devices);
                return Ok(false);
            }
        };
        for device in devices {
            self.attempts.add(1)?;
            if !self.is_available(at, choice, device) || !self.is_selectable(at.choice(), choice, device)? {
                continue;
            }
            if matches!(self.take(at, request, choice, device)?, Take::Done)
                && self.proceed(at, request, choice, device)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The devices of usable pools from one on.
    fn devices_from(&self, from: DeviceAt) -> impl Iterator<Item = DeviceAt> + use<'s> {
        let pools = self.site.pools.iter().enumerate().skip(from.0);
        let usable = pools.filter(|(_, pool)| pool.state == State::Usable);
        usable.flat_map(move |(index, pool)| {
            let first = if index == from.0 { from.1 } else { 0 };
            (first..pool.devices.len()).map(move |device| (index, device))
        })
    }

    /// Allocates the rest after a device, or takes the device back.
    fn proceed(&mut self, at: At, request: &Request<'_>, choice: &Choice<'_>, device: DeviceAt) -> Result<bool, Stop> {
        let done = self.next(at.after(device), true);
        if !matches!(done, Ok(true)) {
            self.give_back(at, request, choice, device);
        }
        done
    }

    /// Whether a device has no other claim.
    fn is_available(&self, at: At, choice: &Choice<'_>, device: DeviceAt) -> bool {
        let holders = self.holders.get(&device).map_or(&[][..], Vec::as_slice);
        if choice.admin_access {
            return !holders.contains(&at.claim);
        }
        !self.taken[device.0][device.1] && holders.is_empty()
    }

    /// Whether the taints of a device are tolerated, and its counters suffice.
    fn is_usable(&self, choice: &Choice<'_>, device: DeviceAt) -> bool {
        let (_, it) = self.site.device(device);
        !it.taints.iter().any(|taint| taint.repels(&choice.request.tolerations))
            && self.counters[device.0].suffice_for(it)
    }

    fn take(&mut self, at: At, request: &Request<'s>, choice: &Choice<'s>, device: DeviceAt) -> Result<Take, Stop> {
        if !self.is_available(at, choice, device) || !self.is_usable(choice, device) {
            return Ok(Take::Unavailable);
        }
        let (slice, it) = self.site.device(device);
        let (name, alternative) = (request.name, choice.alternative);
        let constraints = &mut self.constraints[at.claim];
        for place in 0..constraints.len() {
            let verdict = constraints[place].add(name, alternative, &slice.spec.driver, it);
            if verdict == Verdict::Meets {
                continue;
            }
            let attribute = constraints[place].attribute();
            constraints[..place].iter_mut().for_each(|constraint| constraint.remove(name, alternative));
            if verdict == Verdict::Violates {
                return Ok(Take::Violates);
            }
            return Err(Stop::Refused(Refusal::NotPublished {
                by: format!("a constraint of ResourceClaim {}", self.checked.claims[at.claim].name),
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
        let (name, alternative) = (request.name, choice.alternative);
        self.constraints[at.claim].iter_mut().for_each(|constraint| constraint.remove(name, alternative));
        let (_, it) = self.site.device(device);
        self.counters[device.0].give_back(it);
        if let Some(holders) = self.holders.get_mut(&device) {
            holders.pop();
        }
        self.solution[at.claim].pop();
    }

    /// Whether the class, the request and the node's place select a device.
    fn is_selectable(&mut self, at: ChoiceAt, choice: &Choice<'_>, device: DeviceAt) -> Result<bool, Refusal> {
        if let Some(known) = self.selectable.get(&(choice.selection, device)) {
            return Ok(*known);
        }
        let is_selected = self.is_selected(at, choice, device)?;
        self.selectable.insert((choice.selection, device), is_selected);
        Ok(is_selected)
    }

    fn is_selected(&mut self, at: ChoiceAt, choice: &Choice<'_>, device: DeviceAt) -> Result<bool, Refusal> {
        let (slice, it) = self.site.device(device);
        if !it.binding_conditions.is_empty() {
            return Ok(false);
        }
        for selector in &choice.selectors {
            let (matches, steps) = self.site.evaluate(selector, device);
            self.attempts.add(steps.into())?;
            let matches = matches.map_err(|error| match error {
                EvaluationError::NotPublished { what } => {
                    Refusal::NotPublished { by: selector.name.to_string(), what, driver: slice.spec.driver.clone() }
                }
                error => {
                    let device = self.site.id(device).to_string();
                    Refusal::Evaluation { selector: selector.name.clone(), device, error }
                }
            })?;
            if !matches {
                return Ok(false);
            }
        }
        let claim = self.checked.claims[at.0];
        if slice.spec.per_device_node_selection == Some(true) {
            let is_for = is_device_for(it, self.site.place).map_err(|error| Refusal::InvalidPool {
                claim: claim.name.clone(),
                pool: self.site.pools[device.0].id.to_string(),
                why: format!("the node selector of device {} is invalid: {error}", it.name),
            })?;
            if !is_for {
                return Ok(false);
            }
        }
        if it.allow_multiple_allocations == Some(true) {
            let what = format!("device {}, which several claims may share,", self.site.id(device));
            return Err(requests::unsupported(claim, self.checked.requests[at.0][at.1].name, &what));
        }
        Ok(true)
    }

    fn allocations(&self) -> Vec<Allocation> {
        let allocation = |of_claim: &Vec<(ChoiceAt, DeviceAt)>| {
            let given = of_claim.iter().map(|((claim, request, option), device)| {
                let request = &self.checked.requests[*claim][*request];
                let choice = &request.options[*option];
                let admin_access = choice.admin_access;
                Given { request: choice.full_name(request.name), device: self.site.id(*device), admin_access }
            });
            let places = of_claim.iter().map(|(_, device)| match self.site.device(*device) {
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
