//! The files that options name: single ones, those of directories, and standard input.

use crate::error::CliError;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The name of standard input in errors.
const STANDARD_INPUT: &str = "standard input";
/// The most files that an error names.
const MAX_NAMED: usize = 5;

/// The names and contents of files, directories of files and standard input (`-`), in the given order.
pub(crate) fn contents(paths: &[PathBuf]) -> Result<Vec<(String, Vec<u8>)>, CliError> {
    let mut contents = Vec::new();
    for path in paths {
        each(path, &mut |name, bytes| contents.push((name, bytes)))?;
    }
    Ok(contents)
}

/// The files that show that a folder has to be rendered, what it is, and the command for it.
const RENDERED: [(&str, &str, &str); 4] = [
    ("Chart.yaml", "Helm chart", "helm template"),
    ("kustomization.yaml", "Kustomize directory", "kubectl kustomize"),
    ("kustomization.yml", "Kustomize directory", "kubectl kustomize"),
    ("Kustomization", "Kustomize directory", "kubectl kustomize"),
];

/// Refuses a directory whose files are no manifests before they are rendered.
pub(crate) fn check_rendered(root: &Path) -> Result<(), CliError> {
    let mut folders = if root.is_dir() { vec![root.to_owned()] } else { Vec::new() };
    while let Some(path) = folders.pop() {
        if let Some((_, what, command)) = RENDERED.into_iter().find(|(file, ..)| path.join(file).is_file()) {
            return Err(CliError::Unrendered { path, what, command });
        }
        // What cannot be listed is an error when it is read.
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

/// The given files, for errors.
pub(crate) fn named(paths: &[PathBuf]) -> String {
    let shown = paths.iter().take(MAX_NAMED).map(|path| match path.as_os_str() == "-" {
        true => STANDARD_INPUT.to_owned(),
        false => path.display().to_string(),
    });
    let more = paths.len().checked_sub(MAX_NAMED + 1).map(|more| format!("{} more", more + 1));
    shown.chain(more).collect::<Vec<_>>().join(", ")
}

/// Reads a file, the files of a directory, or standard input (`-`).
pub(crate) fn each(path: &Path, take: &mut dyn FnMut(String, Vec<u8>)) -> Result<(), CliError> {
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
        take(STANDARD_INPUT.to_owned(), bytes);
        return Ok(());
    }
    if !path.is_dir() {
        return read_file(path, take);
    }
    let files = exports(path)?;
    if files.is_empty() {
        return Err(CliError::EmptyFolder { path: path.to_owned() });
    }
    files.iter().try_for_each(|file| read_file(file, take))
}

fn read_file(path: &Path, take: &mut dyn FnMut(String, Vec<u8>)) -> Result<(), CliError> {
    let bytes = fs::read(path).map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    take(path.display().to_string(), bytes);
    Ok(())
}

/// The YAML and JSON files of a directory and of the directories in it, sorted by path. Names that begin with a dot are left out, as in
/// kubectl and Helm, and directories behind symbolic links, which may lead back. A link that leaves the directory is an error: whoever
/// wrote the directory may not read what is outside of it, but sees the errors about its files.
fn exports(root: &Path) -> Result<Vec<PathBuf>, CliError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CliError::Read { path, source }
    };
    let whole = root.canonicalize().map_err(failed(root))?;
    let (mut files, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(failed(&folder))? {
            let entry = entry.map_err(failed(&folder))?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed(&entry.path()))?);
            let extension = path.extension().and_then(|extension| extension.to_str());
            let is_export = matches!(extension, Some("yaml" | "yml" | "json"));
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.is_symlink() && (is_export || path.is_dir()) {
                let target = path.canonicalize().map_err(failed(&path))?;
                if !target.starts_with(&whole) {
                    return Err(CliError::LinkOutside { path, folder: root.to_owned() });
                }
            }
            if kind.is_dir() {
                folders.push(path);
            } else if is_export && path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
