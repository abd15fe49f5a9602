//! Expected pods: those that a workload is about to create.

use crate::pods::pod::VolumeClaim;
use crate::pods::provisioning_request::consumed_by;
use crate::pods::virtual_pod::VirtualPods;
use crate::{Pod, PodOrigin, PodShape, Workload};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Below that of every pod for which a user would set one, so that limits refuse expected pods first, and above those of CapacityBuffers.
const PRIORITY: i32 = -2_000_000_000;
/// Between the workload and the number in the name of an expected pod. No pod of a cluster can have a name with it.
const NUMBER: &str = "-+";

/// For which pods nodes are launched before their workload has created them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExpectedPods {
    /// None.
    #[default]
    Off,
    /// Those of workloads of which a pod is pending: like that pod.
    Samples,
    /// These, and those of Deployments that were created or changed together with the workload of a pending pod: as in their templates.
    Templates,
}

impl FromStr for ExpectedPods {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "samples" => Ok(Self::Samples),
            "templates" => Ok(Self::Templates),
            _ => Err(format!("{text:?} is none of off, samples and templates")),
        }
    }
}

/// A Deployment, StatefulSet or Job, as far as the number of the pods that it is about to create follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodController {
    /// The name.
    pub workload: Workload,
    /// The CronJob that created it.
    pub cron_job: Option<Workload>,
    /// The uid of the object.
    pub uid: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether its status describes this generation.
    pub is_observed: bool,
    /// When it was created, in whole seconds.
    pub created: Option<Timestamp>,
    /// Which pods it is to have.
    pub desired: Desired,
    /// A pod of its template, with what admission gives it; `None` if the template cannot be decoded.
    pub shape: Option<PodShape>,
}

/// Which pods a workload is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Desired {
    /// It creates none now, or one after the other: it is paused or suspended, has ended, is being deleted, or waits after a failed pod.
    #[default]
    Nothing,
    /// The API server refuses its pods.
    Refused,
    /// A Deployment.
    Replicas {
        /// The replicas.
        count: u32,
        /// How many pods a rolling update creates above them.
        surge: u32,
        /// Whether all old pods are deleted first.
        recreates: bool,
    },
    /// A StatefulSet that creates its pods in parallel.
    Ordinals {
        /// The number of the first pod.
        first: u32,
        /// The replicas.
        count: u32,
    },
    /// A Job.
    Active {
        /// How many of its pods are to run at once: no more than have yet to succeed.
        count: u32,
        /// Whether a pod that is being deleted is replaced only once it has ended.
        awaits_deleted: bool,
    },
}

impl Desired {
    /// How many pods the workload has at most.
    #[must_use]
    pub const fn most(&self) -> u32 {
        match self {
            Self::Nothing | Self::Refused => 0,
            Self::Replicas { count, surge, .. } => count.saturating_add(*surge),
            Self::Ordinals { count, .. } | Self::Active { count, .. } => *count,
        }
    }
}

impl Pod {
    /// The Deployment, StatefulSet or Job of Kubernetes that it is of. Other API groups have kinds of the same names.
    #[must_use]
    pub fn pod_controller(&self) -> Option<Workload> {
        let workload = self.workload().filter(|_| !self.owner_is_custom);
        workload.filter(|workload| matches!(workload.kind.as_str(), "Deployment" | "StatefulSet" | "Job"))
    }

    /// The names by which is recorded whether its workload creates the pods that are expected: one, and for a Job that of a CronJob, too.
    pub fn expectation_keys(&self) -> impl Iterator<Item = String> + use<> {
        let workload = self.pod_controller();
        let cron_job = workload.as_ref().filter(|workload| workload.kind == "Job").and_then(|job| {
            let (name, _) = job.name.rsplit_once('-')?;
            Some(Workload::new(&job.namespace, "CronJob", name, None))
        });
        workload.into_iter().chain(cron_job).map(|workload| workload.to_string())
    }

    /// Whether nothing but its workload decides about the pods that are like this one.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let template = &self.template;
        template.scheduling_gates.is_empty() && template.resource_claims.is_empty() && consumed_by(self).is_none()
    }
}

impl PodController {
    /// Expected pods with these numbers, like `sample`, which is another pod of the workload, or one of its template. Volumes that are made
    /// for each pod are left out, because those of the expected pods do not exist yet.
    #[must_use]
    pub fn expected_pods(&self, sample: &Pod, numbers: impl IntoIterator<Item = u32>) -> Vec<Pod> {
        let mut template = Pod { template: sample.template.clone(), created: sample.created, ..Pod::default() };
        let made = format!("-{}", sample.name);
        let is_made = matches!(self.desired, Desired::Ordinals { .. });
        let volumes = &sample.template.volume_claims;
        let is_own = |claim: &VolumeClaim| claim.ephemeral || (is_made && claim.claim_name.ends_with(made.as_str()));
        if !volumes.is_empty() {
            template.template_mut().volume_claims = volumes.iter().filter(|claim| !is_own(claim)).cloned().collect();
        }
        let pods = VirtualPods {
            origin: PodOrigin::Workload(Arc::new(self.workload.clone())),
            template: &template,
            namespace: &self.workload.namespace,
            name: format!("{}-{}{NUMBER}", self.workload.kind, self.workload.name),
            uid: format!("{}{NUMBER}", self.uid),
            created: template.created,
            priority: PRIORITY,
        };
        pods.pods(numbers)
    }
}

/// The name of an expected pod, by which the NodeClaims that are launched for it list it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExpectedPod {
    /// The workload that is about to create it.
    pub workload: Workload,
    /// The number, which distinguishes it from others of the workload.
    pub number: u32,
}

impl ExpectedPod {
    /// The expected pod of this name, `namespace/name`; `None` if it is that of another pod.
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        let (owner, number) = key.rsplit_once(NUMBER)?;
        let (namespace, owner) = owner.split_once('/')?;
        let (kind, name) = owner.split_once('-')?;
        let workload = Workload { namespace: namespace.to_owned(), kind: kind.to_owned(), name: name.to_owned() };
        Some(Self { workload, number: number.parse().ok()? })
    }
}

impl fmt::Display for ExpectedPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload { namespace, kind, name } = &self.workload;
        write!(f, "{namespace}/{kind}-{name}{NUMBER}{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(kind: &str, desired: Desired) -> PodController {
        PodController {
            workload: Workload { namespace: "shop".into(), kind: kind.into(), name: "web-api".into() },
            cron_job: None,
            uid: "u".into(),
            generation: 1,
            is_observed: true,
            created: None,
            desired,
            shape: None,
        }
    }

    #[test]
    fn the_name_of_an_expected_pod_is_that_of_no_other() {
        let sample = Pod { name: "web-api-7d4b9-x2k4p".into(), node_name: Some("n".into()), ..Pod::default() };
        let sample = sample.with_template(|it| (it.priority, it.scheduling_gates) = (7, vec!["g".into()]));
        let of = controller("Deployment", Desired::Replicas { count: 9, surge: 0, recreates: false });
        let pods = of.expected_pods(&sample, [3, 5]);
        let keys: Vec<String> = pods.iter().map(Pod::key).collect();
        assert_eq!(keys, ["shop/Deployment-web-api-+3", "shop/Deployment-web-api-+5"]);
        let parsed = ExpectedPod::parse(&keys[1]).unwrap();
        assert_eq!((parsed.number, parsed.to_string()), (5, keys[1].clone()));
        assert_eq!(parsed.workload, of.workload);
        assert!(
            pods.iter().all(|pod| pod.is_virtual() && pod.is_provisionable() && pod.template.priority < -1_000_000)
        );
        for real in ["shop/web-api-7d4b9-x2k4p", "shop/capacity-buffer-web-0", "shop/web-+x", "web-+3"] {
            assert_eq!(ExpectedPod::parse(real), None, "{real}");
        }
    }

    #[test]
    fn the_workload_of_a_pod_is_one_of_kubernetes() {
        let owned = |kind: &str| Pod {
            namespace: "shop".into(),
            owner_kind: Some(kind.into()),
            owner_name: Some("web-1".into()),
            ..Pod::default()
        };
        let keys = |pod: &Pod| pod.expectation_keys().collect::<Vec<_>>();
        assert_eq!(keys(&owned("StatefulSet")), ["StatefulSet shop/web-1"]);
        assert_eq!(keys(&owned("Job")), ["Job shop/web-1", "CronJob shop/web"]);
        let custom = Pod { owner_is_custom: true, ..owned("StatefulSet") };
        for other in [custom, owned("Workflow"), owned("ReplicaSet")] {
            assert_eq!((other.pod_controller(), keys(&other).len()), (None, 0), "{other:?}");
        }
    }

    #[test]
    fn volumes_of_one_pod_are_left_out() {
        let claim = |name: &str, ephemeral| VolumeClaim { claim_name: name.into(), ephemeral };
        let sample = Pod { name: "web-api-0".into(), ..Pod::default() };
        let claims = vec![claim("data-web-api-0", false), claim("shared", false), claim("web-api-0-tmp", true)];
        let sample = sample.with_template(|it| it.volume_claims = claims);
        let kept = |desired| {
            let pods = controller("StatefulSet", desired).expected_pods(&sample, [1]);
            pods[0].template.volume_claims.iter().map(|claim| claim.claim_name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(kept(Desired::Ordinals { first: 0, count: 2 }), ["shared"]);
        assert_eq!(
            kept(Desired::Active { count: 2, awaits_deleted: false }),
            ["data-web-api-0", "shared"],
            "no other kind makes them by name"
        );
    }

    #[test]
    fn the_setting_has_three_values() {
        let all = ["off", "samples", "templates"].map(|text| text.parse::<ExpectedPods>().unwrap());
        assert_eq!(all, [ExpectedPods::Off, ExpectedPods::Samples, ExpectedPods::Templates]);
        assert!("on".parse::<ExpectedPods>().unwrap_err().contains("samples"));
    }
}
