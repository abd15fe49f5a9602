//! Expressions of a template engine that were left in a manifest.

use crate::text::quotes::shortened;
use std::fmt::{Display, Formatter, Result};

/// A template expression, such as `{{ .Values.name }}`, in a text that should have been rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The line in the text, from 1.
    pub line: usize,
    /// The expression with its braces, as far as it is on that line.
    pub expression: String,
}

impl Template {
    /// The first template expression outside of comments.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        text.lines().enumerate().find_map(|(index, line)| {
            let found = line.trim_start();
            let start = found.find("{{").filter(|_| !found.starts_with('#'))?;
            let end = found[start..].find("}}").map_or(found.len(), |end| start + end + 2);
            Some(Self { line: index + 1, expression: found[start..end].to_owned() })
        })
    }
}

impl Display for Template {
    /// The problem and its fix.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "the manifest has templating left in it ({}); render it first, for example with `helm template`",
            shortened(&self.expression)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_expression_outside_of_comments_is_found() {
        let found = |text: &str| Template::find(text).map(|template| (template.line, template.expression));
        assert_eq!(found("# {{ a }}\nname: {{ .Values.name }}-{{ b }}\n"), Some((2, "{{ .Values.name }}".to_owned())));
        assert_eq!(found("{{- if .Values.on"), Some((1, "{{- if .Values.on".to_owned())));
        assert_eq!(found("name: { a: { b: c } }\n"), None);
    }
}
