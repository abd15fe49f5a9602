//! What an EC2NodeClass resolves to in the simulated account.

use crate::ec2::{Account, Image};
use jiff::Timestamp;
use nodeless_api::nodeclass::{Ami, AmiFamily, AmiRequirement, AmiSelectorTerm, SecurityGroup, Subnet};
use nodeless_api::{Condition, ConditionStatus, EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
use nodeless_model::labels;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Why something does not stand: one word, and a sentence for a person.
type Problem = (&'static str, String);

/// Looks for everything that the class names.
pub(super) fn status(account: &Account, class: &EC2NodeClass, version: &str, now: Timestamp) -> EC2NodeClassStatus {
    let spec = &class.spec;
    let subnets = subnets(account, spec);
    let security_groups = security_groups(account, spec);
    let (amis, amis_problem) = match amis(account, spec, version, now) {
        Ok(amis) => (amis, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let (instance_profile, profile_problem) = match instance_profile(account, spec) {
        Ok(profile) => (Some(profile), None),
        Err(problem) => (None, Some(problem)),
    };
    let none = |missing: bool, reason: &'static str, field: &str| {
        missing.then(|| (reason, format!("{field} selects nothing in this account; change it, or tag what it means")))
    };
    let sections = [
        ("SubnetsReady", none(subnets.is_empty(), "SubnetsNotFound", "spec.subnetSelectorTerms")),
        (
            "SecurityGroupsReady",
            none(security_groups.is_empty(), "SecurityGroupsNotFound", "spec.securityGroupSelectorTerms"),
        ),
        ("CapacityReservationsReady", unsupported(!spec.capacity_reservation_selector_terms.is_empty())),
        ("AMIsReady", amis_problem),
        ("InstanceProfileReady", profile_problem),
        ("PlacementGroupReady", unsupported(spec.placement_group_selector.is_some())),
    ];
    EC2NodeClassStatus {
        subnets,
        security_groups,
        capacity_reservations: Vec::new(),
        amis,
        instance_profile,
        conditions: conditions(class, &sections, now),
    }
}

fn unsupported(asked: bool) -> Option<Problem> {
    asked.then(|| ("NotSupported", "this field is not supported in the simulated world; remove it".to_owned()))
}

/// Whether a resource has all of these tags; `*` asks only that the key exists.
fn has_tags(account: &Account, id: &str, wanted: Option<&BTreeMap<String, String>>) -> bool {
    let own = account.tags.get(id);
    let has = |key: &String, value: &String| {
        own.and_then(|own| own.get(key)).is_some_and(|present| value == "*" || value == present)
    };
    wanted.is_none_or(|wanted| wanted.iter().all(|(key, value)| has(key, value)))
}

fn subnets(account: &Account, spec: &EC2NodeClassSpec) -> Vec<Subnet> {
    let selected = |subnet: &&crate::ec2::Subnet| {
        spec.subnet_selector_terms.iter().any(|term| {
            term.id.as_ref().is_none_or(|id| *id == subnet.id)
                && (term.id.is_some() || term.tags.is_some())
                && has_tags(account, &subnet.id, term.tags.as_ref())
        })
    };
    let mut found: Vec<&crate::ec2::Subnet> = account.subnets.iter().filter(selected).collect();
    // Those with the most free addresses first.
    found.sort_by_key(|subnet| (Reverse(subnet.free_addresses), subnet.id.clone()));
    let zone_id = |name: &str| account.facts.zone(name).map(|zone| zone.id.clone());
    let status = |subnet: &crate::ec2::Subnet| Subnet {
        id: subnet.id.clone(),
        zone: subnet.zone.clone(),
        zone_id: zone_id(&subnet.zone),
    };
    found.into_iter().map(status).collect()
}

fn security_groups(account: &Account, spec: &EC2NodeClassSpec) -> Vec<SecurityGroup> {
    let selected = |group: &&crate::ec2::SecurityGroup| {
        spec.security_group_selector_terms.iter().any(|term| {
            term.id.as_ref().is_none_or(|id| *id == group.id)
                && term.name.as_ref().is_none_or(|name| *name == group.name)
                && (term.id.is_some() || term.name.is_some() || term.tags.is_some())
                && has_tags(account, &group.id, term.tags.as_ref())
        })
    };
    let status =
        |group: &crate::ec2::SecurityGroup| SecurityGroup { id: group.id.clone(), name: Some(group.name.clone()) };
    account.security_groups.iter().filter(selected).map(status).collect()
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> AmiRequirement {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    AmiRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}

/// The image's status, for nodes of its architecture and these further requirements.
fn ami(image: &Image, further: Vec<AmiRequirement>, now: Timestamp) -> Option<Ami> {
    let architecture = match image.architecture.as_str() {
        "x86_64" => "amd64",
        "arm64" => "arm64",
        _ => return None,
    };
    let mut requirements = vec![requirement(labels::ARCH, "In", &[architecture])];
    requirements.extend(further);
    let deprecated = image.deprecated.is_some_and(|at| at <= now).then_some(true);
    Some(Ami { id: image.id.clone(), deprecated, name: Some(image.name.clone()), requirements })
}

fn amis(account: &Account, spec: &EC2NodeClassSpec, version: &str, now: Timestamp) -> Result<Vec<Ami>, Problem> {
    let found = match spec.alias() {
        Some((family, release)) => of_alias(account, family, release, version, now)?,
        None => of_terms(account, &spec.ami_selector_terms, now),
    };
    if found.is_empty() {
        let message = "spec.amiSelectorTerms selects no image of this account; change it".to_owned();
        return Err(("AMINotFound", message));
    }
    Ok(found)
}

fn of_terms(account: &Account, terms: &[AmiSelectorTerm], now: Timestamp) -> Vec<Ami> {
    let selected = |image: &&Image| {
        terms.iter().any(|term| {
            let parameter = term.ssm_parameter.as_ref().map(|name| account.parameters.get(name));
            let owner = |owner: &String| match owner.as_str() {
                "self" => image.owner_id == account.id,
                other => image.owner_id == other || image.owner_alias.as_deref() == Some(other),
            };
            term.id.as_ref().is_none_or(|id| *id == image.id)
                && parameter.is_none_or(|id| id == Some(&image.id))
                && term.name.as_ref().is_none_or(|name| *name == image.name)
                && term.owner.as_ref().is_none_or(owner)
                && has_tags(account, &image.id, term.tags.as_ref())
        })
    };
    let mut images: Vec<&Image> = account.images.iter().filter(selected).collect();
    images.sort_by_key(|image| (Reverse(image.created), image.name.clone()));
    images.into_iter().filter_map(|image| ami(image, Vec::new(), now)).collect()
}

/// The images of an alias, by the public parameters that name them.
fn of_alias(
    account: &Account,
    family: Option<AmiFamily>,
    release: &str,
    version: &str,
    now: Timestamp,
) -> Result<Vec<Ami>, Problem> {
    let plain = || {
        vec![
            requirement(labels::INSTANCE_GPU_COUNT, "DoesNotExist", &[]),
            requirement(labels::INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", &[]),
        ]
    };
    let gpus = || vec![requirement(labels::INSTANCE_GPU_COUNT, "Exists", &[])];
    let accelerators = || vec![requirement(labels::INSTANCE_ACCELERATOR_COUNT, "Exists", &[])];
    let mut parameters = Vec::new();
    for architecture in ["x86_64", "arm64"] {
        match family {
            Some(AmiFamily::AL2023) => {
                for (kind, needs) in [("standard", plain()), ("nvidia", gpus()), ("neuron", accelerators())] {
                    let image = match release {
                        "latest" => "recommended".to_owned(),
                        pinned => format!("amazon-eks-node-al2023-{architecture}-{kind}-{version}-{pinned}"),
                    };
                    let base = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2023");
                    parameters.push((format!("{base}/{architecture}/{kind}/{image}/image_id"), needs));
                }
            }
            Some(AmiFamily::Bottlerocket) => {
                let release = release.trim_start_matches('v');
                for (suffix, needs) in [("", plain()), ("", accelerators()), ("-nvidia", gpus())] {
                    let flavour = format!("aws-k8s-{version}{suffix}");
                    let name = format!("/aws/service/bottlerocket/{flavour}/{architecture}/{release}/image_id");
                    parameters.push((name, needs));
                }
            }
            other => {
                let name = other.map_or("of an unknown family", AmiFamily::name);
                let message =
                    format!("spec.amiSelectorTerms: an alias {name} is not simulated; use al2023 or bottlerocket");
                return Err(("UnsupportedAlias", message));
            }
        }
    }
    let found = parameters.into_iter().filter_map(|(name, needs)| {
        let id = account.parameters.get(&name)?;
        ami(account.images.iter().find(|image| image.id == *id)?, needs, now)
    });
    Ok(found.collect())
}

/// The profile that the class names, or one of the account that holds its role. None is made here.
fn instance_profile(account: &Account, spec: &EC2NodeClassSpec) -> Result<String, Problem> {
    if let Some(profile) = &spec.instance_profile {
        return Ok(profile.clone());
    }
    let role = spec.role.as_deref().unwrap_or_default();
    let role = role.rsplit('/').next().unwrap_or(role);
    let holds = |profile: &&crate::ec2::InstanceProfile| profile.roles.iter().any(|held| held == role);
    match account.instance_profiles.iter().find(holds) {
        Some(profile) => Ok(profile.name.clone()),
        None => {
            let known = account.roles.join(", ");
            let message = format!("spec.role: there is no role {role:?} in the simulated account; it has: {known}");
            Err(("InstanceProfileNotFound", message))
        }
    }
}

/// One condition each, ValidationSucceeded and Ready; times of conditions that stay as they were are kept.
fn conditions(class: &EC2NodeClass, sections: &[(&'static str, Option<Problem>)], now: Timestamp) -> Vec<Condition> {
    let broken: Vec<&str> = sections.iter().filter(|(_, problem)| problem.is_some()).map(|(name, _)| *name).collect();
    let validation = (!broken.is_empty()).then(|| ("DependenciesNotReady", format!("Awaiting {}", broken.join(", "))));
    let ready = (!broken.is_empty()).then(|| {
        let parts: Vec<String> = broken.iter().map(|name| format!("{name}=False")).collect();
        ("UnhealthyDependents", parts.join(", "))
    });
    let mut all = sections.to_vec();
    all.extend([("ValidationSucceeded", validation), ("Ready", ready)]);
    let known = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = |(name, problem): (&'static str, Option<Problem>)| {
        let status = if problem.is_none() { ConditionStatus::True } else { ConditionStatus::False };
        let before = known.iter().find(|condition| condition.type_ == name && condition.status == status);
        let (reason, message) = problem.unwrap_or_else(|| (name, String::new()));
        Condition {
            type_: name.to_owned(),
            status,
            reason: reason.to_owned(),
            message,
            last_transition_time: before.map_or_else(|| now.into(), |it| it.last_transition_time.clone()),
            observed_generation: class.metadata.generation,
        }
    };
    all.into_iter().map(condition).collect()
}
