//! Instance profiles: named in the class, existing, or created here for a role.

use aws_sdk_iam::Client;
use aws_sdk_iam::types::{InstanceProfile, Tag};
use nodeless_api::EC2NodeClass;
use nodeless_aws::port_error;
use nodeless_launch::node_class::{Problem, Section};
use nodeless_model::{StringMap, labels};
use nodeless_ports::{ErrorKind, PortError};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// The owner of profiles: their path, name and tags are derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) region: String,
    pub(super) cluster: String,
    /// The path below which the profiles are created, `/` by default.
    pub(super) iam_path: String,
    pub(super) class: String,
    pub(super) class_uid: String,
}

impl Owner {
    /// The owner of the profiles of a class.
    ///
    /// # Errors
    /// When the class has no UID, which only an object that was never stored lacks: its profiles could not be found again.
    pub(super) fn new(region: &str, cluster: &str, iam_path: &str, class: &EC2NodeClass) -> Result<Self, PortError> {
        let name = class.metadata.name.clone().unwrap_or_default();
        let class_uid = class.metadata.uid.clone().filter(|uid| !uid.is_empty()).ok_or_else(|| {
            let message = format!("EC2NodeClass {name} has no metadata.uid; read it from the cluster");
            PortError::new(ErrorKind::Invalid, "IAM instance profile", message)
        })?;
        let (region, cluster, iam_path) = (region.to_owned(), cluster.to_owned(), iam_path.to_owned());
        Ok(Self { region, cluster, iam_path, class: name, class_uid })
    }

    /// The path of the class's profiles.
    fn path(&self) -> String {
        self.path_below(&self.iam_path)
    }

    /// The paths at which profiles of the class are looked for: without another IAM path, its own is the same as Karpenter's, so that
    /// each finds the profiles of the other.
    fn paths(&self) -> BTreeSet<String> {
        BTreeSet::from([self.path(), self.path_below("/")])
    }

    fn path_below(&self, iam_path: &str) -> String {
        format!("{iam_path}karpenter/{}/{}/{}/", self.region, self.cluster, self.class_uid)
    }

    /// The name of the class's profile for a role. It is derived from its owner, so a crash cannot leave a second one.
    fn profile_name(&self, role: &str) -> String {
        let content = [self.region.as_str(), &self.class, &self.class_uid, role].join("\n");
        let hash = Sha256::digest(content.as_bytes());
        let hash = hash.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        format!("{}_{hash:016x}", self.cluster)
    }

    /// The tags, which the module's policy requires; the user's come first and cannot override those of nodeless.
    fn tags(&self, users: &StringMap) -> StringMap {
        let mut tags = users.clone();
        tags.extend([
            (format!("kubernetes.io/cluster/{}", self.cluster), "owned".to_owned()),
            (labels::CLUSTER_NAME_TAG.to_owned(), self.cluster.clone()),
            (labels::EC2_NODE_CLASS.to_owned(), self.class.clone()),
            (labels::REGION.to_owned(), self.region.clone()),
        ]);
        tags
    }

    /// Whether a profile's tags show that it was created for this class. Older versions of Karpenter omitted the cluster's name.
    fn owns(&self, tags: &[Tag]) -> bool {
        let value = |key: &str| tags.iter().find(|tag| tag.key() == key).map(Tag::value);
        value(&format!("kubernetes.io/cluster/{}", self.cluster)) == Some("owned")
            && value(labels::EC2_NODE_CLASS) == Some(self.class.as_str())
            && value(labels::REGION) == Some(self.region.as_str())
    }
}

/// A profile on the class's path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    name: String,
    roles: Vec<String>,
    /// Seconds since 1970.
    created: i64,
}

/// The actions for a class to have a profile with its role.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Use(String),
    AddRole(String),
    Create(String),
}

/// Prefers the profile in use, then the newest one with the role, then one without a role that a crash left.
fn step(known: &[Known], role: &str, own_name: &str, in_use: Option<&str>) -> Step {
    let with_role = known.iter().filter(|profile| profile.roles.iter().any(|held| held == role));
    let best = with_role.max_by_key(|profile| (Some(profile.name.as_str()) == in_use, profile.created, &profile.name));
    match best {
        Some(profile) => Step::Use(profile.name.clone()),
        None if known.iter().any(|profile| profile.name == own_name && profile.roles.is_empty()) => {
            Step::AddRole(own_name.to_owned())
        }
        None => Step::Create(own_name.to_owned()),
    }
}

/// The name of a role without its path.
pub(super) fn role_name(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

/// Finds or creates the profile of a class for a role. Profiles for previous roles of the class stay until the class is deleted,
/// because instances may still use them.
///
/// # Errors
/// When IAM cannot be read or rejects a request.
pub(super) async fn ensure(
    client: &Client,
    owner: &Owner,
    role: &str,
    tags: &StringMap,
    in_use: Option<&str>,
) -> Result<Section<Option<String>>, PortError> {
    let known = list(client, owner).await?;
    let (name, create) = match step(&known, role, &owner.profile_name(role), in_use) {
        Step::Use(name) => return Ok(Section::ready(Some(name))),
        Step::AddRole(name) => (name, false),
        Step::Create(name) => (name, true),
    };
    if create {
        create_profile(client, owner, &name, tags).await?;
    }
    let answer = client.add_role_to_instance_profile().instance_profile_name(&name).role_name(role).send().await;
    match answer.map_err(|error| port_error("IAM AddRoleToInstanceProfile", &error)) {
        Ok(_) => Ok(Section::ready(Some(name))),
        Err(error) if error.kind == ErrorKind::NotFound => {
            let message = format!("spec.role: IAM has no role {role}; create it, or correct the name");
            Ok(Section { value: None, problem: Some(Problem::new("RoleNotFound", message)) })
        }
        // A profile contains one role. Another call was earlier; with the same role, the result is the same.
        Err(error) if error.code == "LimitExceeded" => match get(client, &name).await? {
            Some(profile) if profile.roles().iter().any(|held| held.role_name() == role) => {
                Ok(Section::ready(Some(name)))
            }
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

async fn create_profile(client: &Client, owner: &Owner, name: &str, users: &StringMap) -> Result<(), PortError> {
    const OPERATION: &str = "IAM CreateInstanceProfile";
    let tags = owner
        .tags(users)
        .into_iter()
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| PortError::new(ErrorKind::Invalid, OPERATION, error.to_string()))?;
    let call = client.create_instance_profile().instance_profile_name(name).path(owner.path()).set_tags(Some(tags));
    match call.send().await.map_err(|error| port_error(OPERATION, &error)) {
        Err(error) if error.code != "EntityAlreadyExists" => Err(error),
        _ => Ok(()),
    }
}

async fn list(client: &Client, owner: &Owner) -> Result<Vec<Known>, PortError> {
    let mut known = Vec::new();
    for path in owner.paths() {
        let mut pages = client.list_instance_profiles().path_prefix(path).into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| port_error("IAM ListInstanceProfiles", &error))?;
            known.extend(page.instance_profiles().iter().map(|profile| Known {
                name: profile.instance_profile_name().to_owned(),
                roles: profile.roles().iter().map(|role| role.role_name().to_owned()).collect(),
                created: profile.create_date().secs(),
            }));
        }
    }
    Ok(known)
}

async fn get(client: &Client, name: &str) -> Result<Option<InstanceProfile>, PortError> {
    let answer = client.get_instance_profile().instance_profile_name(name).send().await;
    match answer.map_err(|error| port_error("IAM GetInstanceProfile", &error)) {
        Ok(answer) => Ok(answer.instance_profile),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes all profiles that were created for the class, and the one in its status if its tags show that it was created for it:
/// profiles of Karpenter before 1.6 have no path of their own.
///
/// # Errors
/// When IAM cannot be read or rejects a request.
pub(super) async fn release(client: &Client, owner: &Owner, in_use: Option<&str>) -> Result<(), PortError> {
    let mut profiles = list(client, owner).await?;
    if let Some(name) = in_use.filter(|name| profiles.iter().all(|profile| profile.name != *name))
        && let Some(profile) = get(client, name).await?
        && owner.owns(profile.tags())
    {
        let roles = profile.roles().iter().map(|role| role.role_name().to_owned()).collect();
        profiles.push(Known { name: name.to_owned(), roles, created: profile.create_date().secs() });
    }
    for profile in profiles {
        for role in &profile.roles {
            let call = client.remove_role_from_instance_profile().instance_profile_name(&profile.name).role_name(role);
            let answer = call.send().await.map_err(|error| port_error("IAM RemoveRoleFromInstanceProfile", &error));
            gone_is_well(answer.map(drop))?;
        }
        let call = client.delete_instance_profile().instance_profile_name(&profile.name);
        let answer = call.send().await.map_err(|error| port_error("IAM DeleteInstanceProfile", &error));
        gone_is_well(answer.map(drop))?;
    }
    Ok(())
}

fn gone_is_well(answer: Result<(), PortError>) -> Result<(), PortError> {
    match answer {
        Err(error) if error.kind != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            region: "us-east-1".into(),
            cluster: "prod".into(),
            iam_path: "/".into(),
            class: "default".into(),
            class_uid: "11111111-2222-3333-4444-555555555555".into(),
        }
    }

    fn known(name: &str, role: Option<&str>, created: i64) -> Known {
        Known { name: name.into(), roles: role.into_iter().map(str::to_owned).collect(), created }
    }

    #[test]
    fn names_and_paths_follow_from_the_owner() {
        let owner = owner();
        assert_eq!(owner.path(), "/karpenter/us-east-1/prod/11111111-2222-3333-4444-555555555555/");
        assert_eq!(owner.paths().len(), 1);
        let below = Owner { iam_path: "/teams/platform/".into(), ..owner.clone() };
        assert_eq!(below.path(), format!("/teams/platform{}", owner.path()));
        assert_eq!(below.paths(), BTreeSet::from([owner.path(), below.path()]));
        let name = owner.profile_name("node");
        assert!(name.starts_with("prod_") && name.len() == 21, "{name}");
        assert_eq!(name, owner.profile_name("node"));
        assert_ne!(name, owner.profile_name("other"));
        assert_ne!(name, Owner { region: "eu-west-1".into(), ..owner }.profile_name("node"));
    }

    #[test]
    fn the_users_tags_cannot_replace_those_that_the_policy_asks_for() {
        let tags = owner().tags(&StringMap::from([
            ("team".to_owned(), "a".to_owned()),
            (labels::CLUSTER_NAME_TAG.to_owned(), "another".to_owned()),
        ]));
        let expected = [
            ("eks:eks-cluster-name", "prod"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
            ("kubernetes.io/cluster/prod", "owned"),
            ("team", "a"),
            ("topology.kubernetes.io/region", "us-east-1"),
        ];
        assert_eq!(tags, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn a_profile_that_serves_is_used_before_one_is_made() {
        let made = Step::Create("ours".into());
        assert_eq!(step(&[], "node", "ours", None), made);
        assert_eq!(step(&[known("other", Some("else"), 1)], "node", "ours", Some("other")), made);
        assert_eq!(step(&[known("ours", None, 1)], "node", "ours", None), Step::AddRole("ours".into()));
        let two = [known("old", Some("node"), 1), known("new", Some("node"), 2)];
        assert_eq!(step(&two, "node", "ours", None), Step::Use("new".into()));
        assert_eq!(step(&two, "node", "ours", Some("old")), Step::Use("old".into()));
    }

    #[test]
    fn only_tags_of_this_class_make_a_profile_ours() {
        let tags = |class: &str| {
            let map = Owner { class: class.into(), ..owner() }.tags(&StringMap::new());
            map.into_iter().map(|(k, v)| Tag::builder().key(k).value(v).build().unwrap()).collect::<Vec<_>>()
        };
        assert!(owner().owns(&tags("default")));
        assert!(!owner().owns(&tags("another")));
        assert!(!owner().owns(&[]));
    }

    #[test]
    fn a_role_is_named_without_its_path() {
        assert_eq!(role_name("/teams/a/node"), "node");
        assert_eq!(role_name("arn:aws:iam::123456789012:role/teams/node"), "node");
        assert_eq!(role_name("node"), "node");
    }
}
