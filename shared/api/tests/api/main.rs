//! The types of the API: what is read, written, validated and generated.
#![allow(clippy::unwrap_used)]

mod crds;
mod objects;
mod requests;
mod validation;
mod view;
mod volumes;
