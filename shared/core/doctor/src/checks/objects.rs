//! Objects that nodeless cannot use.

use crate::facts::{Facts, Read};
use crate::finding::{Check, Finding, Severity};
use nodeless_model::shell::quoted;

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    for (kind, why) in &facts.unread {
        let advice = format!("use a kubeconfig whose user may list objects of kind {kind}");
        findings.push(Finding::not_checked(Check::Objects, &format!("{kind}: {why}"), advice));
    }
    for invalid in &facts.view.invalid {
        findings.push(
            Finding::new(Severity::Error, Check::Objects, format!("{} {}", invalid.kind, invalid.name))
                .problem(format!("it cannot be used: {}", invalid.message))
                .advice("fix the field"),
        );
    }
    match &facts.earlier {
        Read::Not(why) => {
            let advice = "check with `kubectl get provisioners,awsnodetemplates`";
            findings.push(Finding::not_checked(Check::Objects, why, advice));
        }
        Read::Done(earlier) => {
            for objects in earlier.iter().filter(|objects| objects.count > 0) {
                let advice = match objects.kind.as_str() {
                    "Machine" => "drain and delete the nodes of these Machines after their NodePool exists".to_owned(),
                    kind => format!(
                        "convert them with `kubectl get {} -o yaml | nodeless convert -f -`, and apply the result",
                        quoted(&kind.to_lowercase())
                    ),
                };
                findings.push(
                    Finding::new(Severity::Warning, Check::Objects, objects.kind.clone())
                        .problem(format!(
                            "{} of this kind, which v1 replaced, and nodeless does not use",
                            objects.count
                        ))
                        .advice(advice),
                );
            }
        }
    }
}
