//! YAML as a tree that keeps comments, order and the notation of scalars.

mod node;
mod parse;
mod resolve;
mod write;

pub(crate) use node::{Form, Item, Map, MapEntry, Scalar, Seq, YamlNode};
pub(crate) use parse::parse;
pub(crate) use write::{plain, write};

#[cfg(test)]
mod tests;
