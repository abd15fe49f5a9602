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

impl Efas {
    const fn new(count: usize, subsystem: &'static str, roots: &'static [&'static str], numa: &'static [i64]) -> Self {
        Self { count, subsystem, roots, numa }
    }
}

/// The instance type that is known to publish `rdma` false.
pub(super) const WITHOUT_RDMA: &str = "g4dn.metal";

/// The instance types, by name.
pub(super) static TYPES: [(&str, Efas); 37] = [
    ("g4dn.12xlarge", Efas::new(1, "efa0", roots!["00"], &[])),
    ("g4dn.16xlarge", Efas::new(1, "efa0", roots!["00"], &[])),
    ("g4dn.8xlarge", Efas::new(1, "efa0", roots!["00"], &[])),
    ("g4dn.metal", Efas::new(1, "efa0", roots!["c2"], &[1])),
    ("g5.12xlarge", Efas::new(1, "efa0", roots!["00"], &[])),
    ("g5.16xlarge", Efas::new(1, "efa0", roots!["00"], &[])),
    ("g5.24xlarge", Efas::new(1, "efa0", roots!["00"], &[])),
    ("g5.48xlarge", Efas::new(1, "efa0", roots!["00"], &[])),
    ("g5.8xlarge", Efas::new(1, "efa0", roots!["00"], &[])),
    ("g6.12xlarge", Efas::new(1, "efa1", roots!["24"], &[])),
    ("g6.16xlarge", Efas::new(1, "efa1", roots!["34"], &[])),
    ("g6.24xlarge", Efas::new(1, "efa1", roots!["44"], &[])),
    ("g6.48xlarge", Efas::new(1, "efa1", roots!["84"], &[0])),
    ("g6.8xlarge", Efas::new(1, "efa1", roots!["24"], &[])),
    ("g6e.12xlarge", Efas::new(1, "efa1", roots!["24"], &[])),
    ("g6e.16xlarge", Efas::new(1, "efa1", roots!["34"], &[])),
    ("g6e.24xlarge", Efas::new(2, "efa1", roots!["44"], &[])),
    ("g6e.48xlarge", Efas::new(4, "efa1", roots!["84", "a5"], &[0, 1])),
    ("g6e.8xlarge", Efas::new(1, "efa1", roots!["24"], &[])),
    ("g7.12xlarge", Efas::new(1, "efa3", roots!["24"], &[])),
    ("g7.24xlarge", Efas::new(1, "efa3", roots!["44"], &[])),
    ("g7.48xlarge", Efas::new(2, "efa3", roots!["44", "a1"], &[0, 1])),
    ("g7.8xlarge", Efas::new(1, "efa3", roots!["24"], &[])),
    ("g7e.12xlarge", Efas::new(1, "efa3", roots!["24"], &[])),
    ("g7e.24xlarge", Efas::new(2, "efa3", roots!["44", "55"], &[])),
    ("g7e.48xlarge", Efas::new(4, "efa3", roots!["84", "95", "a6", "b7"], &[0, 1])),
    ("g7e.8xlarge", Efas::new(1, "efa3", roots!["24"], &[])),
    ("gr6.8xlarge", Efas::new(1, "efa1", roots!["24"], &[])),
    ("p3dn.24xlarge", Efas::new(1, "efa0", roots!["00"], &[])),
    ("p4d.24xlarge", Efas::new(4, "efa0", roots!["10", "20", "90", "a0"], &[0, 1])),
    ("p4de.24xlarge", Efas::new(4, "efa0", roots!["10", "20", "90", "a0"], &[0, 1])),
    ("p5.48xlarge", Efas::new(32, "efa1", roots!["44", "55", "66", "77", "88", "99", "aa", "bb"], &[0, 1])),
    ("p5.4xlarge", Efas::new(1, "efa1", roots!["24"], &[])),
    ("p5e.48xlarge", Efas::new(32, "efa1", roots!["66", "77", "44", "55", "aa", "bb", "88", "99"], &[0, 1, 2, 3])),
    ("p5en.48xlarge", Efas::new(16, "efa2", roots!["44", "5d", "76", "8f"], &[0, 1])),
    ("p6-b200.48xlarge", Efas::new(8, "efa3", roots!["44", "55", "66", "79"], &[0, 1])),
    ("p6-b300.48xlarge", Efas::new(16, "efa3", roots!["4b", "5a", "69", "78", "87", "96", "a5", "b4"], &[0, 1])),
];
