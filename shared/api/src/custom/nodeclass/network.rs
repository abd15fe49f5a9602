//! Network, metadata service and processor options of an EC2NodeClass.

use crate::custom::rules::rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Selects the placement group, by name or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("expected at least one, got none, ['name', 'id']", "has(self.name) || has(self.id)"),
    ("'name' and 'id' are mutually exclusive", "!(has(self.name) && has(self.id))"),
])))]
pub struct PlacementGroupSelector {
    /// The group's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// The group's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
}

/// The purpose of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum InterfaceType {
    /// For IP traffic.
    Interface,
    /// For the Elastic Fabric Adapter only, without an IP address.
    EfaOnly,
}

/// A network interface of the instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// The network card that the interface is attached to.
    #[schemars(range(min = 0))]
    pub network_card_index: i32,
    /// The interface's place on the card.
    #[schemars(range(min = 0))]
    pub device_index: i32,
    /// The purpose of the interface.
    pub interface_type: InterfaceType,
}

pub(super) fn interface_rules() -> Value {
    rules(&[
        (
            "networkInterfaces must include a primary interface with interfaceType='interface'",
            "self.size() == 0 || self.exists(x, x.deviceIndex == 0 && x.networkCardIndex == 0 && \
             x.interfaceType == 'interface')",
        ),
        (
            "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one \
             efa device per network card",
            "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex).size() \
             == 1 && (x.interfaceType != 'efa-only' || self.filter(y, x.networkCardIndex == y.networkCardIndex && \
             y.interfaceType == 'efa-only').size() == 1))",
        ),
    ])
}

/// After how many seconds idle connections are forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
)])))]
pub struct ConnectionTracking {
    /// Established TCP connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// UDP flows that saw more than one request and response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// UDP flows that saw one direction, or a single request and response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 60))]
    pub udp_timeout: Option<i32>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Toggle {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

/// Options of the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Whether virtual machines can run on the instance. Restricts the instance types to those that support it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Toggle>,
}

/// Nitro Enclaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnclaveOptions {
    /// Whether Nitro Enclaves can run on the instance. Restricts the instance types to those that support them.
    pub enabled: bool,
}

/// Whether the metadata service requires a session token (IMDSv2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum TokenUse {
    /// Always.
    Required,
    /// Only of those who use one.
    Optional,
}

/// The options of the instance metadata service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// Whether the metadata service is enabled.
    pub http_endpoint: Toggle,
    /// Whether the metadata service is reached by IPv6.
    #[serde(rename = "httpProtocolIPv6")]
    pub http_protocol_ipv6: Toggle,
    /// The maximum number of hops of a response. Pods without the host's network need 2.
    #[schemars(range(min = 1, max = 64))]
    pub http_put_response_hop_limit: i64,
    /// Whether the metadata service requires a session token.
    pub http_tokens: TokenUse,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: Toggle::Enabled,
            http_protocol_ipv6: Toggle::Disabled,
            http_put_response_hop_limit: 1,
            http_tokens: TokenUse::Required,
        }
    }
}
