//! `nodeless completions`: the completion script of a shell.

use crate::error::CliError;
use crate::output;
use clap::{Args, Command};
use clap_complete::{Generator as _, Shell};

/// Print the script with which a shell completes commands and options
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  source <(nodeless completions bash)
  nodeless completions zsh > \"${fpath[1]}/_nodeless\"
  nodeless completions fish > ~/.config/fish/completions/nodeless.fish")]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments, mut command: Command) -> Result<(), CliError> {
    // Scripts complete the name of the command, whatever the name of this executable is.
    command.set_bin_name(command.get_name().to_owned());
    command.build();
    let mut script = Vec::new();
    arguments.shell.try_generate(&command, &mut script).map_err(CliError::Print)?;
    output::print(String::from_utf8_lossy(&script)).map(drop)
}
