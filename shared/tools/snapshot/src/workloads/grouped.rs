//! The kinds whose pods have several templates.

use super::{Metadata, Object as Base, PodGroup, Spec as JobSpec, parallel_pods};
use crate::decode::{Undecoded, decode, without_nulls};
use crate::documents::Body;
use serde::Deserialize;
use serde_json::Value;

/// The owners, the replicas, and the pods of each.
type Read = (Metadata, Option<u32>, Vec<PodGroup>);

/// Reads a workload of one of these kinds; `None` for another kind.
pub(super) fn read(kind: &str, body: &Body<'_>) -> Option<Result<Read, Undecoded>> {
    let groups = match kind {
        "JobSet" => decode::<Object<JobSet>>(body).map(|set| (Some(1), job_set(set.spec))),
        "LeaderWorkerSet" => decode::<Object<LeaderWorkerSet>>(body).map(|set| leader_worker_set(set.spec)),
        "RayCluster" => decode::<Object<RayCluster>>(body).map(|ray| (Some(1), ray_cluster(ray.spec, "spec"))),
        "RayJob" => decode::<Object<RayJob>>(body).map(|job| {
            (Some(u32::from(!job.spec.suspend)), ray_cluster(job.spec.ray_cluster_spec, "spec.rayClusterSpec"))
        }),
        "RayService" => decode::<Object<RayService>>(body)
            .map(|ray| (Some(1), ray_cluster(ray.spec.ray_cluster_config, "spec.rayClusterConfig"))),
        _ => return None,
    };
    Some(groups.and_then(|(replicas, groups)| {
        let Base { metadata, status, .. } = decode::<Base>(&Body::Tree(without_spec(body)))?;
        let replicas = if status.has_ended() { Some(0) } else { replicas };
        Ok((metadata, replicas, groups))
    }))
}

/// The fields besides the spec.
fn without_spec(body: &Body<'_>) -> Value {
    let mut object = crate::decode::tree(body);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("spec");
    }
    object
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object<S: Default> {
    spec: S,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobSet {
    replicated_jobs: Vec<ReplicatedJob>,
    suspend: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReplicatedJob {
    name: String,
    replicas: Option<u32>,
    template: JobTemplate,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobTemplate {
    spec: JobSpec,
}

fn job_set(set: JobSet) -> Vec<PodGroup> {
    let suspended = set.suspend;
    let group = |(index, job): (usize, ReplicatedJob)| {
        let jobs = if suspended { 0 } else { job.replicas.unwrap_or(1) };
        let pods = jobs.saturating_mul(parallel_pods(&job.template.spec, 0));
        let within = format!("spec.replicatedJobs[{index}]");
        PodGroup {
            infix: format!("-{}", job.name),
            pods,
            most: pods,
            template: without_nulls(job.template.spec.template),
            template_field: format!("{within}.template.spec.template"),
            number_field: format!("{within}.replicas"),
            ..PodGroup::default()
        }
    };
    set.replicated_jobs.into_iter().enumerate().map(group).collect()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaderWorkerSet {
    replicas: Option<u32>,
    leader_worker_template: LeaderWorkerTemplate,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaderWorkerTemplate {
    size: Option<u32>,
    leader_template: Option<Value>,
    worker_template: Value,
}

fn leader_worker_set(set: LeaderWorkerSet) -> (Option<u32>, Vec<PodGroup>) {
    let LeaderWorkerTemplate { size, leader_template, worker_template } = set.leader_worker_template;
    let size = size.unwrap_or(1);
    let group = |infix: &str, field: &str, pods: u32, template: Value| PodGroup {
        infix: infix.to_owned(),
        pods,
        most: pods,
        template: without_nulls(template),
        template_field: format!("spec.leaderWorkerTemplate.{field}"),
        number_field: "spec.replicas".to_owned(),
        ..PodGroup::default()
    };
    let groups = match leader_template.filter(|template| !template.is_null()) {
        Some(leader) => vec![
            group("", "leaderTemplate", 1, leader),
            group("-worker", "workerTemplate", size.saturating_sub(1), worker_template),
        ],
        None => vec![group("", "workerTemplate", size, worker_template)],
    };
    (set.replicas, groups)
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RayJob {
    suspend: bool,
    ray_cluster_spec: RayCluster,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RayService {
    ray_cluster_config: RayCluster,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RayCluster {
    suspend: bool,
    enable_in_tree_autoscaling: bool,
    head_group_spec: RayGroup,
    worker_group_specs: Vec<RayGroup>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RayGroup {
    group_name: String,
    suspend: bool,
    replicas: Option<u32>,
    min_replicas: Option<u32>,
    max_replicas: Option<u32>,
    num_of_hosts: Option<u32>,
    template: Value,
}

fn ray_cluster(ray: RayCluster, within: &str) -> Vec<PodGroup> {
    let scaled = ray.enable_in_tree_autoscaling;
    let head = PodGroup {
        infix: "-head".to_owned(),
        pods: u32::from(!ray.suspend),
        most: u32::from(!ray.suspend),
        template: without_nulls(ray.head_group_spec.template),
        template_field: format!("{within}.headGroupSpec.template"),
        number_field: format!("{within}.headGroupSpec"),
        ..PodGroup::default()
    };
    let workers = ray.worker_group_specs.into_iter().enumerate().map(|(index, group)| {
        let (least, most) = (group.min_replicas.unwrap_or(0), group.max_replicas.unwrap_or(u32::MAX));
        let replicas = group.replicas.unwrap_or(0).max(least).min(most.max(least));
        let hosts = if ray.suspend || group.suspend { 0 } else { group.num_of_hosts.unwrap_or(1) };
        // Without a maximum, autoscaling has no end that could be planned.
        let most = if scaled { group.max_replicas.unwrap_or(replicas).max(replicas) } else { replicas };
        let within = format!("{within}.workerGroupSpecs[{index}]");
        PodGroup {
            infix: format!("-{}", group.group_name),
            pods: replicas.saturating_mul(hosts),
            most: most.saturating_mul(hosts),
            template: without_nulls(group.template),
            template_field: format!("{within}.template"),
            number_field: format!("{within}.replicas"),
            ..PodGroup::default()
        }
    });
    std::iter::once(head).chain(workers).collect()
}
