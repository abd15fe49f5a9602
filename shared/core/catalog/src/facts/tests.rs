use super::*;

#[test]
fn embedded_facts_are_complete() {
    let facts = Facts::embedded().unwrap();
    assert_eq!(facts.region, "us-east-1");
    assert_eq!(facts.instance_types.len(), 1_381);
    assert_eq!(facts.zones.len(), 6);
    let names: Vec<&str> = facts.zones.iter().map(|zone| zone.name.as_str()).collect();
    for (instance_type, info) in &facts.instance_types {
        assert_eq!(instance_type, &info.instance_type);
        assert!(info.v_cpu_info.default_v_cpus > 0, "{instance_type}");
        assert!(info.memory_info.size_in_mib > 0, "{instance_type}");
        // The table of the VPC resource controller does not have t8i yet.
        assert_eq!(facts.vpc_limits.contains_key(instance_type), !instance_type.starts_with("t8i."), "{instance_type}");
        let is_gone = instance_type.starts_with("g4ad.") || instance_type.starts_with("dl1.");
        assert_eq!(facts.offerings[instance_type].is_empty(), is_gone, "{instance_type}");
        for zone in &facts.offerings[instance_type] {
            assert!(names.contains(&zone.as_str()), "{instance_type} in {zone}");
        }
    }
    assert!(facts.on_demand_prices.values().all(|price| price.is_finite() && *price > 0.0));
}

#[test]
fn embedded_facts_are_those_of_ec2() {
    let facts = Facts::embedded().unwrap();
    let m5 = &facts.instance_types["m5.large"];
    assert_eq!(m5.v_cpu_info.default_v_cpus, 2);
    assert_eq!(m5.memory_info.size_in_mib, 8_192);
    assert_eq!(m5.processor_info.supported_architectures, ["x86_64"]);
    assert_eq!(m5.hypervisor.as_deref(), Some("nitro"));
    assert_eq!((m5.network_info.maximum_network_interfaces, m5.network_info.ipv4_addresses_per_interface), (3, 10));
    assert_eq!(facts.on_demand_prices["m5.large"], 0.096);
    assert_eq!(facts.network_bandwidth["m5.large"], 750);
    assert_eq!(
        facts.vpc_limits["m5.large"],
        VpcLimits { interfaces: 3, ipv4_per_interface: 10, trunking_compatible: true, branch_interfaces: 9 }
    );
}

#[test]
fn the_ids_of_zones_are_those_of_the_account_of_the_offerings() {
    let facts = Facts::embedded().unwrap();
    let ids: Vec<(&str, &str)> = facts.zones.iter().map(|zone| (&zone.name[9..], zone.id.as_str())).collect();
    let of_account = ["az2", "az4", "az6", "az1", "az3", "az5"].map(|number| format!("use1-{number}"));
    assert_eq!(
        ids,
        ["a", "b", "c", "d", "e", "f"].into_iter().zip(of_account.iter().map(String::as_str)).collect::<Vec<_>>()
    );
    // EC2 offers it in this zone alone, whatever an account calls it.
    assert_eq!(facts.offerings["hpc7g.4xlarge"], ["us-east-1c"]);
}

#[test]
fn encoded_facts_are_decoded_unchanged() {
    let facts = Facts::embedded().unwrap().within_zones(&["us-east-1a"]);
    assert_eq!(facts.zones.len(), 1);
    assert_eq!(Facts::decode(&facts.encode().unwrap()).unwrap(), facts);
}

#[test]
fn damaged_facts_are_an_error() {
    let mut bytes = Facts::default().encode().unwrap();
    bytes.truncate(bytes.len() - 3);
    let error = Facts::decode(&bytes).unwrap_err();
    assert!(error.to_string().contains("cannot decompress the EC2 facts"), "{error}");
}

#[test]
fn both_forms_of_a_response_are_read() {
    let entry = serde_json::to_string(&Facts::embedded().unwrap().instance_types["c7g.xlarge"]).unwrap();
    for answer in [format!("[{entry}]"), format!("{{\"InstanceTypes\":[{entry}],\"NextToken\":null}}")] {
        let types = parse_instance_types(answer.as_bytes()).unwrap();
        assert_eq!(types["c7g.xlarge"], Facts::embedded().unwrap().instance_types["c7g.xlarge"]);
    }
}

#[test]
fn an_invalid_entry_is_reported() {
    let error = parse_instance_types(br#"[{"InstanceType":"m5.large","MemoryInfo":{"SizeInMiB":1}}]"#).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("entry 0 (m5.large)") && text.contains("missing field"), "{text}");
    let error = parse_instance_types(b"{}").unwrap_err();
    assert!(error.to_string().contains("expected a JSON array"), "{error}");
}
