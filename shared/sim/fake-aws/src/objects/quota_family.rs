//! The families of instance types by which EC2 counts vCPUs.

/// The families of instance types that share a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaFamily {
    /// A, C, D, H, I, M, R, T and Z.
    Standard,
    /// DL.
    Dl,
    /// F.
    F,
    /// G and VT.
    GAndVt,
    /// U, the types with high memory.
    HighMemory,
    /// HPC.
    Hpc,
    /// Inf.
    Inf,
    /// P.
    P,
    /// Trn.
    Trn,
    /// X.
    X,
}

impl QuotaFamily {
    /// The family of an instance type. `None` for Mac, which only runs on dedicated hosts.
    #[must_use]
    pub fn new(instance_type: &str) -> Option<Self> {
        let letters = instance_type.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(instance_type.len());
        Some(match &instance_type[..letters] {
            "mac" => return None,
            "dl" => Self::Dl,
            "f" => Self::F,
            "g" | "gr" | "vt" => Self::GAndVt,
            "u" => Self::HighMemory,
            "hpc" => Self::Hpc,
            "inf" => Self::Inf,
            "p" => Self::P,
            "trn" => Self::Trn,
            "x" => Self::X,
            _ => Self::Standard,
        })
    }
}
