//! `nodeless convert`: manifests of Karpenter's earlier APIs as v1.

use crate::convert;
use crate::error::CliError;
use clap::Args;
use nodeless_convert::{Identity, Options};
use std::path::PathBuf;

/// Convert manifests of Karpenter's earlier APIs to v1
#[derive(Debug, Args)]
#[command(
    long_about = "Convert manifests of Karpenter's earlier APIs to v1: v1alpha5 Provisioner, v1alpha1 AWSNodeTemplate, v1beta1 NodePool \
and v1beta1 EC2NodeClass.

The result is printed to standard output, and each change on its own line to standard error: `changed`, `lost` (v1 does not have it) \
or `check` (it depends on what only you know). Comments are kept. Other objects are printed as they are, except that workloads get the \
current names of Karpenter's labels and annotations.",
    after_long_help = "Exit code: 0 on success, 1 for an error: then nothing is printed to standard output, and each error names the field.

Examples:
  nodeless convert provisioner.yaml template.yaml --role KarpenterNodeRole-demo > karpenter.yaml
  kubectl get nodepools.v1beta1.karpenter.sh,ec2nodeclasses.v1beta1.karpenter.k8s.aws -o yaml | nodeless convert -
  nodeless convert karpenter/ | kubectl apply -f -"
)]
pub(crate) struct ConvertArguments {
    /// The files (YAML or JSON), directories of such files, or - for standard input. Give NodePools and their EC2NodeClasses
    /// together: the kubelet's settings move from one to the other
    #[arg(value_name = "FILE", required_unless_present = "filename")]
    files: Vec<PathBuf>,
    /// The same as FILE, as in kubectl
    #[arg(long, short, value_name = "FILE", num_args = 1..)]
    filename: Vec<PathBuf>,
    /// The IAM role of the nodes of AWSNodeTemplates that have no instanceProfile
    #[arg(long, value_name = "NAME", conflicts_with = "instance_profile", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    role: Option<String>,
    /// The instance profile of the nodes of AWSNodeTemplates that have no instanceProfile
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    instance_profile: Option<String>,
    /// Leave out the requirements that v1alpha5 added to Provisioners by default
    #[arg(long)]
    ignore_defaults: bool,
}

pub(crate) fn run(arguments: &ConvertArguments) -> Result<(), CliError> {
    let role = arguments.role.clone().map(Identity::Role);
    let identity = role.or_else(|| arguments.instance_profile.clone().map(Identity::InstanceProfile));
    let files = [arguments.files.as_slice(), &arguments.filename].concat();
    convert::run(&files, &Options { identity, ignore_defaults: arguments.ignore_defaults })
}
