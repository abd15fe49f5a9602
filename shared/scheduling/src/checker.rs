//! Whether a plan is valid, said by something much simpler than what made it.
