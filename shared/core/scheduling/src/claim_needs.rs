//! What the claims of pods need.

use crate::problem::{ClusterFacts, Problem};
use nodeless_devices::{DeviceRequests, ResourceClaim};
use nodeless_model::Pod;
use nodeless_model::hashed::HashMap;

/// What a claim of a pod needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Need<'a> {
    /// Devices, under the name that the pod has for the claim. `shared` is the ResourceClaim if it is not for this pod alone.
    Devices { name: &'a str, devices: &'a DeviceRequests, shared: Option<String> },
    /// The devices that the ResourceClaim has.
    Allocated { claim: String },
    /// An object that does not exist: its kind and name.
    Missing { kind: &'static str, name: String },
}

/// What the claims of a pod need.
///
/// A pod that runs and has to move is made again, and with it its claims from templates.
pub(crate) fn needs<'a>(pod: &'a Pod, facts: &ClusterFacts<'a>) -> Vec<Need<'a>> {
    let need = |claim: &'a nodeless_model::pod::ResourceClaim| {
        let key = |name: &str| format!("{}/{name}", pod.namespace);
        let known = claim.claim.as_ref().map(|name| (name, facts.devices.claims.get(&key(name))));
        match (known, &claim.template) {
            (Some((name, Some(state))), _) => {
                let is_made_again = state.is_of_pod && pod.node_name.is_some();
                if state.allocation.is_some() && !is_made_again {
                    return Need::Allocated { claim: key(name) };
                }
                let shared = (!state.is_of_pod).then(|| key(name));
                Need::Devices { name: &claim.name, devices: &state.devices, shared }
            }
            (_, Some(template)) => match facts.devices.templates.get(&key(template)) {
                Some(devices) => Need::Devices { name: &claim.name, devices, shared: None },
                None => Need::Missing { kind: "ResourceClaimTemplate", name: key(template) },
            },
            (Some((name, None)), None) => Need::Missing { kind: "ResourceClaim", name: key(name) },
            (None, None) => Need::Missing { kind: "ResourceClaim", name: key(&claim.name) },
        }
    };
    pod.template.resource_claims.iter().map(need).collect()
}

/// The claims for which devices have to be allocated.
pub(crate) fn claims_of(needs: &[Need<'_>]) -> Vec<ResourceClaim> {
    let claims = needs.iter().filter_map(|need| match need {
        Need::Devices { name, devices, .. } => {
            Some(ResourceClaim { name: (*name).to_owned(), devices: (*devices).clone() })
        }
        Need::Allocated { .. } | Need::Missing { .. } => None,
    });
    claims.collect()
}

/// The same claims whatever their names and those of their requests, so that equal claims share a search.
pub(crate) fn kind_of(needs: &[Need<'_>]) -> Vec<ResourceClaim> {
    let claims = claims_of(needs).into_iter().enumerate();
    claims
        .map(|(index, claim)| ResourceClaim { name: index.to_string(), devices: claim.devices.with_indices_as_names() })
        .collect()
}

/// Where the requests of claims are stored: pods with claims from one template have the same, which need not be compared then.
pub(crate) fn objects_of(needs: &[Need<'_>]) -> Vec<*const DeviceRequests> {
    let objects = needs.iter().filter_map(|need| match need {
        Need::Devices { devices, .. } => Some(std::ptr::from_ref(*devices)),
        Need::Allocated { .. } | Need::Missing { .. } => None,
    });
    objects.collect()
}

/// The ResourceClaims without devices that several pods of a problem wait for, by namespace and name, with the number of pods.
pub(crate) type Shared<'a> = HashMap<(&'a str, &'a str), usize>;

/// Those of a problem.
pub(crate) fn shared<'a>(problem: &Problem<'a>) -> Shared<'a> {
    let mut waiting = Shared::default();
    for pod in &problem.pods {
        for need in needs(pod, &problem.facts) {
            if let Need::Devices { shared: Some(claim), .. } = need
                && let Some(name) = claim.split_once('/').map(|(_, name)| name)
                && let Some(name) = claim_names(pod).find(|own| *own == name)
            {
                *waiting.entry((pod.namespace.as_str(), name)).or_default() += 1;
            }
        }
    }
    waiting.retain(|_, pods| *pods > 1);
    waiting
}

/// Those of a pod.
pub(crate) fn shared_by<'a>(pod: &'a Pod, shared: &Shared<'a>) -> Vec<&'a str> {
    claim_names(pod).filter(|name| shared.contains_key(&(pod.namespace.as_str(), *name))).collect()
}

fn claim_names(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.template.resource_claims.iter().filter_map(|claim| claim.claim.as_deref())
}
