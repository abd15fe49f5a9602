//! What an account has: its network, images and instances, with the facts about their region.

pub(crate) mod account;
pub(crate) mod addresses;
pub(crate) mod facts;
pub(crate) mod fleet;
pub(crate) mod instance;
pub(crate) mod offering;
pub(crate) mod quota_family;
pub(crate) mod template;
