//! What the operations record in the claims table.

pub mod records;
pub mod refused_stops;
pub mod registrations;
pub mod reported_memory;
pub mod zonal_shift;
