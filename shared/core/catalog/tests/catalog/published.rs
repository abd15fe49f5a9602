//! Compares the labels and allocatable resources of every instance type with those that Karpenter publishes (AL2023, default
//! block devices, default settings). `docs/instance-types.md` of this crate explains the differences listed here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use flate2::read::ZlibDecoder;
use nodeless_catalog::node_class::AmiFamily;
use nodeless_catalog::{Catalog, Facts, NodeClassSettings, UnavailableOfferings};
use nodeless_model::labels;
use nodeless_model::resources::format_quantity;

type Texts = BTreeMap<String, String>;
type Published = BTreeMap<String, BTreeMap<String, Texts>>;

/// Labels that the published tables do not contain, although Karpenter sets them.
const NOT_PUBLISHED: [&str; 1] = [labels::REGION];
/// Labels that depend on the EC2NodeClass and the offering, which the published tables do not contain.
const OF_OFFERINGS: [&str; 3] = [labels::ZONE, labels::ZONE_ID, labels::CAPACITY_TYPE];

/// Types without `vpc.amazonaws.com/pod-eni` in the published tables, although they support a trunk interface according to the
/// table of the VPC resource controller. The controller's table applies, because the controller sets the resource.
const TRUNK_NOT_PUBLISHED: [&str; 18] = [
    "c8gb.metal-24xl",
    "c8gb.metal-48xl",
    "c8gn.metal-24xl",
    "c8gn.metal-48xl",
    "c8ib.metal-48xl",
    "c8ib.metal-96xl",
    "hpc7g.16xlarge",
    "hpc7g.4xlarge",
    "hpc7g.8xlarge",
    "i4i.large",
    "m8gb.metal-24xl",
    "m8gb.metal-48xl",
    "m8gn.metal-24xl",
    "m8gn.metal-48xl",
    "r8gb.metal-24xl",
    "r8gb.metal-48xl",
    "r8gn.metal-24xl",
    "r8gn.metal-48xl",
];

fn published() -> Published {
    let mut json = Vec::new();
    ZlibDecoder::new(&include_bytes!("../data/published.json.zz")[..]).read_to_end(&mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// The computed labels with one value, and allocatable resources above zero, of every type.
fn ours() -> BTreeMap<String, (Texts, Texts)> {
    let facts = Facts::embedded().unwrap();
    let settings = NodeClassSettings::new(AmiFamily::Al2023, facts.zones.clone());
    let types = Catalog::synthetic(1, facts).instance_types(&settings, &UnavailableOfferings::default());
    types
        .into_iter()
        .map(|instance_type| {
            let mut labels = instance_type.requirements.single_values();
            labels.retain(|key, _| !NOT_PUBLISHED.contains(&key.as_str()) && !OF_OFFERINGS.contains(&key.as_str()));
            let allocatable = instance_type.allocatable();
            let resources = allocatable.iter().filter(|(_, quantity)| !quantity.is_zero());
            let resources = resources.map(|(name, quantity)| (name.to_owned(), format_quantity(name, quantity)));
            (instance_type.name, (labels, resources.collect()))
        })
        .collect()
}

fn differences(kind: &str, ours: &Texts, theirs: &Texts) -> Vec<String> {
    let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differing = keys.into_iter().filter(|key| ours.get(*key) != theirs.get(*key));
    differing.map(|key| format!("{kind} {key}: {:?}, published {:?}", ours.get(key), theirs.get(key))).collect()
}

#[test]
fn labels_and_allocatable_resources_are_those_of_karpenter() {
    let (published, mut ours) = (published(), ours());
    assert_eq!(published.len(), 1_234);
    let mut wrong = Vec::new();
    for (name, theirs) in &published {
        let (labels, mut resources) = ours.remove(name).unwrap_or_else(|| panic!("{name} is missing"));
        if TRUNK_NOT_PUBLISHED.contains(&name.as_str()) {
            assert!(resources.remove("vpc.amazonaws.com/pod-eni").is_some(), "{name} is no longer an exception");
        }
        let found = differences("label", &labels, &theirs["labels"]).into_iter().chain(differences(
            "resource",
            &resources,
            &theirs["resources"],
        ));
        wrong.extend(found.map(|difference| format!("{name}: {difference}")));
    }
    assert!(wrong.is_empty(), "{} differences, such as\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    // The remaining types are not in Karpenter's tables.
    assert_eq!(ours.into_keys().collect::<Vec<_>>(), ["dl1.24xlarge"]);
}

/// The table `docs/allocatable.csv`: allocatable resources under an AL2023 node class with defaults. What Karpenter publishes is the
/// same, but for the rows that state otherwise; `docs/instance-types.md` explains why. After an intended change, write it again:
///
/// ```sh
/// NODELESS_WRITE_TABLE=1 cargo test -p nodeless-catalog --test catalog
/// ```
#[test]
fn the_table_of_all_types_is_current() {
    const SHOWN: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];
    let published = published();
    let mut table = String::from("instance type,cpu,memory,ephemeral storage,pods,others,Karpenter\n");
    for (name, (_, resources)) in ours() {
        let shown = SHOWN.map(|resource| resources.get(resource).map_or("", String::as_str)).join(",");
        let others = resources.iter().filter(|(resource, _)| !SHOWN.contains(&resource.as_str()));
        let others: Vec<String> = others.map(|(resource, count)| format!("{resource} {count}")).collect();
        let same = match published.get(&name) {
            None => "not listed",
            Some(theirs) if theirs["resources"] == resources => "same",
            Some(_) => "without pod-eni",
        };
        table.push_str(&format!("{name},{shown},{},{same}\n", others.join("; ")));
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/allocatable.csv");
    if std::env::var_os("NODELESS_WRITE_TABLE").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let present = std::fs::read_to_string(&path).unwrap();
    let wrong = present.lines().zip(table.lines()).find(|(present, expected)| present != expected);
    assert!(present == table, "docs/allocatable.csv is outdated, for example {wrong:?}; write it again");
}
