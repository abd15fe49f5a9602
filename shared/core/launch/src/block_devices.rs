//! The disks of an EC2NodeClass, and which of them has the data of containers.

use nodeless_api::nodeclass::{AmiFamily, BlockDevice, BlockDeviceMapping, VolumeType};

/// Why a NodePool cannot determine the size of the volume for the data of containers: which one it is, is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "spec.blockDeviceMappings has no volume for the data of containers of its AMI family ({device}); add it with its deviceName, \
     rootVolume: true and ebs"
)]
pub struct NoRootVolume {
    /// The name of the device, as far as the family has one.
    device: String,
}

/// The class's disks, or those of the family if it has none.
pub(crate) fn block_devices(mappings: &[BlockDeviceMapping], family: AmiFamily) -> Vec<BlockDeviceMapping> {
    if !mappings.is_empty() {
        return mappings.to_vec();
    }
    let disk = |device: &str, size: &str| BlockDeviceMapping {
        device_name: Some(device.to_owned()),
        ebs: Some(BlockDevice {
            encrypted: Some(true),
            volume_size: Some(size.to_owned()),
            volume_type: Some(VolumeType::Gp3),
            ..BlockDevice::default()
        }),
        root_volume: None,
    };
    match family {
        AmiFamily::AL2 | AmiFamily::AL2023 => vec![disk("/dev/xvda", "20Gi")],
        AmiFamily::Bottlerocket => vec![disk("/dev/xvda", "6Gi"), disk("/dev/xvdb", "20Gi")],
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => vec![disk("/dev/sda1", "50Gi")],
        AmiFamily::Custom => Vec::new(),
    }
}

/// Gives the volume for the data of containers this size.
pub(crate) fn with_root_volume(
    devices: &mut [BlockDeviceMapping],
    family: AmiFamily,
    gib: u32,
) -> Result<(), NoRootVolume> {
    root_volume(devices, family)?.volume_size = Some(format!("{gib}Gi"));
    Ok(())
}

/// The volume for the data of containers: the one that is marked; otherwise the device of the family, and with an AMI of one's own the
/// last one, as for the capacity of instance types.
pub(crate) fn root_volume(
    devices: &mut [BlockDeviceMapping],
    family: AmiFamily,
) -> Result<&mut BlockDevice, NoRootVolume> {
    let of_family = block_devices(&[], family).pop().and_then(|device| device.device_name);
    let last = devices.len().checked_sub(1);
    let marked = devices.iter().position(|device| device.root_volume == Some(true));
    let place = marked.or_else(|| match &of_family {
        Some(name) => devices.iter().position(|device| device.device_name.as_ref() == Some(name)),
        None => last,
    });
    let device = match place {
        Some(place) => devices.get_mut(place),
        None => None,
    };
    let volume = device.filter(|device| device.device_name.is_some()).and_then(|device| device.ebs.as_mut());
    volume.ok_or_else(|| NoRootVolume { device: of_family.unwrap_or_else(|| "any device of a custom AMI".to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn sized(family: &str, mappings: Value) -> Result<Vec<(String, String)>, String> {
        let family: AmiFamily = serde_json::from_value(json!(family)).unwrap();
        let mappings: Vec<BlockDeviceMapping> = serde_json::from_value(mappings).unwrap();
        let mut devices = block_devices(&mappings, family);
        with_root_volume(&mut devices, family, 120).map_err(|error| error.to_string())?;
        let size = |device: BlockDeviceMapping| {
            Some((device.device_name?, device.ebs?.volume_size.unwrap_or_else(|| "of the snapshot".to_owned())))
        };
        Ok(devices.into_iter().filter_map(size).collect())
    }

    #[test]
    fn the_volume_for_the_data_of_containers_gets_the_size() {
        let disk =
            |name: &str, root: bool| json!({ "deviceName": name, "rootVolume": root, "ebs": { "volumeSize": "30Gi" } });
        for (family, mappings, sizes) in [
            ("AL2023", json!([]), vec![("/dev/xvda", "120Gi")]),
            ("Bottlerocket", json!([]), vec![("/dev/xvda", "6Gi"), ("/dev/xvdb", "120Gi")]),
            ("Windows2022", json!([]), vec![("/dev/sda1", "120Gi")]),
            (
                "AL2023",
                json!([disk("/dev/xvda", false), disk("/dev/xvdb", false)]),
                vec![("/dev/xvda", "120Gi"), ("/dev/xvdb", "30Gi")],
            ),
            (
                "AL2023",
                json!([disk("/dev/xvda", false), disk("/dev/sdz", true)]),
                vec![("/dev/xvda", "30Gi"), ("/dev/sdz", "120Gi")],
            ),
            (
                "Custom",
                json!([disk("/dev/a", false), disk("/dev/b", false)]),
                vec![("/dev/a", "30Gi"), ("/dev/b", "120Gi")],
            ),
            (
                "AL2023",
                json!([{ "deviceName": "/dev/xvda", "ebs": { "snapshotID": "snap-1" } }]),
                vec![("/dev/xvda", "120Gi")],
            ),
        ] {
            let sizes: Vec<_> = sizes.into_iter().map(|(name, size)| (name.to_owned(), size.to_owned())).collect();
            assert_eq!(sized(family, mappings.clone()), Ok(sizes), "{family} {mappings}");
        }
    }

    #[test]
    fn a_volume_that_is_not_known_is_refused() {
        for (family, mappings, device) in [
            ("Custom", json!([]), "any device of a custom AMI"),
            ("Custom", json!([{ "rootVolume": true, "ebs": {} }]), "any device of a custom AMI"),
            ("AL2023", json!([{ "deviceName": "/dev/xvdb", "ebs": {} }]), "/dev/xvda"),
            ("AL2023", json!([{ "deviceName": "/dev/xvda" }]), "/dev/xvda"),
        ] {
            let why = sized(family, mappings.clone()).unwrap_err();
            assert!(why.contains(&format!("({device}); add it with its deviceName")), "{family} {mappings}: {why}");
        }
    }
}
