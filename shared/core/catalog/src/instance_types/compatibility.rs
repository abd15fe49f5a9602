//! Instance types that cannot be launched with the settings of an EC2NodeClass. They are listed without available offerings.

use std::fmt;

use super::kubelet::{self, KubeletExpressionError};
use crate::node_class::{AmiFamily, NodeClassSettings};
use crate::type_facts::TypeFacts;

/// Why a type cannot be launched with an EC2NodeClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incompatibility {
    /// AL2023 does not boot on a1.
    AmiFamilyWithoutA1,
    /// Windows needs an amd64 type.
    WindowsNeedsAmd64,
    /// `cpuOptions.nestedVirtualization` is enabled and the processor does not support it.
    NestedVirtualization,
    /// `enclaveOptions.enabled` is true and the type does not support Nitro Enclaves.
    Enclaves,
    /// The type does not support the placement group's strategy.
    PlacementStrategy(String),
    /// `connectionTracking` is set and the type has no Nitro hypervisor.
    ConnectionTracking,
    /// `networkInterfaces` is set and the type has no elastic network adapter.
    NoEna,
    /// `networkInterfaces` has a card that the type does not have.
    NetworkCard(u32),
    /// `networkInterfaces` has more interfaces on a card than it supports.
    DeviceIndex {
        /// The card.
        card: u32,
        /// The interface on it.
        device: u32,
    },
    /// `networkInterfaces` has more EFA-only interfaces than the type has elastic fabric adapters.
    EfaInterfaces {
        /// The requested number.
        requested: usize,
        /// The maximum of the type.
        maximum: u32,
    },
    /// `ipPrefixCount` exceeds the addresses of one interface.
    IpPrefixCount {
        /// The requested number.
        requested: u32,
        /// The maximum of the type, without the primary address of the interface.
        maximum: u32,
    },
    /// An expression of the kubelet settings has no usable value for the type.
    KubeletExpression(KubeletExpressionError),
}

impl fmt::Display for Incompatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AmiFamilyWithoutA1 => f.write_str("amiFamily AL2023 does not boot on a1 types"),
            Self::WindowsNeedsAmd64 => f.write_str("Windows runs on amd64 types only"),
            Self::NestedVirtualization => {
                f.write_str("cpuOptions.nestedVirtualization is enabled, and its processor does not support it")
            }
            Self::Enclaves => {
                f.write_str("enclaveOptions.enabled is true, and the type does not support Nitro Enclaves")
            }
            Self::PlacementStrategy(strategy) => write!(f, "it does not support the placement strategy {strategy}"),
            Self::ConnectionTracking => f.write_str("connectionTracking is set, and it has no Nitro hypervisor"),
            Self::NoEna => f.write_str("networkInterfaces is set, and it has no elastic network adapter"),
            Self::NetworkCard(card) => {
                write!(f, "networkInterfaces has network card {card}, which the type does not have")
            }
            Self::DeviceIndex { card, device } => {
                write!(f, "networkInterfaces has device {device} on network card {card}, which supports fewer")
            }
            Self::EfaInterfaces { requested, maximum } => {
                write!(f, "networkInterfaces has {requested} EFA-only interfaces, and the type has {maximum} adapters")
            }
            Self::IpPrefixCount { requested, maximum } => {
                write!(f, "ipPrefixCount is {requested}, and an interface of the type supports {maximum}")
            }
            Self::KubeletExpression(error) => error.fmt(f),
        }
    }
}

/// The first reason, if any, why a type cannot be launched with an EC2NodeClass.
#[must_use]
pub fn incompatibility(facts: &TypeFacts, settings: &NodeClassSettings) -> Option<Incompatibility> {
    family(facts, settings)
        .or_else(|| hardware(facts, settings))
        .or_else(|| network(facts, settings))
        .or_else(|| kubelet::settings(facts, settings).err().map(Incompatibility::KubeletExpression))
}

fn family(facts: &TypeFacts, settings: &NodeClassSettings) -> Option<Incompatibility> {
    if settings.ami_family == AmiFamily::Al2023 && facts.name.starts_with("a1.") {
        return Some(Incompatibility::AmiFamilyWithoutA1);
    }
    (settings.ami_family.is_windows() && facts.architecture != crate::type_facts::Architecture::Amd64)
        .then_some(Incompatibility::WindowsNeedsAmd64)
}

fn hardware(facts: &TypeFacts, settings: &NodeClassSettings) -> Option<Incompatibility> {
    if settings.nested_virtualization && !facts.cpu_features.iter().any(|feature| feature == "nested-virtualization") {
        return Some(Incompatibility::NestedVirtualization);
    }
    if settings.enclaves && !facts.nitro_enclaves {
        return Some(Incompatibility::Enclaves);
    }
    if settings.connection_tracking && facts.hypervisor != "nitro" {
        return Some(Incompatibility::ConnectionTracking);
    }
    let strategy = settings.placement_group.as_ref().map(|group| &group.strategy)?;
    (!facts.placement_strategies.contains(strategy)).then(|| Incompatibility::PlacementStrategy(strategy.clone()))
}

fn network(facts: &TypeFacts, settings: &NodeClassSettings) -> Option<Incompatibility> {
    let prefixes = facts.ipv4_per_interface.saturating_sub(1);
    if settings.ip_prefix_count > prefixes {
        return Some(Incompatibility::IpPrefixCount { requested: settings.ip_prefix_count, maximum: prefixes });
    }
    if settings.network_interfaces.is_empty() {
        return None;
    }
    if !facts.ena {
        return Some(Incompatibility::NoEna);
    }
    for interface in &settings.network_interfaces {
        let Some(card) = facts.network_cards.iter().find(|card| card.index == interface.network_card_index) else {
            return Some(Incompatibility::NetworkCard(interface.network_card_index));
        };
        if interface.device_index >= card.maximum_interfaces {
            return Some(Incompatibility::DeviceIndex { card: card.index, device: interface.device_index });
        }
    }
    let efa_only = settings.efa_only_interfaces().count();
    let maximum = facts.maximum_efa_interfaces;
    (efa_only > usize::try_from(maximum).unwrap_or(usize::MAX))
        .then_some(Incompatibility::EfaInterfaces { requested: efa_only, maximum })
}
