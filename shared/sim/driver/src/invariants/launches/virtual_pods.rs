//! The nodes that are launched for virtual pods, against the ResourceQuotas of their namespaces, computed from the JSON of the objects.

use crate::Driver;
use crate::invariants::text;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, POD_TEMPLATES, PODS, RESOURCE_QUOTAS};
use nodeless_fake_kubernetes::{ListOptions, Resource};
use nodeless_model::{NodeClaim, Phase, Quantity};
use nodeless_world::resources::{CAPACITY_BUFFERS, PROVISIONING_REQUESTS};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// For which virtual pods claims were created, and the ResourceQuotas of the last check, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct VirtualPodChecks {
    seen: BTreeSet<(String, String)>,
    quotas: BTreeMap<(String, String), Arc<Value>>,
    /// How often virtual pods were compared with a quota.
    pub(crate) counted: usize,
}

impl VirtualPodChecks {
    /// The quotas that do not allow the virtual pods of nodes that launch, beside the real pods. A plan uses the state before or after it.
    pub(in crate::invariants) fn check(&mut self, driver: &Driver, claims: &[NodeClaim]) -> Vec<String> {
        let quota = |object: Arc<Value>| {
            ((text(&object, "/metadata/namespace").to_owned(), text(&object, "/metadata/name").to_owned()), object)
        };
        let now: BTreeMap<_, _> = list(driver, &RESOURCE_QUOTAS).into_iter().map(quota).collect();
        let before = std::mem::replace(&mut self.quotas, now);
        let launching = |claim: &&NodeClaim| claim.phase < Phase::Initialized;
        let (mut virtual_pods, mut changed) = (BTreeMap::new(), BTreeSet::new());
        for (claim, pod) in
            claims.iter().flat_map(|claim| claim.spec.nominated_pods.iter().map(move |pod| (claim, pod)))
        {
            let is_new = !self.seen.contains(&(claim.name.clone(), pod.clone()));
            if (!is_new && !launching(&claim)) || virtual_pods.contains_key(pod) {
                continue;
            }
            if let Some((namespace, spec)) = template_of(driver, pod) {
                virtual_pods.insert(pod.clone(), (namespace.clone(), spec));
                changed.extend(is_new.then_some(namespace));
            }
        }
        let pods = claims
            .iter()
            .flat_map(|claim| claim.spec.nominated_pods.iter().map(|pod| (claim.name.clone(), pod.clone())));
        self.seen = pods.collect();
        let mut wrong = Vec::new();
        for (key, quota) in self.quotas.iter().filter(|(key, _)| changed.contains(&key.0)) {
            let has_scopes = !quota["spec"]["scopes"].is_null() || !quota["spec"]["scopeSelector"].is_null();
            for (limit, hard) in quota["spec"]["hard"].as_object().into_iter().flatten().filter(|_| !has_scopes) {
                let earlier = before.get(key).unwrap_or(quota);
                let used = |quota: &Value| amount(&quota["status"]["used"][limit]);
                let used = used(quota).min(used(earlier));
                let hard = amount(hard).max(amount(&earlier["spec"]["hard"][limit]));
                let own = virtual_pods.values().filter(|(namespace, _)| *namespace == key.0);
                let asked = own.map(|(_, spec)| requested(spec, limit)).sum::<i64>();
                self.counted += usize::from(asked > 0);
                if asked > 0 && used.saturating_add(asked) > hard {
                    wrong.push(format!(
                        "virtual pods of namespace {} for which nodes launch use {asked} thousandths of {limit}, and quota {} has \
                         {used} of {hard} in use",
                        key.0, key.1
                    ));
                }
            }
        }
        wrong
    }
}

fn list(driver: &Driver, resource: &Resource) -> Vec<Arc<Value>> {
    driver.world().api().list(resource, &ListOptions::default()).map(|list| list.items).unwrap_or_default()
}

fn get(driver: &Driver, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
    driver.world().api().get(resource, namespace, name).ok()
}

/// The namespace of a virtual pod, `namespace/name`, and the spec of its template; `None` for a real pod.
fn template_of(driver: &Driver, pod: &str) -> Option<(String, Value)> {
    let (namespace, name) = pod.split_once('/')?;
    let (owner, _) = name.rsplit_once('-')?;
    if get(driver, &PODS, namespace, name).is_some() {
        return None;
    }
    let template = if let Some(buffer) = owner.strip_prefix("capacity-buffer-") {
        let buffer = get(driver, &CAPACITY_BUFFERS, namespace, buffer)?;
        match text(&buffer, "/spec/podTemplateRef/name") {
            "" => {
                let workload = text(&buffer, "/spec/scalableRef/name");
                get(driver, &DEPLOYMENTS, namespace, workload)?["spec"]["template"].clone()
            }
            name => get(driver, &POD_TEMPLATES, namespace, name)?["template"].clone(),
        }
    } else {
        let (request, set) = owner.strip_prefix("provisioning-request-")?.rsplit_once('-')?;
        let request = get(driver, &PROVISIONING_REQUESTS, namespace, request)?;
        let set = &request["spec"]["podSets"][set.parse::<usize>().ok()?];
        get(driver, &POD_TEMPLATES, namespace, text(set, "/podTemplateRef/name"))?["template"].clone()
    };
    Some((namespace.to_owned(), template["spec"].clone()))
}

/// What a pod with this spec uses of a limit, in thousandths. The defaults of LimitRanges are not known here.
fn requested(spec: &Value, limit: &str) -> i64 {
    if ["pods", "count/pods"].contains(&limit) {
        return 1000;
    }
    let resource = limit.strip_prefix("requests.").unwrap_or(limit);
    let containers = spec["containers"].as_array().into_iter().flatten();
    containers.map(|container| amount(&container["resources"]["requests"][resource])).sum()
}

/// A quantity in thousandths; zero if there is none.
fn amount(quantity: &Value) -> i64 {
    let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
    text.parse::<Quantity>().map_or(0, Quantity::milli)
}
