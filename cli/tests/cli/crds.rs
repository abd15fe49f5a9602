//! `nodeless crds`.

use crate::support::{Folder, nodeless, run};
use std::fs;

/// The files in `infra/crds`, by name.
fn generated() -> Vec<(String, String)> {
    let folder = nodeless_tests::workspace().join("infra/crds");
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_definitions_in_infra_are_printed() {
    let printed = run(nodeless().arg("crds"));
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let files = generated();
    assert!(!files.is_empty());
    for (name, content) in &files {
        assert!(printed.stdout.contains(content), "{name} is not what `nodeless crds` prints");
    }
    assert_eq!(printed.stdout.len(), files.iter().map(|(_, content)| content.len()).sum::<usize>());
}

#[test]
fn the_files_in_infra_are_written() {
    let folder = Folder::new();
    let target = folder.path().join("a/b");
    let written = run(nodeless().args(["crds", "--write"]).arg(&target));
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    for (name, content) in generated() {
        assert_eq!(fs::read_to_string(target.join(&name)).unwrap(), content, "{name}");
    }
}

#[test]
fn an_error_names_a_directory_that_cannot_be_written() {
    let folder = Folder::new();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = run(nodeless().args(["crds", "--write"]).arg(file.join("crds")));
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("file/crds cannot be written"), "{}", refused.stderr);
}
