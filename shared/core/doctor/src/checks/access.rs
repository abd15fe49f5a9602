//! Whether nodes may join: the authentication mode, and the access entries of their roles.

use crate::facts::{Access, Facts, Read};
use crate::finding::{Check, Finding, Severity};
use nodeless_api::nodeclass::AmiFamily;
use std::collections::BTreeMap;

/// The types of access entries with which nodes join.
const LINUX: [&str; 2] = ["EC2_LINUX", "EC2"];
const WINDOWS: &str = "EC2_WINDOWS";

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let access = match &facts.access {
        Read::Done(access) => access,
        Read::Not(why) => {
            return findings.push(Finding::not_checked(
                Check::Access,
                why,
                "check that `aws eks describe-cluster --name NAME --query cluster.accessConfig` says API or API_AND_CONFIG_MAP, and that \
                 `aws eks list-access-entries --cluster-name NAME` lists the role of each EC2NodeClass",
            ));
        }
    };
    let cluster = &access.cluster;
    if access.mode == "CONFIG_MAP" {
        findings.push(
            Finding::new(Severity::Error, Check::Access, format!("cluster {cluster}"))
                .problem("the authentication mode is CONFIG_MAP, in which the access entries of the functions and nodes have no effect")
                .advice(format!(
                    "run `aws eks update-cluster-config --name {cluster} --access-config authenticationMode=API_AND_CONFIG_MAP`; \
                     the ConfigMap aws-auth stays valid, and the mode cannot be changed back"
                )),
        );
    }
    for (role, (class, windows)) in roles(facts) {
        if !joins(access, role, windows) {
            let (system, kind) = if windows { ("Windows", WINDOWS) } else { ("Linux", LINUX[0]) };
            findings.push(
                Finding::new(Severity::Error, Check::Access, format!("EC2NodeClass {class}"))
                    .problem(format!("its role {role} has no access entry for {system} nodes, so its nodes cannot join"))
                    .advice(format!(
                        "run `aws eks create-access-entry --cluster-name {cluster} --type {kind} --principal-arn ROLE_ARN`, unless \
                         the ConfigMap aws-auth maps the role"
                    )),
            );
        }
    }
}

/// The roles of EC2NodeClasses, each with the first class and whether its nodes run Windows.
fn roles(facts: &Facts) -> BTreeMap<&str, (&str, bool)> {
    let mut roles = BTreeMap::new();
    for (name, class) in &facts.view.node_classes {
        let family = class.spec.resolved_ami_family();
        let windows = matches!(family, Some(AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025));
        if let Some(role) = class.spec.role.as_deref() {
            roles.entry(role).or_insert((name.as_str(), windows));
        }
    }
    roles
}

fn joins(access: &Access, role: &str, windows: bool) -> bool {
    access.entries.iter().any(|entry| {
        let of_role = entry.principal.rsplit_once('/').is_some_and(|(_, name)| name == role);
        let kind = entry.kind.as_str();
        of_role && if windows { kind == WINDOWS } else { LINUX.contains(&kind) }
    })
}
