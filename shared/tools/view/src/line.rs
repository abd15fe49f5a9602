//! Lines of a screen.

use serde::Serialize;

/// A line: texts with their tones, and what it opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The texts, from left to right.
    pub spans: Vec<Span>,
    /// What the key Enter opens; a line without a target cannot be selected.
    pub target: Option<Target>,
    /// The key that jumps to this line, the first of a section.
    pub key: Option<char>,
}

/// A text with a tone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The tone.
    pub tone: Tone,
    /// The text.
    pub text: String,
}

/// How a text stands out. Without colour, only headings do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Not at all.
    #[default]
    Plain,
    /// A heading.
    Heading,
    /// Less important.
    Dim,
    /// The desired state.
    Good,
    /// Worth a look.
    Notice,
    /// Wrong.
    Bad,
}

/// Something that can be opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "camelCase")]
pub enum Target {
    /// A node, by name.
    Node(String),
    /// A pod, `namespace/name`.
    Pod(String),
    /// A NodeClaim without a node, by name.
    Claim(String),
    /// Nodes of one group: what the user groups by, NodePool, instance type and capacity type: `default m5.large spot`.
    Group(String),
}

impl Target {
    /// The name, as `nodeless plan --explain` takes it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Pod(name) | Self::Claim(name) | Self::Group(name) => name,
        }
    }

    /// The kind of the object, for headings.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Node(_) => "Node",
            Self::Pod(_) => "Pod",
            Self::Claim(_) => "NodeClaim",
            Self::Group(_) => "Nodes",
        }
    }
}

impl Line {
    /// A line of one text.
    #[must_use]
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { spans: vec![Span { tone, text: text.into() }], ..Self::default() }
    }

    /// A line that opens something.
    #[must_use]
    pub fn opening(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// The first line of a section.
    #[must_use]
    pub const fn at_key(mut self, key: char) -> Self {
        self.key = Some(key);
        self
    }

    /// The line with another text at its end.
    #[must_use]
    pub fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.spans.push(Span { tone, text: text.into() });
        self
    }

    /// The line as lines of at most this number of characters, broken at spaces; those after the first are indented.
    #[must_use]
    pub fn folded(self, width: usize) -> Vec<Self> {
        if self.text().chars().count() <= width {
            return vec![self];
        }
        let indent = self.text().chars().take_while(|letter| *letter == ' ').count() + 2;
        let empty = || Self { target: self.target.clone(), ..Self::new(Tone::Plain, " ".repeat(indent)) };
        let mut lines = vec![Self { target: self.target.clone(), key: self.key, ..Self::default() }];
        let mut used = 0;
        for span in &self.spans {
            for word in span.text.split_inclusive(' ') {
                let length = word.trim_end().chars().count();
                if used + length > width && used > indent {
                    lines.push(empty());
                    used = indent;
                }
                used += word.chars().count();
                if let Some(line) = lines.last_mut() {
                    line.push(span.tone, word);
                }
            }
        }
        lines
    }

    fn push(&mut self, tone: Tone, text: &str) {
        match self.spans.last_mut() {
            Some(last) if last.tone == tone => last.text.push_str(text),
            _ => self.spans.push(Span { tone, text: text.to_owned() }),
        }
    }

    /// The text without tones.
    #[must_use]
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_folded_at_spaces_and_keeps_its_tones() {
        let line = || {
            Line::new(Tone::Plain, "  pod shop/web, ").with(Tone::Bad, "no node fits").opening(Target::Pod("a".into()))
        };
        assert_eq!(line().folded(40), [line()]);
        let folded = line().folded(20);
        let texts: Vec<String> = folded.iter().map(|line| line.text().trim_end().to_owned()).collect();
        assert_eq!(texts, ["  pod shop/web, no", "    node fits"]);
        assert!(folded.iter().all(|part| part.target == line().target));
        assert_eq!(folded[1].spans[1].tone, Tone::Bad);
    }
}
