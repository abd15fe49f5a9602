//! The link rules of ARCHITECTURE.md, held against what cargo states each crate links.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names of all crates that a package links when it is shipped: with its default features, without what only its tests need.
fn linked(package: &str) -> BTreeSet<String> {
    linked_with(package, &[])
}

/// The crates that a package links with these arguments, which choose features.
fn linked_with(package: &str, features: &[&str]) -> BTreeSet<String> {
    let stated = tree(package, "{p}", features);
    stated.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The output of `cargo tree` for a package and the crates that it links, a line each in this format.
fn tree(package: &str, format: &str, features: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "normal", "--prefix", "none", "--format", format])
        .args(["--package", package])
        .args(features)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    let stated = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{package}: {}", String::from_utf8_lossy(&output.stderr));
    stated
}

const FUNCTIONS: [&str; 6] = ["planner", "lifecycle", "interruption", "catalog", "wake", "installer"];

/// Crates that decide and do nothing else.
const PURE: [&str; 17] = [
    "nodeless-expressions",
    "nodeless-model",
    "nodeless-devices",
    "nodeless-bill",
    "nodeless-commitments",
    "nodeless-scheduling",
    "nodeless-disruption",
    "nodeless-placement",
    "nodeless-lifecycle",
    "nodeless-launch",
    "nodeless-catalog",
    "nodeless-convert",
    "nodeless-doctor",
    "nodeless-snapshot",
    "nodeless-view",
    "nodeless-checker",
    "nodeless-workloads",
];

#[test]
fn nothing_that_ships_links_the_oracle_or_generated_workloads() {
    for package in FUNCTIONS.into_iter().chain(["nodeless"]) {
        let linked = linked(package);
        for other in ["nodeless-checker", "nodeless-workloads", "nodeless-tests", "proptest"] {
            assert!(!linked.contains(other), "{package} links {other}");
        }
    }
}

/// The crates that a package links when it is shipped, each with its features.
fn features(package: &str) -> String {
    tree(package, "{p} {f}", &[])
}

#[test]
fn nothing_that_ships_enables_test_support() {
    assert!(features("nodeless-workloads").contains("test-support"), "the check finds the feature where it is enabled");
    for package in FUNCTIONS.into_iter().chain(["nodeless"]) {
        let features = features(package);
        let enabled = features.lines().find(|line| line.contains("test-support"));
        assert_eq!(enabled, None, "{package} enables test-support");
    }
}

#[test]
fn pure_crates_link_no_runtime_and_no_client() {
    for package in PURE {
        for other in linked(package) {
            let client = ["tokio", "kube-client", "reqwest", "hyper", "ratatui"].contains(&other.as_str());
            assert!(!client && !other.starts_with("aws-"), "{package} links {other}");
        }
    }
}

/// The product's crates that a package links, itself left out.
fn linked_of_nodeless(package: &str) -> BTreeSet<String> {
    linked(package).into_iter().filter(|other| other.starts_with("nodeless-") && other != package).collect()
}

#[test]
fn fakes_link_no_sdk_and_nothing_that_decides() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    for package in ["nodeless-fake-kubernetes", "nodeless-fake-aws", "nodeless-world", "nodeless-driver"] {
        let linked = linked(package);
        assert!(!linked.iter().any(|name| name.starts_with("aws-")), "{package} links an SDK");
        assert!(!linked.contains("kube-client"), "{package} links the Kubernetes client");
    }
    // Its scheduler has the allocator of devices that plans have, which is that of kube-scheduler.
    let devices = set(&["nodeless-devices", "nodeless-expressions", "nodeless-model"]);
    assert_eq!(linked_of_nodeless("nodeless-fake-kubernetes"), devices);
    assert_eq!(
        linked_of_nodeless("nodeless-fake-aws"),
        set(&["nodeless-catalog", "nodeless-expressions", "nodeless-model"])
    );
}

#[test]
fn core_links_nothing_above_it() {
    for package in PURE {
        for other in linked(package).iter().filter(|other| other.starts_with("nodeless-")) {
            assert!(PURE.contains(&other.as_str()) || other == "nodeless-api", "{package} links {other}");
        }
    }
}

#[test]
fn functions_link_no_tools() {
    let tools = ["nodeless-convert", "nodeless-snapshot", "nodeless-view"];
    for package in FUNCTIONS {
        let linked = linked(package);
        assert!(!tools.iter().any(|tool| linked.contains(*tool)), "{package} links a crate of shared/tools");
    }
    assert!(tools.iter().all(|tool| linked("nodeless").contains(*tool)), "the command line links all of them");
}

#[test]
fn the_sdks_of_ec2_and_sns_are_linked_by_those_who_call_them() {
    for package in FUNCTIONS {
        let calls_ec2 = ["lifecycle", "catalog"].contains(&package);
        assert_eq!(linked(package).contains("aws-sdk-ec2"), calls_ec2, "{package}");
    }
    for package in FUNCTIONS {
        assert_eq!(linked(package).contains("aws-sdk-sns"), package == "catalog", "{package}");
    }
    let of_cli = linked("nodeless");
    assert!(!of_cli.iter().any(|name| name.starts_with("aws-sdk-")), "{of_cli:?}");
}

#[test]
fn the_first_command_of_the_readme_compiles_no_client() {
    let alias = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../.cargo/config.toml")).unwrap();
    assert!(alias.contains("--no-default-features"), "{alias}");
    let linked = linked_with("nodeless", &["--no-default-features"]);
    assert!(!linked.iter().any(|name| name.starts_with("aws-") || ["kube-client", "rustls"].contains(&name.as_str())));
}

#[test]
fn each_sdk_and_the_kubernetes_client_stay_behind_their_crates() {
    for package in [
        "nodeless-planner",
        "nodeless-reconciler",
        "nodeless-refresher",
        "nodeless-operations",
        "nodeless-cluster",
        "nodeless-ports",
        "nodeless-api",
        "nodeless-snapshot",
        "nodeless-telemetry",
    ] {
        let linked = linked(package);
        assert!(!linked.iter().any(|name| name.starts_with("aws-sdk-")), "{package} links an SDK");
        assert!(!linked.contains("kube-client"), "{package} links the Kubernetes client");
    }
}

/// The folders of the crates of this repository that a function links, the function itself included.
fn folders_of_functions() -> BTreeSet<String> {
    let stated: Vec<String> = FUNCTIONS.into_iter().map(|package| tree(package, "{p}", &[])).collect();
    // A line is `name version (folder)`; crates of the registry have no folder.
    let folder = |line: &str| Some(line.split_once('(')?.1.split_once(')')?.0.to_owned());
    stated.iter().flat_map(|lines| lines.lines()).filter_map(folder).filter(|folder| folder.starts_with('/')).collect()
}

/// The sources below a folder, without unit tests.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            found.push((path, shipped));
        }
    }
}

#[test]
fn functions_log_only_typed_lines() {
    let folders = folders_of_functions();
    let names: Vec<&str> = folders.iter().filter_map(|folder| folder.rsplit('/').next()).collect();
    assert!(["planner", "ec2", "kubernetes", "operations"].iter().all(|name| names.contains(name)), "{names:?}");
    let mut files = Vec::new();
    folders.iter().for_each(|folder| sources(&Path::new(folder).join("src"), &mut files));
    let macros = ["trace!", "debug!", "info!", "warn!", "error!", "event!"];
    let untyped = files.iter().flat_map(|(path, text)| {
        let lines = text.lines().zip(1..).filter(|(line, _)| macros.iter().any(|name| line.contains(name)));
        lines.map(|(line, number)| format!("{}:{number}: {}", path.display(), line.trim()))
    });
    let untyped: Vec<String> = untyped.collect();
    assert!(untyped.is_empty(), "a function's log lines have an event, and a type in log_lines.rs: {untyped:#?}");
}

/// The files of adapters that read the wall clock: the clock itself, signatures that AWS compares with its own time, and lines that a
/// function logs before it has a clock.
const WALL_CLOCK: [&str; 3] = ["telemetry/src/clock.rs", "eks/src/token.rs", "telemetry/src/sink.rs"];

#[test]
fn adapters_get_the_time_from_the_clock_port() {
    let adapters = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/adapters")).canonicalize().unwrap();
    let mut files = Vec::new();
    sources(&adapters, &mut files);
    let shipped = files.into_iter().filter(|(path, _)| !path.components().any(|part| part.as_os_str() == "tests"));
    let reads = |text: &str| ["Timestamp::now()", "SystemTime::now()"].iter().any(|read| text.contains(read));
    let readers: Vec<PathBuf> = shipped.filter(|(_, text)| reads(text)).map(|(path, _)| path).collect();
    let unknown: Vec<&PathBuf> =
        readers.iter().filter(|path| !WALL_CLOCK.iter().any(|known| path.ends_with(known))).collect();
    assert!(unknown.is_empty(), "the Clock port, or a parameter, gives the time: {unknown:#?}");
    assert_eq!(readers.len(), WALL_CLOCK.len(), "{readers:#?}");
}
