//! Self-contained HTML pages: no script, and nothing from elsewhere.

use nodeless_model::printable::printable;

const STYLE: &str = include_str!("page.css");

/// A page with this title, which is text, and this body, which is HTML.
pub(crate) fn page(command: &str, title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>nodeless {command}: {title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style></head><body>\n\
         <h1>{title}</h1>\n{body}</body></html>\n"
    )
}

/// Escapes text for HTML, without the characters that are not printable.
pub(crate) fn escaped(text: &str) -> String {
    printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Appends a row of a table; the cells are text.
pub(crate) fn row(out: &mut String, cells: &[&str]) {
    cells_of(out, "td", cells);
}

/// Appends the header of a table; the cells are text.
pub(crate) fn header(out: &mut String, cells: &[&str]) {
    cells_of(out, "th", cells);
}

fn cells_of(out: &mut String, element: &str, cells: &[&str]) {
    out.push_str("<tr>");
    cells.iter().for_each(|cell| out.push_str(&format!("<{element}>{}</{element}>", escaped(cell))));
    out.push_str("</tr>\n");
}
