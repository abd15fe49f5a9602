//! Splits a file into documents, which keep their text.

/// A document with its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk<'t> {
    /// The whole text, with the line `---` before it, if there is one.
    pub(crate) verbatim: &'t str,
    /// The text after the marker.
    pub(crate) body: &'t str,
    /// The line at which the body begins, from 1.
    pub(crate) line: usize,
    /// Whether the document begins with the line `---`.
    pub(crate) marked: bool,
}

/// Splits at the lines `---`. A document cannot have such a line.
pub(crate) fn split(text: &str) -> Vec<Chunk<'_>> {
    let mut starts = vec![(0, 1)];
    let mut position = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if position > 0 && is_marker(line) {
            starts.push((position, index + 1));
        }
        position += line.len();
    }
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([text.len()]).collect::<Vec<_>>();
    let chunks = starts.into_iter().zip(ends).map(|((start, line), end)| {
        let verbatim = &text[start..end];
        let marked = verbatim.lines().next().is_some_and(is_marker);
        Chunk { verbatim, body: if marked { &verbatim[3..] } else { verbatim }, line, marked }
    });
    chunks.filter(|chunk| !chunk.verbatim.is_empty()).collect()
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.chars().next().is_none_or(char::is_whitespace))
}
