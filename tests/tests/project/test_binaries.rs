//! The targets that cargo builds for the tests of a crate, and those that it leaves out without a report.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The folders of all crates of the workspace.
pub(crate) fn crates() -> Vec<PathBuf> {
    let parents =
        ["", "functions", "shared", "shared/core", "shared/adapters", "shared/sim", "shared/testing", "shared/tools"];
    let folders = parents.into_iter().flat_map(|parent| entries(&Path::new(ROOT).join(parent)));
    let crates: Vec<PathBuf> = folders.filter(|folder| folder.join("Cargo.toml").is_file()).collect();
    assert!(crates.len() > 30, "the crates are not in {parents:?}: {crates:?}");
    crates
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map(|found| found.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "rs")
}

/// The names of the modules in a folder.
fn modules_in(folder: &Path) -> Vec<String> {
    let modules = entries(folder).into_iter().filter(|path| is_source(path) || path.join("mod.rs").is_file());
    modules
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "main" && name != "mod")
        .collect()
}

/// Each binary is linked by itself. Of the tests of the project, those of the functions need a feature, and the cases of Karpenter's suites
/// link the planner.
#[test]
fn the_integration_tests_of_a_crate_are_one_binary() {
    for package in crates() {
        let found = entries(&package.join("tests"));
        let binaries: Vec<_> = found.iter().filter(|path| is_source(path) || path.join("main.rs").is_file()).collect();
        let expected = if package.ends_with("tests") { 3 } else { 1 };
        assert!(binaries.len() <= expected, "move the tests into one folder with a main.rs: {binaries:?}");
    }
}

/// Cargo reports nothing about a file that no `mod` names.
#[test]
fn no_integration_test_is_left_out_of_its_binary() {
    for folder in crates().iter().flat_map(|package| entries(&package.join("tests"))) {
        if folder.join("main.rs").is_file() {
            check_names(&folder, "main.rs");
        }
    }
}

/// Checks that a file names each module in its folder, and so do the modules that are folders.
fn check_names(folder: &Path, file: &str) {
    let text = fs::read_to_string(folder.join(file)).unwrap();
    for module in modules_in(folder) {
        assert!(text.contains(&format!("mod {module};\n")), "{folder:?}/{file} does not name {module}");
        let inner = folder.join(&module);
        if inner.join("mod.rs").is_file() {
            check_names(&inner, "mod.rs");
        }
    }
}

/// A crate without examples in its documentation has `doctest = false`, because cargo otherwise compiles a program for it.
#[test]
fn examples_in_documentation_are_tested() {
    for package in crates() {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        if package.join("src/lib.rs").is_file() {
            let tested = !manifest.contains("doctest = false");
            assert_eq!(has_example(&package.join("src")), tested, "doctest in the manifest of {package:?}");
        }
    }
}

/// Whether documentation in a folder has a block of Rust.
fn has_example(folder: &Path) -> bool {
    entries(folder).into_iter().any(|path| match path.is_dir() {
        true => has_example(&path),
        false => is_source(&path) && begins_example(&fs::read_to_string(&path).unwrap()),
    })
}

/// Whether documentation in a file has a block without a language, or of Rust. Every second fence is the end of a block.
fn begins_example(source: &str) -> bool {
    let documentation = source.lines().filter_map(|line| {
        let line = line.trim();
        line.strip_prefix("/// ```").or_else(|| line.strip_prefix("//! ```"))
    });
    documentation.step_by(2).any(|language| ["", "rust"].contains(&language))
}
