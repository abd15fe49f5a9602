//! The pods that wait for a node, and what the plan does with each of them.

use nodeless_model::{Pod, ProvisioningRequest};
use nodeless_ports::cluster::ClusterView;
use std::collections::HashMap;

/// What a plan does with a pod that waits for a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PodStanding<'a> {
    /// Nothing: its scheduler has not reported on it.
    Unreported,
    /// It is scheduled.
    Planned,
    /// It is scheduled with further requirements. If no node meets them, this is why nothing is launched for it.
    Restricted { without_launch: Option<&'a str> },
    /// It counts on this Node, to which it is about to be bound.
    Promised { node: &'a str },
    /// It is left out: a volume that it mounts cannot be used, for this reason.
    FaultyVolume { why: &'a str },
    /// It is left out: nodes are provided for this ProvisioningRequest, whose capacity it uses.
    AwaitsRequest { request: &'a ProvisioningRequest },
}

/// A pod that waits for a node.
pub(crate) struct PendingPod<'a> {
    /// The pod, with the requirements with which it is planned.
    pub(crate) pod: &'a Pod,
    pub(crate) standing: PodStanding<'a>,
}

/// A pending pod with further requirements.
pub(crate) struct RestrictedPod {
    pub(crate) pod: Pod,
    /// Why nothing is launched for it, if no node meets them.
    pub(crate) without_launch: Option<String>,
}

/// All pods that wait for a node, in the order of the view.
#[derive(Default)]
pub(crate) struct PendingPods<'a>(Vec<PendingPod<'a>>);

impl PodStanding<'_> {
    /// Whether the pod is scheduled.
    const fn is_planned(&self) -> bool {
        matches!(self, Self::Planned | Self::Restricted { .. })
    }

    /// Why the pod gets no node, as it is reported.
    fn reason(&self) -> Option<String> {
        match self {
            Self::Restricted { without_launch } => without_launch.map(str::to_owned),
            Self::FaultyVolume { why } => Some((*why).to_owned()),
            Self::AwaitsRequest { request } => {
                Some(format!("the pod waits for the capacity of ProvisioningRequest {}", request.key()))
            }
            Self::Unreported | Self::Planned | Self::Promised { .. } => None,
        }
    }
}

impl<'a> PendingPods<'a> {
    /// Adds a pod of the view, if it waits for a node.
    pub(crate) fn add(&mut self, view: &'a ClusterView, pod: &'a Pod) {
        if !pod.awaits_node() {
            return;
        }
        let standing = match volume_fault(view, pod) {
            _ if !pod.marked_unschedulable => PodStanding::Unreported,
            Some(why) => PodStanding::FaultyVolume { why },
            None => PodStanding::Planned,
        };
        self.0.push(PendingPod { pod, standing });
    }

    /// Plans these pods instead of those with the same uids.
    pub(crate) fn restrict(&mut self, restricted: &'a [RestrictedPod]) {
        let restricted: HashMap<&str, &RestrictedPod> =
            restricted.iter().map(|one| (one.pod.uid.as_str(), one)).collect();
        for one in &mut self.0 {
            let Some(RestrictedPod { pod, without_launch }) = restricted.get(one.pod.uid.as_str()) else { continue };
            one.pod = pod;
            if one.standing.is_planned() {
                one.standing = PodStanding::Restricted { without_launch: without_launch.as_deref() };
            }
        }
    }

    /// Sets the standings of pods, by uid, that would be scheduled without that.
    pub(crate) fn set(&mut self, standings: &HashMap<&str, PodStanding<'a>>) {
        for one in self.0.iter_mut().filter(|one| one.standing.is_planned()) {
            one.standing = standings.get(one.pod.uid.as_str()).copied().unwrap_or(one.standing);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingPod<'a>> {
        self.0.iter()
    }

    /// The pods that are scheduled.
    pub(crate) fn planned(&self) -> impl Iterator<Item = &'a Pod> {
        self.0.iter().filter(|one| one.standing.is_planned()).map(|one| one.pod)
    }

    /// The pods that are about to be bound, each with its Node.
    pub(crate) fn promised(&self) -> impl Iterator<Item = (&'a Pod, &'a str)> {
        self.0.iter().filter_map(|one| match one.standing {
            PodStanding::Promised { node } => Some((one.pod, node)),
            _ => None,
        })
    }

    /// The pods that are left out, each with the reason.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (&'a Pod, String)> {
        let not_planned = self.0.iter().filter(|one| !one.standing.is_planned());
        not_planned.filter_map(|one| Some((one.pod, one.standing.reason()?)))
    }

    /// Why nothing is launched for pods that are scheduled, by uid.
    pub(crate) fn without_launch(&self) -> HashMap<&'a str, String> {
        let planned = self.0.iter().filter(|one| one.standing.is_planned());
        planned.filter_map(|one| Some((one.pod.uid.as_str(), one.standing.reason()?))).collect()
    }
}

/// Why a volume that a pod mounts cannot be used, if there is one.
fn volume_fault<'v>(view: &'v ClusterView, pod: &Pod) -> Option<&'v str> {
    if view.volume_faults.is_empty() {
        return None;
    }
    let keys = pod.template.volume_claims.iter().map(|claim| format!("{}/{}", pod.namespace, claim.claim_name));
    keys.filter_map(|key| view.volume_faults.get(&key)).next().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::pod::VolumeClaim;

    fn pod(uid: &str) -> Pod {
        Pod { uid: uid.into(), marked_unschedulable: true, ..Pod::default() }
    }

    fn with_volume(uid: &str) -> Pod {
        let volume = VolumeClaim { claim_name: "lost".into(), ephemeral: false };
        pod(uid).with_template(|it| it.volume_claims = vec![volume])
    }

    fn uids<'a>(pods: impl Iterator<Item = &'a Pod>) -> Vec<&'a str> {
        pods.map(|pod| pod.uid.as_str()).collect()
    }

    #[test]
    fn a_pod_has_one_standing_and_the_first_reason_stays() {
        let unreported = Pod { marked_unschedulable: false, ..with_volume("unreported") };
        let gated = pod("gated").with_template(|it| it.scheduling_gates = vec!["wait".into()]);
        let pods = [pod("free"), with_volume("faulty"), pod("consumer"), pod("expected"), unreported, gated];
        let mut view = ClusterView { pods: pods.into_iter().map(Into::into).collect(), ..ClusterView::default() };
        view.volume_faults.insert("/lost".into(), "it is lost".into());
        let request =
            ProvisioningRequest { namespace: "default".into(), name: "r".into(), ..ProvisioningRequest::default() };
        let of_request = || PodStanding::AwaitsRequest { request: &request };
        let promised = || PodStanding::Promised { node: "n" };
        let mut pending = PendingPods::default();
        view.pods().for_each(|pod| pending.add(&view, pod));
        pending.set(&["faulty", "consumer", "unreported"].map(|uid| (uid, of_request())).into());
        pending.set(&["consumer", "expected"].map(|uid| (uid, promised())).into());
        let found: Vec<&PodStanding<'_>> = pending.iter().map(|one| &one.standing).collect();
        let faulty = PodStanding::FaultyVolume { why: "it is lost" };
        assert_eq!(found, [&PodStanding::Planned, &faulty, &of_request(), &promised(), &PodStanding::Unreported]);
        assert_eq!(uids(pending.planned()), ["free"]);
        assert_eq!(uids(pending.promised().map(|(pod, _)| pod)), ["expected"]);
        let reasons: Vec<String> = pending.left_out().map(|(_, why)| why).collect();
        assert_eq!(reasons, ["it is lost", "the pod waits for the capacity of ProvisioningRequest default/r"]);
    }

    #[test]
    fn a_restricted_pod_is_planned_in_its_form_unless_it_is_left_out() {
        let pods = [pod("waits"), pod("elsewhere"), with_volume("faulty")];
        let mut view = ClusterView { pods: pods.into_iter().map(Into::into).collect(), ..ClusterView::default() };
        view.volume_faults.insert("/lost".into(), "it is lost".into());
        let restricted = |uid: &str, why: Option<&str>| RestrictedPod {
            pod: Pod { name: "restricted".into(), ..pod(uid) },
            without_launch: why.map(str::to_owned),
        };
        let restricted =
            [restricted("waits", Some("too often")), restricted("elsewhere", None), restricted("faulty", None)];
        let mut pending = PendingPods::default();
        view.pods().for_each(|pod| pending.add(&view, pod));
        pending.restrict(&restricted);
        assert!(pending.iter().all(|one| one.pod.name == "restricted"));
        assert_eq!(uids(pending.planned()), ["waits", "elsewhere"]);
        assert_eq!(pending.without_launch(), HashMap::from([("waits", "too often".to_owned())]));
        assert_eq!(uids(pending.left_out().map(|(pod, _)| pod)), ["faulty"]);
    }
}
