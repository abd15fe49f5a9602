//! The text format of Prometheus: <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>.

use crate::objects::decode::ShownKind;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// Labels with their values, as the text has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(String);

impl Labels {
    /// Adds a label. One without a value is left out: to Prometheus, an empty label is the same as none.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        if value.is_empty() {
            return self;
        }
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(name);
        self.0.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                _ => self.0.push(character),
            }
        }
        self.0.push('"');
        self
    }
}

/// Writes families of gauges.
#[derive(Debug)]
pub(super) struct Writer<'m> {
    text: String,
    family: String,
    /// The kinds that cannot be read.
    missing: &'m BTreeMap<ShownKind, String>,
    /// The families that are left out, by the kind that they need.
    left_out: BTreeMap<ShownKind, Vec<String>>,
}

impl<'m> Writer<'m> {
    pub(super) fn new(missing: &'m BTreeMap<ShownKind, String>) -> Self {
        Self { text: String::new(), family: String::new(), missing, left_out: BTreeMap::new() }
    }

    /// Begins a family of gauges that are computed from these kinds. Returns whether all of them can be read; otherwise the family is
    /// left out.
    pub(super) fn gauge(&mut self, name: impl Display, help: &str, needs: &[ShownKind]) -> bool {
        self.family = name.to_string();
        if let Some(kind) = needs.iter().find(|kind| self.missing.contains_key(kind)) {
            self.left_out.entry(*kind).or_default().push(self.family.clone());
            return false;
        }
        let family = &self.family;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String does not fail.
        let _written = writeln!(self.text, "# HELP {family} {help}\n# TYPE {family} gauge");
        true
    }

    /// Writes a sample of the family that was begun last.
    pub(super) fn sample(&mut self, labels: &Labels, value: f64) {
        let family = &self.family;
        let _written = match labels.0.as_str() {
            "" => writeln!(self.text, "{family} {value}"),
            labels => writeln!(self.text, "{family}{{{labels}}} {value}"),
        };
    }

    /// The text, and a line for each kind that cannot be read.
    pub(super) fn finish(mut self) -> (String, Vec<String>) {
        let lines: Vec<String> = self
            .missing
            .iter()
            .map(|(kind, why)| {
                let without = self.left_out.get(kind).map_or_else(String::new, |families| {
                    format!("; these metrics are left out: {}", families.join(", "))
                });
                // A comment is a line.
                format!("{} objects cannot be read: {why}{without}", kind.name()).replace(['\n', '\r'], " ")
            })
            .collect();
        for line in &lines {
            let _written = writeln!(self.text, "# {line}");
        }
        (self.text, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_texts_are_escaped_as_prometheus_reads_them() {
        let none = BTreeMap::new();
        let mut writer = Writer::new(&none);
        assert!(writer.gauge("a_total", "A \\ and\nmore", &[ShownKind::Node]));
        writer.sample(&Labels::default(), 1.5);
        writer.sample(&Labels::default().with("b", "x\"y\\z\nw").with("empty", "").with("c", "ü"), 16_777_216_000.0);
        let text = "# HELP a_total A \\\\ and\\nmore\n# TYPE a_total gauge\na_total 1.5\n\
                    a_total{b=\"x\\\"y\\\\z\\nw\",c=\"ü\"} 16777216000\n";
        assert_eq!(writer.finish(), (text.to_owned(), vec![]));
    }

    #[test]
    fn a_family_without_its_objects_is_left_out_with_the_reason() {
        let missing = BTreeMap::from([(ShownKind::NodePool, "forbidden\nby a \"policy\"".to_owned())]);
        let mut writer = Writer::new(&missing);
        assert!(
            !writer.gauge("a", "A", &[ShownKind::Node, ShownKind::NodePool])
                && !writer.gauge("b", "B", &[ShownKind::NodePool])
        );
        let (text, lines) = writer.finish();
        let expected = "NodePool objects cannot be read: forbidden by a \"policy\"; these metrics are left out: a, b";
        assert_eq!((text, lines), (format!("# {expected}\n"), vec![expected.to_owned()]));
    }
}
