//! `docs/scheduling-constraints.md` names a test for each constraint; here it is seen that these tests exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The minimum number of constraints in the table: fewer mean that the table is not read any more.
const FEWEST_ROWS: usize = 30;

const CRATES: [&str; 9] =
    ["api", "catalog", "devices", "disruption", "driver", "model", "operations", "placement", "workloads"];

/// The folders of `shared` that hold crates: itself, and those of the layers.
const LAYERS: [&str; 5] = ["", "core", "adapters", "sim", "testing"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/scheduling-constraints.md")).unwrap()
}

/// The rows of the table, without its head.
fn rows(document: &str) -> Vec<Vec<&str>> {
    let table = document.lines().filter(|line| line.starts_with('|'));
    table.skip(2).map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// A test that the document names: the crate, the file and the test, or all tests of the file.
type Named = (String, String, Option<String>);

/// The texts in backticks, each with the crate that the word before it names.
fn quoted(text: &str) -> Vec<(Option<&str>, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    let pairs = parts.chunks_exact(2).map(|pair| {
        let before = pair[0].split([' ', ',', ';', '(']).rfind(|word| !word.is_empty());
        (before.filter(|word| CRATES.contains(word)), pair[1])
    });
    pairs.collect()
}

/// The tests that a cell names, as `file::test`, `test` in the file named before, or `file`; a word before them names the
/// crate where it is not the usual one.
fn named(cell: &str, usual: &str) -> Vec<Named> {
    let mut found: Vec<Named> = Vec::new();
    for (of_crate, name) in quoted(cell) {
        let krate = of_crate.unwrap_or(usual);
        let next = match (name.split_once("::"), found.last()) {
            (Some((file, test)), _) => (krate.to_owned(), file.to_owned(), Some(test.to_owned())),
            (None, Some((krate, file, Some(_)))) if of_crate.is_none() && source(usual, name).is_none() => {
                (krate.clone(), file.clone(), Some(name.to_owned()))
            }
            (None, _) => (krate.to_owned(), name.to_owned(), None),
        };
        found.push(next);
    }
    found
}

/// The text of a file of tests, or of a module with tests of its own, and of the modules in it. It may be in any folder of the tests.
fn source(krate: &str, file: &str) -> Option<String> {
    static PATHS: LazyLock<BTreeSet<String>> = LazyLock::new(crate::architecture::paths);
    let within = format!("/{krate}/");
    let rust: Vec<&Path> =
        PATHS.iter().filter(|path| path.contains(&within) && path.ends_with(".rs")).map(Path::new).collect();
    let folders = LAYERS.map(|layer| Path::new("shared").join(layer).join(krate));
    let places =
        folders.iter().flat_map(|folder| [folder.join("tests").join(krate), folder.join("tests"), folder.join("src")]);
    let text = |place: PathBuf| {
        let named = rust.iter().filter(|path| {
            let module = path.strip_prefix(&place).map(|path| path.with_extension(""));
            module.is_ok_and(|module| module.ancestors().any(|module| module.ends_with(file)))
        });
        named.map(|path| fs::read_to_string(root().join(path)).unwrap()).collect::<String>()
    };
    places.map(text).find(|source| source.contains("test]"))
}

/// The names of the tests in a file.
fn tests(source: &str) -> BTreeSet<&str> {
    let mut after_attribute = false;
    let mut names = BTreeSet::new();
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") && line.ends_with("test]") {
            after_attribute = true;
        } else if let Some(function) = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ") {
            let name = function.split('(').next().unwrap_or_default();
            if std::mem::take(&mut after_attribute) {
                names.insert(name);
            }
        }
    }
    names
}

/// The errors in the names, in sentences.
fn missing(names: &[Named]) -> Vec<String> {
    let one = |(krate, file, test): &Named| match (source(krate, file), test) {
        (None, _) => Some(format!("the crate {krate} has no tests {file}")),
        (Some(source), Some(test)) if !tests(&source).contains(test.as_str()) => {
            Some(format!("{file} of the crate {krate} has no test {test}"))
        }
        _ => None,
    };
    names.iter().filter_map(one).collect()
}

#[test]
fn every_constraint_names_tests_that_exist() {
    let document = document();
    let rows = rows(&document);
    assert!(rows.len() >= FEWEST_ROWS, "{} rows", rows.len());
    for row in rows {
        let [constraint, _, provisioning, consolidation] = row[..] else { panic!("{row:?}") };
        for (column, usual) in [(provisioning, "scheduling"), (consolidation, "disruption")] {
            let names = named(column, usual);
            let wrong = missing(&names);
            assert!(wrong.is_empty(), "{constraint}: {wrong:?}");
            assert!(names.iter().any(|(_, _, test)| test.is_some()), "{constraint}: no test is named in {column:?}");
        }
    }
}

#[test]
fn the_tests_named_in_the_text_exist() {
    let document = document();
    let text: String = document.lines().filter(|line| !line.starts_with('|')).collect::<Vec<_>>().join(" ");
    let test_like =
        |name: &str| name.contains("::") && name.chars().all(|c| c.is_ascii_lowercase() || "_:".contains(c));
    let names: Vec<Named> = quoted(&text)
        .into_iter()
        .filter(|(_, name)| test_like(name))
        .filter_map(|(krate, name)| {
            let (file, test) = name.split_once("::")?;
            Some((krate.unwrap_or("scheduling").to_owned(), file.to_owned(), Some(test.to_owned())))
        })
        .collect();
    assert!(names.len() > 5 && missing(&names).is_empty(), "{:?}", missing(&names));
}

#[test]
fn every_test_of_consolidation_by_constraint_is_in_the_table() {
    let document = document();
    let rows = rows(&document);
    let named: BTreeSet<Named> = rows.iter().flat_map(|row| named(row[3], "disruption")).collect();
    for file in ["constraints", "topology"] {
        let source = source("disruption", file).unwrap();
        let known = |test: &str| named.contains(&("disruption".into(), file.into(), Some(test.to_owned())));
        let unnamed: Vec<&str> = tests(&source).into_iter().filter(|test| !known(test)).collect();
        assert!(unnamed.is_empty(), "{file}: {unnamed:?}");
    }
}
