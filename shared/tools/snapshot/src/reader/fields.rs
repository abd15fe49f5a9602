//! Fields that the kind of a manifest does not have: what is written in them would be lost.

use super::{Incoming, Reader};
use crate::decode::tree;
use crate::documents::Body;
use crate::fault::Fault;
use crate::manifests::described;
use nodeless_model::quotes::{shortened, with_short_keys};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The maximum number of warnings.
const MAX_WARNINGS: usize = 20;

/// A field that the kind of an object does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The path; `apiVersion` if the fields of this version are not known.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// Whether the manifest may be of a later version of the kind.
    pub may_be_newer: bool,
}

/// The check of the fields of objects, each of an apiVersion and a kind.
#[derive(Clone, Copy, Debug)]
pub struct FieldCheck {
    /// Whether the text of an object has only known fields. May be false although it has.
    pub has_only_known: fn(&str, &str, &RawValue) -> bool,
    /// The unknown fields of an object.
    pub unknown: fn(&str, &str, &Value) -> Vec<UnknownField>,
}

impl Reader {
    /// Reports fields that the kind of a manifest does not have, as warnings. Objects that an API server has accepted, which have a uid,
    /// are not checked.
    #[must_use]
    pub fn with_field_check(self, check: FieldCheck) -> Self {
        Self { field_check: Some(check), ..self }
    }

    /// Makes them errors, unless the manifest may be of a later version.
    pub fn set_strict_fields(&mut self) {
        self.strict_fields = true;
    }

    pub(super) fn check_fields(&mut self, incoming: &Incoming<'_>, api_version: Option<&str>, body: &Body<'_>) {
        let Some(check) = self.field_check else { return };
        let api_version = api_version.map_or_else(|| incoming.kind.default_version(), str::to_owned);
        let kind = incoming.kind.name();
        let object = match body {
            Body::Tree(value) => Cow::Borrowed(value),
            Body::Raw(raw) if (check.has_only_known)(&api_version, kind, raw) => return,
            Body::Raw(_) => Cow::Owned(tree(body)),
        };
        let unknown = (check.unknown)(&api_version, kind, &object);
        if unknown.is_empty() {
            return;
        }
        let (namespace, name) = incoming.key(body);
        for UnknownField { field, problem, may_be_newer } in unknown {
            if field == "apiVersion" && !self.unchecked.insert(problem.clone()) {
                continue;
            }
            let object = described(kind, &shortened(&namespace), &shortened(&name));
            let field = with_short_keys(&field);
            let fault = Fault { place: incoming.place.clone(), object: Some(object), field, problem };
            if self.strict_fields && !may_be_newer {
                self.faults.push(fault);
            } else {
                self.unknown_fields += 1;
                if self.unknown_fields <= MAX_WARNINGS {
                    self.warnings.push(fault.to_string());
                }
            }
        }
    }

    /// The warning that stands for those that are left out.
    pub(super) fn more_unknown_fields(&self) -> Option<String> {
        let more = self.unknown_fields.checked_sub(MAX_WARNINGS + 1)?;
        Some(format!("{} more fields that the kinds of their objects do not have", more + 1))
    }
}
