//! EC2NodeClasses: their conditions, and the tags by which their network is found.

use crate::facts::Facts;
use crate::finding::{Check, Finding, Severity};
use nodeless_api::common::{Condition, ConditionStatus};
use nodeless_api::nodeclass::selectors::SelectorTags;
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus};
use nodeless_model::certificate_authorities::lacks_any;
use nodeless_model::shell::quoted;
use nodeless_model::{Node, labels};

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    for (name, class) in &facts.view.node_classes {
        let object = format!("EC2NodeClass {name}");
        findings.extend(untrusted_authority(name, class, facts).map(|(problem, advice)| {
            Finding::new(Severity::Warning, Check::NodeClasses, object.clone()).problem(problem).advice(advice)
        }));
        match class.status.as_ref().filter(|status| !status.conditions.is_empty()) {
            Some(status) => conditions(&object, class, status, findings),
            None => findings.push(
                Finding::new(Severity::NotChecked, Check::NodeClasses, object)
                    .problem(
                        "not checked: it has no status, so it is not known whether its subnets, security groups, images and role exist",
                    )
                    .advice(
                        "nodeless writes the status within minutes after `terraform apply`; run this command again then, and if it \
                         is still missing, look at the log group of the catalog function",
                    ),
            ),
        }
    }
}

/// Nodes whose kubelet does not trust all certificate authorities of the cluster: what is wrong, and what to do.
fn untrusted_authority(name: &str, class: &EC2NodeClass, facts: &Facts) -> Option<(String, &'static str)> {
    let present = class.certificate_authority()?;
    let lacks = |node: &&Node| {
        node.labels.get(labels::EC2_NODE_CLASS).is_some_and(|class| class == name)
            && node.annotations.get(labels::CERTIFICATE_AUTHORITY).is_some_and(|trusted| lacks_any(trusted, present))
    };
    let count = facts.view.nodes.iter().filter(lacks).count();
    let problem = format!(
        "nodes that do not trust a certificate authority of the cluster, and lose the API server when it is activated: {count}"
    );
    if count == 0 {
        return None;
    }
    let advice = "nodeless replaces them as drifted, within budgets: see docs/operate/certificate-authority.md";
    Some((problem, advice))
}

fn conditions(object: &str, class: &EC2NodeClass, status: &EC2NodeClassStatus, findings: &mut Vec<Finding>) {
    let of_parts = status.conditions.iter().filter(|condition| condition.type_ != "Ready");
    // A condition that only awaits another one is not a finding of its own.
    let own = of_parts.filter(|condition| condition.reason != "DependenciesNotReady");
    let mut bad = own.filter(|condition| condition.status != ConditionStatus::True).peekable();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    if bad.peek().is_none()
        && let Some(ready) = ready.filter(|ready| ready.status != ConditionStatus::True)
    {
        findings.push(finding(object, class, ready));
    }
    bad.for_each(|condition| findings.push(finding(object, class, condition)));
}

fn finding(object: &str, class: &EC2NodeClass, condition: &Condition) -> Finding {
    let check = match condition.type_.as_str() {
        "SubnetsReady" | "SecurityGroupsReady" => Check::Discovery,
        _ => Check::NodeClasses,
    };
    let (severity, state) = match condition.status {
        ConditionStatus::False => (Severity::Error, "False"),
        ConditionStatus::Unknown | ConditionStatus::True => (Severity::Warning, "Unknown"),
    };
    let Condition { type_, reason, message, .. } = condition;
    let what = if message.is_empty() { String::new() } else { format!(": {message}") };
    Finding::new(severity, check, object)
        .problem(format!("{type_} is {state}, {reason}{what}"))
        .advice(advice(class, condition))
}

fn advice(class: &EC2NodeClass, condition: &Condition) -> String {
    let spec = &class.spec;
    match condition.reason.as_str() {
        "SubnetsNotFound" => found_by(
            "subnet",
            "subnetSelectorTerms",
            spec.subnet_selector_terms.iter().filter_map(|term| term.tags.as_ref()),
        ),
        "SecurityGroupsNotFound" => found_by(
            "security group",
            "securityGroupSelectorTerms",
            spec.security_group_selector_terms.iter().filter_map(|term| term.tags.as_ref()),
        ),
        "AMINotFound" => {
            "change spec.amiSelectorTerms; an alias such as al2023@latest always finds an image".to_owned()
        }
        "UnsupportedAlias" => "use another alias, such as al2023@latest".to_owned(),
        "RoleNotFound" => "create the role, or change spec.role".to_owned(),
        "InstanceProfileNotFound" if spec.instance_profile.is_none() => format!(
            "check that the role {} of spec.role exists; the catalog function creates an instance profile for it within five minutes",
            spec.role.as_deref().unwrap_or_default()
        ),
        "InstanceProfileNotFound" => "create the instance profile, or change spec.instanceProfile".to_owned(),
        "AccessDenied" => "grant the catalog function the permission that the message names".to_owned(),
        reason if reason.ends_with("AuthCheckFailed") => {
            "grant the lifecycle function the permission that the message names, for example to pass the role"
                .to_owned()
        }
        "AwaitingDryRun" => "wait a minute, and run this command again".to_owned(),
        _ => "change the field that the message names".to_owned(),
    }
}

/// The advice if nothing has the tags of the terms.
fn found_by<'a>(what: &str, field: &str, mut tags: impl Iterator<Item = &'a SelectorTags>) -> String {
    let Some(tags) = tags.next() else { return format!("change spec.{field}: no {what} has this id or name") };
    let pairs = tags.iter().map(|(key, value)| {
        let value = if value == "*" { "ANY" } else { value };
        quoted(&format!("Key={key},Value={value}")).into_owned()
    });
    let pairs = pairs.collect::<Vec<_>>().join(" ");
    format!("tag each {what} of the nodes, `aws ec2 create-tags --resources ID --tags {pairs}`, or change spec.{field}")
}
