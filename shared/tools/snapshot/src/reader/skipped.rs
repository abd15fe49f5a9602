//! Objects of kinds that planning does not know.

use super::{DEFAULT_NAMESPACE, Reader};
use crate::decode::tree;
use crate::documents::Body;
use crate::kinds::{PlannedKind, identity};
use crate::manifests::described;
use crate::workloads::TemplatePath;
use nodeless_model::quotes::shortened;
use serde_json::Value;
use std::str::FromStr;

impl FromStr for TemplatePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = Self::parse(text)?;
        let api_version = path.group().map(|group| format!("{group}/v1"));
        match PlannedKind::new(api_version.as_deref(), path.kind()) {
            Some(_) => Err(format!("planning knows the pods of a {} without it", path.kind())),
            None => Ok(path),
        }
    }
}

impl Reader {
    /// Creates pods also for manifests of these kinds, which planning does not know.
    #[must_use]
    pub fn with_template_paths(self, template_paths: Vec<&'static TemplatePath>) -> Self {
        Self { template_paths, ..self }
    }

    /// The kind with this name, of the group of this apiVersion if there is one.
    pub(super) fn kind(&self, api_version: Option<&str>, name: &str) -> Option<PlannedKind> {
        let named = || self.template_paths.iter().find(|path| path.is_of(api_version, name));
        PlannedKind::new(api_version, name).or_else(|| named().map(|path| PlannedKind::Templated(path)))
    }

    /// Counts an object, and notes it if pods would be created from it. Those of an object of a cluster, which has a uid, are in the export.
    pub(super) fn skip(&mut self, api_version: Option<&str>, kind: &str, has_uid: bool, body: &Body<'_>) {
        *self.skipped.entry(shortened(kind).into_owned()).or_default() += 1;
        let may_have_template = match body {
            Body::Raw(raw) => raw.get().contains("\"containers\""),
            Body::Tree(_) => true,
        };
        if has_uid || !may_have_template {
            return;
        }
        let mut paths = Vec::new();
        pod_templates(&tree(body), &mut Vec::new(), &mut paths);
        if let Some(path) = common(&paths) {
            let (namespace, name) = identity(body);
            let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { &namespace };
            self.not_planned.insert(described(&shortened(kind), &shortened(namespace), &shortened(&name)));
            let group = api_version.and_then(|version| version.rsplit_once('/')).map(|(group, _)| format!(".{group}"));
            let option = format!("{kind}{}={}", group.unwrap_or_default(), path.join("."));
            if option.parse::<TemplatePath>().is_ok() {
                // A shell would expand the star.
                self.template_options.insert(format!("--pod-template '{option}'"));
            }
        }
    }
}

/// Finds the paths of templates with containers. `*` stands for the items of a list.
fn pod_templates(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let children: Vec<(&str, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.as_str(), value)).collect(),
        Value::Array(items) => items.iter().map(|item| ("*", item)).collect(),
        _ => return,
    };
    for (name, value) in children {
        path.push(name.to_owned());
        let containers = value.pointer("/spec/containers").and_then(Value::as_array);
        let is_template = name.to_ascii_lowercase().ends_with("template");
        if is_template && containers.is_some_and(|containers| !containers.is_empty()) {
            found.push(path.clone());
        }
        pod_templates(value, path, found);
        path.pop();
    }
}

/// A path that leads to all of these: `*` stands for where they differ. Otherwise the first.
fn common(paths: &[Vec<String>]) -> Option<Vec<String>> {
    let (first, others) = paths.split_first()?;
    if others.iter().any(|path| path.len() != first.len() || path.last() != first.last()) {
        return Some(first.clone());
    }
    let step = |(place, step): (usize, &String)| {
        let is_same = others.iter().all(|path| path.get(place) == Some(step));
        if is_same { step.clone() } else { "*".to_owned() }
    };
    Some(first.iter().enumerate().map(step).collect())
}
