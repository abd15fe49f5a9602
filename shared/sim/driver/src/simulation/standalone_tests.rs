//! NodeClaims without a NodePool in a cluster with faults: the invariants hold, and nothing is left.

use super::*;
use nodeless_telemetry::Null;

/// A NodeClaim as an object of a scenario, which is JSON within YAML.
fn node_claim(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": name },
        "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [
                { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"] },
            ],
            "resources": { "requests": { "cpu": "2" } },
            "expireAfter": "Never",
        },
    })
}

fn scenario() -> String {
    let (one, two) = (node_claim("one"), node_claim("two"));
    format!(
        "
name: standalone
hours: 1
zones: [us-east-1a, us-east-1b]
instanceFamilies: [c6i, m6i]
machines: {{ visibilityDelay: 3s, visibilitySpread: 2s, tagsDelay: 4s }}
objects: [{one}]
actions:
  - {{ after: 5m, apply: {two} }}
  - {{ after: 12m, delete: {{ kind: NodeClaim, name: one }} }}
  - {{ after: 25m, apply: {one} }}
  - {{ after: 40m, delete: {{ kind: NodeClaim, name: two }} }}
faults:
  shortagesPerHour: 2
  outagesPerHour: 2
  machineFailuresPerHour: 1
  calls: {{ killedBefore: 0.005, killedAfter: 0.02, failed: 0.01 }}
"
    )
}

#[test]
fn node_claims_of_users_hold_the_invariants_under_faults() {
    for seed in 1..=3 {
        let scenario = Scenario::parse(&scenario()).unwrap();
        let report = Run::new(scenario, seed, None, Arc::new(Null)).unwrap().finish().unwrap();
        assert_eq!(report.violations, [], "seed {seed}");
    }
}
