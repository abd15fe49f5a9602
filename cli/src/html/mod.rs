//! Self-contained HTML pages: no script, and nothing from elsewhere.

use crate::error::CliError;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

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

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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

/// A page that is going to be written. Its file exists as long as the work takes, so that a path that cannot be written is reported
/// before the work and not after it.
#[derive(Debug)]
pub(crate) struct PageFile {
    path: PathBuf,
    file: File,
}

impl PageFile {
    /// Creates the file, or truncates it.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn create(path: &Path) -> Result<Self, CliError> {
        let unwritable = |source| CliError::Write { path: path.to_owned(), source };
        Ok(Self { path: path.to_owned(), file: File::create(path).map_err(unwritable)? })
    }

    /// Writes the page.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(mut self, page: &str) -> Result<(), CliError> {
        self.file.write_all(page.as_bytes()).map_err(|source| CliError::Write { path: self.path, source })
    }
}
