//! The Markdown output of `--diff`, for a comment on a pull request.
//!
//! All texts of others, such as names, are in code spans, in which GitHub finds neither Markdown nor HTML, mentions or links. A comment may
//! have 65,536 characters, so each list is limited.

use super::bounded::{Bounded, bounded};
use super::report::DiffReport;
use super::words::{AT_MAXIMUM, HEADING, NAMES, names, numbers, objects, total};
use crate::plan::report::Unschedulable;
use crate::plan::text::by_reason;
use crate::plan::wording::text_parts::SHOWN;
use crate::plural::counted;
use nodeless_model::printable::printable_line;

/// The maximum characters of a text of others.
const MAX_TEXT: usize = 300;
/// The maximum number of reasons and of remedies of a group of pods.
const MAX_REASONS: usize = 6;
/// The maximum number of items and bytes of each list. Together they leave a tenth of a comment for headings.
const ROWS: (usize, usize) = (40, 14_000);
const OBJECTS: (usize, usize) = (50, 14_000);
const NOT_PLANNED: (usize, usize) = (10, 3_000);
const GROUPS_OF_PODS: (usize, usize) = (20, 17_000);
const ASSUMPTIONS: (usize, usize) = (20, 8_000);

/// The headline, the table, what changed, and the pods that become unschedulable with the reasons.
pub(super) fn render(report: &DiffReport) -> String {
    let mut blocks = vec![format!("### nodeless: {}", report.headline), format!("Prices of {}.", code(&report.region))];
    blocks.push(table(report));
    let changed = objects(report, &code).into_iter().map(|line| format!("- {line}")).collect::<Vec<_>>();
    if changed.is_empty() {
        blocks.push("The manifests have the same objects, as far as planning uses them.".to_owned());
    } else {
        let Bounded { shown, left_out } = bounded(changed, OBJECTS.0, OBJECTS.1);
        blocks.push(list("**What changed**", shown, left_out, "object"));
    }
    if !report.not_planned.is_empty() {
        let objects = report.not_planned.iter().map(|object| format!("- {}", code(object))).collect();
        let Bounded { shown, left_out } = bounded(objects, NOT_PLANNED.0, NOT_PLANNED.1);
        blocks.push(list("**Not planned, though pods would be created**", shown, left_out, "object"));
    }
    if !report.become_unschedulable.is_empty() {
        let groups = by_reason(&report.become_unschedulable);
        let groups = groups.iter().map(|(first, pods)| group(first, pods)).collect();
        let Bounded { shown, left_out } = bounded(groups, GROUPS_OF_PODS.0, GROUPS_OF_PODS.1);
        blocks.push(list("**Pods that become unschedulable**", shown, left_out, "group"));
    }
    let others = [
        ("Pods that become schedulable", &report.become_schedulable),
        ("Unschedulable pods that are removed", &report.removed_unschedulable),
    ];
    for (what, pods) in others.into_iter().filter(|(_, pods)| !pods.is_empty()) {
        blocks.push(format!("{what}: {}.", shortened(pods.iter().map(String::as_str))));
    }
    let assumptions = report.assumptions.iter().map(|line| format!("- {}", prose(line))).collect();
    let Bounded { shown, left_out } = bounded(assumptions, ASSUMPTIONS.0, ASSUMPTIONS.1);
    let assumptions = list("<details><summary>What the figures include</summary>", shown, left_out, "assumption");
    blocks.push(format!("{assumptions}\n\n</details>"));
    blocks.join("\n\n") + "\n"
}

/// A heading, the items, and how many are left out.
fn list(heading: &str, shown: Vec<String>, left_out: usize, what: &str) -> String {
    let mut lines = vec![heading.to_owned(), String::new()];
    lines.extend(shown);
    if left_out > 0 {
        lines.push(format!("- {} left out; `-o json` has all", counted(left_out, &format!("more {what}"))));
    }
    lines.join("\n")
}

fn group(first: &Unschedulable, pods: &[&str]) -> String {
    let mut lines = vec![format!("- {}", shortened(pods.iter().copied()))];
    let mut part = |texts: Vec<&String>, start: [&str; 2]| {
        for (index, text) in texts.iter().take(MAX_REASONS).enumerate() {
            lines.push(format!("  - {}{}", start[index.min(1)], code(text)));
        }
        if let Some(more) = texts.len().checked_sub(MAX_REASONS + 1) {
            lines.push(format!("  - {} more left out; `-o json` has all", more + 1));
        }
    };
    part(first.reasons.iter().chain(&first.obstacle).collect(), ["", ""]);
    part(first.remedies.iter().collect(), ["to schedule: ", "or: "]);
    lines.join("\n")
}

fn table(report: &DiffReport) -> String {
    let (differ, sum, same) = report.split_groups();
    let mut lines = vec![
        format!("| {} |", HEADING.join(" | ")),
        format!("|{}{}", "---|".repeat(NAMES), "---:|".repeat(HEADING.len() - NAMES)),
    ];
    let row = |names: [String; NAMES], numbers: [String; 5]| {
        format!("| {} |", names.into_iter().chain(numbers).collect::<Vec<_>>().join(" | "))
    };
    let name = |name: Option<String>| name.map_or_else(|| "-".to_owned(), |name| cell(&name));
    let rows = differ.iter().map(|one| row(names(one).map(name), numbers(one.before, one.after))).collect();
    let Bounded { shown, left_out } = bounded(rows, ROWS.0, ROWS.1);
    lines.extend(shown);
    let label = |text: String| [text, String::new(), String::new()];
    if left_out > 0 {
        let what = counted(left_out, "more group");
        lines.push(row(label(format!("{what} left out; `-o json` has all")), std::array::from_fn(|_| String::new())));
    }
    if same > 0 {
        lines.push(row(label(format!("{} without a change", counted(same, "group"))), numbers(sum, sum)));
    }
    let all = numbers(total(&report.before), total(&report.after)).map(|number| format!("**{number}**"));
    lines.push(row(label("**all**".to_owned()), all));
    if let Some(most) = &report.maximum {
        lines.push(row(label(AT_MAXIMUM.to_owned()), numbers(total(&most.before), total(&most.after))));
    }
    lines.join("\n")
}

/// The first names, and the number of the others.
fn shortened<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let shown = names.take(SHOWN).map(code).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// A text of others as a code span.
fn code(text: &str) -> String {
    let line = printable_line(text);
    let mut text: String = line.chars().take(MAX_TEXT).collect();
    if line.chars().count() > MAX_TEXT {
        text.push('…');
    }
    if text.trim().is_empty() {
        return "(empty)".to_owned();
    }
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let is_edge = |letter: char| letter == '`' || letter == ' ';
    let pad = if text.starts_with(is_edge) || text.ends_with(is_edge) { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A code span in a table, where a vertical bar ends the cell, escaped or not depending on what is before it. No name in Kubernetes or EC2
/// has one.
fn cell(text: &str) -> String {
    code(&text.replace(['|', '\\'], "\u{fffd}"))
}

/// A sentence of nodeless. It may contain names, so that one with other signs than those of sentences is a code span.
fn prose(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || " .,:;-'".contains(letter);
    if text.chars().all(is_plain) && !text.contains("www.") && text.chars().count() <= MAX_TEXT {
        text.to_owned()
    } else {
        code(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_their_code_span() {
        for (text, expected) in [
            ("web", "`web`"),
            ("a`b", "``a`b``"),
            ("``", "``` `` ```"),
            (" a ", "`  a  `"),
            ("a\nb", "`a b`"),
            ("<img src=x> @team #1", "`<img src=x> @team #1`"),
            ("", "(empty)"),
        ] {
            assert_eq!(code(text), expected);
        }
        assert_eq!(cell("a|b\\"), "`a\u{fffd}b\u{fffd}`");
        assert_eq!(code(&"x".repeat(400)).chars().count(), MAX_TEXT + 3);
    }

    #[test]
    fn only_plain_sentences_are_outside_of_code() {
        assert_eq!(prose("A month has 730 hours."), "A month has 730 hours.");
        for text in ["see @team", "a_b_c", "http://a.b", "www.example.com", "<b>"] {
            assert!(prose(text).starts_with('`'), "{text}");
        }
    }
}
