//! `nodeless man`: the manual pages.

use crate::error::CliError;
use crate::output;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Write the manual pages to a directory: one for each command
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  nodeless man --write ~/.local/share/man/man1")]
pub(crate) struct ManArguments {
    /// The directory
    #[arg(long, value_name = "FOLDER")]
    write: PathBuf,
}

pub(crate) fn run(arguments: &ManArguments, command: Command) -> Result<(), CliError> {
    let folder = &arguments.write;
    fs::create_dir_all(folder).map_err(|source| CliError::Write { path: folder.clone(), source })?;
    let mut command = command.disable_help_subcommand(true);
    let source = format!("{} {}", command.get_name(), command.get_version().unwrap_or_default());
    command.set_bin_name(command.get_name().to_owned());
    command.build();
    write(&command, &source, folder)
}

/// Writes the page of a command, and those of its subcommands.
fn write(command: &Command, source: &str, folder: &Path) -> Result<(), CliError> {
    let man = Man::new(command.clone());
    let path = folder.join(man.get_filename());
    page(command, &man, source)
        .and_then(|text| fs::write(&path, text))
        .map_err(|source| CliError::Write { path: path.clone(), source })?;
    output::line(path.display())?;
    command.get_subcommands().filter(|one| !one.is_hide_set()).try_for_each(|one| write(one, source, folder))
}

/// The text of a page. The sections that clap does not know are those of the text after the options.
fn page(command: &Command, man: &Man, source: &str) -> io::Result<String> {
    let mut text = Vec::new();
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().any(|one| !one.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(after) = command.get_after_long_help() {
        sections(&after.to_string()).to_writer(&mut text)?;
    }
    Ok(titled(&String::from_utf8_lossy(&text), command.get_display_name().unwrap_or(command.get_name()), source))
}

/// The sections with a title, and with the definition of the apostrophe once instead of in each section. The title has no date, so that a
/// page depends on the version alone; `clap_mangen` leaves out the argument, and the version then takes the place of the date.
fn titled(sections: &str, name: &str, source: &str) -> String {
    let (definition, others): (Vec<&str>, Vec<&str>) =
        sections.lines().partition(|line| line.starts_with(".ie ") || line.starts_with(".el "));
    let definition = definition.iter().take(2).copied();
    let title = format!(".TH {name} 1 \"\" \"{source}\" nodeless");
    definition.chain([title.as_str()]).chain(others).flat_map(|line| [line, "\n"]).collect()
}

/// The text after the options as sections of a manual page (man-pages(7)). Lines that are indented stay as they are.
fn sections(after: &str) -> Roff {
    let mut roff = Roff::new();
    for paragraph in after.split("\n\n") {
        if let Some(code) = paragraph.strip_prefix("Exit code:").map(str::trim_start) {
            roff.control("SH", ["EXIT STATUS"]).text([roman(code)]);
        } else if let Some(examples) = paragraph.strip_prefix("Examples:\n") {
            roff.control("SH", ["EXAMPLES"]);
            verbatim(&mut roff, examples);
        } else if paragraph.starts_with(' ') {
            roff.control("PP", []);
            verbatim(&mut roff, paragraph);
        } else {
            roff.control("SH", ["NOTES"]).text([roman(paragraph)]);
        }
    }
    roff
}

fn verbatim(roff: &mut Roff, lines: &str) {
    roff.control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}
