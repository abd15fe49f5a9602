//! The topology spread constraints of kube-scheduler for pods that have none (`defaultConstraints` of `PodTopologySpreadArgs`).
//!
//! The constraints have no selector. kube-scheduler makes one for each pod of the Services that select the pod and of its controller
//! (`helper.DefaultSelector`), and applies no constraint to a pod without any of these. Karpenter does the same for its simulations
//! (`pkg/controllers/provisioning/scheduling/defaultconstraints.go`).

use crate::convert::validate::is_qualified_name;
use crate::convert::{ConvertError, selector};
use crate::slim;
use nodeless_model::pod::TopologySpread;
use nodeless_model::selector::{LabelExpression, LabelOperator};
use nodeless_model::{LabelSelector, Pod, PodTemplate, StringMap};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;
use std::sync::Arc;

/// The kind whose selector counts if it selects a pod.
pub const SERVICE: &str = "Service";
/// The kind whose labels take precedence over those of Services.
pub const REPLICATION_CONTROLLER: &str = "ReplicationController";
/// The kinds whose selectors are conditions in addition to those of Services. kube-scheduler knows no Deployments: they stand for their
/// ReplicaSets in manifests that have not been applied.
const OWNERS: [&str; 4] = [REPLICATION_CONTROLLER, "ReplicaSet", "StatefulSet", "Deployment"];

/// Karpenter's `SCHEDULER_CONFIG`: the settings of the cluster's kube-scheduler that plans depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Document")]
pub struct SchedulerConfig {
    /// Constraints without a selector.
    constraints: Vec<TopologySpread>,
}

/// A document is not a scheduler configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchedulerConfigError {
    /// It cannot be decoded.
    #[error("it is not a scheduler configuration: {0}")]
    Undecoded(String),
    /// A field is invalid.
    #[error("podTopologySpread.defaultConstraints[{index}]{problem}")]
    Constraint {
        /// The index of the constraint.
        index: usize,
        /// The field and what is wrong with it.
        problem: String,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Document {
    pod_topology_spread: Option<PodTopologySpread>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodTopologySpread {
    default_constraints: Option<Vec<Constraint>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Constraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    min_domains: Option<i32>,
    node_affinity_policy: Option<Inclusion>,
    node_taints_policy: Option<Inclusion>,
    label_selector: Option<IgnoredAny>,
    match_label_keys: Option<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
enum Inclusion {
    Honor,
    Ignore,
}

impl Constraint {
    /// As kube-scheduler's `ValidatePodTopologySpreadArgs` and Karpenter, which also refuses `matchLabelKeys`.
    fn checked(self) -> Result<TopologySpread, String> {
        if self.max_skew <= 0 {
            return Err(".maxSkew must be greater than 0".to_owned());
        }
        if self.topology_key.is_empty() {
            return Err(".topologyKey must be set".to_owned());
        }
        if !is_qualified_name(&self.topology_key) {
            return Err(format!(".topologyKey {:?} is not a valid label name", self.topology_key));
        }
        if self.label_selector.is_some() {
            return Err(".labelSelector must not be set, because selectors are deduced for each pod".to_owned());
        }
        if self.match_label_keys.is_some_and(|keys| !keys.is_empty()) {
            return Err(".matchLabelKeys must not be set, because it has no effect on default constraints".to_owned());
        }
        Ok(TopologySpread {
            max_skew: self.max_skew,
            hard: match self.when_unsatisfiable.as_str() {
                "DoNotSchedule" => true,
                "ScheduleAnyway" => false,
                other => {
                    return Err(format!(
                        ".whenUnsatisfiable {other:?} must be one of DoNotSchedule and ScheduleAnyway"
                    ));
                }
            },
            topology_key: self.topology_key,
            selector: None,
            match_label_keys: Vec::new(),
            min_domains: self.min_domains,
            honor_node_affinity: self.node_affinity_policy != Some(Inclusion::Ignore),
            honor_node_taints: self.node_taints_policy == Some(Inclusion::Honor),
        })
    }
}

impl TryFrom<Document> for SchedulerConfig {
    type Error = SchedulerConfigError;

    fn try_from(document: Document) -> Result<Self, SchedulerConfigError> {
        let given = document.pod_topology_spread.and_then(|plugin| plugin.default_constraints).unwrap_or_default();
        let mut constraints: Vec<TopologySpread> = Vec::new();
        for (index, constraint) in given.into_iter().enumerate() {
            let one = constraint.checked().map_err(|problem| SchedulerConfigError::Constraint { index, problem })?;
            let is_same = |other: &TopologySpread| (&other.topology_key, other.hard) == (&one.topology_key, one.hard);
            if let Some(first) = constraints.iter().position(is_same) {
                let problem = format!(" has the topologyKey and whenUnsatisfiable of [{first}]");
                return Err(SchedulerConfigError::Constraint { index, problem });
            }
            constraints.push(one);
        }
        Ok(Self { constraints })
    }
}

impl FromStr for SchedulerConfig {
    type Err = SchedulerConfigError;

    /// Reads JSON.
    fn from_str(json: &str) -> Result<Self, SchedulerConfigError> {
        let document: Document =
            serde_json::from_str(json).map_err(|error| SchedulerConfigError::Undecoded(error.to_string()))?;
        document.try_into()
    }
}

impl SchedulerConfig {
    /// Whether it changes nothing, so that no selectors are needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// The constraints of pods, with the selectors of these Services and controllers.
    #[must_use]
    pub fn spread<'a>(&'a self, selectors: &'a Selectors) -> DefaultSpread<'a> {
        DefaultSpread { config: self, selectors, known: HashMap::new() }
    }
}

/// The default constraints of pods.
pub struct DefaultSpread<'a> {
    config: &'a SchedulerConfig,
    selectors: &'a Selectors,
    /// Templates, and what each is with the constraints. While a template is kept, no other one has its address.
    known: HashMap<Deduced, (Arc<PodTemplate>, Option<Arc<PodTemplate>>)>,
}

impl DefaultSpread<'_> {
    /// The template of a pod with the constraints, if it has none of its own and Services or controllers select it. The pods of a workload
    /// get one, which is made once.
    pub fn given_to(&mut self, pod: &Pod) -> Option<Arc<PodTemplate>> {
        if !pod.template.topology_spread.is_empty() {
            return None;
        }
        let make = || {
            let selector = self.selectors.selector_for(pod)?;
            let of_pod = |one: &TopologySpread| TopologySpread { selector: Some(selector.clone()), ..one.clone() };
            let topology_spread = self.config.constraints.iter().map(of_pod).collect();
            Some(Arc::new(PodTemplate { topology_spread, ..PodTemplate::clone(&pod.template) }))
        };
        self.known.entry(Deduced::new(pod)).or_insert_with(|| (pod.template.clone(), make())).1.clone()
    }
}

/// What the constraints of a pod depend on.
#[derive(PartialEq, Eq, Hash)]
struct Deduced {
    namespace: String,
    owner: Option<(String, String)>,
    /// The address of its template.
    template: usize,
}

impl Deduced {
    fn new(pod: &Pod) -> Self {
        let owner = pod.owner_kind.clone().zip(pod.owner_name.clone());
        Self { namespace: pod.namespace.clone(), owner, template: Arc::as_ptr(&pod.template).addr() }
    }
}

/// The selectors of the Services and controllers of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Selectors {
    /// By namespace and name.
    services: BTreeMap<String, BTreeMap<String, StringMap>>,
    /// By kind, namespace and name.
    owners: BTreeMap<(&'static str, String, String), LabelSelector>,
}

/// The selector of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectSelector {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The pods; a Service and a ReplicationController select by labels only.
    pub selector: LabelSelector,
}

impl TryFrom<&slim::Controller> for ObjectSelector {
    type Error = ConvertError;

    fn try_from(object: &slim::Controller) -> Result<Self, ConvertError> {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let name = object.metadata.name.clone().unwrap_or_default();
        let selector = object.spec.selector.as_ref().map(|from| selector(from, "spec.selector")).transpose();
        let selector = selector.map_err(|error| error.for_object(format!("{namespace}/{name}")))?.unwrap_or_default();
        Ok(Self { namespace, name, selector })
    }
}

impl From<slim::SelectingByLabels> for ObjectSelector {
    fn from(object: slim::SelectingByLabels) -> Self {
        Self {
            namespace: object.metadata.namespace.unwrap_or_default(),
            name: object.metadata.name.unwrap_or_default(),
            selector: LabelSelector::from_labels(object.spec.selector.unwrap_or_default()),
        }
    }
}

impl Selectors {
    /// Adds the selector of an object. Objects of kinds that select no pods for the constraints are ignored.
    pub fn add(&mut self, kind: &str, object: ObjectSelector) {
        let ObjectSelector { namespace, name, selector } = object;
        if kind == SERVICE {
            self.services.entry(namespace).or_default().insert(name, selector.match_labels);
        } else if let Some(kind) = OWNERS.iter().find(|known| **known == kind) {
            self.owners.insert((kind, namespace, name), selector);
        }
    }

    /// Removes the selector of an object.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        if kind == SERVICE
            && let Some(services) = self.services.get_mut(namespace)
        {
            services.remove(name);
        }
        self.owners.retain(|(own, within, of), _| (*own, within.as_str(), of.as_str()) != (kind, namespace, name));
    }

    /// Whether the controller of a pod is of a kind whose selector counts, and is unknown.
    #[must_use]
    pub fn lack_owner_of(&self, pod: &Pod) -> bool {
        pod.owner_kind.as_deref().is_some_and(|kind| OWNERS.contains(&kind)) && self.owner_of(pod).is_none()
    }

    fn owner_of(&self, pod: &Pod) -> Option<(&'static str, &LabelSelector)> {
        let (kind, name) = (pod.owner_kind.as_deref()?, pod.owner_name.as_ref()?);
        let kind = OWNERS.iter().find(|known| **known == kind)?;
        Some((kind, self.owners.get(&(*kind, pod.namespace.clone(), name.clone()))?))
    }

    /// The selector of the default constraints of a pod (`helper.DefaultSelector`); `None` if it would be empty.
    fn selector_for(&self, pod: &Pod) -> Option<LabelSelector> {
        let mut selector = LabelSelector::default();
        // Of several Services with different values of a label none else than the last one counts, as upstream.
        for of_service in self.services.get(&pod.namespace).into_iter().flat_map(BTreeMap::values) {
            if of_service.iter().all(|(key, value)| pod.template.labels.get(key) == Some(value)) {
                selector.match_labels.extend(of_service.clone());
            }
        }
        match self.owner_of(pod) {
            Some((REPLICATION_CONTROLLER, owner)) => selector.match_labels.extend(owner.match_labels.clone()),
            Some((_, owner)) => {
                for (key, value) in &owner.match_labels {
                    let known = selector.match_labels.entry(key.clone()).or_insert_with(|| value.clone());
                    if known != value {
                        selector.match_expressions.push(LabelExpression {
                            key: key.clone(),
                            operator: LabelOperator::In,
                            values: vec![value.clone()],
                        });
                    }
                }
                selector.match_expressions.extend(owner.match_expressions.clone());
            }
            None => {}
        }
        (selector != LabelSelector::default()).then_some(selector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE_AND_HOST: &str = r#"{"podTopologySpread": {"defaultConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3},
        {"maxSkew": 3, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
         "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    ]}}"#;

    fn map(labels: &[(&str, &str)]) -> StringMap {
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn object(name: &str, labels: &[(&str, &str)]) -> ObjectSelector {
        let selector = LabelSelector::from_labels(map(labels));
        ObjectSelector { namespace: "default".to_owned(), name: name.to_owned(), selector }
    }

    fn pod(owner: Option<(&str, &str)>, labels: &[(&str, &str)]) -> Pod {
        Pod {
            namespace: "default".to_owned(),
            owner_kind: owner.map(|(kind, _)| kind.to_owned()),
            owner_name: owner.map(|(_, name)| name.to_owned()),
            template: PodTemplate { labels: map(labels), ..PodTemplate::default() }.into(),
            ..Pod::default()
        }
    }

    /// The selector that a pod gets.
    fn selector(selectors: &Selectors, pod: &Pod) -> Option<LabelSelector> {
        let config: SchedulerConfig = ZONE_AND_HOST.parse().unwrap();
        let template = config.spread(selectors).given_to(pod);
        let mut of_each = template.iter().flat_map(|it| &it.topology_spread).map(|one| one.selector.clone());
        let first = of_each.next()?;
        assert!(of_each.all(|other| other == first), "one selector for all constraints");
        first
    }

    #[test]
    fn the_document_is_that_of_karpenter() {
        let config: SchedulerConfig = ZONE_AND_HOST.parse().unwrap();
        let [zone, host] = config.constraints.as_slice() else { panic!("{config:?}") };
        assert_eq!((zone.max_skew, zone.hard, zone.min_domains), (1, true, Some(3)));
        assert_eq!((zone.honor_node_affinity, zone.honor_node_taints), (true, false), "the defaults of Kubernetes");
        assert_eq!((host.max_skew, host.hard, host.topology_key.as_str()), (3, false, "kubernetes.io/hostname"));
        assert_eq!((host.honor_node_affinity, host.honor_node_taints), (false, true));
        for empty in ["{}", r#"{"podTopologySpread": {}}"#, r#"{"podTopologySpread": {"defaultConstraints": []}}"#] {
            assert!(empty.parse::<SchedulerConfig>().unwrap().is_empty(), "{empty}");
        }
    }

    #[test]
    fn malformed_documents_are_refused_with_the_field() {
        let of = |constraints: &str| {
            let document = format!(r#"{{"podTopologySpread": {{"defaultConstraints": [{constraints}]}}}}"#);
            document.parse::<SchedulerConfig>().unwrap_err().to_string()
        };
        let valid = r#""maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule""#;
        let field = "podTopologySpread.defaultConstraints[0]";
        for (constraint, problem) in [
            (r#""topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule""#, ".maxSkew must be greater than 0"),
            (r#""maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule""#, ".topologyKey must be set"),
            (r#""maxSkew": 1, "topologyKey": "a b""#, r#".topologyKey "a b" is not a valid label name"#),
            (r#""maxSkew": 1, "topologyKey": "zone""#, r#".whenUnsatisfiable "" must be one of"#),
            (&format!(r#"{valid}, "labelSelector": {{"matchLabels": {{"app": "web"}}}}"#), ".labelSelector must not"),
            (&format!(r#"{valid}, "matchLabelKeys": ["app"]"#), ".matchLabelKeys must not be set"),
        ] {
            let error = of(&format!("{{{constraint}}}"));
            assert!(error.starts_with(&format!("{field}{problem}")), "{error}");
        }
        let twice = of(&format!("{{{valid}}}, {{{valid}}}"));
        assert_eq!(twice, "podTopologySpread.defaultConstraints[1] has the topologyKey and whenUnsatisfiable of [0]");
        let other_field = r#"{"podTopologySpread": {"defaultingType": "List"}}"#;
        for undecoded in [other_field, "{", "podTopologySpread: {}", "[]1", &of(r#"{"nodeTaintsPolicy": "Maybe"}"#)] {
            let error = undecoded.parse::<SchedulerConfig>().unwrap_err().to_string();
            assert!(error.starts_with("it is not a scheduler configuration: "), "{error}");
        }
    }

    #[test]
    fn selectors_are_made_of_services_and_the_controller() {
        let mut all = Selectors::default();
        all.add(SERVICE, object("web", &[("app", "web")]));
        all.add(SERVICE, object("others", &[("app", "other")]));
        all.add(SERVICE, object("without-selector", &[]));
        all.add(SERVICE, ObjectSelector { namespace: "elsewhere".to_owned(), ..object("web", &[("x", "y")]) });
        all.add("ReplicaSet", object("web-1", &[("app", "web"), ("pod-template-hash", "1")]));
        all.add(REPLICATION_CONTROLLER, object("web", &[("rc", "web")]));
        all.add("Job", object("web", &[("job", "web")]));

        let labels = [("app", "web"), ("pod-template-hash", "1"), ("x", "y")];
        let both = map(&[("app", "web"), ("pod-template-hash", "1")]);
        assert_eq!(
            selector(&all, &pod(Some(("ReplicaSet", "web-1")), &labels)),
            Some(LabelSelector::from_labels(both.clone()))
        );
        let of_service = Some(LabelSelector::from_labels(map(&[("app", "web")])));
        for owner in [None, Some(("Job", "web")), Some(("ReplicaSet", "deleted"))] {
            assert_eq!(selector(&all, &pod(owner, &labels)), of_service, "{owner:?}");
        }
        assert_eq!(
            selector(&all, &pod(Some(("ReplicaSet", "web-1")), &[("other", "label")])),
            Some(LabelSelector::from_labels(both)),
            "of the controller alone"
        );
        let replicated = map(&[("app", "web"), ("rc", "web")]);
        assert_eq!(
            selector(&all, &pod(Some((REPLICATION_CONTROLLER, "web")), &labels)),
            Some(LabelSelector::from_labels(replicated))
        );
        assert_eq!(selector(&all, &pod(None, &[("some", "pod")])), None, "nothing selects the pod");
        all.remove(SERVICE, "default", "web");
        assert_eq!(selector(&all, &pod(None, &labels)), None);
    }

    #[test]
    fn a_controller_that_contradicts_a_service_is_a_condition_in_addition() {
        let mut all = Selectors::default();
        all.add(SERVICE, object("web", &[("app", "web")]));
        all.add("StatefulSet", object("web", &[("app", "former")]));
        let both = selector(&all, &pod(Some(("StatefulSet", "web")), &[("app", "web")])).unwrap();
        assert!(!both.matches(&map(&[("app", "web")])) && !both.matches(&map(&[("app", "former")])), "{both:?}");
        all.add(REPLICATION_CONTROLLER, object("web", &[("app", "former")]));
        let merged = selector(&all, &pod(Some((REPLICATION_CONTROLLER, "web")), &[("app", "web")])).unwrap();
        assert!(merged.matches(&map(&[("app", "former")])), "its labels replace those of Services: {merged:?}");
    }

    #[test]
    fn pods_with_constraints_of_their_own_keep_them() {
        let mut all = Selectors::default();
        all.add(SERVICE, object("web", &[("app", "web")]));
        let config: SchedulerConfig = ZONE_AND_HOST.parse().unwrap();
        let own = TopologySpread { selector: None, ..config.constraints[1].clone() };
        let pod = pod(None, &[("app", "web")]);
        assert!(config.spread(&all).given_to(&pod).is_some());
        assert_eq!(config.spread(&all).given_to(&pod.with_template(|it| it.topology_spread = vec![own])), None);
    }
}
