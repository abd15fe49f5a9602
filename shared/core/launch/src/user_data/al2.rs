//! Amazon Linux 2: a MIME document whose last part is a script that calls the image's bootstrap.sh.

use super::{UserDataError, UserDataInput, kubelet_arguments, mime};
use nodeless_api::nodeclass::InstanceStorePolicy;

const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";

pub(super) fn user_data(input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let mut parts = match input.custom.map(str::trim).filter(|text| !text.is_empty()) {
        None => Vec::new(),
        Some(text) if mime::is_document(text) => mime::parts(text).map_err(|why| UserDataError::Custom { why })?,
        Some(text) => vec![mime::part(SHELL_SCRIPT, text)],
    };
    parts.push(mime::part(SHELL_SCRIPT, &script(input)));
    Ok(mime::document(&parts))
}

fn script(input: &UserDataInput<'_>) -> String {
    let cluster = input.cluster;
    let mut words = vec![
        format!("/etc/eks/bootstrap.sh '{}'", cluster.name),
        format!("--apiserver-endpoint '{}'", cluster.endpoint),
        format!("--b64-cluster-ca '{}'", cluster.certificate_authority),
    ];
    // bootstrap.sh derives the address of the cluster's DNS from the range, and ends with an error if it has neither.
    if let Some(cidr) = cluster.service_cidr.as_ref().filter(|_| cluster.is_ipv6()) {
        words.push("--ip-family ipv6".to_owned());
        words.push(format!("--service-ipv6-cidr '{cidr}'"));
    }
    if let Some(address) = input.kubelet.cluster_dns.as_ref().and_then(|addresses| addresses.first()) {
        words.push(format!("--dns-cluster-ip '{address}'"));
    }
    // The maximum number of pods follows the same rules as in the catalog.
    words.push("--use-max-pods false".to_owned());
    words.push(format!("--kubelet-extra-args '{}'", kubelet_arguments(input).join(" ")));
    if input.instance_store == Some(InstanceStorePolicy::Raid0) {
        words.push("--local-disks raid0".to_owned());
    }
    format!(
        "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n{}",
        words.join(" \\\n")
    )
}
