//! The built-in scenarios.

use super::{Scenario, ScenarioError};

/// The built-in scenarios, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("autoscalers", include_str!("built-in/autoscalers.yaml")),
    ("canary", include_str!("built-in/canary.yaml")),
    ("certificate-authority", include_str!("built-in/certificate-authority.yaml")),
    ("cluster-settings", include_str!("built-in/cluster-settings.yaml")),
    ("combined", include_str!("built-in/combined.yaml")),
    ("commitments", include_str!("built-in/commitments.yaml")),
    ("day", include_str!("built-in/day.yaml")),
    ("faults", include_str!("built-in/faults.yaml")),
    ("faults-all-features", include_str!("built-in/faults-all-features.yaml")),
    ("moving-pods", include_str!("built-in/moving-pods.yaml")),
    ("refused-pods", include_str!("built-in/refused-pods.yaml")),
    ("restore-surge", include_str!("built-in/restore-surge.yaml")),
    ("restore-warm", include_str!("built-in/restore-warm.yaml")),
    ("rotation-warm", include_str!("built-in/rotation-warm.yaml")),
    ("schedules", include_str!("built-in/schedules.yaml")),
    ("slow-api", include_str!("built-in/slow-api.yaml")),
    ("slow-services", include_str!("built-in/slow-services.yaml")),
    ("spot", include_str!("built-in/spot.yaml")),
    ("stateful", include_str!("built-in/stateful.yaml")),
    ("surge", include_str!("built-in/surge.yaml")),
    ("tenants", include_str!("built-in/tenants.yaml")),
    ("unready-nodes", include_str!("built-in/unready-nodes.yaml")),
    ("warm", include_str!("built-in/warm.yaml")),
];

impl Scenario {
    /// The names of the built-in scenarios.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A built-in scenario, by its name.
    ///
    /// # Errors
    /// When there is none with this name.
    pub fn built_in(name: &str) -> Result<Self, ScenarioError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, yaml)) => Self::parse(yaml),
            None => Err(ScenarioError::Value {
                field: "scenario".to_owned(),
                why: format!(
                    "there is no built-in scenario {name}; use one of {}",
                    Self::built_in_names().collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_scenarios_can_be_read() {
        for (name, _) in BUILT_IN {
            let scenario = Scenario::built_in(name).unwrap();
            assert_eq!(scenario.name, *name);
            let changes = !scenario.scale.is_empty() || !scenario.load.is_empty();
            assert!(!scenario.objects.is_empty() && changes);
        }
    }

    #[test]
    fn what_is_not_built_in_is_refused_with_what_is() {
        assert!(BUILT_IN.is_sorted_by_key(|(name, _)| name));
        let error = Scenario::built_in("night").unwrap_err().to_string();
        assert!(error.contains("autoscalers, canary, certificate-authority, cluster-settings, combined, "), "{error}");
    }
}
