//! Compares `docs/ec2nodeclass.md` with the CustomResourceDefinition: each field has a row, each row has a field, and the
//! tests in each row exist.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The paths of all fields below a schema, such as `metadataOptions.httpTokens` or `blockDeviceMappings[].ebs.iops`.
fn fields(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    // Unknown fields are allowed, so the object is described as a whole.
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    if let Some(properties) = schema["properties"].as_object().filter(|_| !open) {
        for (name, schema) in properties {
            let separator = if path.is_empty() { "" } else { "." };
            fields(schema, &format!("{path}{separator}{name}"), found);
        }
    } else if schema["items"]["properties"].is_object() {
        fields(&schema["items"], &format!("{path}[]"), found);
    } else {
        found.insert(path.to_owned());
    }
}

fn fields_of_the_definition() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("infra/crds/karpenter.k8s.aws_ec2nodeclasses.yaml")).unwrap();
    let definition: Value = serde_saphyr::from_str(&text).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut found = BTreeSet::new();
    fields(schema, "", &mut found);
    found
}

/// The rows of the first table: field, use, tests.
fn rows() -> Vec<[String; 3]> {
    let text = fs::read_to_string(root().join("docs/ec2nodeclass.md")).unwrap();
    let table = text.lines().skip_while(|line| !line.starts_with("| field |")).take_while(|line| line.starts_with('|'));
    let rows = table.filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{line}");
        [cells[0].trim_matches('`'), cells[1], cells[2]].map(str::to_owned)
    })
    .collect()
}

#[test]
fn every_field_has_a_row_and_every_row_a_field() {
    let rows: Vec<String> = rows().into_iter().map(|[field, ..]| field).collect();
    let documented: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(documented.len(), rows.len(), "a field has two rows");
    let defined = fields_of_the_definition();
    let missing: Vec<&String> = defined.difference(&documented).collect();
    let stale: Vec<&String> = documented.difference(&defined).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "fields without a row: {missing:?}; rows without a field: {stale:?}"
    );
}

#[test]
fn the_tests_in_each_row_exist() {
    for [field, what, tests] in rows() {
        assert!(
            what.starts_with("supported") || what.starts_with("in part") || what.starts_with("refused"),
            "{field}: {what}"
        );
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{field} has no test");
        for path in named {
            assert!(root().join(path).is_file(), "{field}: {path} does not exist");
        }
    }
}
