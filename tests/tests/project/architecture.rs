//! ARCHITECTURE.md lists every crate, and every path in it exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are not part of the sources.
const NOT_SOURCES: [&str; 3] = [".git", ".venv", "target"];
/// The minimum number of paths on the page: fewer mean that this test no longer finds them.
const FEWEST_PATHS: usize = 40;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files and folders of the sources, relative to the root.
pub(crate) fn paths() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    sources(&root(), &mut found);
    found
}

fn page() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// The text between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// All files and folders below a folder, relative to the root.
fn sources(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if NOT_SOURCES.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        found.insert(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
        if path.is_dir() {
            sources(&path, found);
        }
    }
}

fn is_path(text: &str) -> bool {
    let plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
    plain && (text.contains('/') || text.ends_with(".rs") || text.ends_with(".md"))
}

#[test]
fn every_path_exists() {
    let all = paths();
    let page = page();
    let named: BTreeSet<&str> = page.lines().flat_map(quoted).filter(|text| is_path(text)).collect();
    assert!(named.len() >= FEWEST_PATHS, "{named:?}");
    // A path may begin at any folder, such as `plan/execute.rs`.
    let exists = |path: &str| {
        let path = path.trim_end_matches('/');
        all.contains(path) || all.iter().any(|known| known.ends_with(&format!("/{path}")))
    };
    let missing: Vec<&&str> = named.iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md contains paths that do not exist: {missing:?}");
}

/// The packages of the workspace by folder. `fuzz` is a workspace of its own.
fn packages() -> BTreeMap<String, String> {
    let all = paths();
    let manifests = all.iter().filter_map(|path| path.strip_suffix("/Cargo.toml")).filter(|folder| *folder != "fuzz");
    manifests
        .map(|folder| {
            let text = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
            let name = text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap();
            (folder.to_owned(), name.trim_matches('"').to_owned())
        })
        .collect()
}

/// The place and the crate of a row of the table.
fn row(line: &str) -> Option<(String, String)> {
    let mut cells = line.strip_prefix('|')?.split('|');
    let (place, package) = (quoted(cells.next()?).next()?, quoted(cells.next()?).next()?);
    Some((place.trim_end_matches('/').to_owned(), package.to_owned()))
}

#[test]
fn the_table_lists_every_crate() {
    let page = page();
    let rows: BTreeMap<String, String> = page.lines().filter_map(row).collect();
    let missing: Vec<_> = packages().into_iter().filter(|(place, package)| rows.get(place) != Some(package)).collect();
    assert!(missing.is_empty(), "crates without a row in the table of ARCHITECTURE.md: {missing:?}");
}
