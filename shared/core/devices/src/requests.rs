//! The requests of claims, checked before devices are searched.

use crate::claim::{AllocationMode, DeviceClass, DeviceRequest, ExactRequest, ResourceClaim};
use crate::refusal::{Refusal, SelectorName};
use crate::selector::{Selector, Selectors};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most devices of a claim, as in the API.
pub(crate) const MAX_DEVICES: usize = 32;

/// A request of a claim: its alternatives, or the one thing that it requests.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) name: &'a str,
    pub(crate) options: Vec<Choice<'a>>,
}

/// What a request is for.
#[derive(Clone, Debug)]
pub(crate) struct Choice<'a> {
    /// The name of the alternative.
    pub(crate) alternative: Option<&'a str>,
    pub(crate) request: &'a ExactRequest,
    pub(crate) admin_access: bool,
    /// The selectors of the class and of the request.
    pub(crate) selectors: Vec<NamedSelector>,
    /// The number of what they select: choices of a pod with the same selectors have the same.
    pub(crate) selection: usize,
    /// The number of devices; `None` for all.
    pub(crate) count: Option<usize>,
}

/// A compiled selector.
#[derive(Clone, Debug)]
pub(crate) struct NamedSelector {
    pub(crate) name: SelectorName,
    /// Its number among the compiled selectors.
    pub(crate) number: usize,
    pub(crate) selector: Rc<Selector>,
}

impl Choice<'_> {
    /// `request`, or `request/alternative`.
    pub(crate) fn full_name(&self, request: &str) -> String {
        self.alternative.map_or_else(|| request.to_owned(), |alternative| format!("{request}/{alternative}"))
    }
}

/// The requests of a claim.
pub(crate) fn requests_of_claim<'a>(
    claim: &'a ResourceClaim,
    classes: &'a BTreeMap<String, DeviceClass>,
    selectors: &Selectors,
) -> Result<Vec<Request<'a>>, Refusal> {
    claim.devices.requests.iter().map(|request| checked(claim, request, classes, selectors)).collect()
}

fn checked<'a>(
    claim: &'a ResourceClaim,
    request: &'a DeviceRequest,
    classes: &'a BTreeMap<String, DeviceClass>,
    selectors: &Selectors,
) -> Result<Request<'a>, Refusal> {
    let choice = |alternative, exact| choice(claim, &request.name, alternative, exact, classes, selectors);
    let options = match &request.exactly {
        Some(exact) => vec![choice(None, exact)?],
        None if request.first_available.is_empty() => {
            return Err(unsupported(claim, &request.name, "a request with neither exactly nor firstAvailable"));
        }
        None => {
            let options = request.first_available.iter().map(|sub| choice(Some(sub.name.as_str()), &sub.request));
            options.collect::<Result<_, _>>()?
        }
    };
    Ok(Request { name: &request.name, options })
}

fn choice<'a>(
    claim: &'a ResourceClaim,
    name: &'a str,
    alternative: Option<&'a str>,
    request: &'a ExactRequest,
    classes: &'a BTreeMap<String, DeviceClass>,
    cache: &Selectors,
) -> Result<Choice<'a>, Refusal> {
    let full_name = alternative.map_or_else(|| name.to_owned(), |alternative| format!("{name}/{alternative}"));
    if request.capacity.is_some() {
        return Err(unsupported(claim, &full_name, "a request for a part of a device's capacity"));
    }
    let class = classes.get(&request.device_class_name).ok_or_else(|| Refusal::NoClass {
        claim: claim.name.clone(),
        request: full_name.clone(),
        class: request.device_class_name.clone(),
    })?;
    let of_class = class.selectors.iter().enumerate();
    let of_class = of_class.map(|(index, selector)| (SelectorName::Class(class.name.clone(), index), selector));
    let of_request = request.selectors.iter().enumerate().map(|(index, selector)| {
        (SelectorName::Request { claim: claim.name.clone(), request: full_name.clone(), index }, selector)
    });
    let mut selectors = Vec::new();
    for (name, given) in of_class.chain(of_request) {
        let Some(cel) = &given.cel else {
            return Err(unsupported(claim, &full_name, "a selector that is no expression of CEL"));
        };
        match cache.compile(&cel.expression) {
            (number, Ok(selector)) => selectors.push(NamedSelector { name, number, selector }),
            (_, Err(error)) => return Err(Refusal::Selector { selector: name, error }),
        }
    }
    let count = match &request.allocation_mode {
        AllocationMode::ExactCount => Some(usize::try_from(request.count.unwrap_or(1)).unwrap_or(usize::MAX)),
        AllocationMode::All => None,
        AllocationMode::Other(mode) => {
            return Err(unsupported(claim, &full_name, &format!("allocationMode {mode}")));
        }
    };
    let admin_access = alternative.is_none() && request.admin_access == Some(true);
    Ok(Choice { alternative, request, admin_access, selectors, selection: 0, count })
}

pub(crate) fn unsupported(claim: &ResourceClaim, request: &str, what: &str) -> Refusal {
    Refusal::Unsupported { claim: claim.name.clone(), request: request.to_owned(), what: what.to_owned() }
}
