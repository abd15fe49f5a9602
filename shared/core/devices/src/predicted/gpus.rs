//! NVIDIA's GPUs by instance type, as the driver `gpu.nvidia.com` publishes them.
//!
//! Source: Karpenter's provider for AWS v1.15.2 (November 2026), `pkg/providers/drametadata`, which was read from ResourceSlices of nodes
//! of each type. Types with a part of a GPU (`g6f`, `gr6f`) are not in it.

/// What all GPUs of a model publish.
#[derive(Debug)]
pub(super) struct Model {
    /// The name of the GPU in the label of instance types.
    pub(super) label: &'static str,
    pub(super) product_name: &'static str,
    pub(super) architecture: &'static str,
    /// `cudaComputeCapability`.
    pub(super) capability: &'static str,
    pub(super) brand: &'static str,
    /// In mebibytes.
    pub(super) memory: i64,
}

impl Model {
    const fn new(names: [&'static str; 4], capability: &'static str, memory: i64) -> Self {
        let [label, product_name, architecture, brand] = names;
        Self { label, product_name, architecture, capability, brand, memory }
    }
}

/// The GPUs of an instance type.
#[derive(Debug)]
pub(super) struct Gpus {
    pub(super) model: &'static Model,
    /// The PCIe roots, each of the same number of GPUs.
    pub(super) roots: &'static [&'static str],
}

static T4: Model = Model::new(["t4", "Tesla T4", "Turing", "Nvidia"], "7.5.0", 15360);
static T4G: Model = Model::new(["t4g", "NVIDIA T4G", "Turing", "Nvidia"], "7.5.0", 15360);
static T4G_METAL: Model = Model::new(["t4g", "NVIDIA T4G", "Turing", "Nvidia"], "7.5.0", 16384);
static V100: Model = Model::new(["v100", "Tesla V100-SXM2-32GB", "Volta", "Tesla"], "7.0.0", 32768);
static A10G: Model = Model::new(["a10g", "NVIDIA A10G", "Ampere", "Nvidia"], "8.6.0", 23028);
static A100_40GB: Model = Model::new(["a100", "NVIDIA A100-SXM4-40GB", "Ampere", "Nvidia"], "8.0.0", 40960);
static A100_80GB: Model = Model::new(["a100", "NVIDIA A100-SXM4-80GB", "Ampere", "Nvidia"], "8.0.0", 81920);
static L4: Model = Model::new(["l4", "NVIDIA L4", "Ada Lovelace", "Nvidia"], "8.9.0", 23034);
static L40S: Model = Model::new(["l40s", "NVIDIA L40S", "Ada Lovelace", "Nvidia"], "8.9.0", 46068);
static H100: Model = Model::new(["h100", "NVIDIA H100 80GB HBM3", "Hopper", "Nvidia"], "9.0.0", 81152);
static H200: Model = Model::new(["h200", "NVIDIA H200", "Hopper", "Nvidia"], "9.0.0", 143360);
static B200: Model = Model::new(["b200", "NVIDIA B200", "Blackwell", "Nvidia"], "10.0.0", 182784);
static B300: Model = Model::new(["b300", "NVIDIA B300 SXM6 AC", "Blackwell", "Nvidia"], "10.3.0", 274432);
static RTX_PRO_4500: Model = Model::new(
    ["rtx-pro-4500", "NVIDIA RTX PRO 4500 Blackwell Server Edition", "Blackwell", "Nvidia"],
    "12.0.0",
    32160,
);
static RTX_PRO_6000: Model = Model::new(
    ["rtx-pro-server-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "Blackwell", "Nvidia"],
    "12.0.0",
    97280,
);

/// The models of GPUs.
pub(super) static MODELS: [&Model; 15] = [
    &T4,
    &T4G,
    &T4G_METAL,
    &V100,
    &A10G,
    &A100_40GB,
    &A100_80GB,
    &L4,
    &L40S,
    &H100,
    &H200,
    &B200,
    &B300,
    &RTX_PRO_4500,
    &RTX_PRO_6000,
];

/// The instance types, by name.
pub(super) static TYPES: [(&str, Gpus); 60] = [
    ("g4dn.12xlarge", Gpus { model: &T4, roots: roots!["00"] }),
    ("g4dn.16xlarge", Gpus { model: &T4, roots: roots!["00"] }),
    ("g4dn.2xlarge", Gpus { model: &T4, roots: roots!["00"] }),
    ("g4dn.4xlarge", Gpus { model: &T4, roots: roots!["00"] }),
    ("g4dn.8xlarge", Gpus { model: &T4, roots: roots!["00"] }),
    ("g4dn.metal", Gpus { model: &T4, roots: roots!["17", "34", "e6", "f3"] }),
    ("g4dn.xlarge", Gpus { model: &T4, roots: roots!["00"] }),
    ("g5.12xlarge", Gpus { model: &A10G, roots: roots!["00"] }),
    ("g5.16xlarge", Gpus { model: &A10G, roots: roots!["00"] }),
    ("g5.24xlarge", Gpus { model: &A10G, roots: roots!["00"] }),
    ("g5.2xlarge", Gpus { model: &A10G, roots: roots!["00"] }),
    ("g5.48xlarge", Gpus { model: &A10G, roots: roots!["00"] }),
    ("g5.4xlarge", Gpus { model: &A10G, roots: roots!["00"] }),
    ("g5.8xlarge", Gpus { model: &A10G, roots: roots!["00"] }),
    ("g5.xlarge", Gpus { model: &A10G, roots: roots!["00"] }),
    ("g5g.16xlarge", Gpus { model: &T4G, roots: roots!["00"] }),
    ("g5g.2xlarge", Gpus { model: &T4G, roots: roots!["00"] }),
    ("g5g.4xlarge", Gpus { model: &T4G, roots: roots!["00"] }),
    ("g5g.8xlarge", Gpus { model: &T4G, roots: roots!["00"] }),
    ("g5g.metal", Gpus { model: &T4G_METAL, roots: &["pci0002:00"] }),
    ("g5g.xlarge", Gpus { model: &T4G, roots: roots!["00"] }),
    ("g6.12xlarge", Gpus { model: &L4, roots: roots!["37", "39", "3b", "3d"] }),
    ("g6.16xlarge", Gpus { model: &L4, roots: roots!["4c"] }),
    ("g6.24xlarge", Gpus { model: &L4, roots: roots!["5e", "60", "62", "64"] }),
    ("g6.2xlarge", Gpus { model: &L4, roots: roots!["30"] }),
    ("g6.48xlarge", Gpus { model: &L4, roots: roots!["9e", "a0", "a2", "a4", "ad", "af", "b1", "b3"] }),
    ("g6.4xlarge", Gpus { model: &L4, roots: roots!["34"] }),
    ("g6.8xlarge", Gpus { model: &L4, roots: roots!["35"] }),
    ("g6.xlarge", Gpus { model: &L4, roots: roots!["30"] }),
    ("g6e.12xlarge", Gpus { model: &L40S, roots: roots!["37", "39", "3b", "3d"] }),
    ("g6e.16xlarge", Gpus { model: &L40S, roots: roots!["4c"] }),
    ("g6e.24xlarge", Gpus { model: &L40S, roots: roots!["62", "64", "66", "68"] }),
    ("g6e.2xlarge", Gpus { model: &L40S, roots: roots!["2f"] }),
    ("g6e.48xlarge", Gpus { model: &L40S, roots: roots!["9d", "9f", "a1", "a3", "c5", "c7", "c9", "cb"] }),
    ("g6e.4xlarge", Gpus { model: &L40S, roots: roots!["33"] }),
    ("g6e.8xlarge", Gpus { model: &L40S, roots: roots!["35"] }),
    ("g6e.xlarge", Gpus { model: &L40S, roots: roots!["2f"] }),
    ("g7.12xlarge", Gpus { model: &RTX_PRO_4500, roots: roots!["36", "38"] }),
    ("g7.24xlarge", Gpus { model: &RTX_PRO_4500, roots: roots!["62", "64", "66", "68"] }),
    ("g7.2xlarge", Gpus { model: &RTX_PRO_4500, roots: roots!["2e"] }),
    ("g7.48xlarge", Gpus { model: &RTX_PRO_4500, roots: roots!["56", "58", "5a", "5c", "b3", "b5", "b7", "b9"] }),
    ("g7.4xlarge", Gpus { model: &RTX_PRO_4500, roots: roots!["32"] }),
    ("g7.8xlarge", Gpus { model: &RTX_PRO_4500, roots: roots!["34"] }),
    ("g7e.12xlarge", Gpus { model: &RTX_PRO_6000, roots: roots!["24"] }),
    ("g7e.24xlarge", Gpus { model: &RTX_PRO_6000, roots: roots!["44", "55"] }),
    ("g7e.2xlarge", Gpus { model: &RTX_PRO_6000, roots: roots!["24"] }),
    ("g7e.48xlarge", Gpus { model: &RTX_PRO_6000, roots: roots!["84", "95", "a6", "b7"] }),
    ("g7e.4xlarge", Gpus { model: &RTX_PRO_6000, roots: roots!["24"] }),
    ("g7e.8xlarge", Gpus { model: &RTX_PRO_6000, roots: roots!["24"] }),
    ("gr6.4xlarge", Gpus { model: &L4, roots: roots!["34"] }),
    ("gr6.8xlarge", Gpus { model: &L4, roots: roots!["35"] }),
    ("p3dn.24xlarge", Gpus { model: &V100, roots: roots!["00"] }),
    ("p4d.24xlarge", Gpus { model: &A100_40GB, roots: roots!["10", "20", "90", "a0"] }),
    ("p4de.24xlarge", Gpus { model: &A100_80GB, roots: roots!["10", "20", "90", "a0"] }),
    ("p5.48xlarge", Gpus { model: &H100, roots: roots!["44", "55", "66", "77", "88", "99", "aa", "bb"] }),
    ("p5.4xlarge", Gpus { model: &H100, roots: roots!["24"] }),
    ("p5e.48xlarge", Gpus { model: &H200, roots: roots!["44", "55", "66", "77", "88", "99", "aa", "bb"] }),
    ("p5en.48xlarge", Gpus { model: &H200, roots: roots!["44", "5d", "76", "8f"] }),
    ("p6-b200.48xlarge", Gpus { model: &B200, roots: roots!["44", "55", "66", "79"] }),
    ("p6-b300.48xlarge", Gpus { model: &B300, roots: roots!["4b", "5a", "69", "78", "87", "96", "a5", "b4"] }),
];
