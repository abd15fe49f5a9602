//! Writes the custom resource definitions into a directory: `cargo run -p nodeless-api --features yaml --example crds -- infra/crds`.
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(std::path::PathBuf::from) else {
        eprintln!("state where: crds DIRECTORY");
        return ExitCode::FAILURE;
    };
    let written = nodeless_api::crds::yaml_files().map_err(|error| error.to_string()).and_then(|files| {
        files.into_iter().try_for_each(|(name, content)| {
            let path = directory.join(name);
            std::fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))
        })
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
