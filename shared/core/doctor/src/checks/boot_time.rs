//! What of the settings of nodes costs seconds until their pods run.

use crate::facts::{Facts, Read};
use crate::finding::{Check, Finding, Severity};
use nodeless_api::EC2NodeClassSpec;
use nodeless_api::nodeclass::{AmiFamily, VolumeType};
use serde_json::Value;

/// The number of EC2NodeClasses with the same setting that a finding names.
const NAMED: usize = 3;
/// The throughput of a gp3 volume in MiB/s that its price includes.
const GP3_THROUGHPUT: i64 = 125;
/// Settings of nodeadm and Bottlerocket by which images are pulled one at a time, without quotation marks and spaces.
const SERIAL: [&str; 3] = ["serializeImagePulls:true", "maxParallelImagePulls:1", "max-parallel-image-pulls=1"];

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    findings.extend(of_classes(facts, pulls_serially).map(|finding| {
        finding
            .problem(
                "the kubelet pulls one image at a time, so the pods of a new node wait for each other's images. With parallel pulls and \
                 faster volumes, nodes started in 45 instead of 65 seconds in a public report \
                 (https://kube.fm/faster-eks-node-and-pod-startup-jan)",
            )
            .advice(
                "remove serializeImagePulls and maxParallelImagePulls from spec.kubelet and spec.userData: without them, AL2023 and \
                 Bottlerocket pull in parallel",
            )
    }));
    findings.extend(of_classes(facts, has_slow_volume).map(|finding| {
        finding
            .problem(format!(
                "images are written to a gp3 volume of {GP3_THROUGHPUT} MiB/s, the default: each GiB takes 8 seconds at least \
                 (https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html)"
            ))
            .advice(format!(
                "for large images, set ebs.throughput of this volume in spec.blockDeviceMappings, which replaces the nodes as drifted; a \
                 MiB/s above {GP3_THROUGHPUT} costs $0.04 a month in us-east-1"
            ))
    }));
    match &facts.prefix_delegation {
        Read::Done(Some(false)) => findings.push(
            Finding::new(Severity::Note, Check::BootTime, "DaemonSet kube-system/aws-node")
                .problem(
                    "it assigns single addresses. Where the pods of a node need a further network interface, they wait up to 10 seconds for \
                     it, and less than one for a prefix (https://docs.aws.amazon.com/eks/latest/best-practices/prefix-mode-linux.html)",
                )
                .advice(
                    "if the subnets have free blocks of 16 addresses, set ENABLE_PREFIX_DELEGATION of the VPC CNI to true, in the \
                     configuration of its add-on",
                ),
        ),
        Read::Done(_) => {}
        Read::Not(why) => {
            let advice = "use a kubeconfig whose user may list DaemonSets in the Namespace kube-system";
            findings.push(Finding::not_checked(Check::BootTime, why, advice));
        }
    }
}

/// A finding for the EC2NodeClasses with a setting, if there are any.
fn of_classes(facts: &Facts, has: fn(&EC2NodeClassSpec) -> bool) -> Option<Finding> {
    let classes = facts.view.node_classes.iter().filter(|(_, class)| has(&class.spec));
    let names = classes.map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    let named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let object = match names.len() {
        0 => return None,
        1 => format!("EC2NodeClass {named}"),
        all if all <= NAMED => format!("EC2NodeClasses {named}"),
        all => format!("EC2NodeClasses {named} and {} more", all - NAMED),
    };
    Some(Finding::new(Severity::Note, Check::BootTime, object))
}

/// Whether `spec.kubelet` or the user data set that images are pulled one at a time. AL2023 and Bottlerocket pull in parallel by default
/// (nodeadm's internal/kubelet/config.go and Bottlerocket's packages/kubernetes-1.33/kubelet-config).
fn pulls_serially(spec: &EC2NodeClassSpec) -> bool {
    let kubelet = |key: &str| spec.kubelet.get(key);
    if let Some(serial) = kubelet("serializeImagePulls").and_then(Value::as_bool) {
        return serial;
    }
    let pieces = spec.user_data.as_deref().unwrap_or_default().split(['\n', ',', '{', '}']);
    let mut settings = pieces.map(|piece| piece.replace(|one: char| one.is_whitespace() || "\"'".contains(one), ""));
    kubelet("maxParallelImagePulls").and_then(Value::as_i64) == Some(1)
        || settings.any(|setting| SERIAL.contains(&setting.as_str()))
}

/// Whether images are written to a gp3 volume with the throughput that its price includes. Where this is not known, because the volume is that
/// of an AMI or images are on local disks, there is no finding.
fn has_slow_volume(spec: &EC2NodeClassSpec) -> bool {
    let family = spec.resolved_ami_family();
    let device = match family {
        _ if spec.instance_store_policy.is_some() => return false,
        Some(AmiFamily::AL2 | AmiFamily::AL2023) => Some("/dev/xvda"),
        Some(AmiFamily::Bottlerocket) => Some("/dev/xvdb"),
        Some(AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025) => Some("/dev/sda1"),
        Some(AmiFamily::Custom) | None => None,
    };
    let mappings = &spec.block_device_mappings;
    if mappings.is_empty() {
        return device.is_some();
    }
    let root = mappings.iter().find(|mapping| mapping.root_volume == Some(true));
    let of_family = || mappings.iter().find(|mapping| device.is_some() && mapping.device_name.as_deref() == device);
    let volume = root.or_else(of_family).and_then(|mapping| mapping.ebs.as_ref());
    volume.is_some_and(|volume| {
        volume.volume_type == Some(VolumeType::Gp3) && volume.throughput.unwrap_or(GP3_THROUGHPUT) <= GP3_THROUGHPUT
    })
}
