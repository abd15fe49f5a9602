//! Tags, and client tokens.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Ec2Error;
use super::objects::account::Tags;
use super::requests::{ChangeTags, Tag, TagSpecification};
use super::state::{AccountState, Ec2};

/// EC2's maximum number of tags on a resource.
const TAGS_LIMIT: usize = 50;

impl Ec2 {
    /// CreateTags: all or nothing.
    ///
    /// # Errors
    /// EC2's own.
    pub fn create_tags(&self, request: &ChangeTags) -> Result<(), Ec2Error> {
        self.call("ec2", "CreateTags", request, |state| {
            let tags = checked(&request.tags)?;
            if tags.is_empty() {
                return Err(Ec2Error::missing("Tag"));
            }
            state.check_resources(request)?;
            for id in &request.resources {
                let merged = state.tags_of(id).into_iter().flatten().chain(&tags);
                let keys: BTreeSet<_> = merged.map(|(key, _)| key).filter(|key| !key.starts_with("aws:")).collect();
                if keys.len() > TAGS_LIMIT {
                    let message = format!("The maximum number of Tags for a resource has been reached: {id}");
                    return Err(Ec2Error::new("TagLimitExceeded", message));
                }
            }
            for id in &request.resources {
                state.tags_of_mut(id).extend(tags.clone());
            }
            Ok(())
        })
    }

    /// DeleteTags. Missing tags are not an error.
    ///
    /// # Errors
    /// EC2's own.
    pub fn delete_tags(&self, request: &ChangeTags) -> Result<(), Ec2Error> {
        self.call("ec2", "DeleteTags", request, |state| {
            state.check_resources(request)?;
            for id in &request.resources {
                state.tags_of_mut(id).retain(|key, value| {
                    let named = request
                        .tags
                        .iter()
                        .any(|tag| tag.key == *key && tag.value.as_ref().is_none_or(|expected| expected == value));
                    key.starts_with("aws:") || !(request.tags.is_empty() || named)
                });
            }
            Ok(())
        })
    }
}

/// The tags as a map, if they are valid.
pub(super) fn checked(tags: &[Tag]) -> Result<Tags, Ec2Error> {
    let mut map = Tags::new();
    for tag in tags {
        let value = tag.value.clone().unwrap_or_default();
        if tag.key.is_empty() || tag.key.chars().count() > 128 {
            return Err(Ec2Error::invalid("Tag.Key", &tag.key, "Tag keys have 1 to 128 characters."));
        }
        if value.chars().count() > 256 {
            return Err(Ec2Error::invalid("Tag.Value", &value, "Tag values have at most 256 characters."));
        }
        if tag.key.to_ascii_lowercase().starts_with("aws:") {
            return Err(Ec2Error::new(
                "InvalidParameterValue",
                "Tag keys starting with 'aws:' are reserved for internal use",
            ));
        }
        if map.insert(tag.key.clone(), value).is_some() {
            return Err(Ec2Error::invalid("Tag.Key", &tag.key, "Duplicate tag key specified."));
        }
    }
    if map.len() > TAGS_LIMIT {
        return Err(Ec2Error::new("TagLimitExceeded", "More than 50 tags for one resource."));
    }
    Ok(map)
}

/// The resource kinds that a launch or a template may tag.
const TAGGABLE: &[&str] =
    &["instance", "volume", "network-interface", "spot-instances-request", "fleet", "launch-template"];

/// The tags that the specifications give to resources of a kind.
pub(super) fn tags_for(specifications: &[TagSpecification], kind: &str) -> Result<Tags, Ec2Error> {
    let mut tags = Tags::new();
    for specification in specifications {
        let resource = specification.resource_type.as_deref();
        let resource = resource.ok_or_else(|| Ec2Error::missing("TagSpecification.ResourceType"))?;
        if !TAGGABLE.contains(&resource) {
            let why = "It is not a taggable resource type of this call.";
            return Err(Ec2Error::invalid("TagSpecification.ResourceType", resource, why));
        }
        let checked = checked(&specification.tags)?;
        if resource == kind {
            tags.extend(checked);
        }
    }
    Ok(tags)
}

impl AccountState {
    pub(super) fn tags_of(&self, id: &str) -> Option<&Tags> {
        if let Some(instance) = self.instances.get(id) {
            return Some(&instance.tags);
        }
        if let Some(template) = self.launch_templates.get(id) {
            return Some(&template.tags);
        }
        self.account.tags.get(id)
    }

    fn tags_of_mut(&mut self, id: &str) -> &mut Tags {
        if let Some(instance) = self.instances.get_mut(id) {
            return &mut instance.tags;
        }
        if let Some(template) = self.launch_templates.get_mut(id) {
            return &mut template.tags;
        }
        self.account.tags.entry(id.to_owned()).or_default()
    }

    /// All resources that have tags or may have: id, kind and tags.
    pub(super) fn tagged(&self) -> impl Iterator<Item = (&str, &'static str, &Tags)> {
        let instances = self.instances.values().map(|i| (i.id.as_str(), "instance", &i.tags));
        let templates = self.launch_templates.values().map(|t| (t.id.as_str(), "launch-template", &t.tags));
        let others = self.account.tags.iter().map(|(id, tags)| (id.as_str(), resource_kind(id), tags));
        instances.chain(templates).chain(others)
    }

    fn exists(&self, id: &str) -> bool {
        let account = &self.account;
        self.tags_of(id).is_some()
            || account.subnets.iter().any(|subnet| subnet.id == id)
            || account.security_groups.iter().any(|group| group.id == id)
            || account.vpcs.iter().any(|vpc| vpc.id == id)
            || account.images.iter().any(|image| image.id == id)
            || account.capacity_reservations.iter().any(|reservation| reservation.id == id)
            || account.placement_groups.iter().any(|group| group.id == id)
            || self.fleets.contains_key(id)
    }

    fn check_resources(&self, request: &ChangeTags) -> Result<(), Ec2Error> {
        if request.resources.is_empty() {
            return Err(Ec2Error::missing("ResourceId"));
        }
        if let Some(id) = request.resources.iter().find(|id| !self.exists(id)) {
            let kind = resource_kind(id);
            let code = match kind {
                "instance" => "InvalidInstanceID.NotFound",
                "volume" => "InvalidVolume.NotFound",
                "subnet" => "InvalidSubnetID.NotFound",
                "security-group" => "InvalidGroup.NotFound",
                "image" => "InvalidAMIID.NotFound",
                "launch-template" => "InvalidLaunchTemplateId.NotFound",
                _ => "InvalidID",
            };
            return Err(Ec2Error::new(code, format!("The {kind} ID '{id}' does not exist")));
        }
        if request.dry_run { Err(Ec2Error::dry_run()) } else { Ok(()) }
    }

    /// Denies an action whose request lacks a tag that the account's policy requires, for one of these kinds of resources.
    pub(super) fn authorize(
        &self,
        action: &str,
        specifications: &[TagSpecification],
        kinds: &[&str],
    ) -> Result<(), Ec2Error> {
        for kind in kinds {
            let tags = tags_for(specifications, kind)?;
            let has = |(key, value): (&String, &String)| tags.get(key).is_some_and(|own| value == "*" || own == value);
            if !self.account.required_tags.iter().all(has) {
                return Err(Ec2Error::unauthorized("ec2", action, &self.account.id));
            }
        }
        Ok(())
    }

    /// The answer to an earlier call with the same client token.
    pub(super) fn replayed<T: DeserializeOwned>(
        &self,
        api: &'static str,
        token: Option<&str>,
        request: &impl Serialize,
    ) -> Result<Option<T>, Ec2Error> {
        let Some(token) = token else { return Ok(None) };
        let Some((before, answer, _)) = self.tokens.get(&(api, token.to_owned())) else { return Ok(None) };
        if serde_json::to_value(request).ok().as_ref() != Some(before) {
            return Err(Ec2Error::token_mismatch());
        }
        let answer = serde_json::from_value(answer.clone());
        answer.map(Some).map_err(|error| Ec2Error::new("InternalError", error.to_string()).with_status(500))
    }

    /// Stores an answer under the call's client token.
    pub(super) fn remember(
        &mut self,
        api: &'static str,
        token: Option<&str>,
        request: &impl Serialize,
        answer: &impl Serialize,
    ) {
        let (Some(token), Ok(request), Ok(answer)) =
            (token, serde_json::to_value(request), serde_json::to_value(answer))
        else {
            return;
        };
        self.tokens.insert((api, token.to_owned()), (request, answer, self.now));
    }
}

/// EC2's name for a resource's kind, by the prefix of its id.
pub(super) fn resource_kind(id: &str) -> &'static str {
    match id.split_once('-').map_or(id, |(prefix, _)| prefix) {
        "i" => "instance",
        "vol" => "volume",
        "eni" => "network-interface",
        "subnet" => "subnet",
        "sg" => "security-group",
        "vpc" => "vpc",
        "ami" => "image",
        "lt" => "launch-template",
        "fleet" => "fleet",
        "sir" => "spot-instances-request",
        "cr" => "capacity-reservation",
        "pg" => "placement-group",
        _ => "resource",
    }
}
