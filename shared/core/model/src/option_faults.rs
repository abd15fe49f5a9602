//! Annotations of nodeless that are invalid, contradict the spec of their object, or are not read: as messages and Events.

use crate::events::{annotation_unknown, budget_invalid, daemon_set_not_awaited, misconfigured};
use crate::object::{ObjectEvent, ObjectRef};
use crate::options::{ClusterOptions, NodePoolOptions};
use crate::pods::surge::PodOptions;
use crate::text::spelling::nearest;
use crate::{InvalidAnnotation, NodePool, Pod, labels};

/// What is wrong with an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionFault {
    /// The object.
    pub object: ObjectRef,
    /// The annotation.
    pub key: String,
    /// The problem, what happens instead, and the fix.
    pub message: String,
    /// Whether no annotation of this name is read from the object, so that it has no effect.
    pub is_unknown: bool,
}

/// The objects whose annotations are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionHolder {
    /// A NodePool.
    NodePool,
    /// The Namespace `kube-system`, for the cluster.
    Cluster,
    /// A pod, or a template of pods.
    Pod,
    /// A Deployment or another workload, apart from its template.
    Deployment,
    /// An EC2NodeClass.
    NodeClass,
}

impl OptionHolder {
    const ALL: [Self; 5] = [Self::NodePool, Self::Cluster, Self::Pod, Self::Deployment, Self::NodeClass];

    /// The annotations that nodeless reads from it.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::NodePool => NodePoolOptions::KEYS,
            Self::Cluster => ClusterOptions::KEYS,
            Self::Pod => PodOptions::KEYS,
            Self::Deployment => &[labels::SURGE],
            // nodeless writes it itself.
            Self::NodeClass => &[labels::CERTIFICATE_AUTHORITY],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::NodePool => "a NodePool",
            Self::Cluster => "Namespace kube-system",
            Self::Pod => "the pod template",
            Self::Deployment => "a Deployment",
            Self::NodeClass => "an EC2NodeClass",
        }
    }

    /// What to do about an annotation that is not read from it.
    fn remedy(self, key: &str) -> String {
        if let Some(other) = Self::ALL.into_iter().find(|other| other.keys().contains(&key)) {
            return format!("set it on {}", other.name());
        }
        let nearest = |holder: Self| nearest(name(key), holder.keys().iter().copied(), |known| name(known));
        let elsewhere = || Self::ALL.into_iter().find_map(|other| Some((other, nearest(other)?)));
        match (nearest(self), elsewhere()) {
            (Some(known), _) => format!("did you mean {known}?"),
            (None, Some((other, known))) => format!("did you mean {known} on {}?", other.name()),
            (None, None) => "remove it".to_owned(),
        }
    }
}

/// The name of an annotation, without its domain.
fn name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

impl OptionFault {
    /// The annotations of a NodePool that are invalid, contradict its spec, or have no effect.
    #[must_use]
    pub fn of_node_pool(pool: &NodePool) -> Vec<Self> {
        let (minimum, warm) = (pool.min_on_demand(), pool.warm_nodes());
        let contradicts = |invalid: &&InvalidAnnotation| matches!(invalid, InvalidAnnotation::Contradiction { .. });
        let contradictions = [minimum.invalid(), warm.invalid()].into_iter().flatten().filter(contradicts);
        let object = ObjectRef::from(pool);
        let unknown = Self::unknown(&object, OptionHolder::NodePool, pool.options.unknown());
        let invalid = Self::invalid(&object, pool.options.invalid().chain(contradictions));
        invalid.chain(unknown).chain(Self::misplaced(&object, pool)).collect()
    }

    /// The keys in the domain of nodeless that a NodePool has in its template or as labels, where nothing reads them.
    fn misplaced(object: &ObjectRef, pool: &NodePool) -> impl Iterator<Item = Self> {
        let template = &pool.template;
        let annotations = template.annotations.keys().map(|key| ("annotation", "spec.template.metadata", key));
        let labels = template.labels.keys().map(|key| ("label", "spec.template.metadata", key));
        let own_labels = pool.label_keys.iter().map(|key| ("label", "metadata", key));
        let ours = annotations.chain(labels).chain(own_labels).filter(|(_, _, key)| labels::is_ours(key));
        ours.map(|(kind, field, key)| {
            let remedy = match OptionHolder::NodePool.keys().contains(&key.as_str()) {
                true => "set it in metadata.annotations of the NodePool".to_owned(),
                false => OptionHolder::NodePool.remedy(key),
            };
            let message = format!(
                "{kind} {key} of {field} has no effect, because nodeless does not read it from there: {remedy}"
            );
            Self { object: object.clone(), key: key.clone(), message, is_unknown: true }
        })
    }

    /// The annotations of the Namespace `kube-system` that are invalid or have no effect.
    #[must_use]
    pub fn of_cluster(options: &ClusterOptions) -> Vec<Self> {
        let namespace = ObjectRef::namespace("kube-system");
        let unknown = Self::unknown(&namespace, OptionHolder::Cluster, options.unknown());
        Self::invalid(&namespace, options.invalid()).chain(unknown).collect()
    }

    /// The annotations of a pod that are invalid or have no effect.
    #[must_use]
    pub fn of_pod(pod: &Pod) -> Vec<Self> {
        let (object, options) = (ObjectRef::from(pod), PodOptions::new(&pod.template.annotations));
        let unknown = Self::unknown(&object, OptionHolder::Pod, options.unknown());
        Self::invalid(&object, options.invalid()).chain(unknown).collect()
    }

    /// The annotations among these keys that are not read from an object.
    pub fn unknown<'k>(
        object: &ObjectRef,
        holder: OptionHolder,
        keys: impl Iterator<Item = &'k str>,
    ) -> impl Iterator<Item = Self> {
        let unknown = keys.filter(move |key| labels::is_ours(key) && !holder.keys().contains(key));
        unknown.map(move |key| Self {
            object: object.clone(),
            key: key.to_owned(),
            message: format!(
                "annotation {key} has no effect, because nodeless does not read it from this object: {}",
                holder.remedy(key)
            ),
            is_unknown: true,
        })
    }

    fn invalid<'i>(
        object: &ObjectRef,
        invalid: impl Iterator<Item = &'i InvalidAnnotation>,
    ) -> impl Iterator<Item = Self> {
        invalid.map(|invalid| Self {
            object: object.clone(),
            key: invalid.key().to_owned(),
            message: invalid.to_string(),
            is_unknown: false,
        })
    }

    /// The kind and name of the object, such as `Pod shop/cart`.
    #[must_use]
    pub fn object_name(&self) -> String {
        let ObjectRef { kind, namespace, name, .. } = &self.object;
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }

    /// The Event about it.
    #[must_use]
    pub fn event(&self) -> ObjectEvent {
        let object = self.object.clone();
        match self.key.as_str() {
            key if self.is_unknown => annotation_unknown(object, key, &self.message),
            labels::DOLLARS_PER_MONTH => budget_invalid(object, &self.message),
            labels::WAIT_FOR_DAEMON_SETS => daemon_set_not_awaited(object, &self.message),
            key => misconfigured(object, key, &self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StringMap;
    use crate::amounts::cluster_limits::{MAX_CPU, MAX_DOLLARS_PER_HOUR, MAX_NODES};
    use crate::test_support::{node_pool, pod};

    fn of_pool(all: &[(&str, &str)]) -> Vec<OptionFault> {
        let mut pool = node_pool("default");
        all.iter().for_each(|(key, value)| pool.options.set(key, Some(value)));
        OptionFault::of_node_pool(&pool)
    }

    fn of_cluster(all: &[(&str, &str)]) -> Vec<OptionFault> {
        let annotations: StringMap = all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        OptionFault::of_cluster(&ClusterOptions::new(&annotations))
    }

    #[test]
    fn valid_annotations_have_no_faults() {
        let pool = [
            (labels::PAUSE, "false"),
            (labels::SLEEP, "0 20 * * * for 11h"),
            (labels::CHURN_EVICTIONS, "10"),
            (labels::MIN_SAVINGS, "0.05"),
            (labels::BALANCE_ZONES, "0"),
            (labels::GRACEFUL_EXPIRATION, "24h"),
            (labels::REBALANCE, "ignore"),
            (labels::SPOT_INTERRUPTIONS, "ignore"),
            (labels::MIN_ON_DEMAND, "2"),
            (labels::AMI_CANARY, "30m"),
            (labels::TERMINATE_FIRST, "drift"),
            (labels::ROOT_VOLUME, "20Gi+pods max 500Gi"),
            (labels::WAIT_FOR_DAEMON_SETS, "kube-system/a"),
            (labels::WARM, "2"),
            (labels::DOLLARS_PER_MONTH, "5"),
            (labels::DOLLARS_PER_HOUR, "5"),
        ];
        assert_eq!(pool.len(), NodePoolOptions::KEYS.len());
        assert_eq!(of_pool(&pool), []);
        let cluster = [
            (labels::PAUSE, "true"),
            (labels::DOLLARS_PER_MONTH, "5"),
            (labels::TABLE, "nodeless"),
            (MAX_CPU, "5"),
            (MAX_DOLLARS_PER_HOUR, "5"),
            (MAX_NODES, "5"),
            (labels::MAINTENANCE_WINDOWS, "0 2 * * sat for 4h"),
        ];
        assert_eq!(cluster.len(), ClusterOptions::KEYS.len());
        assert_eq!(of_cluster(&cluster), []);
    }

    #[test]
    fn each_invalid_value_is_a_fault_with_an_event() {
        let is_fault = |found: &[OptionFault], key: &str| {
            let [fault] = found else { panic!("{key}: {found:?}") };
            assert!(fault.key == key && !fault.is_unknown && fault.message.contains("\"maybe?\""), "{fault:?}");
            fault.event().reason
        };
        for key in NodePoolOptions::KEYS {
            let expected = match *key {
                labels::DOLLARS_PER_MONTH => "BudgetInvalid",
                labels::WAIT_FOR_DAEMON_SETS => "DaemonSetNotAwaited",
                _ => "DisruptionBlocked",
            };
            assert_eq!(is_fault(&of_pool(&[(key, "maybe?")]), key), expected);
        }
        for key in ClusterOptions::KEYS.iter().filter(|key| **key != labels::TABLE) {
            is_fault(&of_cluster(&[(key, "maybe?")]), key);
        }
        let mut pod = pod("web", 100, 100);
        pod.template_mut().annotations.insert(labels::SURGE_BEFORE_DRAIN.into(), "maybe?".into());
        is_fault(&OptionFault::of_pod(&pod), labels::SURGE_BEFORE_DRAIN);
    }

    #[test]
    fn what_contradicts_the_spec_is_one_fault() {
        let mut pool = node_pool("default");
        pool.replicas = Some(2);
        pool.options.set(labels::WARM, Some("2"));
        let found = OptionFault::of_node_pool(&pool);
        assert!(matches!(&found[..], [fault] if fault.message.contains("spec.replicas")), "{found:?}");
    }

    #[test]
    fn a_key_of_the_template_or_a_label_has_no_effect_and_the_right_field_is_named() {
        let mut pool = node_pool("default");
        pool.template.annotations.insert("nodeless.sh/warm".into(), "2".into());
        pool.template.labels.insert("nodeless.sh/slep".into(), "true".into());
        pool.label_keys = vec!["nodeless.sh/maintenance-windows".to_owned()];
        let found: Vec<_> = OptionFault::of_node_pool(&pool).into_iter().map(|fault| fault.message).collect();
        let why = "has no effect, because nodeless does not read it from there";
        assert_eq!(
            found,
            [
                format!(
                    "annotation nodeless.sh/warm of spec.template.metadata {why}: set it in metadata.annotations of the NodePool"
                ),
                format!("label nodeless.sh/slep of spec.template.metadata {why}: did you mean nodeless.sh/sleep?"),
                format!("label nodeless.sh/maintenance-windows of metadata {why}: set it on Namespace kube-system"),
            ]
        );
    }

    #[test]
    fn a_key_that_is_not_read_has_no_effect_and_the_nearest_is_named() {
        let expected = |key: &str, remedy: &str| {
            format!("annotation {key} has no effect, because nodeless does not read it from this object: {remedy}")
        };
        let check = |found: Vec<OptionFault>, key: &str, remedy: &str| {
            let [fault] = &found[..] else { panic!("{key}: {found:?}") };
            assert!(fault.is_unknown && fault.message == expected(key, remedy), "{fault:?}");
            assert_eq!(fault.event().reason, "AnnotationUnknown");
        };
        for (key, remedy) in [
            ("nodeless.sh/pause-disrupton", "did you mean nodeless.sh/pause-disruption?"),
            ("nodeless.sh/Sleep", "did you mean nodeless.sh/sleep?"),
            ("nodeless.sh/min-ondemand", "did you mean nodeless.sh/min-on-demand?"),
            ("nodeless.sh/dollars-per-hours", "did you mean nodeless.sh/dollars-per-hour?"),
            ("nodeless.sh/maintenance-windows", "set it on Namespace kube-system"),
            ("nodeless.sh/surge-before-drain", "set it on the pod template"),
            ("nodeless.sh/color", "remove it"),
        ] {
            check(of_pool(&[(key, "true")]), key, remedy);
        }
        check(of_cluster(&[("nodeless.sh/sleep", "")]), "nodeless.sh/sleep", "set it on a NodePool");
        for (key, remedy) in [
            ("nodeless.sh/min-on-demand", "set it on a NodePool"),
            ("nodeless.sh/surge-before-drian", "did you mean nodeless.sh/surge-before-drain?"),
        ] {
            let mut pod = pod("web", 100, 100);
            pod.template_mut().annotations.insert(key.into(), "2".into());
            check(OptionFault::of_pod(&pod), key, remedy);
        }
        let class = ObjectRef::node_class("default", "");
        let of_class = |key| OptionFault::unknown(&class, OptionHolder::NodeClass, [key].into_iter()).collect();
        let key = "nodeless.sh/ami-canaries";
        check(of_class(key), key, "did you mean nodeless.sh/ami-canary on a NodePool?");
    }
}
