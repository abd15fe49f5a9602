//! Taints of devices, and tolerations of requests.

use serde::{Deserialize, Serialize};

/// A taint of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceTaint {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(default)]
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `None`.
    pub effect: String,
}

/// A toleration of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceToleration {
    /// The key; empty means every key.
    #[serde(default)]
    pub key: String,
    /// `Exists` or `Equal`, which is the default.
    #[serde(default)]
    pub operator: String,
    /// The value.
    #[serde(default)]
    pub value: String,
    /// The effect; empty means every effect.
    #[serde(default)]
    pub effect: String,
}

impl DeviceTaint {
    /// Whether the taint prevents that a request with these tolerations gets the device.
    #[must_use]
    pub fn repels(&self, tolerations: &[DeviceToleration]) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
            && !tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

impl DeviceToleration {
    fn tolerates(&self, taint: &DeviceTaint) -> bool {
        let same = |own: &str, other: &str| own.is_empty() || own == other;
        let value = match self.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => self.value == taint.value,
            _ => false,
        };
        value && same(&self.key, &taint.key) && same(&self.effect, &taint.effect)
    }
}
