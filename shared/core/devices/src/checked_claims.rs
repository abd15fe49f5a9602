//! The claims of a pod with their requests and constraints, and which of the requests are alike.

use crate::claim::{DeviceClass, ResourceClaim};
use crate::constraints::Constraint;
use crate::refusal::Refusal;
use crate::requests::{self, Request};
use crate::selector::Selectors;
use std::collections::{BTreeMap, HashMap};

/// The claims of a pod with their requests and constraints.
#[derive(Debug)]
pub(crate) struct CheckedClaims<'a> {
    pub(crate) claims: Vec<&'a ResourceClaim>,
    pub(crate) requests: Vec<Vec<Request<'a>>>,
    pub(crate) constraints: Vec<Vec<Constraint<'a>>>,
    /// Requests that differ in nothing but their names and counts, in their order.
    alike: Vec<Vec<Alike>>,
    /// Where each request is in that list.
    places: Vec<Vec<Option<(usize, usize)>>>,
}

/// A request among others that are alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    pub(crate) claim: usize,
    pub(crate) request: usize,
    pub(crate) count: usize,
}

impl<'a> CheckedClaims<'a> {
    pub(crate) fn new(
        claims: Vec<&'a ResourceClaim>,
        classes: &'a BTreeMap<String, DeviceClass>,
        selectors: &Selectors,
    ) -> Result<Self, Refusal> {
        let mut requests: Vec<Vec<Request<'a>>> = claims
            .iter()
            .map(|claim| requests::requests_of_claim(claim, classes, selectors))
            .collect::<Result<_, _>>()?;
        number_selections(&mut requests);
        let constraints: Vec<Vec<Constraint<'a>>> =
            claims.iter().copied().map(constraints).collect::<Result<_, _>>()?;
        let (mut alike, mut places, mut known): (Vec<Vec<Alike>>, Vec<Vec<_>>, HashMap<_, usize>) = Default::default();
        for (claim, of_claim) in requests.iter().enumerate() {
            places.push(vec![None; of_claim.len()]);
            for (request, of_request) in of_claim.iter().enumerate() {
                let [choice] = &of_request.options[..] else { continue };
                let (Some(count), false) = (choice.count, choice.admin_access) else { continue };
                let applies = |constraint: &Constraint<'_>| constraint.is_for(of_request.name, None);
                let applying: Vec<bool> = constraints[claim].iter().map(applies).collect();
                // Devices of different claims are not compared by constraints.
                let scope = applying.contains(&true).then_some((claim, applying));
                let group = *known.entry((choice.selection, &choice.request.tolerations, scope)).or_insert(alike.len());
                alike.resize_with(alike.len().max(group + 1), Vec::new);
                places[claim][request] = Some((group, alike[group].len()));
                alike[group].push(Alike { claim, request, count });
            }
        }
        Ok(Self { claims, requests, constraints, alike, places })
    }

    /// The last request before this one that is alike.
    pub(crate) fn alike_before(&self, claim: usize, request: usize) -> Option<Alike> {
        let (group, place) = self.places[claim][request]?;
        place.checked_sub(1).map(|before| self.alike[group][before])
    }

    /// The requests after this one that are alike.
    pub(crate) fn alike_after(&self, claim: usize, request: usize) -> &[Alike] {
        self.places[claim][request].map_or(&[], |(group, place)| &self.alike[group][place + 1..])
    }
}

/// Numbers the selections of devices: equal selectors have the same number.
fn number_selections(requests: &mut [Vec<Request<'_>>]) {
    let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
    let choices = requests.iter_mut().flatten().flat_map(|request| &mut request.options);
    for choice in choices {
        let numbers: Vec<usize> = choice.selectors.iter().map(|selector| selector.number).collect();
        let next = known.len();
        choice.selection = *known.entry(numbers).or_insert(next);
    }
}

fn constraints(claim: &ResourceClaim) -> Result<Vec<Constraint<'_>>, Refusal> {
    let known = claim.devices.constraints.iter().enumerate().map(|(index, constraint)| {
        Constraint::new(constraint).ok_or_else(|| {
            requests::unsupported(claim, &format!("constraint {index}"), "a constraint of an unknown kind")
        })
    });
    known.collect()
}
