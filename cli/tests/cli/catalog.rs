//! `nodeless catalog`.

use crate::support::{Folder, nodeless, run};
use serde_json::{Value, json};
use std::fs;

fn bare(name: &str, memory_mib: u64) -> Value {
    json!({
        "InstanceType": name, "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": memory_mib},
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10, "NetworkCards": [
            {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3}]},
    })
}

fn catalog() -> Value {
    json!({
        "region": "us-east-1", "zones": ["us-east-1a"], "instanceTypes": [bare("m5.large", 8192)],
        "offerings": [
            {"instanceType": "m5.large", "zone": "us-east-1a", "capacityType": "on-demand", "pricePerHour": 0.096},
            {"instanceType": "m5.large", "zone": "us-east-1b", "capacityType": "spot", "pricePerHour": 0.03},
        ],
    })
}

#[test]
fn the_embedded_catalog_is_shown_as_json() {
    let shown = run(nodeless().args(["catalog", "show", "-o", "json"]));
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    let types: Vec<Value> = serde_json::from_str(&shown.stdout).unwrap();
    assert!(types.len() > 1_200);
    let m5 = types.iter().find(|kind| kind["name"] == "m5.large").unwrap();
    assert_eq!(m5["labels"]["karpenter.k8s.aws/instance-category"], "m");
    assert_eq!(m5["labels"]["topology.kubernetes.io/zone"], Value::Null);
    let capacity = json!({
        "cpu": "2", "memory": "7577Mi", "ephemeral-storage": "20Gi", "pods": "29", "vpc.amazonaws.com/pod-eni": "9",
    });
    assert_eq!(m5["capacity"], capacity);
    assert_eq!((&m5["allocatable"]["cpu"], &m5["allocatable"]["memory"]), (&json!("1930m"), &json!("6903Mi")));
    assert_eq!(m5["offerings"].as_array().unwrap().len(), 6);
    let first = json!({
        "zone": "us-east-1a", "zoneId": "use1-az2", "capacityType": "on-demand", "pricePerHour": 0.096, "available": true,
    });
    assert_eq!(m5["offerings"][0], first);
}

#[test]
fn the_embedded_catalog_of_a_region_is_shown_with_the_source_of_its_prices() {
    let shown = run(nodeless().args(["catalog", "show", "--region", "eu-central-1"]));
    let last = shown.stdout.lines().last().unwrap();
    assert!(last.contains("in eu-central-1 (eu-central-1a, eu-central-1b, eu-central-1c)"), "{last}");
    let derived = "on-demand prices are the built-in table (eu-central-1, May 2025), ";
    assert!(last.contains(derived) && last.contains(" derived from those of us-east-1; "), "{last}");
    let shown = run(nodeless().args(["catalog", "show", "--region", "eu-central-1", "-o", "json"]));
    let types: Vec<Value> = serde_json::from_str(&shown.stdout).unwrap();
    let is_derived = |name: &str| {
        let kind = types.iter().find(|kind| kind["name"] == name).unwrap();
        kind["offerings"].as_array().unwrap().iter().any(|offering| offering["derived"] == true)
    };
    assert!(is_derived("m9g.large") && !is_derived("m5.large"));
}

#[test]
fn a_catalog_file_is_shown_with_warnings_about_ignored_entries() {
    let folder = Folder::new();
    let file = folder.path().join("catalog.json");
    fs::write(&file, catalog().to_string()).unwrap();
    let shown = run(nodeless().args(["catalog", "show", "--catalog"]).arg(&file));
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stderr.contains("offerings[1] (m5.large in us-east-1b): zone:"), "{}", shown.stderr);
    assert!(shown.stdout.contains("m5.large") && shown.stdout.contains("0.0960"), "{}", shown.stdout);
    assert!(shown.stdout.contains("the catalog file's"), "{}", shown.stdout);
}

#[test]
fn instance_types_are_used_alone_or_replace_those_of_the_catalog() {
    let folder = Folder::new();
    let (types, file) = (folder.path().join("types.json"), folder.path().join("catalog.json"));
    fs::write(&types, json!([bare("m5.large", 16_384)]).to_string()).unwrap();
    fs::write(&file, catalog().to_string()).unwrap();
    let alone = run(nodeless().args(["catalog", "show", "-o", "json", "--instance-types"]).arg(&types));
    let alone: Value = serde_json::from_str(&alone.stdout).unwrap();
    assert_eq!(alone[0]["labels"]["karpenter.k8s.aws/instance-memory"], "16384");
    assert_eq!(alone[0]["offerings"].as_array().unwrap().len(), 6);
    let both = run(nodeless()
        .args(["catalog", "show", "-o", "json", "--catalog"])
        .arg(&file)
        .arg("--instance-types")
        .arg(&types));
    let both: Value = serde_json::from_str(&both.stdout).unwrap();
    assert_eq!(both[0]["labels"]["karpenter.k8s.aws/instance-memory"], "16384");
    assert_eq!(both[0]["offerings"].as_array().unwrap().len(), 1);
}

#[test]
fn an_error_names_a_file_that_is_not_a_catalog() {
    let folder = Folder::new();
    let file = folder.path().join("types.json");
    fs::write(&file, json!([bare("m5.large", 1)]).to_string()).unwrap();
    let refused = run(nodeless().args(["catalog", "show", "--catalog"]).arg(&file));
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("types.json") && refused.stderr.contains("--instance-types"), "{}", refused.stderr);
    let missing = run(nodeless().args(["catalog", "show", "--catalog"]).arg(folder.path().join("none.json")));
    assert!(missing.stderr.contains("none.json cannot be read"), "{}", missing.stderr);
}

#[cfg(not(feature = "aws"))]
#[test]
fn export_without_the_aws_feature_names_the_feature() {
    let refused = run(nodeless().args(["catalog", "export"]));
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    for part in ["--features aws", "`catalog export --cluster NAME` writes the catalog of a local cluster"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
}

#[cfg(feature = "aws")]
#[test]
fn export_without_access_to_aws_advises_about_aws() {
    let mut command = nodeless();
    command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", nodeless_tests::free_port()));
    command.env("AWS_REGION", "us-east-1").env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    let ended = run(command.args(["catalog", "export"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(
        ended.stderr.contains("aws sts get-caller-identity") && !ended.stderr.contains("kubectl"),
        "{}",
        ended.stderr
    );
}
