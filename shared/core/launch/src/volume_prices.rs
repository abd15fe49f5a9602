//! What the volumes of nodes cost, by the list prices of us-east-1: <https://aws.amazon.com/ebs/pricing/>. Those of most other regions
//! differ by less than a third.

use crate::block_devices::{NoRootVolume, block_devices, root_volume};
use crate::template::gibibytes;
use nodeless_api::nodeclass::{AmiFamily, BlockDevice, EC2NodeClassSpec, VolumeType};

/// The I/O operations per second of a gp3 volume that its size includes, and dollars a month for each more.
const GP3_OPERATIONS: (i64, f64) = (3_000, 0.005);
/// The throughput in MiB/s of a gp3 volume that its size includes, and dollars a month for each more.
const GP3_THROUGHPUT: (i64, f64) = (125, 0.04);
/// Dollars a month for an I/O operation per second of io1 and io2; those of io2 above 32,000 cost less.
const PROVISIONED_OPERATION: f64 = 0.065;

/// Dollars a month of the volumes of a node of an EC2NodeClass; `None` if a volume has the size of a snapshot, which is not known.
#[must_use]
pub fn dollars_per_month(spec: &EC2NodeClassSpec) -> Option<f64> {
    let family = spec.resolved_ami_family().unwrap_or(AmiFamily::Custom);
    let devices = block_devices(&spec.block_device_mappings, family);
    // Without a mapping, an AMI of one's own has the volumes of its snapshots.
    (!devices.is_empty())
        .then(|| devices.iter().filter_map(|device| device.ebs.as_ref()).map(volume).sum::<Option<f64>>())?
}

fn volume(volume: &BlockDevice) -> Option<f64> {
    let size = f64::from(gibibytes(volume.volume_size.as_deref()?).ok()?);
    let beyond = |used: Option<i64>, (included, price): (i64, f64)| {
        let more = used.map_or(0, |used| used.saturating_sub(included).max(0));
        f64::from(u32::try_from(more).unwrap_or(u32::MAX)) * price
    };
    let provisioned = match volume.volume_type {
        Some(VolumeType::Gp3) => beyond(volume.iops, GP3_OPERATIONS) + beyond(volume.throughput, GP3_THROUGHPUT),
        Some(VolumeType::Io1 | VolumeType::Io2) => beyond(volume.iops, (0, PROVISIONED_OPERATION)),
        _ => 0.0,
    };
    Some(size * of_gib(volume) + provisioned)
}

/// Dollars a month of a GiB of the volume for the data of containers of a node of an EC2NodeClass.
///
/// # Errors
/// If it is not known which volume that is.
pub fn of_root_volume_gib(spec: &EC2NodeClassSpec) -> Result<f64, NoRootVolume> {
    let family = spec.resolved_ami_family().unwrap_or(AmiFamily::Custom);
    root_volume(&mut block_devices(&spec.block_device_mappings, family), family).map(|volume| of_gib(volume))
}

/// Dollars a month of a GiB of a volume.
fn of_gib(volume: &BlockDevice) -> f64 {
    match volume.volume_type.unwrap_or(VolumeType::Gp2) {
        VolumeType::Gp3 => 0.08,
        VolumeType::Gp2 => 0.1,
        VolumeType::Io1 | VolumeType::Io2 => 0.125,
        VolumeType::St1 => 0.045,
        VolumeType::Sc1 => 0.015,
        VolumeType::Standard => 0.05,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn dollars(mut spec: Value) -> Option<f64> {
        for terms in ["amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms"] {
            spec.as_object_mut().unwrap().entry(terms).or_insert(json!([]));
        }
        dollars_per_month(&serde_json::from_value(spec).unwrap()).map(|dollars| (dollars * 1000.0).round() / 1000.0)
    }

    #[test]
    fn volumes_cost_by_type_size_and_what_is_provisioned() {
        assert_eq!(dollars(json!({ "amiSelectorTerms": [{ "alias": "al2023@latest" }] })), Some(1.6), "20 GiB of gp3");
        assert_eq!(dollars(json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }] })), Some(2.08), "26 GiB");
        let mapped =
            |ebs: Value| dollars(json!({ "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "ebs": ebs }] }));
        let gp3 = json!({ "volumeSize": "100Gi", "volumeType": "gp3", "iops": 4000, "throughput": 225 });
        assert_eq!(mapped(gp3), Some(8.0 + 5.0 + 4.0));
        assert_eq!(mapped(json!({ "volumeSize": "100Gi", "volumeType": "io2", "iops": 1000 })), Some(12.5 + 65.0));
        assert_eq!(mapped(json!({ "volumeSize": "100Gi" })), Some(10.0), "EC2's default is gp2");
        assert_eq!(mapped(json!({ "snapshotID": "snap-1" })), None);
        let class = |mut spec: Value| {
            spec["subnetSelectorTerms"] = json!([]);
            spec["securityGroupSelectorTerms"] = json!([]);
            of_root_volume_gib(&serde_json::from_value(spec).unwrap())
        };
        assert_eq!(class(json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }] })), Ok(0.08));
        let io2 = json!([{ "deviceName": "/dev/xvda", "ebs": { "volumeSize": "9Gi", "volumeType": "io2" } }]);
        let own = |mappings: Value| {
            class(json!({ "amiFamily": "Custom", "amiSelectorTerms": [], "blockDeviceMappings": mappings }))
        };
        assert_eq!(own(io2), Ok(0.125));
        assert!(own(json!([])).is_err());
        assert_eq!(dollars(json!({ "amiFamily": "Custom" })), None);
    }
}
