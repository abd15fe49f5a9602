//! Kinds that planning does not know: where their objects have pod templates, as an option names it.

use super::{Metadata, PodGroup, Workload};
use crate::decode::{Undecoded, decode, tree, without_nulls};
use crate::documents::Body;
use crate::fault::SourcePlace;
use serde::Deserialize;
use serde_json::Value;

/// Stands for each field of a mapping, or each item of a list.
const EACH: &str = "*";
/// The default of the field with the number of pods, beside the template.
const REPLICAS: &str = "replicas";
const USAGE: &str = "write KIND.GROUP=PATH, such as PyTorchJob.kubeflow.org=spec.pytorchReplicaSpecs.*.template, and ,replicas=PATH \
                     after it unless the number of pods is the field replicas beside the template";

/// Where the objects of a kind have pod templates, and the numbers of their pods: `KIND.GROUP=PATH[,replicas=PATH]`. In a path, `*` stands
/// for each field of a mapping or each item of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplatePath {
    kind: String,
    /// The API group; without one, that of every object of the kind.
    group: Option<String>,
    template: Vec<String>,
    replicas: Vec<String>,
}

/// A template of an object.
struct Found<'v> {
    /// The names and indexes that lead to it.
    path: Vec<String>,
    /// Those of them for which the path has `*`, and their names in names of pods.
    each: Vec<[String; 2]>,
    value: &'v Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Metadata,
}

impl TemplatePath {
    /// Reads the value of an option.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (kind, paths) = text.split_once('=').ok_or(USAGE)?;
        let (template, replicas) = match paths.split_once(',') {
            None => (paths, None),
            Some((template, rest)) => (template, Some(rest.strip_prefix("replicas=").ok_or(USAGE)?)),
        };
        let (kind, group) = kind.split_once('.').map_or((kind, None), |(kind, group)| (kind, Some(group)));
        let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase());
        if !is_kind || group == Some("") || kind.chars().any(|one| !one.is_ascii_alphanumeric()) {
            return Err(USAGE.to_owned());
        }
        let template = steps(template)?;
        let replicas = match replicas {
            Some(replicas) => steps(replicas)?,
            None => beside(&template),
        };
        let stars = |path: &[String]| path.iter().filter(|step| *step == EACH).count();
        if stars(&replicas) > stars(&template) {
            return Err("the path of replicas has more * than that of the template".to_owned());
        }
        Ok(Self { kind: kind.to_owned(), group: group.map(str::to_owned), template, replicas })
    }
}

/// The names of a path, which may begin with a dot and have `[*]` for `.*`, as in JSONPath.
fn steps(path: &str) -> Result<Vec<String>, String> {
    let path = path.strip_prefix('.').unwrap_or(path).replace("[*]", ".*");
    let steps: Vec<String> = path.split('.').map(str::to_owned).collect();
    let is_name = |step: &str| step.chars().all(|one| one.is_ascii_alphanumeric() || "-_/".contains(one));
    let are_valid = steps.iter().all(|step| !step.is_empty() && (step == EACH || is_name(step)));
    if are_valid { Ok(steps) } else { Err(USAGE.to_owned()) }
}

fn beside(template: &[String]) -> Vec<String> {
    let within = template.split_last().map_or(&[][..], |(_, within)| within);
    within.iter().cloned().chain([REPLICAS.to_owned()]).collect()
}

impl TemplatePath {
    /// The name of the kind.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// The API group, if the option names one.
    pub(crate) fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Whether an object of this apiVersion and kind has templates there.
    pub(crate) fn is_of(&self, api_version: Option<&str>, kind: &str) -> bool {
        let of_group = |group: &String| {
            api_version.is_none_or(|version| version.rsplit_once('/').map_or("", |(group, _)| group) == group)
        };
        self.kind == kind && self.group.as_ref().is_none_or(of_group)
    }

    /// Reads an object of the kind.
    pub(crate) fn read(&self, place: &SourcePlace, body: &Body<'_>) -> Result<Workload, Undecoded> {
        let Named { metadata } = decode::<Named>(body)?;
        let object = without_nulls(tree(body));
        let mut found = Vec::new();
        follow(Found { path: Vec::new(), each: Vec::new(), value: &object }, &self.template, &mut found);
        if found.is_empty() {
            let problem = "it is missing, though --pod-template names it as the pod template".to_owned();
            return Err(Undecoded { field: self.template.join("."), problem });
        }
        let groups = found.iter().map(|one| self.group_of(&object, one)).collect::<Result<Vec<_>, _>>()?;
        let (replicas, groups) = match groups.into_iter().collect::<Vec<_>>() {
            // The number of the only pods is that of the workload, which an autoscaler may set.
            mut one if !self.template.iter().any(|step| step == EACH) => {
                let number = one.first().and_then(|(_, number)| *number);
                (number, one.drain(..).map(|(group, _)| PodGroup { pods: 1, most: 1, ..group }).collect())
            }
            several => {
                let number = |(group, number): (PodGroup, Option<u32>)| {
                    let pods = number.unwrap_or(1);
                    PodGroup { pods, most: pods, ..group }
                };
                (Some(1), several.into_iter().map(number).collect())
            }
        };
        Ok(Workload {
            place: place.clone(),
            controller: metadata.controller().map(|owner| (owner.kind.clone(), owner.name.clone())),
            annotations: metadata.annotations.unwrap_or_default(),
            template_of: None,
            replicas,
            groups,
        })
    }

    /// The pods of a template, and their number if the object has it.
    fn group_of(&self, object: &Value, found: &Found<'_>) -> Result<(PodGroup, Option<u32>), Undecoded> {
        let field = found.path.join(".");
        let containers = found.value.pointer("/spec/containers").and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            let problem = "it has no spec.containers, though --pod-template names it as the pod template".to_owned();
            return Err(Undecoded { field, problem });
        }
        let mut each = found.each.iter();
        let named = |step: &String| match step.as_str() {
            EACH => each.next().map_or_else(|| step.clone(), |[name, _]| name.clone()),
            _ => step.clone(),
        };
        let path: Vec<String> = self.replicas.iter().map(named).collect();
        let number_field = path.join(".");
        let number = match path.iter().try_fold(object, |value, step| child(value, step)) {
            None => None,
            Some(value) => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
                Some(number) => Some(number),
                None => {
                    let problem = "it is not a number of pods".to_owned();
                    return Err(Undecoded { field: number_field, problem });
                }
            },
        };
        let infix = found.each.iter().map(|[_, name]| format!("-{}", name.to_ascii_lowercase())).collect();
        let template = found.value.clone();
        Ok((PodGroup { infix, template, template_field: field, number_field, ..PodGroup::default() }, number))
    }
}

/// The field or item with this name or index.
fn child<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        fields => fields.get(step),
    }
}

/// Finds what a path leads to.
fn follow<'v>(from: Found<'v>, path: &[String], found: &mut Vec<Found<'v>>) {
    let Some((step, rest)) = path.split_first() else { return found.push(from) };
    let children: Vec<([String; 2], &Value)> = match from.value {
        _ if step != EACH => {
            child(from.value, step).map(|value| ([step.clone(), step.clone()], value)).into_iter().collect()
        }
        Value::Object(fields) => fields.iter().map(|(name, value)| ([name.clone(), name.clone()], value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| ([index.to_string(), item_name(index, item)], item)).collect()
        }
        _ => Vec::new(),
    };
    for (names, value) in children {
        let path = from.path.iter().cloned().chain([names[0].clone()]).collect();
        let each = from.each.iter().cloned().chain((step == EACH).then_some(names)).collect();
        follow(Found { path, each, value }, rest, found);
    }
}

/// The name of an item, otherwise its index.
fn item_name(index: usize, item: &Value) -> String {
    item["name"].as_str().map_or_else(|| index.to_string(), str::to_owned)
}
