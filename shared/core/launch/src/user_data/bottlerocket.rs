//! Bottlerocket: settings in TOML. The user's settings are kept, and those of nodeless override them.

use super::{UserDataError, UserDataInput};
use nodeless_api::nodeclass::InstanceStorePolicy;
use serde::Serialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

pub(super) fn user_data(input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let custom = |why: String| UserDataError::Custom { why };
    let mut document: Table = input.custom.unwrap_or_default().parse().map_err(|error: toml::de::Error| {
        custom(format!("it is not TOML, which Bottlerocket requires: {}", error.message()))
    })?;
    let settings = table(&mut document, "settings").map_err(custom)?;
    if input.instance_store == Some(InstanceStorePolicy::Raid0) {
        bind_local_disks(settings, input.image).map_err(custom)?;
    }
    // The kubelet would wait for the hooks of an Auto Scaling group, which these instances are not in.
    if let Some(Value::Table(autoscaling)) = settings.get_mut("autoscaling")
        && autoscaling.contains_key("should-wait")
    {
        autoscaling.insert("should-wait".to_owned(), Value::Boolean(false));
    }
    kubernetes(input, table(settings, "kubernetes").map_err(custom)?).map_err(custom)?;
    toml::to_string(&document).map_err(|error| custom(error.to_string()))
}

/// Overrides the user's settings.
fn kubernetes(input: &UserDataInput<'_>, settings: &mut Table) -> Result<(), String> {
    let (cluster, kubelet) = (input.cluster, input.kubelet);
    let mut set = |key: &str, value: Value| {
        settings.insert(key.to_owned(), value);
    };
    set("api-server", Value::String(cluster.endpoint.clone()));
    set("cluster-certificate", Value::String(cluster.certificate_authority.clone()));
    set("cluster-name", Value::String(cluster.name.clone()));
    set("max-pods", Value::Integer(i64::from(input.max_pods)));
    if let Some(address) = kubelet.cluster_dns.as_ref().and_then(|addresses| addresses.first()) {
        set("cluster-dns-ip", Value::String(address.clone()));
    }
    let maps = [
        ("system-reserved", value(&kubelet.system_reserved)?),
        ("kube-reserved", value(&kubelet.kube_reserved)?),
        ("eviction-hard", value(&kubelet.eviction_hard)?),
        ("eviction-soft", value(&kubelet.eviction_soft)?),
        ("eviction-soft-grace-period", value(&kubelet.eviction_soft_grace_period)?),
    ];
    for (key, map) in maps {
        if map.as_table().is_some_and(|table| !table.is_empty()) {
            set(key, map);
        }
    }
    let numbers = [
        ("pods-per-core", kubelet.pods_per_core.map(i64::from)),
        ("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period.map(i64::from)),
        ("image-gc-high-threshold-percent", kubelet.image_gc_high_threshold_percent.map(i64::from)),
        ("image-gc-low-threshold-percent", kubelet.image_gc_low_threshold_percent.map(i64::from)),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            set(key, Value::Integer(number));
        }
    }
    if let Some(enforced) = kubelet.cpu_cfs_quota {
        set("cpu-cfs-quota-enforced", Value::Boolean(enforced));
    }
    let mut taints: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for taint in input.taints {
        taints.entry(&taint.key).or_default().push(format!("{}:{}", taint.value, taint.effect.as_str()));
    }
    set("node-taints", value(&taints)?);
    let labels = table(settings, "node-labels")?;
    labels.extend(input.kubelet_labels().into_iter().map(|(key, label)| (key, Value::String(label))));
    Ok(())
}

/// What `apiclient ephemeral-storage bind` binds without `--dirs` since [`BINDS_BY_DEFAULT`], but for what later releases add.
const DIRECTORIES: [&str; 3] = ["/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"];
/// The release of Bottlerocket, major and minor, since which `bind` needs no directories. Karpenter names them before it, too.
const BINDS_BY_DEFAULT: [u32; 2] = [1, 46];

/// The release, major and minor, in the name of an image: `bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-0f54a5b8`.
fn release(image: &str) -> Option<[u32; 2]> {
    let mut numbers = image.rsplit_once("-v")?.1.split('.');
    Some([numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?])
}

/// Combines local disks into one array for the data of containers and the kubelet.
fn bind_local_disks(settings: &mut Table, image: Option<&str>) -> Result<(), String> {
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    if image.and_then(release).is_none_or(|release| release < BINDS_BY_DEFAULT) {
        bind.push("--dirs");
        bind.extend(DIRECTORIES);
    }
    let commands = vec![vec!["apiclient", "ephemeral-storage", "init"], bind];
    let command = BTreeMap::from([
        ("commands", value(&commands)?),
        ("mode", Value::String("always".to_owned())),
        ("essential", Value::Boolean(true)),
    ]);
    table(settings, "bootstrap-commands")?.insert("000-mount-instance-storage".to_owned(), value(&command)?);
    Ok(())
}

fn value<T: Serialize>(data: &T) -> Result<Value, String> {
    Value::try_from(data).map_err(|error| error.to_string())
}

/// The table under a key, created if missing.
fn table<'a>(parent: &'a mut Table, key: &str) -> Result<&'a mut Table, String> {
    let entry = parent.entry(key).or_insert_with(|| Value::Table(Table::new()));
    entry.as_table_mut().ok_or_else(|| format!("{key} is not a table"))
}
