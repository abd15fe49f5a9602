//! Reads the table: the files of `tests/upstream`.

use crate::case::Case;
use crate::names::merge;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file with the versions of the suites.
const VERSIONS: &str = "versions.yaml";
/// The start of the line of a case.
const CASE: &str = "  - case:";

/// All cases.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) versions: Versions,
    pub(crate) entries: Vec<TableEntry>,
}

/// The versions of the suites.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Versions {
    /// Of Karpenter.
    pub(crate) karpenter: String,
    /// Of its provider for AWS.
    pub(crate) aws: String,
}

/// A case and its place.
#[derive(Debug)]
pub(crate) struct TableEntry {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) case: Case,
}

/// A file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Merged into each case, under its own fields.
    #[serde(default)]
    defaults: Value,
    /// For anchors.
    #[serde(default, rename = "templates")]
    _templates: Value,
    cases: Vec<Value>,
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("upstream")
}

impl TableEntry {
    /// The message about differences.
    pub(crate) fn message(&self, wrong: &[String]) -> String {
        format!("tests/upstream/{}:{}: {}\n  {}", self.file, self.line, self.case.case, wrong.join("\n  "))
    }
}

impl Table {
    /// Reads all files of a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let found = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut paths: Vec<PathBuf> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "yaml"));
        paths.sort();
        let mut table = Self::default();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
            if name == VERSIONS {
                table.versions = serde_saphyr::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
            } else {
                table.entries.extend(entries(&name, &text)?);
            }
        }
        table.check(&folder.join("../.."))?;
        Ok(table)
    }

    /// Refuses cases of the same name, and pages that do not exist.
    fn check(&self, root: &Path) -> Result<(), String> {
        let mut names: BTreeMap<&str, &TableEntry> = BTreeMap::new();
        for entry in &self.entries {
            if let Some(other) = names.insert(&entry.case.case, entry) {
                return Err(entry.message(&[format!("{}:{} has the same name", other.file, other.line)]));
            }
            if let Some(differs) = &entry.case.differs {
                check_page(root, &differs.page).map_err(|error| entry.message(&[error]))?;
            }
        }
        Ok(())
    }
}

/// The cases in the text of a file.
pub(crate) fn entries(name: &str, text: &str) -> Result<Vec<TableEntry>, String> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| format!("{name}: {error}"))?;
    let lines = text.lines().enumerate().filter(|(_, line)| line.starts_with(CASE)).map(|(index, _)| index + 1);
    let lines: Vec<usize> = lines.collect();
    if lines.len() != file.cases.len() {
        return Err(format!("{name}: every case begins with a line `{}`", CASE.trim_end()));
    }
    file.cases.into_iter().zip(lines).map(|(own, line)| entry(name, line, &file.defaults, &own)).collect()
}

fn entry(name: &str, line: usize, defaults: &Value, own: &Value) -> Result<TableEntry, String> {
    let mut whole = defaults.clone();
    merge(&mut whole, own);
    // A null in these is a label that is removed or that has to be missing, unless it removes one of the defaults.
    for field in ["pods", "nodes", "expect"] {
        if let (Some(value), None) = (own.get(field), defaults.get(field)) {
            whole[field] = value.clone();
        }
    }
    for list in ["pods", "nodes"] {
        if let Some(one) = whole.get_mut(list).filter(|value| value.is_object()) {
            *one = Value::Array(vec![one.take()]);
        }
    }
    let case: Case = serde_json::from_value(whole).map_err(|error| format!("{name}:{line}: {error}"))?;
    let refused = refusal(&case);
    let entry = TableEntry { file: name.to_owned(), line, case };
    refused.map_or(Ok(()), |why| Err(entry.message(&[why.to_owned()])))?;
    Ok(entry)
}

fn refusal(case: &Case) -> Option<&'static str> {
    let suite = case.suite.strip_prefix("aws:").unwrap_or(&case.suite);
    if case.expect.is_empty() {
        Some("it expects nothing")
    } else if !suite.starts_with("pkg/") || !suite.ends_with("_test.go") {
        Some("its suite is not a file pkg/…_test.go")
    } else if case.differs.as_ref().is_some_and(|differs| differs.upstream.trim().is_empty()) {
        Some("it does not state the outcome in Karpenter")
    } else if case.differs.is_some() && case.fails.is_some() {
        Some("it either differs on purpose or fails")
    } else {
        None
    }
}

fn check_page(root: &Path, page: &str) -> Result<(), String> {
    let (file, anchor) = page.split_once('#').ok_or_else(|| format!("{page} names no heading"))?;
    let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
    let headings =
        text.lines().filter(|line| line.starts_with('#')).map(|line| anchor_of(line.trim_start_matches('#')));
    let found = headings.into_iter().any(|heading| heading == anchor);
    if found { Ok(()) } else { Err(format!("{file} has no heading #{anchor}")) }
}

/// The anchor of a heading.
fn anchor_of(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars().filter(|letter| letter.is_alphanumeric() || ['-', '_'].contains(letter)).collect()
}
