//! ResourceQuotas: which virtual pods a namespace may have beside its real pods.
//!
//! Kubernetes counts real pods in the status of a quota and refuses more of them. Virtual pods are counted here, in addition to these, so
//! that no capacity is kept for pods that could not be created. A quota with scopes counts as if it applied to every pod.

use crate::amounts::resources::format_quantity;
use crate::text::plural::counted;
use crate::{PodShape, Quantity, RefusingQuota, ResourceList};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The resources that every container has to state where a quota limits them.
const STATED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// A ResourceQuota, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuota {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Whether it counts only some pods, which scopes select.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_scopes: bool,
    /// What the objects of the namespace may use, by the names of quotas, such as `requests.cpu`.
    pub hard: ResourceList,
    /// What the real objects of the namespace use.
    pub used: ResourceList,
}

impl ResourceQuota {
    /// Whether it allows not even one of these pods. What real objects use does not matter, because it changes; and a quota with scopes
    /// may be one for other pods.
    #[must_use]
    pub fn refusal(&self, shape: &PodShape) -> Option<RefusingQuota> {
        let is_exceeded = |name: &&str| used(name, shape) > self.hard.get(name);
        let exceeded = || self.hard.iter().map(|(name, _)| name).find(is_exceeded);
        let limit = unstated(self, shape).or_else(exceeded).filter(|_| !self.has_scopes)?;
        Some(RefusingQuota { quota: self.name.clone(), limit: limit.to_owned() })
    }
}

/// What is left of all ResourceQuotas for virtual pods.
#[derive(Clone, Debug, Default)]
pub struct QuotaBalance<'a> {
    /// Each quota with what real objects and virtual pods use of it, by namespace.
    quotas: BTreeMap<&'a str, Vec<(&'a ResourceQuota, ResourceList)>>,
    /// The quotas of unknown content, by namespace.
    unknown: BTreeMap<&'a str, &'a str>,
}

impl<'a> QuotaBalance<'a> {
    /// What is left besides the real objects. Namespaces in `unknown`, each with the name of a quota that could not be decoded, get no
    /// virtual pods.
    pub fn new(
        quotas: impl IntoIterator<Item = &'a ResourceQuota>,
        unknown: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut balance = Self { quotas: BTreeMap::new(), unknown: unknown.into_iter().collect() };
        for quota in quotas {
            balance.quotas.entry(&quota.namespace).or_default().push((quota, quota.used.clone()));
        }
        balance
    }

    /// Takes all of these pods, each shape with its number.
    ///
    /// # Errors
    /// Which quota does not allow them. Nothing is taken then.
    pub fn take(&mut self, namespace: &str, pods: &[(&PodShape, u32)]) -> Result<(), String> {
        let total: u64 = pods.iter().map(|(_, count)| u64::from(*count)).sum();
        if total == 0 {
            return Ok(());
        }
        if let Some(quota) = self.unknown.get(namespace) {
            return Err(format!(
                "ResourceQuota {namespace}/{quota} cannot be decoded, so it is unknown what it allows"
            ));
        }
        let Some(quotas) = self.quotas.get_mut(namespace) else { return Ok(()) };
        let mut after = Vec::new();
        for (quota, used) in quotas.iter() {
            let missing = pods.iter().filter(|(_, count)| *count > 0).find_map(|(shape, _)| unstated(quota, shape));
            if let Some(name) = missing {
                return Err(format!(
                    "ResourceQuota {namespace}/{} allows no pods that do not state {name}; set it in the containers",
                    quota.name
                ));
            }
            let requested = requested(quota, pods);
            let mut with = used.clone();
            with.add(&requested);
            let exceeded = |name: &&str| with.get(name) > quota.hard.get(name);
            if let Some(name) = requested.iter().map(|(name, _)| name).find(|name| exceeded(name)) {
                let [asked, used, hard] = [&requested, used, &quota.hard].map(|list| shown(name, list.get(name)));
                return Err(format!(
                    "ResourceQuota {namespace}/{} does not allow {} with {asked} of {name}: {used} of {hard} are used; raise the \
                     quota, or ask for less",
                    quota.name,
                    counted(total, "pod")
                ));
            }
            after.push(with);
        }
        for ((_, used), with) in quotas.iter_mut().zip(after) {
            *used = with;
        }
        Ok(())
    }

    /// Takes this number of pods, or as many as the quotas allow, and returns how many. Less than all comes with the reason.
    pub fn take_some(&mut self, namespace: &str, shape: &PodShape, count: u32) -> (u32, Option<String>) {
        let Err(why) = self.take(namespace, &[(shape, count)]) else { return (count, None) };
        let allowed = self.space(namespace, shape).min(count);
        match self.take(namespace, &[(shape, allowed)]) {
            Ok(()) => (allowed, Some(why)),
            Err(why) => (0, Some(why)),
        }
    }

    /// How many more of these pods are allowed.
    fn space(&self, namespace: &str, shape: &PodShape) -> u32 {
        let quotas = self.quotas.get(namespace).into_iter().flatten();
        let spaces = quotas.flat_map(|(quota, used)| {
            let one = requested(quota, &[(shape, 1)]);
            let amounts: Vec<(String, Quantity)> = one.iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
            amounts.into_iter().map(move |(name, amount)| {
                let left = quota.hard.get(&name).milli().saturating_sub(used.get(&name).milli()).max(0);
                u32::try_from(left / amount.milli()).unwrap_or(u32::MAX)
            })
        });
        spaces.min().unwrap_or(u32::MAX)
    }
}

/// What these pods use of what a quota limits, without what they use nothing of.
fn requested(quota: &ResourceQuota, pods: &[(&PodShape, u32)]) -> ResourceList {
    let all =
        |name: &str| pods.iter().fold(Quantity::ZERO, |sum, (pod, count)| sum + used(name, pod).times((*count).into()));
    let amounts = quota.hard.iter().map(|(name, _)| (name.to_owned(), all(name)));
    amounts.filter(|(_, amount)| *amount > Quantity::ZERO).collect()
}

/// What one pod uses of a limited resource.
fn used(name: &str, shape: &PodShape) -> Quantity {
    let template = &shape.pod.template;
    match name.split_once(['/', '.']) {
        Some(("count", "pods")) => Quantity::from_units(1),
        Some(("count", "resourceclaims.resource.k8s.io")) => {
            let made = template.resource_claims.iter().filter(|claim| claim.template.is_some()).count();
            Quantity::from_units(i64::try_from(made).unwrap_or(i64::MAX))
        }
        Some(("requests", requested)) => template.requests.get(requested),
        Some(("limits", limited)) => shape.limits.get(limited),
        // `pods` is among the requests.
        _ => template.requests.get(name),
    }
}

/// The first resource that pods have to state because of a quota, and these do not.
fn unstated(quota: &ResourceQuota, shape: &PodShape) -> Option<&'static str> {
    let is_stated = |name: &str| match name.split_once('.') {
        Some(("limits", limited)) => shape.limits.contains(limited),
        Some((_, requested)) => shape.pod.template.requests.contains(requested),
        None => shape.pod.template.requests.contains(name),
    };
    STATED.into_iter().find(|name| quota.hard.contains(name) && !is_stated(name))
}

/// An amount in the form of its resource.
fn shown(name: &str, amount: Quantity) -> String {
    let resource = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    format_quantity(resource, amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pod;
    use crate::pods::pod::ResourceClaim;

    fn list(amounts: &[(&str, &str)]) -> ResourceList {
        amounts.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap())).collect()
    }

    fn quota(name: &str, hard: &[(&str, &str)], used: &[(&str, &str)]) -> ResourceQuota {
        ResourceQuota {
            namespace: "team".into(),
            name: name.into(),
            has_scopes: false,
            hard: list(hard),
            used: list(used),
        }
    }

    fn shape(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> PodShape {
        let pod = Pod::default().with_template(|it| it.requests = list(requests).with("pods", Quantity::from_units(1)));
        PodShape { pod, limits: list(limits), ..PodShape::default() }
    }

    #[test]
    fn virtual_pods_count_beside_what_is_used() {
        let worker = shape(&[("cpu", "2"), ("memory", "1Gi"), ("example.com/gpu", "1")], &[("cpu", "4")]);
        for (hard, used, allowed) in [
            (("requests.cpu", "6"), "0", 3),
            (("requests.cpu", "6"), "1500m", 2),
            (("cpu", "5"), "6", 0),
            (("requests.memory", "2Gi"), "0", 2),
            (("limits.cpu", "9"), "0", 2),
            (("requests.example.com/gpu", "1"), "0", 1),
            (("pods", "5"), "4", 1),
            (("count/pods", "5"), "1", 4),
            (("requests.storage", "0"), "0", 5),
            (("services", "0"), "0", 5),
        ] {
            let quotas = [quota("q", &[hard], &[(hard.0, used)])];
            let mut balance = QuotaBalance::new(&quotas, []);
            let (found, why) = balance.take_some("team", &worker, 5);
            assert_eq!((found, why.is_some()), (allowed, allowed < 5), "{hard:?} {used}: {why:?}");
            assert!(why.is_none_or(|why| why.contains("ResourceQuota team/q") && why.contains(hard.0)));
            assert_eq!(balance.take_some("team", &worker, 9).0, if allowed < 5 { 0 } else { 9 }, "they are taken");
            assert_eq!(balance.take_some("other", &worker, 9), (9, None), "of another namespace");
        }
    }

    #[test]
    fn every_quota_of_the_namespace_counts_for_all_pods_together() {
        let quotas = [quota("large", &[("requests.cpu", "100")], &[]), quota("small", &[("pods", "3")], &[])];
        let (leader, worker) = (shape(&[("cpu", "40")], &[]), shape(&[("cpu", "20")], &[]));
        let mut balance = QuotaBalance::new(&quotas, []);
        let why = balance.take("team", &[(&leader, 1), (&worker, 3)]).unwrap_err();
        assert_eq!(
            why,
            "ResourceQuota team/small does not allow 4 pods with 4 of pods: 0 of 3 are used; raise the quota, or ask for less"
        );
        let why = balance.take("team", &[(&leader, 3)]).unwrap_err();
        assert!(
            why.contains("ResourceQuota team/large does not allow 3 pods with 120 of requests.cpu: 0 of 100"),
            "{why}"
        );
        balance.take("team", &[(&leader, 1), (&worker, 2)]).unwrap();
        assert!(balance.take("team", &[(&worker, 1)]).is_err() && balance.take("team", &[(&worker, 0)]).is_ok());
    }

    #[test]
    fn what_pods_have_to_state_is_named() {
        let quotas = [quota("q", &[("limits.memory", "1Gi"), ("requests.cpu", "1")], &[])];
        let huge = shape(&[("memory", "500Gi")], &[]);
        for (shape, missing) in [
            (huge.clone(), "requests.cpu"),
            (shape(&[("cpu", "1")], &[]), "limits.memory"),
            (shape(&[("cpu", "1"), ("memory", "1")], &[("memory", "1")]), ""),
        ] {
            let taken = QuotaBalance::new(&quotas, []).take("team", &[(&shape, 1)]);
            assert_eq!(taken.is_ok(), missing.is_empty());
            assert!(taken.err().is_none_or(|why| why.contains(missing) && why.contains("team/q")));
        }
        assert_eq!(QuotaBalance::new(&quotas, []).take_some("team", &huge, 2).0, 0);
    }

    #[test]
    fn a_quota_refuses_pods_of_which_one_exceeds_it() {
        let agent =
            shape(&[("cpu", "2"), ("memory", "1Gi"), ("nvidia.com/gpu", "1")], &[("cpu", "4"), ("memory", "1Gi")]);
        for (hard, expected) in [
            (&[("cpu", "2"), ("pods", "1"), ("requests.nvidia.com/gpu", "1"), ("services", "0")][..], None),
            (&[("cpu", "1")], Some("cpu")),
            (&[("requests.cpu", "1999m")], Some("requests.cpu")),
            (&[("limits.cpu", "3")], Some("limits.cpu")),
            (&[("limits.memory", "1Gi")], None),
            (&[("requests.nvidia.com/gpu", "0")], Some("requests.nvidia.com/gpu")),
            (&[("pods", "0")], Some("pods")),
            (&[("count/pods", "0")], Some("count/pods")),
        ] {
            let mut all = quota("q", hard, hard);
            let refusal = |limit: &str| RefusingQuota { quota: "q".into(), limit: limit.into() };
            assert_eq!(all.refusal(&agent), expected.map(refusal), "{hard:?}");
            all.has_scopes = true;
            assert_eq!(all.refusal(&agent), None, "{hard:?}");
        }
        let unstated = quota("q", &[("limits.memory", "100Gi")], &[]).refusal(&shape(&[], &[]));
        assert_eq!(unstated.map(|one| one.limit).as_deref(), Some("limits.memory"));
    }

    #[test]
    fn a_quota_of_unknown_content_allows_nothing() {
        let mut balance = QuotaBalance::new([], [("team", "odd")]);
        let one = shape(&[("cpu", "1")], &[]);
        let (allowed, why) = balance.take_some("team", &one, 3);
        assert!(allowed == 0 && why.unwrap().contains("team/odd"));
        assert_eq!(balance.take_some("other", &one, 3), (3, None));
    }

    #[test]
    fn claims_that_are_made_for_pods_count() {
        let claims =
            [ResourceClaim { template: Some("gpu".into()), ..ResourceClaim::default() }, ResourceClaim::default()];
        let mut one = shape(&[], &[]);
        one.pod.template_mut().resource_claims = claims.into();
        let quotas = [quota("q", &[("count/resourceclaims.resource.k8s.io", "2")], &[])];
        assert_eq!(QuotaBalance::new(&quotas, []).take_some("team", &one, 5).0, 2);
    }
}
