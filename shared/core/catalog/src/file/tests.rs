use super::*;
use crate::node_class::AmiFamily;
use crate::{NodeClassSettings, UnavailableOfferings};
use nodeless_model::{CapacityType, InstanceType, Requirements};
use serde_json::json;

fn entry_of(name: &str) -> Value {
    serde_json::to_value(&Facts::embedded().unwrap().instance_types[name]).unwrap()
}

fn offering(name: &str, zone: &str, capacity_type: &str, price: f64) -> Value {
    json!({"instanceType": name, "zone": zone, "capacityType": capacity_type, "pricePerHour": price})
}

fn file(types: &[Value], offerings: &[Value]) -> Value {
    json!({"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"], "instanceTypes": types, "offerings": offerings})
}

fn read(file: &Value) -> CatalogFile {
    parse(file.to_string().as_bytes()).unwrap()
}

fn error(file: &Value) -> String {
    parse(file.to_string().as_bytes()).unwrap_err().to_string()
}

fn notes(file: &CatalogFile) -> Vec<String> {
    file.notes.iter().map(ToString::to_string).collect()
}

fn instance_types(catalog: &Catalog) -> Vec<InstanceType> {
    let settings = NodeClassSettings::new(AmiFamily::Al2023, catalog.zones.clone());
    catalog.instance_types(&settings, &UnavailableOfferings::default())
}

/// The zone, capacity type, price and availability of the offerings of a type.
fn offerings_of(catalog: &Catalog, name: &str) -> Vec<(String, CapacityType, f64, bool)> {
    let types = instance_types(catalog);
    let kind = types.iter().find(|kind| kind.name == name).unwrap();
    let row = |offering: &nodeless_model::instance_type::Offering| {
        (offering.zone.clone(), offering.capacity_type, offering.price, offering.available)
    };
    kind.offerings.iter().map(row).collect()
}

#[test]
fn only_listed_offerings_are_sold() {
    let mut withheld = offering("m5.large", "us-east-1b", "spot", 0.04);
    withheld["available"] = json!(false);
    let file = read(&file(
        &[entry_of("m5.large"), entry_of("c5.large")],
        &[
            offering("m5.large", "us-east-1a", "on-demand", 0.096),
            offering("m5.large", "us-east-1b", "on-demand", 0.11),
            withheld,
            offering("c5.large", "us-east-1a", "on-demand", 0.085),
        ],
    ));
    assert_eq!(notes(&file), [""; 0]);
    assert_eq!(
        offerings_of(&file.catalog, "m5.large"),
        [
            ("us-east-1a".into(), CapacityType::OnDemand, 0.096, true),
            ("us-east-1b".into(), CapacityType::OnDemand, 0.11, true),
            ("us-east-1b".into(), CapacityType::Spot, 0.04, false),
        ]
    );
    assert_eq!(offerings_of(&file.catalog, "c5.large").len(), 1);
    let c5 = instance_types(&file.catalog).remove(0);
    assert_eq!(c5.requirements.get("karpenter.sh/capacity-type").unwrap().single(), Some("on-demand"));
    // The ids of known zones, trunk interfaces and bandwidth are read from the embedded tables.
    assert_eq!(file.catalog.zones[0].id, "use1-az2");
    assert_eq!(file.catalog.get("m5.large").unwrap().facts.branch_interfaces, Some(9));
    assert_eq!(Catalog::decode(&file.catalog.encode().unwrap()).unwrap(), file.catalog);
}

#[test]
fn an_invalid_entry_is_reported_and_the_others_are_used() {
    let mut no_memory = entry_of("r5.large");
    no_memory["MemoryInfo"] = json!({"SizeInMiB": "much"});
    let file = read(&file(
        &[entry_of("m5.large"), no_memory, json!(7), json!({"InstanceType": "x.large"})],
        &[
            offering("m5.large", "us-east-1a", "on-demand", 0.096),
            json!({"instanceType": "m5.large", "zone": "us-east-1b"}),
            offering("m5.large", "us-east-1b", "cheap", 0.1),
            offering("m5.large", "us-east-1z", "spot", 0.1),
            offering("m9.large", "us-east-1a", "spot", 0.1),
            offering("m5.large", "us-east-1a", "reserved", 0.1),
            offering("m5.large", "us-east-1a", "on-demand", 0.2),
        ],
    ));
    let notes = notes(&file);
    let expected = [
        ["instanceTypes[1] (r5.large)", "MemoryInfo.SizeInMiB", "omitted"],
        ["instanceTypes[2]", "invalid type", "omitted"],
        ["instanceTypes[3] (x.large)", "missing field `ProcessorInfo`", "omitted"],
        ["offerings[1] (m5.large in us-east-1b)", "missing field `capacityType`", "omitted"],
        ["offerings[2] (m5.large in us-east-1b)", "capacityType", "cheap"],
        ["offerings[3]", "us-east-1z", "not in zones"],
        ["offerings[4]", "m9.large", "not in instanceTypes"],
        ["offerings[5]", "reserved", "EC2NodeClass"],
        ["offerings[6]", "duplicate", "first"],
    ];
    assert_eq!(notes.len(), expected.len(), "{notes:#?}");
    for (note, words) in notes.iter().zip(expected) {
        assert!(words.iter().all(|word| note.contains(word)), "{note} does not contain all of {words:?}");
    }
    assert_eq!(offerings_of(&file.catalog, "m5.large"), [("us-east-1a".into(), CapacityType::OnDemand, 0.096, true)]);
}

#[test]
fn an_invalid_placement_group_is_reported_and_the_others_are_used() {
    let mut file = file(&[entry_of("m5.large")], &[offering("m5.large", "us-east-1a", "on-demand", 0.096)]);
    let group = |name: &str| json!({"id": "pg-1", "name": name, "strategy": "spread", "partitions": 0});
    file["placementGroups"] = json!([group("a"), { "name": "b" }, group("c")]);
    let read = read(&file);
    let names: Vec<&str> = read.catalog.placement_groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(notes(&read), ["placementGroups[1]: missing field `id`; the placement group is omitted"]);
}

#[test]
fn an_offering_without_a_price_is_not_available() {
    let file = read(&file(
        &[entry_of("m5.large")],
        &[
            offering("m5.large", "us-east-1a", "on-demand", 0.096),
            offering("m5.large", "us-east-1b", "on-demand", 0.0),
            json!({"instanceType": "m5.large", "zone": "us-east-1a", "capacityType": "spot"}),
            json!({"instanceType": "m5.large", "zone": "us-east-1b", "capacityType": "spot", "pricePerHour": "0.04"}),
        ],
    ));
    let available: Vec<bool> =
        offerings_of(&file.catalog, "m5.large").into_iter().map(|(_, _, _, available)| available).collect();
    assert_eq!(available, [true, false, false, true]);
    let notes = notes(&file);
    assert!(notes[0].contains("offerings[1]") && notes[0].contains("pricePerHour: 0 is not a price"), "{notes:?}");
    assert!(notes[1].contains("offerings[2]") && notes[1].contains("pricePerHour: missing"), "{notes:?}");
}

#[test]
fn types_that_cannot_be_nodes_are_omitted_with_their_offerings() {
    let file = read(&file(&[entry_of("mac2.metal")], &[offering("mac2.metal", "us-east-1a", "on-demand", 0.65)]));
    assert_eq!(file.left_out, BTreeSet::from(["mac2.metal".to_owned()]));
    assert!(file.catalog.types.is_empty() && file.notes.is_empty(), "{:?}", file.notes);
}

#[test]
fn an_entry_without_network_cards_is_used() {
    let bare = |name: &str| {
        json!({"InstanceType": name, "VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 16_384},
               "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}})
    };
    let mut stated = bare("made.up");
    stated["NetworkInfo"] = json!({"MaximumNetworkInterfaces": 4, "Ipv4AddressesPerInterface": 15});
    let file = read(&file(&[bare("test.xlarge"), bare("m5.xlarge"), stated], &[]));
    let pods = |name: &str| {
        let types = instance_types(&file.catalog);
        types.iter().find(|kind| kind.name == name).unwrap().capacity.get("pods").units()
    };
    assert_eq!((pods("test.xlarge"), pods("m5.xlarge"), pods("made.up")), (110, 58, 58));
    let notes = notes(&file);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("(test.xlarge): NetworkInfo.NetworkCards: missing") && notes[0].contains("110 pods"));
}

#[test]
fn region_and_zones_may_be_inferred() {
    let mut file = file(&[entry_of("m5.large")], &[offering("m5.large", "eu-west-1c", "on-demand", 0.1)]);
    file.as_object_mut().unwrap().remove("region");
    file.as_object_mut().unwrap().remove("zones");
    let read_file = read(&file);
    assert_eq!(
        (read_file.catalog.region.as_str(), read_file.catalog.zones[0].name.as_str()),
        ("eu-west-1", "eu-west-1c")
    );
    // The ids of its zones are unknown, so its nodes have no label with the zone id.
    let m5 = instance_types(&read_file.catalog).remove(0);
    assert!(m5.requirements.get("topology.k8s.aws/zone-id").unwrap().is_empty());
    assert!(m5.cheapest_offering(&Requirements::new()).is_some());
    file["zones"] = json!([{"name": "eu-west-1c", "id": "euw1-az1"}, {"ZoneName": "eu-west-1a", "ZoneId": "euw1-az2"}]);
    assert_eq!(read(&file).catalog.zones[1], Zone { name: "eu-west-1a".into(), id: "euw1-az2".into() });
    file["zones"] = json!(["here", "there"]);
    assert!(error(&file).contains("`region`: missing"), "{}", error(&file));
}

#[test]
fn without_instance_types_the_embedded_ones_are_used() {
    let mut file =
        file(&[], &[offering("m5.large", "us-east-1a", "spot", 0.03), offering("x.y", "us-east-1a", "spot", 1.0)]);
    file.as_object_mut().unwrap().remove("instanceTypes");
    let file = read(&file);
    assert_eq!(file.catalog.types.len(), 1);
    assert_eq!(notes(&file).len(), 1);
}

#[test]
fn a_file_that_is_not_a_catalog_is_rejected_with_the_field() {
    assert!(parse(b"{").unwrap_err().to_string().contains("not JSON"));
    assert!(error(&json!([entry_of("m5.large")])).contains("--instance-types"));
    assert!(error(&json!({"InstanceTypes": []})).contains("--instance-types"));
    assert!(error(&json!(7)).contains("found a number"));
    assert!(error(&json!({"zones": ["a"]})).contains("`offerings`: missing"));
    assert!(error(&json!({"region": 1, "offerings": []})).contains("`region`"));
    assert!(error(&json!({"region": "r", "zones": [], "offerings": []})).contains("`zones`: empty"));
    assert!(error(&json!({"region": "r", "zones": [[]], "offerings": []})).contains("`zones`: [0]"));
    assert!(error(&json!({"region": "r", "zones": "a", "offerings": []})).contains("`zones`: expected an array"));
}

#[test]
fn a_describe_instance_types_response_gets_the_embedded_offerings() {
    let answer = json!([entry_of("m5.large"), entry_of("mac2.metal"), {
        "InstanceType": "new.large", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 4096},
        "ProcessorInfo": {"SupportedArchitectures": ["arm64"]}}]);
    for answer in [answer.clone(), json!({"InstanceTypes": answer})] {
        let file = from_instance_types(answer.to_string().as_bytes()).unwrap();
        assert_eq!(file.catalog.types.len(), 2);
        assert_eq!(file.catalog.get("m5.large"), Catalog::embedded().unwrap().get("m5.large"));
        assert!(
            notes(&file).iter().any(|note| note.contains("new.large: it has no known offering")),
            "{:?}",
            file.notes
        );
    }
    assert!(matches!(from_instance_types(b"{}"), Err(CatalogFileError::NoInstanceTypesAnswer)));
}

#[test]
fn separate_instance_types_replace_those_of_the_file() {
    let mut bigger = entry_of("m5.large");
    bigger["MemoryInfo"]["SizeInMiB"] = json!(1_048_576);
    let catalog = file(&[entry_of("m5.large")], &[offering("m5.large", "us-east-1a", "on-demand", 0.096)]);
    let file = parse_with_types(catalog.to_string().as_bytes(), Some(json!([bigger]).to_string().as_bytes())).unwrap();
    assert_eq!(file.catalog.get("m5.large").unwrap().facts.memory_mib, 1_048_576);
    assert_eq!(file.catalog.types[0].offers.len(), 1);
}

#[test]
fn a_written_file_can_be_read() {
    let facts = Facts::embedded().unwrap().within_zones(&["us-east-1a", "us-east-1b"]);
    let mut catalog = Catalog::synthetic(1, &facts);
    let group =
        NamedPlacementGroup { id: "pg-1".into(), name: "kafka".into(), strategy: "partition".into(), partitions: 3 };
    catalog.placement_groups = vec![group];
    let read = parse(write(&facts, &catalog).unwrap().as_bytes()).unwrap();
    assert_eq!((notes(&read), read.catalog.zones.clone()), (vec![], catalog.zones.clone()));
    assert_eq!(read.catalog.placement_groups, catalog.placement_groups);
    let available = |catalog: &Catalog| {
        let mut types = instance_types(catalog);
        for kind in &mut types {
            kind.offerings.retain(|offering| offering.available);
        }
        types.retain(|kind| !kind.offerings.is_empty());
        types.into_iter().map(|kind| (kind.name, kind.capacity, kind.offerings)).collect::<Vec<_>>()
    };
    assert_eq!(available(&read.catalog), available(&catalog));
}

#[test]
fn a_derived_price_is_marked_in_the_file() {
    let mut facts = Facts::embedded().unwrap().within_zones(&["us-east-1a"]);
    facts.instance_types.retain(|name, _| ["m5.large", "c5.large"].contains(&name.as_str()));
    facts.derived_prices = ["m5.large".to_owned()].into();
    let written = write(&facts, &Catalog::synthetic(1, &facts)).unwrap();
    let marked = |entry: &&Value| entry["derived"] == true;
    let parsed: Value = serde_json::from_str(&written).unwrap();
    let marked: Vec<&Value> = parsed["offerings"].as_array().unwrap().iter().filter(marked).collect();
    let expected = json!({"instanceType": "m5.large", "zone": "us-east-1a", "capacityType": "on-demand",
        "pricePerHour": 0.096, "derived": true});
    assert_eq!(marked, [&expected]);
    let read = parse(written.as_bytes()).unwrap().catalog;
    assert!(read.has_derived_price("m5.large") && !read.has_derived_price("c5.large"));
    let [on_demand, _] = read.price_sources();
    assert_eq!(on_demand, "on-demand prices are the catalog file's, 1 of 2 derived from those of us-east-1");
}
