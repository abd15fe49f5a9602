//! The types of the API: what is read, written, validated and generated.
#![allow(clippy::unwrap_used)]

mod claims_and_buffers;
mod crds;
mod objects;
mod requests;
mod validation;
mod validation_of_others;
mod view;
mod volumes;
