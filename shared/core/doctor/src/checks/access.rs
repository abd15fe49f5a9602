//! Checks whether nodes may join: the authentication mode, and the access entries of their roles.

use crate::facts::{AccessEntry, Facts, Read};
use crate::finding::{Check, Finding, Severity};
use nodeless_api::EC2NodeClass;
use nodeless_api::nodeclass::AmiFamily;
use nodeless_model::shell::quoted;
use std::collections::BTreeMap;

/// The operating system of nodes, which need an access entry of its type. The type EC2 is for nodes of EKS Auto Mode only:
/// <https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum System {
    Linux,
    Windows,
}

impl System {
    fn new(class: &EC2NodeClass) -> Self {
        match class.spec.resolved_ami_family() {
            Some(AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025) => Self::Windows,
            _ => Self::Linux,
        }
    }

    /// The type of access entries with which its nodes join.
    const fn entry_type(self) -> &'static str {
        match self {
            Self::Linux => "EC2_LINUX",
            Self::Windows => "EC2_WINDOWS",
        }
    }
}

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let access = match &facts.access {
        Read::Done(access) => access,
        Read::Not(why) => {
            return findings.push(Finding::not_checked(
                Check::Access,
                why,
                "check that `aws eks describe-cluster --name NAME --query cluster.accessConfig` reports API or API_AND_CONFIG_MAP, and that \
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
                    "run `aws eks update-cluster-config --name {} --access-config authenticationMode=API_AND_CONFIG_MAP`; \
                     the ConfigMap aws-auth stays valid, and the mode cannot be changed back",
                    quoted(cluster)
                )),
        );
    }
    profiles(facts, cluster, findings);
    for ((role, system), class) in roles(facts) {
        let entry = access.entries.iter().find(|entry| is_of(entry, role));
        let found = entry.map(|entry| entry.kind.as_str());
        if found != Some(system.entry_type()) {
            findings.push(
                Finding::new(Severity::Error, Check::Access, format!("EC2NodeClass {class}"))
                    .problem(problem(role, system, found))
                    .advice(advice(cluster, system, found)),
            );
        }
    }
}

/// The roles of instance profiles are not known.
fn profiles(facts: &Facts, cluster: &str, findings: &mut Vec<Finding>) {
    for (name, class) in &facts.view.node_classes {
        let (None, Some(profile)) = (&class.spec.role, &class.spec.instance_profile) else { continue };
        findings.push(
            Finding::new(Severity::NotChecked, Check::Access, format!("EC2NodeClass {name}"))
                .problem(format!("not checked: the role of its instance profile {profile} is not known"))
                .advice(format!(
                    "look up the role with `aws iam get-instance-profile --instance-profile-name {}`, and check that `aws eks \
                     describe-access-entry --cluster-name {} --principal-arn ROLE_ARN` has the type {}",
                    quoted(profile),
                    quoted(cluster),
                    System::new(class).entry_type()
                )),
        );
    }
}

/// The roles of EC2NodeClasses with the systems of their nodes, each with the first class.
fn roles(facts: &Facts) -> BTreeMap<(&str, System), &str> {
    let mut roles = BTreeMap::new();
    for (name, class) in &facts.view.node_classes {
        if let Some(role) = class.spec.role.as_deref() {
            roles.entry((role, System::new(class))).or_insert(name.as_str());
        }
    }
    roles
}

fn is_of(entry: &AccessEntry, role: &str) -> bool {
    entry.principal.rsplit_once('/').is_some_and(|(_, name)| name == role)
}

fn problem(role: &str, system: System, found: Option<&str>) -> String {
    let own = found.map_or(String::new(), |kind| format!("; that of the role has the type {kind}"));
    format!("its role {role} has no access entry for {system:?} nodes, so its nodes cannot join{own}")
}

/// A role has one access entry in a cluster, whose type cannot be changed.
fn advice(cluster: &str, system: System, found: Option<&str>) -> String {
    let kind = system.entry_type();
    let create = format!(
        "`aws eks create-access-entry --cluster-name {} --type {kind} --principal-arn ROLE_ARN`",
        quoted(cluster)
    );
    match found {
        None => format!("run {create}, unless the ConfigMap aws-auth maps the role"),
        Some(found) => format!(
            "the type of an access entry cannot be changed, and a role has one entry in a cluster: use a role of their own for these nodes, \
             with {create}; or, if nothing else uses the entry of the type {found}, delete it first"
        ),
    }
}
