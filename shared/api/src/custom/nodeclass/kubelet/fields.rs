//! The fields of the kubelet's configuration (KubeletConfiguration of kubelet.config.k8s.io/v1beta1) in Kubernetes 1.36. A
//! kubelet does not start with an unknown field, so it must not be passed to a node.

use super::is_duration;
use serde_json::Value;

/// The type of a field.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Text,
    Flag,
    Int32,
    /// A whole number, or a text with an expression that results in one.
    Int32OrExpression,
    Int64,
    Number,
    /// A duration such as `1m30s`.
    Duration,
    /// A duration, or a whole number of nanoseconds.
    DurationOrNumber,
    /// A resource quantity: text or a number.
    Quantity,
    List(&'static Shape),
    Map(&'static Shape),
    Object(&'static [(&'static str, Shape)]),
    /// Something that is checked elsewhere.
    Any,
}

use Shape::{
    Any, Duration, DurationOrNumber, Flag, Int32, Int32OrExpression, Int64, List, Map, Number, Object, Quantity, Text,
};

const LOG_OUTPUT: Shape = Object(&[("infoBufferSize", Quantity), ("splitStream", Flag)]);

/// All fields, by name.
const FIELDS: &[(&str, Shape)] = &[
    ("address", Text),
    ("allowedUnsafeSysctls", List(&Text)),
    ("apiVersion", Text),
    (
        "authentication",
        Object(&[
            ("anonymous", Object(&[("enabled", Flag)])),
            ("webhook", Object(&[("cacheTTL", Duration), ("enabled", Flag)])),
            ("x509", Object(&[("clientCAFile", Text)])),
        ]),
    ),
    (
        "authorization",
        Object(&[
            ("mode", Text),
            ("webhook", Object(&[("cacheAuthorizedTTL", Duration), ("cacheUnauthorizedTTL", Duration)])),
        ]),
    ),
    ("cgroupDriver", Text),
    ("cgroupRoot", Text),
    ("cgroupsPerQOS", Flag),
    ("clusterDNS", List(&Text)),
    ("clusterDomain", Text),
    ("configMapAndSecretChangeDetectionStrategy", Text),
    ("containerLogMaxFiles", Int32),
    ("containerLogMaxSize", Text),
    ("containerLogMaxWorkers", Int32),
    ("containerLogMonitorInterval", Duration),
    ("containerRuntimeEndpoint", Text),
    ("contentType", Text),
    ("cpuCFSQuota", Flag),
    ("cpuCFSQuotaPeriod", Duration),
    ("cpuManagerPolicy", Text),
    ("cpuManagerPolicyOptions", Map(&Text)),
    ("cpuManagerReconcilePeriod", Duration),
    ("crashLoopBackOff", Object(&[("maxContainerRestartPeriod", Duration)])),
    ("enableContentionProfiling", Flag),
    ("enableControllerAttachDetach", Flag),
    ("enableDebugFlagsHandler", Flag),
    ("enableDebuggingHandlers", Flag),
    ("enableProfilingHandler", Flag),
    ("enableServer", Flag),
    ("enableSystemLogHandler", Flag),
    ("enableSystemLogQuery", Flag),
    ("enforceNodeAllocatable", List(&Text)),
    ("eventBurst", Int32),
    ("eventRecordQPS", Int32),
    ("evictionHard", Map(&Text)),
    ("evictionMaxPodGracePeriod", Int32),
    ("evictionMinimumReclaim", Map(&Text)),
    ("evictionPressureTransitionPeriod", Duration),
    ("evictionSoft", Map(&Text)),
    ("evictionSoftGracePeriod", Map(&Text)),
    ("failCgroupV1", Flag),
    ("failSwapOn", Flag),
    ("featureGates", Map(&Flag)),
    ("fileCheckFrequency", Duration),
    ("hairpinMode", Text),
    ("healthzBindAddress", Text),
    ("healthzPort", Int32),
    ("httpCheckFrequency", Duration),
    ("imageGCHighThresholdPercent", Int32),
    ("imageGCLowThresholdPercent", Int32),
    ("imageMaximumGCAge", Duration),
    ("imageMinimumGCAge", Duration),
    ("imagePullCredentialsVerificationPolicy", Text),
    ("imageServiceEndpoint", Text),
    ("iptablesDropBit", Int32),
    ("iptablesMasqueradeBit", Int32),
    ("kernelMemcgNotification", Flag),
    ("kind", Text),
    ("kubeAPIBurst", Int32),
    ("kubeAPIQPS", Int32),
    ("kubeReserved", Map(&Text)),
    ("kubeReservedCgroup", Text),
    ("kubeletCgroups", Text),
    ("localStorageCapacityIsolation", Flag),
    (
        "logging",
        Object(&[
            ("flushFrequency", DurationOrNumber),
            ("format", Text),
            ("options", Object(&[("json", LOG_OUTPUT), ("text", LOG_OUTPUT)])),
            ("verbosity", Int64),
            ("vmodule", List(&Object(&[("filePattern", Text), ("verbosity", Int64)]))),
        ]),
    ),
    ("makeIPTablesUtilChains", Flag),
    ("maxOpenFiles", Int64),
    ("maxParallelImagePulls", Int32),
    ("maxPods", Int32OrExpression),
    ("memoryManagerPolicy", Text),
    ("memoryReservationPolicy", Text),
    ("memorySwap", Object(&[("swapBehavior", Text)])),
    ("memoryThrottlingFactor", Number),
    ("mergeDefaultEvictionSettings", Flag),
    ("nodeLeaseDurationSeconds", Int32),
    ("nodeStatusMaxImages", Int32),
    ("nodeStatusReportFrequency", Duration),
    ("nodeStatusUpdateFrequency", Duration),
    ("oomScoreAdj", Int32),
    ("podCIDR", Text),
    ("podLogsDir", Text),
    ("podPidsLimit", Int64),
    ("podsPerCore", Int32),
    ("port", Int32),
    ("preloadedImagesVerificationAllowlist", List(&Text)),
    ("protectKernelDefaults", Flag),
    ("providerID", Text),
    ("qosReserved", Map(&Text)),
    ("readOnlyPort", Int32),
    ("registerNode", Flag),
    ("registerWithTaints", Any),
    ("registryBurst", Int32),
    ("registryPullQPS", Int32),
    ("reservedMemory", List(&Object(&[("limits", Map(&Quantity)), ("numaNode", Int32)]))),
    ("reservedSystemCPUs", Text),
    ("resolvConf", Text),
    ("rotateCertificates", Flag),
    ("runOnce", Flag),
    ("runtimeRequestTimeout", Duration),
    ("seccompDefault", Flag),
    ("serializeImagePulls", Flag),
    ("serverTLSBootstrap", Flag),
    ("showHiddenMetricsForVersion", Text),
    ("shutdownGracePeriod", Duration),
    ("shutdownGracePeriodByPodPriority", List(&Object(&[("priority", Int32), ("shutdownGracePeriodSeconds", Int64)]))),
    ("shutdownGracePeriodCriticalPods", Duration),
    ("singleProcessOOMKill", Flag),
    ("staticPodPath", Text),
    ("staticPodURL", Text),
    ("staticPodURLHeader", Map(&List(&Text))),
    ("streamingConnectionIdleTimeout", Duration),
    ("syncFrequency", Duration),
    ("systemCgroups", Text),
    ("systemReserved", Map(&Text)),
    ("systemReservedCgroup", Text),
    ("tlsCertFile", Text),
    ("tlsCipherSuites", List(&Text)),
    ("tlsCurvePreferences", List(&Int32)),
    ("tlsMinVersion", Text),
    ("tlsPrivateKeyFile", Text),
    ("topologyManagerPolicy", Text),
    ("topologyManagerPolicyOptions", Map(&Text)),
    ("topologyManagerScope", Text),
    ("tracing", Object(&[("endpoint", Text), ("samplingRatePerMillion", Int32)])),
    ("userNamespaces", Object(&[("idsPerPod", Int64)])),
    ("volumePluginDir", Text),
    ("volumeStatsAggPeriod", Duration),
];
/// A name with at most this number of wrong letters counts as misspelt.
const MISSPELT: usize = 2;

/// The problems for which the kubelet would refuse its configuration, each with the field's path below `spec`.
pub(super) fn problems<'a>(kubelet: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Vec<String> {
    let mut problems = Vec::new();
    object_problems("spec.kubelet", FIELDS, kubelet, &mut problems);
    problems
}

fn object_problems<'a>(
    path: &str,
    fields: &[(&str, Shape)],
    values: impl IntoIterator<Item = (&'a String, &'a Value)>,
    problems: &mut Vec<String>,
) {
    for (name, value) in values {
        let path = format!("{path}.{name}");
        match fields.iter().find(|(known, _)| known == name) {
            Some((_, shape)) => value_problems(&path, *shape, value, problems),
            None => problems.push(format!("{path}: the kubelet has no such setting{}", meant(fields, name))),
        }
    }
}

fn value_problems(path: &str, shape: Shape, value: &Value, problems: &mut Vec<String>) {
    let integer = |least: i64, most: i64| value.as_i64().is_some_and(|number| (least..=most).contains(&number));
    let expected = match (shape, value) {
        // A field that is null is absent, as for the kubelet.
        (Any, _) | (_, Value::Null) => return,
        (List(inner), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                value_problems(&format!("{path}[{index}]"), *inner, item, problems);
            }
            return;
        }
        (Map(inner), Value::Object(entries)) => {
            for (key, entry) in entries {
                value_problems(&format!("{path}.{key}"), *inner, entry, problems);
            }
            return;
        }
        (Object(fields), Value::Object(entries)) => return object_problems(path, fields, entries, problems),
        (Text, _) => (value.is_string(), "text; put it into quotation marks"),
        (Flag, _) => (value.is_boolean(), "true or false"),
        (Int32, _) => (integer(i32::MIN.into(), i32::MAX.into()), "a whole number below 2147483648"),
        (Int32OrExpression, _) => {
            let right = value.is_string() || integer(i32::MIN.into(), i32::MAX.into());
            (right, "a whole number below 2147483648 or a text with a CEL expression")
        }
        (Int64, _) => (integer(i64::MIN, i64::MAX), "a whole number"),
        (Number, _) => (value.is_number(), "a number"),
        (Duration, _) => (value.as_str().is_some_and(is_duration), "a duration such as 1m30s"),
        (DurationOrNumber, _) => {
            let right = value.as_str().map_or_else(|| value.is_i64() || value.is_u64(), is_duration);
            (right, "a duration such as 5s, or a whole number of nanoseconds")
        }
        (Quantity, _) => {
            let right = |text: &str| text.parse::<nodeless_model::Quantity>().is_ok();
            (value.as_str().map_or_else(|| value.is_number(), right), "a quantity such as 100Mi")
        }
        (List(_), _) => (false, "a list"),
        (Map(_) | Object(_), _) => (false, "an object with fields"),
    };
    let (right, expected) = expected;
    if !right {
        problems.push(format!("{path}: {value} is not {expected}"));
    }
}

/// The name that a misspelt one was probably meant to be, as the end of a message.
fn meant(fields: &[(&str, Shape)], name: &str) -> String {
    let distance = |known: &str| strsim::levenshtein(&known.to_lowercase(), &name.to_lowercase());
    let nearest = fields.iter().map(|(known, _)| (distance(known), *known)).min();
    match nearest.filter(|(distance, _)| *distance <= MISSPELT) {
        Some((_, known)) => format!("; did you mean {known}?"),
        None => "; remove it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(value: &Value) -> Vec<String> {
        problems(value.as_object().unwrap())
    }

    #[test]
    fn everything_that_a_kubelet_takes_passes() {
        let value = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "maxPods": 20, "cpuCFSQuota": false, "podPidsLimit": 4_294_967_296_i64, "memoryThrottlingFactor": 0.9,
            "shutdownGracePeriod": "1m30s", "streamingConnectionIdleTimeout": "0", "featureGates": { "One": true },
            "allowedUnsafeSysctls": ["kernel.msg*"], "staticPodURLHeader": { "Metadata": ["one"] },
            "logging": { "format": "json", "flushFrequency": "5s", "options": { "json": { "infoBufferSize": "100Mi" } },
                "vmodule": [{ "filePattern": "a", "verbosity": 3 }] },
            "reservedMemory": [{ "numaNode": 0, "limits": { "memory": "1Gi", "hugepages-2Mi": 4 } }],
            "authentication": { "webhook": { "cacheTTL": "2m" } }, "resolvConf": null,
        });
        assert_eq!(found(&value), Vec::<String>::new());
        assert_eq!(found(&json!({ "maxPods": "vcpus * 10" })), Vec::<String>::new());
        assert_eq!(found(&json!({ "logging": { "flushFrequency": 5_000_000_000_i64 } })), Vec::<String>::new());
    }

    #[test]
    fn names_what_a_kubelet_does_not_know() {
        for (value, message) in [
            (json!({ "maxPodz": 20 }), "spec.kubelet.maxPodz: the kubelet has no such setting; did you mean maxPods?"),
            (
                json!({ "clusterDns": [] }),
                "spec.kubelet.clusterDns: the kubelet has no such setting; did you mean clusterDNS?",
            ),
            (json!({ "podDensity": 3 }), "spec.kubelet.podDensity: the kubelet has no such setting; remove it"),
            (
                json!({ "logging": { "options": { "json": { "splitStreams": true } } } }),
                "spec.kubelet.logging.options.json.splitStreams: the kubelet has no such setting; did you mean splitStream?",
            ),
            (json!({ "maxPods": true }), "spec.kubelet.maxPods: true is not a whole number"),
            (json!({ "podsPerCore": "20" }), "spec.kubelet.podsPerCore: \"20\" is not a whole number"),
            (json!({ "maxPods": 1.5 }), "spec.kubelet.maxPods: 1.5 is not a whole number"),
            (json!({ "maxPods": 4_294_967_296_i64 }), "spec.kubelet.maxPods"),
            (json!({ "kubeReserved": { "cpu": 1 } }), "spec.kubelet.kubeReserved.cpu: 1 is not text"),
            (
                json!({ "featureGates": { "One": "true" } }),
                "spec.kubelet.featureGates.One: \"true\" is not true or false",
            ),
            (json!({ "clusterDNS": "10.0.0.1" }), "spec.kubelet.clusterDNS: \"10.0.0.1\" is not a list"),
            (json!({ "clusterDNS": [10] }), "spec.kubelet.clusterDNS[0]: 10 is not text"),
            (json!({ "syncFrequency": 60 }), "spec.kubelet.syncFrequency: 60 is not a duration"),
            (json!({ "syncFrequency": "often" }), "spec.kubelet.syncFrequency: \"often\" is not a duration"),
            (json!({ "memorySwap": "LimitedSwap" }), "spec.kubelet.memorySwap: \"LimitedSwap\" is not an object"),
        ] {
            let found = found(&value);
            assert!(found.len() == 1 && found[0].starts_with(message), "{value}: {found:?}");
        }
    }
}
