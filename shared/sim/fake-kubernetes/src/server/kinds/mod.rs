//! The kinds of objects: their definitions, fields, defaults and versions.

pub(super) mod autoscaling;
pub(super) mod built_in_schemas;
pub(super) mod custom;
pub(super) mod defaults;
pub(super) mod definition;
pub(super) mod events;
pub(super) mod field_selector;
pub(super) mod pairs;
pub(super) mod scale;
pub(super) mod schema;
pub(super) mod structure;
pub(super) mod unknown_fields;
