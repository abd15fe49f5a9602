//! Pods of cases.

use crate::names::{key, keyed, merge, requirements, toleration};
use crate::pools::without_nulls;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Equal pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Pods {
    /// The name; with a count, `NAME-0` and so on. `pod` if there is none.
    name: Option<String>,
    count: Option<usize>,
    namespace: Option<String>,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    cpu: Option<Value>,
    memory: Option<Value>,
    /// Other requests.
    requests: Map<String, Value>,
    limits: Map<String, Value>,
    host_ports: Vec<Value>,
    /// The node on which it runs.
    node: Option<String>,
    /// How long it has existed.
    age: Option<SignedDuration>,
    /// `spec.nodeSelector`.
    selector: Map<String, Value>,
    /// One required term of node affinity.
    require: Vec<Value>,
    /// Several required terms, of which one has to match.
    any: Vec<Vec<Value>>,
    prefer: Vec<Preferred>,
    tolerations: Vec<Value>,
    spread: Vec<Spread>,
    affinity: Vec<Affinity>,
    anti_affinity: Vec<Affinity>,
    /// The kind and name of its owner, such as `DaemonSet/agent`.
    owner: Option<String>,
    /// PersistentVolumeClaims.
    claims: Vec<String>,
    /// Merged into the manifest.
    metadata: Value,
    spec: Value,
    status: Value,
}

/// A preferred term of node affinity.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Preferred {
    #[serde(default = "one")]
    weight: i32,
    require: Vec<Value>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spread {
    on: String,
    #[serde(default = "one")]
    skew: i32,
    /// Whether it is `ScheduleAnyway`.
    #[serde(default)]
    soft: bool,
    /// The labels of the counted pods; those of the pod if there are neither these nor a selector.
    labels: Option<Map<String, Value>>,
    selector: Option<Value>,
    min_domains: Option<i32>,
    node_taints_policy: Option<String>,
    node_affinity_policy: Option<String>,
    match_label_keys: Option<Vec<String>>,
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Affinity {
    on: String,
    /// The weight of a preference; it is required if there is none.
    weight: Option<i32>,
    labels: Option<Map<String, Value>>,
    selector: Option<Value>,
    namespaces: Option<Vec<String>>,
    namespace_selector: Option<Value>,
    match_label_keys: Option<Vec<String>>,
}

const fn one() -> i32 {
    1
}

fn selector(labels: Option<&Map<String, Value>>, given: Option<&Value>, own: &Map<String, Value>) -> Value {
    given.cloned().unwrap_or_else(|| json!({ "matchLabels": labels.unwrap_or(own) }))
}

impl Spread {
    fn constraint(&self, own: &Map<String, Value>) -> Value {
        json!({
            "topologyKey": key(&self.on), "maxSkew": self.skew,
            "whenUnsatisfiable": if self.soft { "ScheduleAnyway" } else { "DoNotSchedule" },
            "labelSelector": selector(self.labels.as_ref(), self.selector.as_ref(), own),
            "minDomains": self.min_domains, "nodeTaintsPolicy": self.node_taints_policy,
            "nodeAffinityPolicy": self.node_affinity_policy, "matchLabelKeys": self.match_label_keys,
        })
    }
}

impl Affinity {
    fn terms(all: &[Self], own: &Map<String, Value>) -> Value {
        let term = |one: &Self| {
            json!({
                "topologyKey": key(&one.on), "labelSelector": selector(one.labels.as_ref(), one.selector.as_ref(), own),
                "namespaces": one.namespaces, "namespaceSelector": one.namespace_selector,
                "matchLabelKeys": one.match_label_keys,
            })
        };
        let required: Vec<Value> = all.iter().filter(|one| one.weight.is_none()).map(term).collect();
        let preferred =
            all.iter().filter_map(|one| Some(json!({ "weight": one.weight?, "podAffinityTerm": term(one) })));
        json!({
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred.collect::<Vec<_>>(),
        })
    }
}

impl Pods {
    /// The manifests.
    pub(crate) fn manifests(&self, at: Timestamp) -> Vec<Value> {
        let name = self.name.as_deref().unwrap_or("pod");
        match self.count {
            None => vec![self.manifest(name, at)],
            Some(count) => (0..count).map(|number| self.manifest(&format!("{name}-{number}"), at)).collect(),
        }
    }

    fn manifest(&self, name: &str, at: Timestamp) -> Value {
        let created = at - self.age.unwrap_or(SignedDuration::from_hours(1));
        let phase = if self.node.is_some() { "Running" } else { "Pending" };
        let owners = self.owner.as_deref().and_then(|owner| owner.split_once('/')).map(|(kind, name)| {
            json!([{ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true }])
        });
        let mut made = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": self.namespace, "labels": self.labels, "annotations": self.annotations,
                "creationTimestamp": created.to_string(), "ownerReferences": owners,
            },
            "spec": self.pod_spec(),
            "status": { "phase": phase },
        });
        if self.node.is_some() {
            made["status"]["startTime"] = json!(created.to_string());
            made["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
        }
        for (field, value) in [("metadata", &self.metadata), ("spec", &self.spec), ("status", &self.status)] {
            if !value.is_null() {
                merge(&mut made[field], value);
            }
        }
        without_nulls(&mut made);
        made
    }

    fn pod_spec(&self) -> Value {
        let mut requests = self.requests.clone();
        for (resource, amount) in [("cpu", &self.cpu), ("memory", &self.memory)] {
            if let Some(amount) = amount {
                // A number is a quantity, too, but a decoder of JSON may expect a text.
                let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
                requests.insert(resource.to_owned(), json!(text));
            }
        }
        let ports: Vec<Value> = self
            .host_ports
            .iter()
            .map(|port| match port {
                Value::Number(port) => json!({ "containerPort": port, "hostPort": port }),
                other => other.clone(),
            })
            .collect();
        let volumes: Vec<Value> = self
            .claims
            .iter()
            .map(|claim| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } }))
            .collect();
        json!({
            "nodeName": self.node,
            "nodeSelector": keyed(&self.selector),
            "containers": [{
                "name": "main", "image": "image", "ports": ports,
                "resources": { "requests": requests, "limits": self.limits },
            }],
            "affinity": self.affinity(),
            "tolerations": self.tolerations.iter().map(toleration).collect::<Vec<_>>(),
            "topologySpreadConstraints": self.spread.iter().map(|one| one.constraint(&self.labels)).collect::<Vec<_>>(),
            "volumes": volumes,
        })
    }

    fn affinity(&self) -> Value {
        let mut made = json!({});
        let own = (!self.require.is_empty()).then_some(&self.require);
        let terms: Vec<Value> =
            own.into_iter().chain(&self.any).map(|term| json!({ "matchExpressions": requirements(term) })).collect();
        if !terms.is_empty() {
            made["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = json!(terms);
        }
        if !self.prefer.is_empty() {
            let preferred = self.prefer.iter().map(
                |one| json!({ "weight": one.weight, "preference": { "matchExpressions": requirements(&one.require) } }),
            );
            made["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred.collect();
        }
        for (field, terms) in [("podAffinity", &self.affinity), ("podAntiAffinity", &self.anti_affinity)] {
            if !terms.is_empty() {
                made[field] = Affinity::terms(terms, &self.labels);
            }
        }
        made
    }
}
