//! The findings as text.

use super::Report;
use crate::output;
use crate::plural::counted;
use nodeless_doctor::{Finding, Severity};

/// The column at which the text of a finding begins.
const INDENT: usize = 13;
/// The widest text, also on wider terminals, and the width where the output is no terminal.
const WIDEST: usize = 120;
const NARROWEST: usize = 40;

/// The width of the terminal.
pub(super) fn width() -> usize {
    let terminal = console::Term::stdout();
    let width = terminal.size_checked().map_or(WIDEST, |(_, width)| usize::from(width));
    width.clamp(NARROWEST, WIDEST)
}

pub(super) fn render(report: &Report<'_>, width: usize) -> String {
    let mut text = String::new();
    for finding in report.findings {
        one(finding, width, &mut text);
    }
    let errors = counted(report.errors, "error");
    let warnings = counted(report.warnings, "warning");
    let notes = counted(report.notes, "note");
    text.push_str(&format!("{errors}, {warnings}, {} not checked, {notes}\n", report.not_checked));
    text
}

fn one(finding: &Finding, width: usize, text: &mut String) {
    let label = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::NotChecked => "not checked",
        Severity::Note => "note",
    };
    let problem = finding.problem.strip_prefix("not checked: ").unwrap_or(&finding.problem);
    let subject = if finding.object.is_empty() { topic(finding) } else { finding.object.clone() };
    let lines = output::lines(&format!("{subject}: {problem}"), width - INDENT);
    for (index, line) in lines.iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        text.push_str(&format!("{label:<INDENT$}{line}\n"));
    }
    for (index, line) in output::lines(&finding.advice, width - INDENT - 3).iter().enumerate() {
        let mark = if index == 0 { "-> " } else { "   " };
        text.push_str(&format!("{:<INDENT$}{mark}{line}\n", ""));
    }
    text.push('\n');
}

/// The subject of a finding that does not concern a single object.
fn topic(finding: &Finding) -> String {
    use nodeless_doctor::Check;
    match finding.check {
        Check::Access => "access entries",
        Check::Definitions => "CustomResourceDefinitions",
        Check::Karpenter => "Karpenter",
        Check::OtherControllers => "other controllers",
        Check::Table => "deployments of nodeless",
        Check::Objects => "objects",
        Check::Options => "annotations",
        Check::NodeClasses => "EC2NodeClasses",
        Check::Discovery => "discovery tags",
        Check::NodePools => "NodePools",
        Check::Nodes => "nodes",
        Check::Quotas => "quotas",
        Check::DisruptionBudgets => "PodDisruptionBudgets",
        Check::Pods => "pods",
        Check::DaemonSets => "DaemonSets",
        Check::Surges => "successors before drains",
        Check::BootTime => "seconds until pods run",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_doctor::Check;

    #[test]
    fn findings_fit_the_width() {
        let finding = Finding {
            severity: Severity::Error,
            check: Check::NodePools,
            object: "NodePool web".to_owned(),
            problem: "no node can be launched from it because there is no instance type".to_owned(),
            advice: "compare its requirements with the catalog of your region".to_owned(),
        };
        let report = Report { errors: 1, warnings: 0, not_checked: 0, notes: 0, findings: &[finding] };
        assert_eq!(
            render(&report, 50),
            "error        NodePool web: no node can be launched
             from it because there is no instance
             type
             -> compare its requirements with the
                catalog of your region

1 error, 0 warnings, 0 not checked, 0 notes
"
        );
    }
}
