//! Numbers of objects in texts.

pub(crate) use nodeless_model::plural::counted;
