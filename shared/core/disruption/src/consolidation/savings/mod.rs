//! What a command has to save.

pub(super) mod balanced;
pub(super) mod just_launched;
pub(super) mod paid;
