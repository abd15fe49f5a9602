//! IAM: instance profiles and their roles.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::error::Ec2Error;
use super::super::objects::account::{Account, InstanceProfile};
use super::super::query::QueryNode;
use super::super::requests::Tag;
use super::super::state::{AccountState, Ec2};
use super::super::tags::checked;

pub(in super::super) const NAMESPACE: &str = "https://iam.amazonaws.com/doc/2010-05-08/";

/// The parameters of all calls about instance profiles.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
struct Request {
    instance_profile_name: Option<String>,
    role_name: Option<String>,
    path: Option<String>,
    path_prefix: Option<String>,
    tags: Vec<Tag>,
    tag_keys: Vec<String>,
    marker: Option<String>,
    max_items: Option<usize>,
    assume_role_policy_document: Option<String>,
    description: Option<String>,
}

const ACTIONS: &[&str] = &[
    "AddRoleToInstanceProfile",
    "CreateInstanceProfile",
    "CreateRole",
    "DeleteInstanceProfile",
    "GetInstanceProfile",
    "ListInstanceProfileTags",
    "ListInstanceProfiles",
    "RemoveRoleFromInstanceProfile",
    "TagInstanceProfile",
    "UntagInstanceProfile",
];

pub(in super::super) fn call(ec2: &Ec2, action: &str, parameters: &QueryNode) -> Result<Value, Ec2Error> {
    if !ACTIONS.contains(&action) {
        return Err(Ec2Error::unknown_action(action));
    }
    let request: Request = parameters.read()?;
    ec2.call("iam", action, &request, |state| match action {
        "CreateInstanceProfile" => create(state, &request),
        "CreateRole" => create_role(state, &request),
        "GetInstanceProfile" => {
            let profile = find(state, &request)?.clone();
            Ok(json!({ "InstanceProfile": encode(&state.account, &profile) }))
        }
        "ListInstanceProfiles" => list(&state.account, &request),
        "AddRoleToInstanceProfile" => add_role(state, &request),
        "RemoveRoleFromInstanceProfile" => {
            let role = required(request.role_name.as_ref(), "RoleName")?.clone();
            let profile = find(state, &request)?;
            let before = profile.roles.len();
            profile.roles.retain(|held| *held != role);
            if profile.roles.len() == before { Err(no_such_role(&role)) } else { Ok(json!({})) }
        }
        "DeleteInstanceProfile" => {
            let profile = find(state, &request)?;
            if !profile.roles.is_empty() {
                let message = "Cannot delete entity, must remove roles from instance profile first.";
                return Err(Ec2Error::new("DeleteConflict", message).with_status(409));
            }
            let name = profile.name.clone();
            state.account.instance_profiles.retain(|profile| profile.name != name);
            Ok(json!({}))
        }
        "TagInstanceProfile" => {
            let tags = tags(&request)?;
            find(state, &request)?.tags.extend(tags);
            Ok(json!({}))
        }
        "UntagInstanceProfile" => {
            find(state, &request)?.tags.retain(|key, _| !request.tag_keys.contains(key));
            Ok(json!({}))
        }
        _ => {
            let tags = encode_tags(find(state, &request)?);
            Ok(json!({ "Tags": tags, "IsTruncated": false }))
        }
    })
}

fn required<'a>(value: Option<&'a String>, name: &str) -> Result<&'a String, Ec2Error> {
    value.filter(|value| !value.is_empty()).ok_or_else(|| {
        let message =
            format!("1 validation error detected: Value at '{name}' failed to satisfy constraint: must not be null");
        Ec2Error::new("ValidationError", message)
    })
}

fn tags(request: &Request) -> Result<super::super::objects::account::Tags, Ec2Error> {
    checked(&request.tags).map_err(|error| Ec2Error::new("InvalidInput", error.message))
}

fn find<'a>(state: &'a mut AccountState, request: &Request) -> Result<&'a mut InstanceProfile, Ec2Error> {
    let name = required(request.instance_profile_name.as_ref(), "instanceProfileName")?;
    let found = state.account.instance_profiles.iter_mut().find(|profile| profile.name == *name);
    found.ok_or_else(|| {
        Ec2Error::new("NoSuchEntity", format!("Instance Profile {name} cannot be found.")).with_status(404)
    })
}

fn no_such_role(role: &str) -> Ec2Error {
    Ec2Error::new("NoSuchEntity", format!("The role with name {role} cannot be found.")).with_status(404)
}

fn create(state: &mut AccountState, request: &Request) -> Result<Value, Ec2Error> {
    let name = required(request.instance_profile_name.as_ref(), "instanceProfileName")?.clone();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    if name.len() > 128 || !name.chars().all(allowed) {
        let message = "The specified value for instanceProfileName is invalid. It must contain only alphanumeric \
                       characters and/or the following: +=,.@_-";
        return Err(Ec2Error::new("ValidationError", message));
    }
    if state.account.instance_profiles.iter().any(|profile| profile.name == name) {
        let message = format!("Instance Profile {name} already exists.");
        return Err(Ec2Error::new("EntityAlreadyExists", message).with_status(409));
    }
    let id = state.new_id("AIPA").to_ascii_uppercase().replace('-', "");
    let profile = InstanceProfile {
        name,
        path: request.path.clone().unwrap_or_else(|| "/".to_owned()),
        id,
        roles: Vec::new(),
        created: state.now,
        tags: tags(request)?,
    };
    let answer = json!({ "InstanceProfile": encode(&state.account, &profile) });
    state.account.instance_profiles.push(profile);
    Ok(answer)
}

/// A role is only a name here: nothing assumes it, so its trust policy is required but not evaluated.
fn create_role(state: &mut AccountState, request: &Request) -> Result<Value, Ec2Error> {
    let role = required(request.role_name.as_ref(), "roleName")?.clone();
    required(request.assume_role_policy_document.as_ref(), "assumeRolePolicyDocument")?;
    if state.account.roles.contains(&role) {
        let message = format!("Role with name {role} already exists.");
        return Err(Ec2Error::new("EntityAlreadyExists", message).with_status(409));
    }
    let arn = format!("arn:aws:iam::{}:role/{role}", state.account.id);
    let id = state.new_id("AROA").to_ascii_uppercase().replace('-', "");
    let created = state.now.to_string();
    state.account.roles.push(role.clone());
    Ok(json!({ "Role": { "Path": "/", "RoleName": role, "RoleId": id, "Arn": arn, "CreateDate": created } }))
}

fn add_role(state: &mut AccountState, request: &Request) -> Result<Value, Ec2Error> {
    let role = required(request.role_name.as_ref(), "RoleName")?.clone();
    let exists = state.account.roles.contains(&role);
    let profile = find(state, request)?;
    if !exists {
        return Err(no_such_role(&role));
    }
    if !profile.roles.is_empty() {
        let message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1";
        return Err(Ec2Error::new("LimitExceeded", message).with_status(409));
    }
    profile.roles.push(role);
    Ok(json!({}))
}

fn list(account: &Account, request: &Request) -> Result<Value, Ec2Error> {
    let prefix = request.path_prefix.as_deref().unwrap_or("/");
    let found: Vec<_> = account.instance_profiles.iter().filter(|p| p.path.starts_with(prefix)).collect();
    let invalid = |_| Ec2Error::new("ValidationError", "Invalid Marker.");
    let start: usize = request.marker.as_deref().map_or(Ok(0), str::parse).map_err(invalid)?;
    let end = start.saturating_add(request.max_items.unwrap_or(100)).min(found.len());
    let page = found.get(start.min(end)..end).unwrap_or_default();
    let more = end < found.len();
    Ok(json!({
        "InstanceProfiles": page.iter().map(|profile| encode(account, profile)).collect::<Value>(),
        "IsTruncated": more,
        "Marker": more.then(|| end.to_string()),
    }))
}

fn encode_tags(profile: &InstanceProfile) -> Value {
    profile.tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect()
}

fn encode(account: &Account, profile: &InstanceProfile) -> Value {
    let created = profile.created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let role = |name: &String| {
        json!({
            "RoleName": name,
            "RoleId": "AROASIMULATED00000001",
            "Path": "/",
            "Arn": format!("arn:aws:iam::{}:role/{name}", account.id),
            "CreateDate": created,
        })
    };
    json!({
        "InstanceProfileName": profile.name,
        "InstanceProfileId": profile.id,
        "Path": profile.path,
        "Arn": format!("arn:aws:iam::{}:instance-profile{}{}", account.id, profile.path, profile.name),
        "CreateDate": created,
        "Roles": profile.roles.iter().map(role).collect::<Value>(),
        "Tags": encode_tags(profile),
    })
}
