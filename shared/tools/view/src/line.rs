//! Lines of a screen.

/// A line: texts with their tones, and what it opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The texts, from left to right.
    pub spans: Vec<Span>,
    /// What the key Enter opens; a line without a target cannot be selected.
    pub target: Option<Target>,
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A node, by name.
    Node(String),
    /// A pod, `namespace/name`.
    Pod(String),
    /// A NodeClaim without a node, by name.
    Claim(String),
}

impl Target {
    /// The name, as `nodeless plan --explain` takes it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Pod(name) | Self::Claim(name) => name,
        }
    }

    /// The kind of the object, for headings.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Node(_) => "Node",
            Self::Pod(_) => "Pod",
            Self::Claim(_) => "NodeClaim",
        }
    }
}

impl Line {
    /// A line of one text.
    #[must_use]
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { spans: vec![Span { tone, text: text.into() }], target: None }
    }

    /// A line that opens something.
    #[must_use]
    pub fn opening(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// The line with another text at its end.
    #[must_use]
    pub fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.spans.push(Span { tone, text: text.into() });
        self
    }

    /// The text without tones.
    #[must_use]
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}
