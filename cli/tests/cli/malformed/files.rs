//! Files of another kind than a command reads: it prints one line that names the file, ends with an error, and writes nothing.

use super::ended;
use crate::support::Folder;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// A file, and a part of the error of each kind of command. `None` if the file is one that the command reads.
struct Case {
    name: &'static str,
    content: Vec<u8>,
    /// Commands that read objects.
    objects: Option<&'static str>,
    convert: Option<&'static str>,
    /// Commands that read items of the claims table.
    items: &'static str,
    /// Commands that read a catalog.
    catalog: &'static str,
    scenario: &'static str,
}

const TEMPLATED: Option<&str> = Some("has templating left in it");
const NO_KIND: Option<&str> = Some("kind: it is missing, so this is not a Kubernetes object; give manifests");
const NO_OBJECT: Option<&str> = Some("no Kubernetes object in ");
const NO_JSON: &str = "it is not JSON (";
const NO_ITEMS: &str = "it has no list Items; give the output of `aws dynamodb query";
const NO_CATALOG: &str = "give a catalog as `nodeless catalog export` writes it";
const NO_INSTANCE_TYPES: &str = "give the output of `aws ec2 describe-instance-types";
/// A catalog without instance types.
const CATALOG: &[u8] = br#"{"region": "us-east-1", "zones": ["us-east-1a"], "instanceTypes": [], "offerings": []}"#;
const NO_OFFERINGS: &str = "`offerings`: missing";
const NO_SCENARIO: &str = "the scenario cannot be read: ";
const NO_TEXT: &str = "it is not UTF-8 text";

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A text file that is no JSON, with the errors of `plan` and `convert`.
fn text(
    name: &'static str,
    content: &str,
    objects: Option<&'static str>,
    convert: Option<&'static str>,
    scenario: &'static str,
) -> Case {
    Case { name, content: content.into(), objects, convert, items: NO_JSON, catalog: NO_CATALOG, scenario }
}

/// A JSON file with other fields.
fn other(name: &'static str, content: &str, items: &'static str) -> Case {
    Case {
        name,
        content: content.into(),
        objects: NO_KIND,
        convert: NO_OBJECT,
        items,
        catalog: NO_OFFERINGS,
        scenario: NO_SCENARIO,
    }
}

fn binary(name: &'static str, content: Vec<u8>, objects: Option<&'static str>) -> Case {
    let convert = Some("is not UTF-8 text; give YAML or JSON");
    let scenario = "name a scenario file, or a built-in scenario";
    Case { name, content, objects, convert, items: NO_TEXT, catalog: NO_CATALOG, scenario }
}

fn cases() -> Vec<Case> {
    let manifest = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Values.name }}\n";
    let block = "{{- if .Values.on }}\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n{{- end }}\n";
    let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n";
    let half = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers: [{name: a";
    let half_json = "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"kind\": \"Po";
    let page = "<!DOCTYPE html>\n<html><head><title>404: not found</title></head></html>\n";
    let unclosed = Some("it is not YAML");
    let nothing = "no object that planning uses in ";
    vec![
        text("values.yaml", "replicas: 2\nimage:\n  tag: a\n", NO_KIND, NO_OBJECT, NO_SCENARIO),
        text("templated.yaml", manifest, TEMPLATED, TEMPLATED, "has templating left in it"),
        text("block.yaml", block, TEMPLATED, TEMPLATED, "has templating left in it"),
        // An object that is not converted is printed as it is.
        text(
            "kustomization.yaml",
            kustomization,
            Some(nothing),
            None,
            "it is a Kubernetes object, and a scenario has these",
        ),
        text("docker-compose.yaml", "services:\n  web:\n    image: nginx\n", NO_KIND, NO_OBJECT, NO_SCENARIO),
        text("data.csv", "a,b,c\n1,2,3\n", Some("expected a mapping with apiVersion and kind"), NO_OBJECT, NO_SCENARIO),
        text("page.html", page, unclosed, unclosed, NO_SCENARIO),
        text("half.yaml", half, unclosed, unclosed, NO_SCENARIO),
        text("half.json", half_json, Some("it is not JSON: EOF while parsing"), unclosed, NO_SCENARIO),
        Case { items: "it is empty", ..text("empty.yaml", "", Some(nothing), NO_OBJECT, NO_SCENARIO) },
        other("main.tf.json", "{\"resource\": {\"aws_instance\": {\"a\": {}}}}", NO_ITEMS),
        other("region.json", "{\"region\": \"eu-central-1\"}", NO_ITEMS),
        other("table.json", "{\"Items\": [{\"id\": {\"S\": \"1\"}}], \"Count\": 1}", "an item has no attribute sk"),
        binary("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec(), Some(NO_TEXT)),
        // PowerShell writes such files; `plan` reads them.
        binary("utf16.yaml", utf16("\u{feff}kind: Pod\n"), None),
    ]
}

/// A directory with the files, and one in which commands could write.
struct Files {
    folder: Folder,
    page: PathBuf,
}

impl Files {
    fn new() -> Self {
        let folder = Folder::new();
        let written = folder.path().join("written");
        fs::create_dir(&written).unwrap();
        Self { page: written.join("page.html"), folder }
    }

    fn write(&self, name: &str, content: &[u8]) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a command, whose first line about an error must name the file and contain the part.
    fn refused(&self, command: &[&str], file: &str, part: &str) {
        let shown = format!("{command:?}");
        let page = self.page.to_str().unwrap();
        let command: Vec<&str> = command.iter().map(|word| if *word == "PAGE" { page } else { *word }).collect();
        let before = names(self.folder.path());
        let ended = ended(&command, b"", &shown);
        let error = ended.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        assert!(error.contains(file) && error.contains(part), "{shown}: no {file:?} and {part:?} in {ended:?}");
        assert!(ended.code == Some(1) && ended.stdout.is_empty(), "{shown}: {ended:?}");
        // `convert` and `plan --diff` add that nothing was written or compared.
        let errors = ended.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert!(errors <= 2 && ended.stderr.len() < 1_500, "{shown}: {ended:?}");
        assert_eq!(names(self.folder.path()), before, "{shown}");
        assert_eq!(names(self.page.parent().unwrap()), Vec::<String>::new(), "{shown}");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A pod, which can be planned.
fn pod() -> Vec<u8> {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" },
        "spec": { "containers": [{ "name": "a" }] } });
    pod.to_string().into_bytes()
}

#[test]
fn commands_that_read_objects_refuse_other_files() {
    let files = Files::new();
    let good = files.write("good.json", &pod());
    for case in cases() {
        let path = files.write(case.name, &case.content);
        if let Some(part) = case.objects {
            files.refused(&["plan", "--cluster", &path], &path, part);
            files.refused(&["plan", "--what-if", "--cluster", &path, "--html", "PAGE"], &path, part);
            // A set of a comparison may have no object.
            if !part.starts_with("no object") {
                files.refused(&["plan", "--diff", &good, &path], &path, part);
            }
        }
        if let Some(part) = case.convert {
            files.refused(&["convert", "-f", &path], &path, part);
        }
    }
}

#[test]
fn commands_that_read_items_refuse_other_files() {
    let files = Files::new();
    let good = files.write("good.json", &pod());
    for case in cases() {
        let path = files.write(case.name, &case.content);
        files.refused(&["decisions", &path], &path, case.items);
        files.refused(&["report", &path], &path, case.items);
        files.refused(&["plan", "--cluster", &good, "--disruption", "--churn", &path], &path, case.items);
        files.refused(&["plan", "--snapshot", &path], &path, "");
    }
    // Another table with the same keys.
    let items = json!({ "Items": [{ "pk": { "S": "a" }, "sk": { "S": "order#1" }, "total": { "N": "3" } }] });
    let path = files.write("orders.json", items.to_string().as_bytes());
    files.refused(&["decisions", &path], &path, "item order#1: it is not an item decision#");
    files.refused(&["plan", "--snapshot", &path], &path, "no item snapshot#");
    files.refused(&["plan", "--cluster", &good, "--disruption", "--churn", &path], &path, "item order#1: it is not an");
}

#[test]
fn commands_that_read_catalogs_refuse_other_files() {
    let files = Files::new();
    let good = files.write("good.json", &pod());
    for case in cases() {
        let path = files.write(case.name, &case.content);
        files.refused(&["catalog", "show", "--catalog", &path], &path, case.catalog);
        files.refused(&["plan", "--cluster", &good, "--catalog", &path], &path, case.catalog);
        let is_json = case.catalog == NO_OFFERINGS;
        let part = if is_json { "not a DescribeInstanceTypes response" } else { NO_INSTANCE_TYPES };
        files.refused(&["catalog", "show", "--instance-types", &path], &path, part);
    }
    // The file that is not JSON is named, not the other one.
    let path = files.write("page.html", b"<html></html>");
    let other = files.write("other.json", CATALOG);
    let command = ["catalog", "show", "--catalog", &other, "--instance-types", &path];
    files.refused(&command, &path, NO_INSTANCE_TYPES);
}

#[test]
fn a_simulation_refuses_other_files_in_one_line() {
    let files = Files::new();
    for case in cases() {
        let path = files.write(case.name, &case.content);
        files.refused(&["simulate", "--hours", "1", "--scenario", &path], &path, case.scenario);
    }
}

#[cfg(feature = "kubernetes")]
#[test]
fn a_kubeconfig_that_cannot_be_read_is_not_quoted() {
    let files = Files::new();
    let path = files.write("config", b"apiVersion: v1\nusers:\n- user: {token: hunter2\nkind: [Config\n");
    let commands: [&[&str]; 4] = [&["view", "--once"], &["doctor"], &["metrics", "--once"], &["upgrade", "--check"]];
    for command in commands {
        files.refused(&[command, &["--kubeconfig", &path]].concat(), &path, "correct it, or specify another");
        let ended = ended(&[command, &["--kubeconfig", &path]].concat(), b"", "kubeconfig");
        assert!(!ended.stderr.contains("hunter2"), "{ended:?}");
    }
}

#[test]
fn directories_without_manifests_and_absent_files_are_refused() {
    let files = Files::new();
    let folder = files.folder.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("README.md"), "text").unwrap();
    let folder = folder.to_str().unwrap();
    let good = files.write("good.json", &pod());
    let absent = files.folder.path().join("absent.yaml");
    let absent = absent.to_str().unwrap();
    for (path, part) in [(folder, "has no .yaml, .yml or .json file"), (absent, "cannot be read")] {
        files.refused(&["plan", "--cluster", path], path, part);
        files.refused(&["plan", "--diff", &good, path], path, part);
        files.refused(&["plan", "--what-if", "--cluster", &good, "--if", path, "--html", "PAGE"], path, part);
        files.refused(&["convert", "-f", path], path, part);
    }
    for path in [folder, absent] {
        files.refused(&["decisions", path], path, "cannot be read");
        files.refused(&["report", path], path, "cannot be read");
        files.refused(&["catalog", "show", "--catalog", path], path, "cannot be read");
        files.refused(&["simulate", "--scenario", path], path, "cannot be read");
    }
}

#[test]
fn unknown_names_are_refused() {
    let files = Files::new();
    let good = files.write("good.json", &pod());
    let plan = ["plan", "--cluster", &good];
    files.refused(&[&plan[..], &["--region", "mars-1"]].concat(), "\"mars-1\"", "is not an AWS region");
    files.refused(&["catalog", "show", "--region", "mars-1"], "\"mars-1\"", "is not an AWS region");
    files.refused(&[&plan[..], &["--zonal-shift", "mars-1a"]].concat(), "mars-1a", "does not contain this zone");
    files.refused(&["catalog", "export", "--cluster", "absent", "--write", "PAGE"], "absent", "no local cluster");
    for command in ["man", "crds"] {
        files.refused(&[command, "--write", &good], &good, "cannot be written");
    }
}

/// Many objects: the errors are limited, and the time does not grow faster than their number.
#[test]
fn many_objects_that_are_no_manifests_are_refused() {
    let files = Files::new();
    let good = files.write("good.json", &pod());
    let path = files.write("many.json", "{}\n".repeat(200_000).as_bytes());
    refused_by_all(&good, &path);
}

#[test]
fn objects_of_100_megabytes_that_are_no_manifests_are_refused() {
    let files = Files::new();
    let good = files.write("good.json", &pod());
    let object = format!("{{\"id\":\"{}\"}}\n", "x".repeat(999_990));
    let path = files.write("large.json", object.repeat(100).as_bytes());
    refused_by_all(&good, &path);
    files.refused(&["convert", "-f", &path], &path, "it is not YAML");
    files.refused(&["decisions", &path], &path, NO_ITEMS);
    files.refused(&["catalog", "show", "--catalog", &path], &path, NO_CATALOG);
    files.refused(&["simulate", "--scenario", &path], &path, NO_SCENARIO);
}

fn refused_by_all(good: &str, path: &str) {
    let commands: [&[&str]; 2] = [&["plan", "--cluster", path], &["plan", "--diff", good, path]];
    for command in commands {
        let ended = ended(command, b"", "many objects");
        let start = format!("error: {path}: document 1: {}", NO_KIND.unwrap());
        assert!(ended.code == Some(1) && ended.stdout.is_empty() && ended.stderr.contains(&start), "{ended:?}");
        assert!(ended.stderr.lines().count() < 100, "{ended:?}");
    }
}

/// One line of 100 MB. It has no end of a value, so that nothing but the whole line can be an error.
#[test]
fn a_line_of_100_megabytes_is_refused() {
    let files = Files::new();
    let path = files.write("line.json", &vec![b'y'; 100_000_000]);
    files.refused(&["decisions", &path], &path, NO_JSON);
    files.refused(&["report", &path], &path, NO_JSON);
    files.refused(&["catalog", "show", "--catalog", &path], &path, NO_CATALOG);
    files.refused(&["plan", "--snapshot", &path], &path, "not a snapshot");
}
