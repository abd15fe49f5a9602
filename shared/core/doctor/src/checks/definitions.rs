//! CustomResourceDefinitions.

use crate::facts::{DefinitionState, Facts, Read};
use crate::finding::{Check, Finding, Severity};

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let definitions = match &facts.definitions {
        Read::Done(definitions) => definitions,
        Read::Not(why) => {
            let advice = "use a kubeconfig whose user may get CustomResourceDefinitions";
            return findings.push(Finding::not_checked(Check::Definitions, why, advice));
        }
    };
    for definition in definitions {
        let object = format!("CustomResourceDefinition {}", definition.name);
        let severity = if definition.optional { Severity::Warning } else { Severity::Error };
        match &definition.state {
            DefinitionState::Fine => {}
            DefinitionState::Missing if definition.optional => {}
            DefinitionState::Missing => findings.push(
                Finding::new(severity, Check::Definitions, object)
                    .problem("it is not installed")
                    .advice("run `terraform apply` with the module, or `nodeless install`"),
            ),
            DefinitionState::Refused(reason) => findings.push(
                Finding::new(severity, Check::Definitions, object)
                    .problem(format!("the installation would refuse it: {reason}"))
                    .advice("fix this before `terraform apply`, which fails otherwise"),
            ),
            DefinitionState::Noted(note) => findings.push(
                Finding::new(Severity::Warning, Check::Definitions, object)
                    .problem(note.clone())
                    .advice("decide which tool manages it from now on; both ways back and forth need the definition and its objects"),
            ),
        }
    }
}
