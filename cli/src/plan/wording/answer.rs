//! What `--explain` reports about one object: the answer, then facts, then lists. The text shows the first entries of a list and
//! fits on a screen; `-o json` has everything.

/// An explanation as lines.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    /// The outcome, in one line.
    pub(crate) answer: String,
    /// What follows it: how to change it, and facts.
    pub(crate) lines: Vec<String>,
    pub(crate) lists: Vec<List>,
}

/// A heading with entries.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct List {
    pub(crate) heading: String,
    pub(crate) entries: Vec<String>,
    /// The number of entries that the text shows. If it is zero, the heading has their number.
    pub(crate) shown: usize,
}

impl Answer {
    /// The lines of the text.
    pub(crate) fn text(&self) -> Vec<String> {
        let mut lines = vec![self.answer.clone()];
        lines.extend(self.lines.iter().map(|line| format!("  {line}")));
        for list in &self.lists {
            lines.push(format!("  {}", list.heading));
            lines.extend(list.entries.iter().take(list.shown).map(|entry| format!("    {entry}")));
            let more = list.hidden();
            if more > 0 && list.shown > 0 {
                lines.push(format!("    and {more} more"));
            }
        }
        if self.lists.iter().any(|list| list.hidden() > 0) {
            lines.push("  nodeless plan -o json lists all".to_owned());
        }
        lines
    }
}

impl List {
    fn hidden(&self) -> usize {
        self.entries.len().saturating_sub(self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        let entries = |count: usize| (0..count).map(|number| format!("<type-{number}>")).collect();
        Answer {
            answer: "Pod a/b is scheduled".to_owned(),
            lines: vec!["on a new node".to_owned()],
            lists: vec![
                List { heading: "types".to_owned(), entries: entries(3), shown: 2 },
                List { heading: "  700 types: too small".to_owned(), entries: entries(700), shown: 0 },
            ],
        }
    }

    #[test]
    fn the_text_shows_the_first_entries() {
        assert_eq!(
            answer().text(),
            [
                "Pod a/b is scheduled",
                "  on a new node",
                "  types",
                "    <type-0>",
                "    <type-1>",
                "    and 1 more",
                "    700 types: too small",
                "  nodeless plan -o json lists all",
            ]
        );
    }

    #[test]
    fn what_is_shown_in_full_refers_to_nothing_else() {
        let lists = vec![List { heading: "types".to_owned(), entries: vec!["a".to_owned()], shown: 2 }];
        let whole = Answer { answer: "yes".to_owned(), lines: Vec::new(), lists };
        assert_eq!(whole.text(), ["yes", "  types", "    a"]);
    }
}
