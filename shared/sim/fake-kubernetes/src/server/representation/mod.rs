//! What is served besides objects: discovery, schemas, tables and protobuf.

mod cells;
mod columns;
pub(super) mod discovery;
pub(super) mod jsonpath;
pub(super) mod openapi;
pub(super) mod protobuf;
pub(super) mod table;
