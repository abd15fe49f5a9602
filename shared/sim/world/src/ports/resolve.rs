//! Resolves an EC2NodeClass in the simulated account.

use jiff::Timestamp;
use nodeless_api::nodeclass::{Ami, AmiFamily, AmiSelectorTerm, SecurityGroup, Subnet};
use nodeless_api::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus, hash};
use nodeless_fake_aws::{Account, Image};
use nodeless_launch::ClusterDetails;
use nodeless_launch::node_class::amis::{self, alias_parameters, select};
use nodeless_launch::node_class::exported_reservations::selects;
use nodeless_launch::node_class::reservations::{self, Described};
use nodeless_launch::node_class::{Problem, conditions, validation};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Resolves everything that the class selects.
pub(super) fn status(
    account: &Account,
    class: &EC2NodeClass,
    cluster: &ClusterDetails,
    now: Timestamp,
) -> EC2NodeClassStatus {
    let spec = &class.spec;
    let subnets = subnets(account, spec);
    let security_groups = security_groups(account, spec);
    let (amis, amis_problem) = match amis(account, spec, &cluster.version, now) {
        Ok(amis) => (amis, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let (instance_profile, profile_problem) = match instance_profile(account, spec) {
        Ok(profile) => (Some(profile), None),
        Err(problem) => (None, Some(problem)),
    };
    let (capacity_reservations, _) = reservations::select(reservations(account, spec, now), now);
    let groups = account.placement_groups.iter();
    let groups = groups.map(|group| (group.id.as_str(), group.name.as_str()));
    let placement = spec.placement_group_selector.as_ref().and_then(|it| validation::placement_group(groups, it));
    let none = |missing: bool, reason: &'static str, field: &str| {
        let message = || format!("{field} selects nothing in this account; change it, or tag what it means");
        missing.then(|| Problem::new(reason, message()))
    };
    let sections = [
        ("SubnetsReady", none(subnets.is_empty(), "SubnetsNotFound", "spec.subnetSelectorTerms")),
        (
            "SecurityGroupsReady",
            none(security_groups.is_empty(), "SecurityGroupsNotFound", "spec.securityGroupSelectorTerms"),
        ),
        ("CapacityReservationsReady", None),
        ("AMIsReady", amis_problem),
        ("InstanceProfileReady", profile_problem),
        ("PlacementGroupReady", placement),
    ];
    EC2NodeClassStatus {
        subnets,
        security_groups,
        capacity_reservations,
        amis,
        instance_profile,
        resolved_hash: Some(hash::resolved_fields(spec)),
        conditions: conditions(class, &sections, validation::validate(cluster, spec), now),
    }
}

/// The active capacity reservations that any of the terms selects.
fn reservations(account: &Account, spec: &EC2NodeClassSpec, now: Timestamp) -> Vec<Described> {
    let described = |reservation: &nodeless_fake_aws::CapacityReservation| Described {
        id: reservation.id.clone(),
        instance_type: reservation.instance_type.clone(),
        zone: reservation.zone.clone(),
        owner_id: account.id.clone(),
        match_criteria: if reservation.open { "open" } else { "targeted" }.to_owned(),
        reservation_type: "default".to_owned(),
        interruptible: reservation.interruptible,
        end: reservation.end,
        total: Some(reservation.total),
        available: reservation.available,
    };
    let selected = |described: &Described| {
        let tags = account.tags.get(&described.id);
        spec.capacity_reservation_selector_terms.iter().any(|term| selects(term, described, tags))
    };
    let active = account.capacity_reservations.iter().filter(|reservation| reservation.state(now) == "active");
    active.map(described).filter(selected).collect()
}

/// Whether a resource has all of these tags; `*` requires only the key.
fn has_tags(account: &Account, id: &str, expected: Option<&BTreeMap<String, String>>) -> bool {
    let own = account.tags.get(id);
    let has = |key: &String, value: &String| {
        own.and_then(|own| own.get(key)).is_some_and(|present| value == "*" || value == present)
    };
    expected.is_none_or(|expected| expected.iter().all(|(key, value)| has(key, value)))
}

fn subnets(account: &Account, spec: &EC2NodeClassSpec) -> Vec<Subnet> {
    let selected = |subnet: &&nodeless_fake_aws::Subnet| {
        spec.subnet_selector_terms.iter().any(|term| {
            term.id.as_ref().is_none_or(|id| *id == subnet.id)
                && (term.id.is_some() || term.tags.is_some())
                && has_tags(account, &subnet.id, term.tags.as_ref())
        })
    };
    let mut found: Vec<&nodeless_fake_aws::Subnet> = account.subnets.iter().filter(selected).collect();
    // The subnets with the most free addresses first.
    found.sort_by_key(|subnet| (Reverse(subnet.free_addresses), subnet.id.clone()));
    let zone_id = |name: &str| account.facts.zone(name).map(|zone| zone.id.clone());
    let status = |subnet: &nodeless_fake_aws::Subnet| Subnet {
        id: subnet.id.clone(),
        zone: subnet.zone.clone(),
        zone_id: zone_id(&subnet.zone),
    };
    found.into_iter().map(status).collect()
}

fn security_groups(account: &Account, spec: &EC2NodeClassSpec) -> Vec<SecurityGroup> {
    let selected = |group: &&nodeless_fake_aws::SecurityGroup| {
        spec.security_group_selector_terms.iter().any(|term| {
            term.id.as_ref().is_none_or(|id| *id == group.id)
                && term.name.as_ref().is_none_or(|name| *name == group.name)
                && (term.id.is_some() || term.name.is_some() || term.tags.is_some())
                && has_tags(account, &group.id, term.tags.as_ref())
        })
    };
    let status = |group: &nodeless_fake_aws::SecurityGroup| SecurityGroup {
        id: group.id.clone(),
        name: Some(group.name.clone()),
    };
    account.security_groups.iter().filter(selected).map(status).collect()
}

fn amis(account: &Account, spec: &EC2NodeClassSpec, version: &str, now: Timestamp) -> Result<Vec<Ami>, Problem> {
    let found = match spec.alias() {
        Some((family, release)) => of_alias(account, family, release, version, now)?,
        None => of_terms(account, &spec.ami_selector_terms, now),
    };
    if found.is_empty() {
        let message = "spec.amiSelectorTerms selects no image of this account; change it".to_owned();
        return Err(Problem::new("AMINotFound", message));
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
    let images = account.images.iter().filter(selected);
    select(images.map(|image| (described(image, now), Vec::new())).collect())
}

/// The images of an alias, by the public SSM parameters.
fn of_alias(
    account: &Account,
    family: Option<AmiFamily>,
    release: &str,
    version: &str,
    now: Timestamp,
) -> Result<Vec<Ami>, Problem> {
    let parameters = alias_parameters(family, release, version)?;
    let found = parameters.into_iter().filter_map(|parameter| {
        let id = account.parameters.get(&parameter.name)?;
        let image = account.images.iter().find(|image| image.id == *id)?;
        Some((described(image, now), parameter.variants))
    });
    Ok(select(found.collect()))
}

fn described(image: &Image, now: Timestamp) -> amis::Image {
    amis::Image {
        id: image.id.clone(),
        name: image.name.clone(),
        created: image.created.to_string(),
        deprecated: image.deprecated.is_some_and(|at| at <= now),
        architecture: image.architecture.clone(),
    }
}

/// The instance profile of the class, or an existing one with its role. None is created here.
fn instance_profile(account: &Account, spec: &EC2NodeClassSpec) -> Result<String, Problem> {
    if let Some(profile) = &spec.instance_profile {
        return Ok(profile.clone());
    }
    let role = spec.role.as_deref().unwrap_or_default();
    let role = role.rsplit('/').next().unwrap_or(role);
    let holds = |profile: &&nodeless_fake_aws::InstanceProfile| profile.roles.iter().any(|held| held == role);
    match account.instance_profiles.iter().find(holds) {
        Some(profile) => Ok(profile.name.clone()),
        None => {
            let known = account.roles.join(", ");
            let message = format!(
                "spec.role: there is no role {role:?} with an instance profile in the simulated account; its roles: {known}"
            );
            Err(Problem::new("RoleNotFound", message))
        }
    }
}
