//! Files that a command writes at its end.

use crate::error::CliError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is going to be written whole. A path that cannot be written is reported before the work, and until the work is done the
/// file stays as it is.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// The path as given, for errors.
    given: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A file that does not exist, or is replaced: behind symbolic links.
    File(PathBuf),
    /// Something that cannot be replaced, such as `/dev/stdout` or a named pipe.
    Device(PathBuf),
}

impl OutputFile {
    /// Checks that the file can be written.
    ///
    /// # Errors
    /// When it cannot.
    pub(crate) fn check(path: &Path) -> Result<Self, CliError> {
        let unwritable = |source| CliError::Write { path: path.to_owned(), source };
        let target = target(path).map_err(unwritable)?;
        if let Target::File(file) = &target {
            let temporary = beside(file);
            fs::write(&temporary, b"").and_then(|()| fs::remove_file(&temporary)).map_err(unwritable)?;
        }
        Ok(Self { given: path.to_owned(), target })
    }

    /// Writes the file: a new one beside it, which then replaces it.
    ///
    /// # Errors
    /// When it cannot be written. The earlier content is still there.
    pub(crate) fn write(self, content: &str) -> Result<(), CliError> {
        let written = match &self.target {
            Target::File(file) => replace(file, content),
            Target::Device(device) => fs::write(device, content),
        };
        written.map_err(|source| CliError::Write { path: self.given, source })
    }
}

fn target(path: &Path) -> io::Result<Target> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if found.is_file() => fs::canonicalize(path).map(Target::File),
        Ok(_) => Ok(Target::Device(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Target::File(path.to_owned())),
        Err(error) => Err(error),
    }
}

fn replace(file: &Path, content: &str) -> io::Result<()> {
    let temporary = beside(file);
    let replaced = fs::write(&temporary, content).and_then(|()| {
        if let Ok(earlier) = fs::metadata(file) {
            fs::set_permissions(&temporary, earlier.permissions())?;
        }
        fs::rename(&temporary, file)
    });
    if replaced.is_err() {
        // The error that is reported is that of the write; the file may not exist.
        let _absent = fs::remove_file(&temporary);
    }
    replaced
}

/// A file in the same directory, because renaming works only within a file system.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed at the end of a test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("nodeless-output-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> =
                fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_check_changes_nothing_and_a_write_replaces_the_file() {
        let folder = Folder::new("replaces");
        let path = folder.0.join("page.html");
        let absent = OutputFile::check(&path).unwrap();
        assert_eq!(folder.names(), Vec::<String>::new());
        absent.write("one").unwrap();
        let present = OutputFile::check(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        present.write("two").unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), folder.names()),
            ("two", vec!["page.html".to_owned()])
        );
    }

    #[test]
    fn what_cannot_be_written_is_refused_by_the_check() {
        let folder = Folder::new("refused");
        for path in [folder.0.clone(), folder.0.join("no/such/folder/page.html")] {
            let error = OutputFile::check(&path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{} cannot be written", path.display())), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_permissions_and_devices_are_kept() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = Folder::new("links");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        fs::write(&file, "one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        OutputFile::check(&link).unwrap().write("two").unwrap();
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), link.is_symlink()), ("two", true));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        OutputFile::check(Path::new("/dev/null")).unwrap().write("three").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
