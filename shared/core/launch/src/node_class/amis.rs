//! AMIs of an EC2NodeClass: the parameters of an alias, and which AMI supports which nodes.

use super::conditions::Problem;
use super::query::{Query, tag_filters};
use crate::ClusterDetails;
use nodeless_api::nodeclass::{Ami, AmiFamily, AmiRequirement, AmiSelectorTerm};
use nodeless_model::labels;

/// The nodes that an AMI of AWS supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Nodes without GPUs and accelerators.
    Standard,
    /// Nodes with GPUs.
    Nvidia,
    /// Nodes with AWS Neuron devices.
    Neuron,
    /// Nodes with this build of Windows.
    Windows(&'static str),
}

impl Variant {
    fn requirements(self) -> Vec<AmiRequirement> {
        let (gpus, accelerators) = (labels::INSTANCE_GPU_COUNT, labels::INSTANCE_ACCELERATOR_COUNT);
        match self {
            Self::Standard => vec![requirement(gpus, "DoesNotExist"), requirement(accelerators, "DoesNotExist")],
            Self::Nvidia => vec![requirement(gpus, "Exists")],
            Self::Neuron => vec![requirement(accelerators, "Exists")],
            Self::Windows(build) => [(labels::OS, "windows"), (labels::WINDOWS_BUILD, build)]
                .map(|(key, value)| AmiRequirement { values: vec![value.to_owned()], ..requirement(key, "In") })
                .to_vec(),
        }
    }
}

fn requirement(key: &str, operator: &str) -> AmiRequirement {
    AmiRequirement { key: key.to_owned(), operator: operator.to_owned(), values: Vec::new() }
}

/// A public SSM parameter with the id of an AMI, and the nodes that it supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasParameter {
    /// The parameter's name.
    pub name: String,
    /// The architecture of the AMI, with the name of EC2.
    pub architecture: &'static str,
    /// The nodes that it supports.
    pub variants: Vec<Variant>,
}

/// The parameters of an alias, for a Kubernetes version.
///
/// # Errors
/// When AMIs of this family have no alias.
pub fn alias_parameters(
    family: Option<AmiFamily>,
    version: &str,
    kubernetes: &str,
) -> Result<Vec<AliasParameter>, Problem> {
    match family {
        Some(AmiFamily::AL2023) => Ok(al2023_parameters(version, kubernetes)),
        Some(AmiFamily::Bottlerocket) => Ok(bottlerocket_parameters(version, kubernetes)),
        Some(AmiFamily::AL2) if is_before(kubernetes, 33) => Ok(al2_parameters(version, kubernetes)),
        Some(AmiFamily::AL2) => Err(unsupported(
            "AWS publishes no AL2 images from Kubernetes 1.33 on; use al2023@…, or select images by id, name or tags",
        )),
        Some(AmiFamily::Windows2019) => Ok(windows_parameters("2019", "10.0.17763", kubernetes)),
        Some(AmiFamily::Windows2022) => Ok(windows_parameters("2022", "10.0.20348", kubernetes)),
        Some(AmiFamily::Windows2025) if !is_before(kubernetes, 35) => {
            Ok(windows_parameters("2025", "10.0.26100", kubernetes))
        }
        Some(AmiFamily::Windows2025) => {
            Err(unsupported("AWS publishes Windows 2025 images from Kubernetes 1.35 on; use windows2022@latest"))
        }
        Some(AmiFamily::Custom) | None => Err(unsupported(
            "the alias names no family that AWS publishes images of; use al2023, al2, bottlerocket, windows2019, windows2022 or \
             windows2025",
        )),
    }
}

fn unsupported(why: &str) -> Problem {
    Problem::new("UnsupportedAlias", format!("spec.amiSelectorTerms: {why}"))
}

/// Whether a Kubernetes version is before 1.`minor`. A version that cannot be parsed counts as newer.
fn is_before(kubernetes: &str, minor: u32) -> bool {
    ClusterDetails::minor_version(kubernetes).is_some_and(|version| version < (1, minor))
}

fn al2_parameters(version: &str, kubernetes: &str) -> Vec<AliasParameter> {
    let images = [
        ("amazon-linux-2", "x86_64", "amazon-eks-node", vec![Variant::Standard]),
        ("amazon-linux-2-arm64", "arm64", "amazon-eks-arm64-node", vec![Variant::Standard]),
        ("amazon-linux-2-gpu", "x86_64", "amazon-eks-gpu-node", vec![Variant::Nvidia, Variant::Neuron]),
    ];
    images
        .into_iter()
        .map(|(folder, architecture, prefix, variants)| {
            let image = match version {
                "latest" => "recommended".to_owned(),
                pinned => format!("{prefix}-{kubernetes}-{pinned}"),
            };
            AliasParameter {
                name: format!("/aws/service/eks/optimized-ami/{kubernetes}/{folder}/{image}/image_id"),
                architecture,
                variants,
            }
        })
        .collect()
}

fn windows_parameters(year: &str, build: &'static str, kubernetes: &str) -> Vec<AliasParameter> {
    let image = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}");
    vec![AliasParameter {
        name: format!("/aws/service/ami-windows-latest/{image}/image_id"),
        architecture: "x86_64",
        variants: vec![Variant::Windows(build)],
    }]
}

fn al2023_parameters(version: &str, kubernetes: &str) -> Vec<AliasParameter> {
    let images = [
        ("x86_64", "standard", Variant::Standard),
        ("arm64", "standard", Variant::Standard),
        ("x86_64", "nvidia", Variant::Nvidia),
        ("arm64", "nvidia", Variant::Nvidia),
        ("x86_64", "neuron", Variant::Neuron),
    ];
    images
        .into_iter()
        .map(|(architecture, kind, variant)| {
            let image = match version {
                "latest" => "recommended".to_owned(),
                pinned => format!("amazon-eks-node-al2023-{architecture}-{kind}-{kubernetes}-{pinned}"),
            };
            AliasParameter {
                name: format!(
                    "/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{architecture}/{kind}/{image}/image_id"
                ),
                architecture,
                variants: vec![variant],
            }
        })
        .collect()
}

fn bottlerocket_parameters(version: &str, kubernetes: &str) -> Vec<AliasParameter> {
    // Releases are named v1.20.3, parameters 1.20.3.
    let version = version.trim_start_matches('v');
    let images = [
        ("", "x86_64", vec![Variant::Standard, Variant::Neuron]),
        ("", "arm64", vec![Variant::Standard]),
        ("-nvidia", "x86_64", vec![Variant::Nvidia]),
        ("-nvidia", "arm64", vec![Variant::Nvidia]),
    ];
    images
        .into_iter()
        .map(|(suffix, architecture, variants)| AliasParameter {
            name: format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{architecture}/{version}/image_id"),
            architecture,
            variants,
        })
        .collect()
}

/// A DescribeImages call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageQuery {
    /// The filters.
    pub filters: Query,
    /// Empty for all owners.
    pub owners: Vec<String>,
}

impl ImageQuery {
    /// Selects AMIs by id.
    pub fn by_ids(ids: impl IntoIterator<Item = String>) -> Self {
        Self { filters: vec![("image-id".to_owned(), ids.into_iter().collect())], owners: Vec::new() }
    }
}

/// The queries of terms without an alias. `ids` come from SSM parameters. Names are searched among the AMIs of the account and of
/// Amazon, unless the term specifies an owner. Only the owner of an AMI sees its tags, so terms with tags need no owner.
pub fn image_queries(terms: &[AmiSelectorTerm], ids: &[String]) -> Vec<ImageQuery> {
    let ids: Vec<String> = terms.iter().filter_map(|term| term.id.clone()).chain(ids.iter().cloned()).collect();
    let mut queries = Vec::new();
    if !ids.is_empty() {
        queries.push(ImageQuery::by_ids(ids));
    }
    for term in terms.iter().filter(|term| term.id.is_none() && term.ssm_parameter.is_none()) {
        let mut filters = term.tags.as_ref().map(tag_filters).unwrap_or_default();
        filters.extend(term.name.iter().map(|name| ("name".to_owned(), vec![name.clone()])));
        if filters.is_empty() {
            continue;
        }
        let owners = match (&term.owner, &term.name) {
            (Some(owner), _) => vec![owner.clone()],
            (None, Some(_)) => vec!["self".to_owned(), "amazon".to_owned()],
            (None, None) => Vec::new(),
        };
        queries.push(ImageQuery { filters, owners });
    }
    queries
}

/// An AMI in DescribeImages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The id, `ami-…`.
    pub id: String,
    /// The name.
    pub name: String,
    /// The creation time in EC2's format: UTC with a fixed number of digits, so that the order of the texts is that of the times.
    pub created: String,
    /// Whether AWS or its owner deprecated it.
    pub deprecated: bool,
    /// The architecture: `x86_64`, `arm64` or another.
    pub architecture: String,
}

/// The requirements of each kind of node that an image supports: none for an architecture that nodes cannot have.
fn kinds_of_nodes(architecture: &str, variants: &[Variant]) -> Vec<Vec<AmiRequirement>> {
    let architecture = match architecture {
        "x86_64" => "amd64",
        "arm64" => "arm64",
        _ => return Vec::new(),
    };
    let kinds: Vec<Vec<AmiRequirement>> = match variants {
        [] => vec![Vec::new()],
        variants => variants.iter().map(|variant| variant.requirements()).collect(),
    };
    let with_architecture = |mut requirements: Vec<AmiRequirement>| {
        requirements.push(AmiRequirement { values: vec![architecture.to_owned()], ..requirement(labels::ARCH, "In") });
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        requirements
    };
    kinds.into_iter().map(with_architecture).collect()
}

/// The previous AMIs for the kinds of nodes of parameters that could not be read now: without them, their nodes would drift.
pub fn kept<'a>(previous: &[Ami], unread: impl IntoIterator<Item = &'a AliasParameter>) -> Vec<Ami> {
    let kinds = unread.into_iter().flat_map(|parameter| kinds_of_nodes(parameter.architecture, &parameter.variants));
    let kinds: Vec<Vec<AmiRequirement>> = kinds.collect();
    previous.iter().filter(|ami| kinds.contains(&ami.requirements)).cloned().collect()
}

/// The images for the status: the best one for each kind of node, newest first. `variants` returns the kinds of nodes that an
/// image supports; none means all nodes of its architecture.
pub fn select(images: Vec<(Image, Vec<Variant>)>) -> Vec<Ami> {
    let mut candidates: Vec<(Image, Vec<AmiRequirement>)> = Vec::new();
    for (image, variants) in images {
        let kinds = kinds_of_nodes(&image.architecture, &variants);
        candidates.extend(kinds.into_iter().map(|requirements| (image.clone(), requirements)));
    }
    // Best first: AMIs that are not deprecated, then the newest.
    candidates.sort_by(|(a, _), (b, _)| {
        let order = a.deprecated.cmp(&b.deprecated).then_with(|| b.created.cmp(&a.created));
        order.then_with(|| a.name.cmp(&b.name)).then_with(|| a.id.cmp(&b.id))
    });
    let mut chosen: Vec<(Image, Vec<AmiRequirement>)> = Vec::new();
    for candidate in candidates {
        if chosen.iter().all(|(_, requirements)| *requirements != candidate.1) {
            chosen.push(candidate);
        }
    }
    chosen.sort_by(|(a, _), (b, _)| b.created.cmp(&a.created));
    chosen
        .into_iter()
        .map(|(image, requirements)| Ami {
            id: image.id,
            deprecated: image.deprecated.then_some(true),
            name: Some(image.name),
            requirements,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, created: &str, architecture: &str) -> Image {
        Image {
            id: id.into(),
            name: format!("image {id}"),
            created: created.into(),
            deprecated: false,
            architecture: architecture.into(),
        }
    }

    fn ids(amis: &[Ami]) -> Vec<&str> {
        amis.iter().map(|ami| ami.id.as_str()).collect()
    }

    #[test]
    fn an_alias_has_the_parameters_of_its_family() {
        let names = |family, version| -> Vec<String> {
            alias_parameters(Some(family), version, "1.33").unwrap().into_iter().map(|p| p.name).collect()
        };
        assert_eq!(
            names(AmiFamily::AL2023, "latest")[1],
            "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/arm64/standard/recommended/image_id"
        );
        assert_eq!(
            names(AmiFamily::AL2023, "v20260105")[4],
            "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/neuron/\
             amazon-eks-node-al2023-x86_64-neuron-1.33-v20260105/image_id"
        );
        assert_eq!(
            names(AmiFamily::Bottlerocket, "v1.40.0"),
            [
                "/aws/service/bottlerocket/aws-k8s-1.33/x86_64/1.40.0/image_id",
                "/aws/service/bottlerocket/aws-k8s-1.33/arm64/1.40.0/image_id",
                "/aws/service/bottlerocket/aws-k8s-1.33-nvidia/x86_64/1.40.0/image_id",
                "/aws/service/bottlerocket/aws-k8s-1.33-nvidia/arm64/1.40.0/image_id",
            ]
        );
        for family in [Some(AmiFamily::AL2), Some(AmiFamily::Windows2025), Some(AmiFamily::Custom), None] {
            assert_eq!(alias_parameters(family, "latest", "1.33").unwrap_err().reason, "UnsupportedAlias");
        }
        assert_eq!(
            names(AmiFamily::Windows2022, "latest"),
            ["/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.33/image_id"]
        );
        let al2 = alias_parameters(Some(AmiFamily::AL2), "v20250901", "1.32").unwrap();
        assert_eq!(
            al2[2].name,
            "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20250901/image_id"
        );
        assert!(alias_parameters(Some(AmiFamily::Windows2025), "latest", "1.35").is_ok());
    }

    #[test]
    fn each_kind_of_node_gets_its_image() {
        let amis = select(vec![
            (image("standard", "2026-01-01", "x86_64"), vec![Variant::Standard, Variant::Neuron]),
            (image("gpu", "2026-01-02", "x86_64"), vec![Variant::Nvidia]),
            (image("arm", "2026-01-03", "arm64"), vec![Variant::Standard]),
        ]);
        assert_eq!(ids(&amis), ["arm", "gpu", "standard", "standard"]);
        let keys: Vec<(&str, &str)> =
            amis[0].requirements.iter().map(|r| (r.key.as_str(), r.operator.as_str())).collect();
        assert_eq!(
            keys,
            [
                (labels::INSTANCE_ACCELERATOR_COUNT, "DoesNotExist"),
                (labels::INSTANCE_GPU_COUNT, "DoesNotExist"),
                (labels::ARCH, "In"),
            ]
        );
        assert_eq!(amis[0].requirements[2].values, ["arm64"]);
        assert_eq!(amis[3].requirements[0].operator, "Exists");
    }

    #[test]
    fn of_several_images_the_newest_that_is_not_deprecated_is_kept() {
        let old = Image { deprecated: true, ..image("deprecated", "2026-03-01", "x86_64") };
        let amis = select(vec![
            (image("older", "2026-01-01", "x86_64"), Vec::new()),
            (old.clone(), Vec::new()),
            (image("newer", "2026-02-01", "x86_64"), Vec::new()),
            (image("arm", "2025-01-01", "arm64"), Vec::new()),
            (image("mac", "2026-09-01", "arm64_mac"), Vec::new()),
        ]);
        assert_eq!(ids(&amis), ["newer", "arm"]);
        let amis = select(vec![(old, Vec::new())]);
        assert_eq!(amis[0].deprecated, Some(true), "better than none");
    }

    #[test]
    fn names_are_searched_among_the_owners_of_karpenter() {
        let term = AmiSelectorTerm::default;
        let terms = [
            AmiSelectorTerm { id: Some("ami-1".into()), ..term() },
            AmiSelectorTerm { name: Some("mine-*".into()), ..term() },
            AmiSelectorTerm { name: Some("theirs".into()), owner: Some("123456789012".into()), ..term() },
            AmiSelectorTerm { tags: Some([("a".to_owned(), "1".to_owned())].into()), ..term() },
            AmiSelectorTerm { ssm_parameter: Some("/x".into()), ..term() },
        ];
        let queries = image_queries(&terms, &["ami-2".to_owned()]);
        assert_eq!(queries[0], ImageQuery::by_ids(["ami-1".to_owned(), "ami-2".to_owned()]));
        assert_eq!(queries[1].owners, ["self", "amazon"]);
        assert_eq!(queries[2].owners, ["123456789012"]);
        assert_eq!((queries[3].owners.len(), queries[3].filters[0].0.as_str()), (0, "tag:a"));
        assert_eq!(queries.len(), 4);
    }
}
