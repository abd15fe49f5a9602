//! A picture as a table of lines.

mod columns;
mod extra;
mod header;
mod limits;
mod lists;
mod nodes;
mod state;
#[cfg(test)]
mod tests;

pub use header::header;
pub(crate) use limits::limit_text;
pub(crate) use lists::event_line;
pub use nodes::group;
pub(crate) use nodes::sections;

use crate::line::{Line, Tone};
use crate::picture::Picture;
use crate::screen::Screen;

fn folded(lines: impl IntoIterator<Item = Line>, width: usize) -> Vec<Line> {
    lines.into_iter().flat_map(|line| line.folded(width)).collect()
}

/// The lines of the table, as a screen filters and sorts them.
#[must_use]
pub fn body(picture: &Picture, screen: &Screen, width: usize) -> Vec<Line> {
    let mut lines = lists::attention(picture, width);
    lines.push(Line::default());
    nodes::nodes(&mut lines, picture, screen, width);
    let mut below = Vec::new();
    section(&mut below, '3', "NodeClaims on the way", lists::claims(picture, screen));
    section(&mut below, '4', "Pods without a node", lists::pending(picture, screen));
    if screen.filter().is_empty() {
        section(&mut below, '5', "Disruption in progress", lists::disruption(picture));
    }
    section(&mut below, '8', "Capacity reservations", lists::reservations(picture, screen));
    lines.extend(folded(below, width));
    let entries = lists::timeline(picture, screen, width);
    if !entries.is_empty() {
        lines.extend([Line::default(), Line::new(Tone::Heading, "Time line").at_key('6')]);
        lines.extend(entries);
    }
    if screen.shows_all() {
        section(&mut lines, '7', "Events in the name of nodeless", lists::events(picture, screen));
    }
    if screen.filter().is_empty() {
        let warnings = picture.warnings.iter().map(|it| Line::new(Tone::Bad, format!("Warning: {it}")));
        lines.extend(folded(warnings, width));
    }
    lines
}

fn section(lines: &mut Vec<Line>, key: char, title: &str, own: Vec<Line>) {
    if !own.is_empty() {
        lines.push(Line::default());
        lines.push(Line::new(Tone::Heading, format!("{title} ({})", own.len())).at_key(key));
        lines.extend(own);
    }
}
