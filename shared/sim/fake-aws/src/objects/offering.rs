//! Offerings, and their capacity types.

/// The capacity type of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// On-demand.
    OnDemand,
    /// Spot.
    Spot,
}

impl CapacityType {
    /// EC2's name: `on-demand` or `spot`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
        }
    }
}

/// An offering: a type in a zone with a capacity type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offering {
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// On-demand or spot.
    pub capacity_type: CapacityType,
}

impl Offering {
    /// An offering.
    pub fn new(instance_type: &str, zone: &str, capacity_type: CapacityType) -> Self {
        Self { instance_type: instance_type.to_owned(), zone: zone.to_owned(), capacity_type }
    }
}
