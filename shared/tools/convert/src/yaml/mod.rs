//! YAML as a tree that keeps comments, order and the notation of scalars.

mod node;
mod parse;
mod resolve;
mod write;

pub(crate) use node::{Entry, Form, Item, Map, Node, Scalar, Seq};
pub(crate) use parse::parse;
pub(crate) use write::{plain, write};

#[cfg(test)]
mod tests;
