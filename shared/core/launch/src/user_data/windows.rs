//! Windows: one PowerShell block with the user's commands, followed by the bootstrap script of the image.

use super::{UserDataError, UserDataInput, kubelet_arguments};
use nodeless_api::nodeclass::InstanceStorePolicy;

pub(super) fn user_data(input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    if input.instance_store == Some(InstanceStorePolicy::Raid0) {
        return Err(UserDataError::InstanceStore { family: input.family.name() });
    }
    let cluster = input.cluster;
    let mut lines = vec!["<powershell>".to_owned()];
    if let Some(custom) = input.custom.map(unwrapped).filter(|text| !text.is_empty()) {
        lines.push(custom.to_owned());
    }
    lines.push(
        "[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"".to_owned(),
    );
    let mut call = vec![
        format!("& $EKSBootstrapScriptFile -EKSClusterName '{}'", cluster.name),
        format!("-APIServerEndpoint '{}'", cluster.endpoint),
        format!("-Base64ClusterCA '{}'", cluster.certificate_authority),
        format!("-KubeletExtraArgs '{}'", kubelet_arguments(input).join(" ")),
    ];
    if let Some(address) = input.kubelet.cluster_dns.as_ref().and_then(|addresses| addresses.first()) {
        call.push(format!("-DNSClusterIP '{address}'"));
    }
    lines.push(call.join(" "));
    lines.push("</powershell>".to_owned());
    Ok(lines.join("\n") + "\n")
}

/// The user's commands without their tags: a document has one PowerShell block.
fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("<powershell>").unwrap_or(text);
    inner.strip_suffix("</powershell>").unwrap_or(inner).trim()
}
