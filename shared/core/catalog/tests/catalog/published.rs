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

/// The labels and resources that differ, and for which types or families. `vpc.amazonaws.com/pod-eni` is missing in the tables, although
/// the table of the VPC resource controller, which sets the resource, has branch interfaces. The others differ because EC2 describes the
/// types otherwise than when the tables were published.
const DIFFERENT: [(&str, &[&str]); 5] = [
    ("pods", &["i7ie.48xlarge", "i7ie.metal-48xl", "i8ge.48xlarge", "i8ge.metal-48xl"]),
    ("memory", &["i7ie.48xlarge", "i7ie.metal-48xl", "i8ge.48xlarge", "i8ge.metal-48xl"]),
    (labels::INSTANCE_CPU_CLOCK_SPEED_MHZ, &["c9g", "c9gd", "m9g", "m9gd", "i7i", "i7ie"]),
    (labels::INSTANCE_NETWORK_BANDWIDTH, &["g7.2xlarge", "g7.4xlarge", "g7.8xlarge"]),
    (
        "vpc.amazonaws.com/pod-eni",
        &[
            "c8gb.metal-24xl",
            "c8gb.metal-48xl",
            "c8gn.metal-24xl",
            "c8gn.metal-48xl",
            "c8ib.metal-48xl",
            "c8ib.metal-96xl",
            "c9g",
            "c9gd",
            "hpc7g",
            "i4i.large",
            "m8gb.metal-24xl",
            "m8gb.metal-48xl",
            "m8gn.metal-24xl",
            "m8gn.metal-48xl",
            "m8ib.metal-48xl",
            "m8ib.metal-96xl",
            "m8idb.metal-48xl",
            "m8idb.metal-96xl",
            "m8idn.metal-48xl",
            "m8idn.metal-96xl",
            "m8in.metal-48xl",
            "m8in.metal-96xl",
            "r8gb.metal-24xl",
            "r8gb.metal-48xl",
            "r8gn.metal-24xl",
            "r8gn.metal-48xl",
            "r8ib.metal-48xl",
            "r8ib.metal-96xl",
            "r8idb.metal-48xl",
            "r8idb.metal-96xl",
            "r8idn.metal-48xl",
            "r8idn.metal-96xl",
            "r8in.metal-48xl",
            "r8in.metal-96xl",
        ],
    ),
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

/// The names that have another value, or none, on one side.
fn differing<'a>(ours: &'a Texts, theirs: &'a Texts) -> impl Iterator<Item = &'a String> {
    let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    keys.into_iter().filter(|key| ours.get(*key) != theirs.get(*key))
}

/// The family of an instance type.
fn family(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Each label or resource that differs on purpose, with a type.
fn expected(published: &Published) -> BTreeSet<(String, String)> {
    let mut expected = BTreeSet::new();
    for (key, listed) in DIFFERENT {
        let names = published.keys().filter(|name| listed.contains(&name.as_str()) || listed.contains(&family(name)));
        expected.extend(names.map(|name| (key.to_owned(), name.clone())));
    }
    expected
}

#[test]
fn labels_and_allocatable_resources_are_those_of_karpenter() {
    let (published, mut ours) = (published(), ours());
    assert_eq!(published.len(), 1_345);
    let mut found = BTreeSet::new();
    let mut values = Vec::new();
    for (name, theirs) in &published {
        let (labels, resources) = ours.remove(name).unwrap_or_else(|| panic!("{name} is missing"));
        for (ours, theirs) in [(&labels, &theirs["labels"]), (&resources, &theirs["resources"])] {
            for key in differing(ours, theirs) {
                values.push(format!("{name}: {key} {:?}, published {:?}", ours.get(key), theirs.get(key)));
                found.insert((key.clone(), name.clone()));
            }
        }
    }
    let expected = expected(&published);
    let wrong: Vec<_> = found.symmetric_difference(&expected).collect();
    assert!(wrong.is_empty(), "not as listed: {wrong:#?}\n{values:#?}");
    // The remaining types are not in Karpenter's tables.
    let families: BTreeSet<&str> = ours.keys().map(|name| family(name)).collect();
    assert_eq!(families.into_iter().collect::<Vec<_>>(), ["dl1", "r9g", "r9gd", "t8i"]);
}

/// The published resources that differ.
fn in_words(ours: &Texts, theirs: &Texts) -> String {
    let word = |key: &String| match theirs.get(key) {
        Some(quantity) => format!("{key} {quantity}"),
        None => format!("without {key}"),
    };
    differing(ours, theirs).map(word).collect::<Vec<_>>().join("; ")
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
            None => "not listed".to_owned(),
            Some(theirs) if theirs["resources"] == resources => "same".to_owned(),
            Some(theirs) => in_words(&resources, &theirs["resources"]),
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
