//! An edit of a user that is reverted later.

use super::ScenarioError;
use super::objects::{apply, refused, resource};
use crate::Driver;
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use serde_json::{Value, json};

/// A user's edit, with the data to revert it.
#[derive(Debug)]
pub(super) enum Edit {
    /// A wrong edit: the fields of its spec before, `null` if absent.
    Wrong { kind: &'static str, name: String, correction: Value },
    /// A NodePool that was deleted.
    Deleted(Value),
}

impl Edit {
    /// Whether the edit concerns this object.
    pub(super) fn concerns(&self, of_kind: &str, named: &str) -> bool {
        match self {
            Self::Wrong { kind, name, .. } => *kind == of_kind && name == named,
            Self::Deleted(object) => kind_of(object) == of_kind && name_of(object) == named,
        }
    }

    /// Corrects the object, or creates the deleted one again.
    pub(super) fn revert(&self, driver: &Driver) -> Result<(), ScenarioError> {
        match self {
            Self::Wrong { kind, name, correction } => patch_spec(driver, kind, name, correction),
            Self::Deleted(object) => apply(driver, object),
        }
    }
}

fn kind_of(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Changes fields of an object's spec. A missing object counts as success.
pub(super) fn patch_spec(driver: &Driver, kind: &str, name: &str, spec: &Value) -> Result<(), ScenarioError> {
    let (api, patch) = (driver.world().api(), json!({ "spec": spec }));
    match api.patch(&resource(kind)?, "", name, None, PatchType::Merge, &patch, &PatchOptions::default()) {
        Err(status) if status.code != 404 => Err(refused(&format!("edit {kind} {name}"), &status)),
        _ => Ok(()),
    }
}
