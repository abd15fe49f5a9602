//! The counts of the table in `docs/compare.md`.

use crate::table::{Table, TableEntry, Versions};
use std::collections::BTreeMap;

const START: &str = "<!-- counts of tests/upstream -->";
const END: &str = "<!-- end of the counts -->";

#[derive(Clone, Copy, Default)]
struct Counts {
    hold: usize,
    differ: usize,
    fail: usize,
}

impl Counts {
    fn add(&mut self, entry: &TableEntry) {
        if entry.case.fails.is_some() {
            self.fail += 1;
        } else if entry.case.differs.is_some() {
            self.differ += 1;
        } else {
            self.hold += 1;
        }
    }

    fn row(self, name: &str) -> String {
        let Self { hold, differ, fail } = self;
        format!("| {name} | {} | {hold} | {differ} | {fail} |\n", hold + differ + fail)
    }
}

/// The table of counts: a row for each file with a case that does not hold, and one for all others.
pub(crate) fn rows(table: &Table) -> String {
    let mut files: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut all = Counts::default();
    for entry in &table.entries {
        files.entry(entry.file.trim_end_matches(".yaml")).or_default().add(entry);
        all.add(entry);
    }
    let (equal, different): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(_, counts)| counts.differ + counts.fail == 0);
    let others = Counts { hold: equal.iter().map(|(_, counts)| counts.hold).sum(), ..Counts::default() };
    let rows: String = different.into_iter().map(|(name, counts)| counts.row(name)).collect();
    let Versions { karpenter, aws } = &table.versions;
    format!(
        "Karpenter is {karpenter}, its provider {aws}.\n\n| cases about | cases | hold | differ on purpose | fail |\n|---|---|---|---|---|\n{rows}{}{}",
        others.row(&format!("{} other subjects", equal.len())),
        all.row("all")
    )
}

/// The document with these counts between its two marks.
pub(crate) fn replaced(document: &str, rows: &str) -> Option<String> {
    let (before, rest) = document.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}\n\n{rows}\n{END}{after}"))
}
