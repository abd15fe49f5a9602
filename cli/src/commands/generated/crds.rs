//! `nodeless crds`: the CustomResourceDefinitions.

use crate::error::CliError;
use crate::output;
use clap::Args;
use nodeless_api::crds::yaml_files;
use std::fs;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct CrdsArguments {
    /// Write each definition to its own file in this directory instead of printing it
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

pub(crate) fn run(arguments: &CrdsArguments) -> Result<(), CliError> {
    let files = yaml_files()?;
    let Some(folder) = &arguments.write else {
        for (_, content) in files {
            output::print(content)?;
        }
        return Ok(());
    };
    fs::create_dir_all(folder).map_err(|source| CliError::Write { path: folder.clone(), source })?;
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|source| CliError::Write { path: path.clone(), source })?;
        output::line(path.display())?;
    }
    Ok(())
}
