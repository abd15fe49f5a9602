//! ARCHITECTURE.md lists every crate, and every path in the documentation exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are not part of the sources.
const NOT_SOURCES: [&str; 3] = [".git", ".venv", "target"];
/// The minimum number of paths on all pages: fewer mean that this test no longer finds them.
const FEWEST_PATHS: usize = 150;

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

/// The folders at the top of the project: what begins with one of them is meant as a path of it.
const TOP: [&str; 12] = [
    ".github",
    "cli",
    "docs",
    "events",
    "functions",
    "fuzz",
    "infra",
    "packaging",
    "scripts",
    "shared",
    "terraform",
    "tests",
];

/// Whether a text of a page is a path of the project. Of pages but ARCHITECTURE.md, users' own files are no such paths.
fn is_path(page: &str, text: &str) -> bool {
    let plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
    let is_placeholder = text.split('/').any(|part| part.chars().all(|letter| letter.is_ascii_uppercase()));
    let begins = text.split_once('/').is_some_and(|(first, _)| TOP.contains(&first));
    let is_named_here = page == "ARCHITECTURE.md" && (text.contains('/') || text.ends_with(".md"));
    plain && !is_placeholder && (text.ends_with(".rs") || begins || is_named_here)
}

#[test]
fn every_path_exists() {
    let all = paths();
    // A path may begin at any folder, such as `plan/execute.rs`.
    let exists = |path: &str| {
        let path = path.trim_end_matches('/');
        all.contains(path) || all.iter().any(|known| known.ends_with(&format!("/{path}")))
    };
    let is_page = |path: &&String| path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/'));
    let mut found = 0;
    let mut missing = Vec::new();
    for page in all.iter().filter(is_page) {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let named =
            text.lines().flat_map(quoted).filter(|text| is_path(page, text)).map(|path| format!("{page}: {path}"));
        let named: Vec<String> = named.collect();
        found += named.len();
        missing.extend(named.into_iter().filter(|line| !exists(line.split_once(": ").unwrap().1)));
    }
    assert!(found >= FEWEST_PATHS, "found {found} paths");
    assert!(missing.is_empty(), "these pages contain paths that do not exist: {missing:#?}");
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
