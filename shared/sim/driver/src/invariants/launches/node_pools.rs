//! NodePools that nothing can be launched for, and NodePools that were deleted, computed from the JSON of the objects.

use crate::invariants::text;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::{Account, RegionFacts};
use nodeless_fake_kubernetes::{Change, ChangeKind};
use nodeless_model::{NodeClaim, Phase};
use serde_json::Value;
use std::collections::BTreeMap;

/// The maximum time after a change of a NodePool in which a plan may create a claim by its previous state: the plan reads the cluster
/// before it computes, and reads may be stale.
const KNOWN_WITHIN: SignedDuration = SignedDuration::from_mins(2);
/// The maximum time from the deletion of a NodePool until its claims leave. Outages last up to three minutes.
const LEAVES_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// The NodePools and EC2NodeClasses, and when each last changed.
#[derive(Debug, Default)]
pub(in crate::invariants) struct NodePoolChecks {
    pools: BTreeMap<String, (Value, Timestamp)>,
    classes: BTreeMap<String, (Value, Timestamp)>,
    /// NodePools that were deleted, and when.
    deleted: Vec<(String, Timestamp)>,
}

impl NodePoolChecks {
    /// A NodePool or an EC2NodeClass changed. The time of the last change of its spec counts.
    pub(in crate::invariants) fn changed(&mut self, change: &Change, now: Timestamp) {
        let known = match change.resource.kind.as_ref() {
            "NodePool" => &mut self.pools,
            "EC2NodeClass" => &mut self.classes,
            _ => return,
        };
        let name = change.name();
        if change.kind == ChangeKind::Deleted {
            known.remove(name);
            if change.resource.kind == "NodePool" {
                self.deleted.push((name.to_owned(), now));
            }
        } else if known.get(name).is_none_or(|(spec, _)| *spec != change.object["spec"]) {
            known.insert(name.to_owned(), (change.object["spec"].clone(), now));
        }
    }

    /// Claims that were created although their NodePool or its EC2NodeClass had been unusable for a while.
    pub(in crate::invariants) fn created_for_unusable(&self, claims: &[NodeClaim], account: &Account) -> Vec<String> {
        let unusable = |pool: &str| {
            let (spec, changed) = self.pools.get(pool)?;
            if let Some(why) = requires_what_is_not_there(spec, &account.facts) {
                return Some((why, *changed));
            }
            let class = text(spec, "/template/spec/nodeClassRef/name");
            let (spec, changed) = self.classes.get(class)?;
            selects_nothing(spec, account)
                .map(|field| (format!("{field} of EC2NodeClass {class} selects nothing"), *changed))
        };
        let unusable: BTreeMap<&str, _> =
            self.pools.keys().filter_map(|pool| Some((pool.as_str(), unusable(pool)?))).collect();
        let wrong = claims.iter().filter_map(|claim| {
            let (why, since) = unusable.get(claim.node_pool.as_deref()?)?;
            (claim.created.duration_since(*since) > KNOWN_WITHIN)
                .then(|| format!("claim {} was created at {} although since {since} {why}", claim.name, claim.created))
        });
        wrong.collect()
    }

    /// Claims that stay although their NodePool was deleted.
    pub(in crate::invariants) fn outlive_their_pool(&mut self, claims: &[NodeClaim], now: Timestamp) -> Vec<String> {
        let (due, recent) =
            std::mem::take(&mut self.deleted).into_iter().partition(|(_, at)| now.duration_since(*at) > LEAVES_WITHIN);
        self.deleted = recent;
        let due: Vec<(String, Timestamp)> = due;
        let stays = |(pool, at): &(String, Timestamp)| {
            let of_pool = claims.iter().filter(|claim| claim.is_of(pool) && claim.created < *at);
            let staying = of_pool.filter(|claim| claim.phase < Phase::Draining);
            staying.map(|claim| format!("claim {} stays, and its NodePool was deleted at {at}", claim.name)).collect()
        };
        due.iter().flat_map(|deleted| -> Vec<String> { stays(deleted) }).collect()
    }
}

/// A requirement of a NodePool for an instance type that does not exist, or for more CPUs than any has.
fn requires_what_is_not_there(spec: &Value, facts: &RegionFacts) -> Option<String> {
    let requirements = spec.pointer("/template/spec/requirements").and_then(Value::as_array)?;
    let impossible = requirements.iter().find(|requirement| {
        let values: Vec<&str> =
            requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        match (text(requirement, "/key"), text(requirement, "/operator")) {
            ("node.kubernetes.io/instance-type", "In") => !values.iter().any(|name| facts.types.contains_key(*name)),
            ("karpenter.k8s.aws/instance-cpu", "Gt") => {
                let least: u64 = values.first().and_then(|value| value.parse().ok()).unwrap_or(0);
                facts.types.values().all(|kind| kind.vcpus() <= least)
            }
            _ => false,
        }
    });
    impossible.map(|requirement| format!("it requires {requirement}"))
}

/// The field of an EC2NodeClass whose terms have tags that no resource of the account has.
fn selects_nothing(spec: &Value, account: &Account) -> Option<&'static str> {
    let has = |key: &String, value: &Value| {
        account.tags.values().any(|tags| tags.get(key).is_some_and(|own| value == "*" || value == own.as_str()))
    };
    let matches = |term: &Value| {
        let tags = term["tags"].as_object();
        tags.is_none_or(|tags| tags.iter().all(|(key, value)| has(key, value)))
    };
    ["subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"]
        .into_iter()
        .find(|field| spec[*field].as_array().is_some_and(|terms| !terms.iter().any(matches)))
}
