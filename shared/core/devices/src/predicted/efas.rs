//! EFA devices by instance type, as the driver `dra.net` publishes them on nodes with EFA interfaces.
//!
//! Source: Karpenter's provider for AWS v1.15.2 (November 2026), `pkg/providers/drametadata`. It has 302 types, all with these attributes:
//! `pciVendor`, `pciDevice` and `rdma`. The types here, those with GPUs, have more.

/// The EFA devices of an instance type.
#[derive(Debug)]
pub(super) struct Efas {
    /// The number of devices with all interfaces that the type may have.
    pub(super) count: usize,
    /// `pciSubsystem`.
    pub(super) subsystem: &'static str,
    /// The PCIe roots, each of the same number of devices.
    pub(super) roots: &'static [&'static str],
    /// The NUMA nodes, each of the same number of devices, where the driver publishes them.
    pub(super) numa: &'static [i64],
}

/// The instance type that is known to publish `rdma` false.
pub(super) const WITHOUT_RDMA: &str = "g4dn.metal";

/// The instance types, by name.
static TYPES: [(&str, Efas); 37] = [
    ("g4dn.12xlarge", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:00"], numa: &[] }),
    ("g4dn.16xlarge", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:00"], numa: &[] }),
    ("g4dn.8xlarge", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:00"], numa: &[] }),
    ("g4dn.metal", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:c2"], numa: &[1] }),
    ("g5.12xlarge", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:00"], numa: &[] }),
    ("g5.16xlarge", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:00"], numa: &[] }),
    ("g5.24xlarge", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:00"], numa: &[] }),
    ("g5.48xlarge", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:00"], numa: &[] }),
    ("g5.8xlarge", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:00"], numa: &[] }),
    ("g6.12xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:24"], numa: &[] }),
    ("g6.16xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:34"], numa: &[] }),
    ("g6.24xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:44"], numa: &[] }),
    ("g6.48xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:84"], numa: &[0] }),
    ("g6.8xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:24"], numa: &[] }),
    ("g6e.12xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:24"], numa: &[] }),
    ("g6e.16xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:34"], numa: &[] }),
    ("g6e.24xlarge", Efas { count: 2, subsystem: "efa1", roots: &["pci0000:44"], numa: &[] }),
    ("g6e.48xlarge", Efas { count: 4, subsystem: "efa1", roots: &["pci0000:84", "pci0000:a5"], numa: &[0, 1] }),
    ("g6e.8xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:24"], numa: &[] }),
    ("g7.12xlarge", Efas { count: 1, subsystem: "efa3", roots: &["pci0000:24"], numa: &[] }),
    ("g7.24xlarge", Efas { count: 1, subsystem: "efa3", roots: &["pci0000:44"], numa: &[] }),
    ("g7.48xlarge", Efas { count: 2, subsystem: "efa3", roots: &["pci0000:44", "pci0000:a1"], numa: &[0, 1] }),
    ("g7.8xlarge", Efas { count: 1, subsystem: "efa3", roots: &["pci0000:24"], numa: &[] }),
    ("g7e.12xlarge", Efas { count: 1, subsystem: "efa3", roots: &["pci0000:24"], numa: &[] }),
    ("g7e.24xlarge", Efas { count: 2, subsystem: "efa3", roots: &["pci0000:44", "pci0000:55"], numa: &[] }),
    (
        "g7e.48xlarge",
        Efas {
            count: 4,
            subsystem: "efa3",
            roots: &["pci0000:84", "pci0000:95", "pci0000:a6", "pci0000:b7"],
            numa: &[0, 1],
        },
    ),
    ("g7e.8xlarge", Efas { count: 1, subsystem: "efa3", roots: &["pci0000:24"], numa: &[] }),
    ("gr6.8xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:24"], numa: &[] }),
    ("p3dn.24xlarge", Efas { count: 1, subsystem: "efa0", roots: &["pci0000:00"], numa: &[] }),
    (
        "p4d.24xlarge",
        Efas {
            count: 4,
            subsystem: "efa0",
            roots: &["pci0000:10", "pci0000:20", "pci0000:90", "pci0000:a0"],
            numa: &[0, 1],
        },
    ),
    (
        "p4de.24xlarge",
        Efas {
            count: 4,
            subsystem: "efa0",
            roots: &["pci0000:10", "pci0000:20", "pci0000:90", "pci0000:a0"],
            numa: &[0, 1],
        },
    ),
    (
        "p5.48xlarge",
        Efas {
            count: 32,
            subsystem: "efa1",
            roots: &[
                "pci0000:44",
                "pci0000:55",
                "pci0000:66",
                "pci0000:77",
                "pci0000:88",
                "pci0000:99",
                "pci0000:aa",
                "pci0000:bb",
            ],
            numa: &[0, 1],
        },
    ),
    ("p5.4xlarge", Efas { count: 1, subsystem: "efa1", roots: &["pci0000:24"], numa: &[] }),
    (
        "p5e.48xlarge",
        Efas {
            count: 32,
            subsystem: "efa1",
            roots: &[
                "pci0000:66",
                "pci0000:77",
                "pci0000:44",
                "pci0000:55",
                "pci0000:aa",
                "pci0000:bb",
                "pci0000:88",
                "pci0000:99",
            ],
            numa: &[0, 1, 2, 3],
        },
    ),
    (
        "p5en.48xlarge",
        Efas {
            count: 16,
            subsystem: "efa2",
            roots: &["pci0000:44", "pci0000:5d", "pci0000:76", "pci0000:8f"],
            numa: &[0, 1],
        },
    ),
    (
        "p6-b200.48xlarge",
        Efas {
            count: 8,
            subsystem: "efa3",
            roots: &["pci0000:44", "pci0000:55", "pci0000:66", "pci0000:79"],
            numa: &[0, 1],
        },
    ),
    (
        "p6-b300.48xlarge",
        Efas {
            count: 16,
            subsystem: "efa3",
            roots: &[
                "pci0000:4b",
                "pci0000:5a",
                "pci0000:69",
                "pci0000:78",
                "pci0000:87",
                "pci0000:96",
                "pci0000:a5",
                "pci0000:b4",
            ],
            numa: &[0, 1],
        },
    ),
];

/// What is known of the EFA devices of an instance type beside the attributes that all have.
pub(super) fn of_type(instance_type: &str) -> Option<&'static Efas> {
    let place = TYPES.binary_search_by_key(&instance_type, |(name, _)| name).ok()?;
    TYPES.get(place).map(|(_, efas)| efas)
}
