//! Settings of EC2NodeClasses, with figures that were computed manually.

mod offerings;

use super::*;
use crate::facts::{Facts, Zone};
use crate::node_class::{
    AmiFamily, BlockDevice, InstanceStorePolicy, KubeletExpressions, NetworkInterface, PlacementGroup,
    RootVolumeSettings,
};
use nodeless_expressions::Expression;
use nodeless_model::resources::name;
use nodeless_model::{Quantity, Requirement, Requirements, ResourceList, labels};
use proptest::prelude::*;

fn zone(letter: char) -> Zone {
    let facts = Facts::embedded().unwrap();
    facts.zones.iter().find(|zone| zone.name.ends_with(letter)).unwrap().clone()
}

fn settings(ami_family: AmiFamily) -> NodeClassSettings {
    NodeClassSettings::new(ami_family, vec![zone('a'), zone('b'), zone('c')])
}

fn catalog() -> Catalog {
    Catalog::synthetic(1, Facts::embedded().unwrap())
}

fn build(name: &str, settings: &NodeClassSettings) -> InstanceType {
    let catalog = catalog();
    instance_type(&catalog, catalog.get(name).unwrap(), settings, &UnavailableOfferings::default())
}

fn mebibytes(list: &ResourceList, name: &str) -> i64 {
    list.get(name).units() / (1 << 20)
}

fn label(instance_type: &InstanceType, key: &str) -> Option<String> {
    instance_type.requirements.get(key).unwrap().single().map(Into::into)
}

#[test]
fn m5_large_has_the_figures_of_the_formulas() {
    let m5 = build("m5.large", &settings(AmiFamily::Al2023));
    // 3 interfaces x (10 - 1) + 2 = 29 pods; 8192 - ceil(614.4) = 7577 MiB; 11 x 29 + 255 = 574 MiB reserved.
    assert_eq!(m5.capacity.get(name::PODS).units(), 29);
    assert_eq!(mebibytes(&m5.capacity, name::MEMORY), 7_577);
    assert_eq!(mebibytes(&m5.overhead.kube_reserved, name::MEMORY), 574);
    assert_eq!(m5.overhead.kube_reserved.get(name::CPU).milli(), 70);
    assert!(m5.overhead.system_reserved.is_empty());
    assert_eq!(mebibytes(&m5.overhead.eviction_threshold, name::MEMORY), 100);
    assert_eq!(mebibytes(&m5.allocatable(), name::MEMORY), 6_903);
    assert_eq!(m5.allocatable().get(name::CPU).milli(), 1_930);
    assert_eq!(mebibytes(&m5.allocatable(), name::EPHEMERAL_STORAGE), 17 * 1024);
}

#[test]
fn only_the_card_of_the_primary_interface_has_addresses_of_pods() {
    let pods = |name: &str| build(name, &settings(AmiFamily::Al2023)).capacity.get(name::PODS).units();
    // 8 of 15 interfaces, and 12 of 24, are on the first card, each with 50 addresses.
    for name in ["i7ie.48xlarge", "i7ie.metal-48xl"] {
        assert_eq!(pods(name), 8 * 49 + 2, "{name}");
    }
    for name in ["i8ge.48xlarge", "i8ge.metal-48xl"] {
        assert_eq!(pods(name), 12 * 49 + 2, "{name}");
    }
}

#[test]
fn named_instance_types_are_those_of_the_whole_list() {
    let (catalog, settings, short) = (catalog(), settings(AmiFamily::Al2023), UnavailableOfferings::default());
    let named = catalog.instance_types_named(["m5.large", "none", "c5.large", "m5.large"], &settings, &short);
    let mut all = catalog.instance_types(&settings, &short);
    all.retain(|kind| ["c5.large", "m5.large"].contains(&kind.name.as_str()));
    assert_eq!(named, all);
    assert_eq!(named.len(), 2);
}

#[test]
fn arm64_has_64_mebibytes_less() {
    // 8128 - ceil(609.6) = 7518.
    assert_eq!(mebibytes(&build("m6g.large", &settings(AmiFamily::Al2023)).capacity, name::MEMORY), 7_518);
}

#[test]
fn reported_memory_replaces_the_estimate() {
    let mut settings = settings(AmiFamily::Al2023);
    settings.learned_memory.insert("m5.large".into(), Quantity::from_mebibytes(7_600));
    assert_eq!(mebibytes(&build("m5.large", &settings).capacity, name::MEMORY), 7_600);
    assert_eq!(mebibytes(&build("m6i.large", &settings).capacity, name::MEMORY), 7_577);
}

#[test]
fn reserved_enis_reduce_pods_but_not_the_reserved_memory_of_al2023() {
    for (family, kept) in [(AmiFamily::Al2023, 574), (AmiFamily::Bottlerocket, 475)] {
        let mut settings = settings(family);
        settings.reserved_enis = 1;
        let m5 = build("m5.large", &settings);
        assert_eq!(m5.capacity.get(name::PODS).units(), 20, "{family:?}");
        assert_eq!(mebibytes(&m5.overhead.kube_reserved, name::MEMORY), kept, "{family:?}");
    }
    let mut settings = settings(AmiFamily::Al2023);
    settings.reserved_enis = 3;
    assert_eq!(build("m5.large", &settings).capacity.get(name::PODS).units(), 0);
}

#[test]
fn max_pods_and_pods_per_core_limit_the_pods() {
    let pods = |family, max_pods, pods_per_core| {
        let mut settings = settings(family);
        settings.kubelet.max_pods = max_pods;
        settings.kubelet.pods_per_core = pods_per_core;
        build("m5.large", &settings).capacity.get(name::PODS).units()
    };
    assert_eq!(pods(AmiFamily::Al2023, Some(110), None), 110);
    assert_eq!(pods(AmiFamily::Al2023, Some(110), Some(10)), 20);
    assert_eq!(pods(AmiFamily::Al2023, None, Some(10)), 20);
    assert_eq!(pods(AmiFamily::Al2023, None, Some(0)), 29);
    assert_eq!(pods(AmiFamily::Bottlerocket, None, Some(10)), 29);
    assert_eq!(pods(AmiFamily::Windows2022, None, None), 110);
}

#[test]
fn max_pods_does_not_change_the_reserved_memory_of_al2023() {
    let mut settings = settings(AmiFamily::Al2023);
    settings.kubelet.max_pods = Some(110);
    assert_eq!(mebibytes(&build("m5.large", &settings).overhead.kube_reserved, name::MEMORY), 574);
}

/// The settings with expressions for `maxPods` and the two reservations.
fn with_expressions(max_pods: &str, kube: &[(&str, &str)], system: &[(&str, &str)]) -> NodeClassSettings {
    let expression = |text: &str| Expression::parse(text).unwrap();
    let by_name =
        |list: &[(&str, &str)]| list.iter().map(|(key, text)| ((*key).to_owned(), expression(text))).collect();
    let mut settings = settings(AmiFamily::Al2023);
    settings.kubelet.expressions = KubeletExpressions {
        max_pods: Some(expression(max_pods)),
        kube_reserved: by_name(kube),
        system_reserved: by_name(system),
    };
    settings
}

#[test]
fn expressions_of_the_kubelet_settings_have_the_values_of_the_type() {
    let settings = with_expressions(
        "min(250, ((default_enis - 1) * (ips_per_eni - 1)) * 16 + 2)",
        &[("cpu", "max(60, vcpus * 31)"), ("memory", "11 * max_pods + 255"), ("ephemeral-storage", "vcpus + 1")],
        &[("memory", "memory_mib / 64"), ("pid", "instance_type == 'm5.large' ? 1000 : 2000")],
    );
    let of = |name: &str| {
        let kind = build(name, &settings);
        let kube = &kind.overhead.kube_reserved;
        let system = &kind.overhead.system_reserved;
        assert!(kind.offerings.iter().any(|offering| offering.available));
        [
            kind.capacity.get(name::PODS).units(),
            kube.get(name::CPU).milli(),
            mebibytes(kube, name::MEMORY),
            mebibytes(kube, name::EPHEMERAL_STORAGE),
            mebibytes(system, name::MEMORY),
            system.get("pid").units(),
        ]
    };
    // m5.large: 2 x 9 x 16 + 2 = 290 pods at most; 62m rounded up to 70m; 11 x 250 + 255 = 3005 MiB rounded up to 3008.
    assert_eq!(of("m5.large"), [250, 70, 3_008, 3 * 1_024, 128, 1_000]);
    assert_eq!(of("m5.xlarge"), [250, 130, 3_008, 5 * 1_024, 256, 2_000]);
    assert_eq!(of("t3.nano"), [18, 70, 464, 3 * 1_024, 16, 2_000]);
}

#[test]
fn max_pods_in_an_expression_is_the_number_without_it_and_then_with_it() {
    let mut settings = with_expressions("max_pods * 2", &[("memory", "max_pods")], &[]);
    assert_eq!(build("m5.large", &settings).capacity.get(name::PODS).units(), 58);
    assert_eq!(mebibytes(&build("m5.large", &settings).overhead.kube_reserved, name::MEMORY), 64);
    settings.kubelet.pods_per_core = Some(10);
    assert_eq!(build("m5.large", &settings).capacity.get(name::PODS).units(), 20);
    assert_eq!(mebibytes(&build("m5.large", &settings).overhead.kube_reserved, name::MEMORY), 32);
}

#[test]
fn a_type_for_which_an_expression_has_no_usable_value_is_not_launched() {
    for (max_pods, cpu, problem) in [
        ("10 / (vcpus - 2)", "10", "spec.kubelet.maxPods: \"10 / (vcpus - 2)\" cannot be evaluated for m5.large"),
        ("vcpus - 3", "10", "spec.kubelet.maxPods: the expression results in -1 for m5.large, which is negative"),
        ("memory_mib * 1000000", "10", "8192000000 for m5.large, which is more than 2147483647"),
        ("10", "vcpus - 3", "spec.kubelet.kubeReserved.cpu: the expression results in -1 for m5.large"),
    ] {
        let settings = with_expressions(max_pods, &[("cpu", cpu)], &[]);
        let catalog = catalog();
        let only = |name: &str| Catalog { types: vec![catalog.get(name).unwrap().clone()], ..catalog.clone() };
        let error = only("m5.large").check_expressions(&settings).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert_eq!(incompatible("m5.large", &settings), Some(error));
        assert!(build("m5.large", &settings).offerings.iter().all(|offering| !offering.available));
    }
    let settings = with_expressions("10 / (vcpus - 2)", &[], &[]);
    assert_eq!(incompatible("m5.xlarge", &settings), None);
    assert!(catalog().check_expressions(&settings).is_err());
    assert!(catalog().check_expressions(&with_expressions("max_pods", &[("cpu", "vcpus * 10")], &[])).is_ok());
}

fn incompatible(name: &str, settings: &NodeClassSettings) -> Option<String> {
    incompatibility(&catalog().get(name).unwrap().facts, settings).map(|reason| reason.to_string())
}

#[test]
fn kube_reserved_replaces_the_computed_value_of_each_resource() {
    let mut settings = settings(AmiFamily::Al2023);
    settings.kubelet.kube_reserved = ResourceList::from([(name::CPU, Quantity::from_milli(200))]);
    settings.kubelet.system_reserved = ResourceList::from([(name::MEMORY, Quantity::from_mebibytes(50))]);
    let m5 = build("m5.large", &settings);
    assert_eq!(m5.allocatable().get(name::CPU).milli(), 1_800);
    assert_eq!(mebibytes(&m5.allocatable(), name::MEMORY), 6_903 - 50);
}

#[test]
fn eviction_thresholds_are_percentages_of_the_capacity_or_amounts() {
    let threshold = |memory: &str, nodefs: &str| {
        let mut settings = settings(AmiFamily::Al2023);
        settings.kubelet.eviction_memory_available = Some(memory.parse().unwrap());
        settings.kubelet.eviction_nodefs_available = Some(nodefs.parse().unwrap());
        build("m5.large", &settings).overhead.eviction_threshold
    };
    let shares = threshold("5%", "10%");
    // ceil(7577 MiB / 100 x 5) bytes.
    assert_eq!(shares.get(name::MEMORY).units(), 397_253_018);
    assert_eq!(mebibytes(&shares, name::EPHEMERAL_STORAGE), 2_048);
    assert_eq!(threshold("100%", "5%").get(name::MEMORY), Quantity::ZERO);
    assert_eq!(mebibytes(&threshold("200Mi", "3Gi"), name::MEMORY), 200);
    assert_eq!(mebibytes(&threshold("200Mi", "3Gi"), name::EPHEMERAL_STORAGE), 3_072);
}

fn disk(device_name: &str, gib: i64, root_volume: bool) -> BlockDevice {
    BlockDevice {
        device_name: Some(device_name.into()),
        root_volume,
        volume_size: Some(Quantity::from_mebibytes(gib * 1024)),
    }
}

#[test]
fn the_disk_for_containers_is_the_default_of_the_family_or_a_mapping() {
    let gib = |family, block_devices: Vec<BlockDevice>| {
        let mut settings = settings(family);
        settings.block_devices = block_devices;
        mebibytes(&build("m5.large", &settings).capacity, name::EPHEMERAL_STORAGE) / 1024
    };
    assert_eq!(gib(AmiFamily::Al2023, vec![]), 20);
    assert_eq!(gib(AmiFamily::Windows2022, vec![]), 50);
    assert_eq!(gib(AmiFamily::Custom, vec![]), 20);
    assert_eq!(gib(AmiFamily::Al2023, vec![disk("/dev/xvda", 80, false)]), 80);
    assert_eq!(gib(AmiFamily::Al2023, vec![disk("/dev/xvdb", 80, false)]), 20);
    assert_eq!(gib(AmiFamily::Bottlerocket, vec![disk("/dev/xvda", 4, false), disk("/dev/xvdb", 90, false)]), 90);
    assert_eq!(gib(AmiFamily::Custom, vec![disk("/dev/a", 30, false), disk("/dev/b", 40, false)]), 40);
    assert_eq!(gib(AmiFamily::Al2023, vec![disk("/dev/sdz", 70, true), disk("/dev/xvda", 80, false)]), 70);
}

#[test]
fn raid0_uses_the_instance_store_if_there_is_one() {
    let mut settings = settings(AmiFamily::Al2023);
    settings.instance_store_policy = Some(InstanceStorePolicy::Raid0);
    let storage = |name: &str| build(name, &settings).capacity.get(name::EPHEMERAL_STORAGE).units();
    assert_eq!(storage("m5d.large"), 75_000_000_000);
    assert_eq!(storage("m5.large"), 20 << 30);
}

#[test]
fn the_root_volume_that_a_node_pool_asks_for_follows_the_type_and_the_pods() {
    let gib = |gib: i64| Quantity::from_mebibytes(gib * 1024);
    let asked = |family, size: &str, requests: Option<i64>| {
        let mut settings = settings(family);
        let (size, requests) = (size.parse().unwrap(), requests.map(gib));
        settings.root_volume = Some(RootVolumeSettings { size, requests, dollars_per_gib: 0.073 });
        settings
    };
    let of_types = |settings: &NodeClassSettings| {
        ["m5.large", "m5d.4xlarge"].map(|name| {
            let kind = build(name, settings);
            let storage = mebibytes(&kind.capacity, name::EPHEMERAL_STORAGE) / 1024;
            let volumes = kind.root_volume.map(|all| (i64::from(all.planned.gib), all.least_gib, all.class_gib));
            (storage, volumes, (kind.root_volume_price() * 1e6).round() / 1e6)
        })
    };
    let by_cpus = asked(AmiFamily::Al2023, "20Gi+5Gi/vcpu", None);
    assert_eq!(of_types(&by_cpus), [(30, Some((30, 30, 20)), 0.001), (100, Some((100, 100, 20)), 0.008)]);
    // With the instance store the volume has no data of containers.
    let raid = NodeClassSettings { instance_store_policy: Some(InstanceStorePolicy::Raid0), ..by_cpus };
    let [large, with_disks] = of_types(&raid);
    assert_eq!((large.0, with_disks), (30, (558, None, 0.0)));

    let by_pods = |requests| of_types(&asked(AmiFamily::Bottlerocket, "pods max 520Gi", requests))[0];
    assert_eq!(by_pods(None), (520, Some((520, 20, 20)), 0.05));
    assert_eq!(by_pods(Some(0)), (20, Some((20, 20, 20)), 0.0));
    // 20 GiB, and 90 GiB with 10% below which the kubelet evicts.
    assert_eq!(by_pods(Some(90)).0, 120);
    assert_eq!(by_pods(Some(600)).0, 520);
    let mut fixed = asked(AmiFamily::Al2023, "20Gi+pods max 520Gi", Some(90));
    fixed.kubelet.eviction_nodefs_available = Some("40Gi".parse().unwrap());
    let kind = build("m5.large", &fixed);
    assert_eq!(mebibytes(&kind.capacity, name::EPHEMERAL_STORAGE) / 1024, 131);
    assert_eq!(kind.allocatable().get(name::EPHEMERAL_STORAGE), gib(90));
}

#[test]
fn devices_are_counted() {
    let has = |kind: &str, resource: &str| build(kind, &settings(AmiFamily::Al2023)).capacity.get(resource).units();
    assert_eq!(has("p5.48xlarge", resource::NVIDIA_GPU), 8);
    assert_eq!(has("g4ad.16xlarge", resource::AMD_GPU), 4);
    assert_eq!(has("dl1.24xlarge", resource::HABANA_GAUDI), 8);
    assert_eq!(has("trn1.32xlarge", resource::AWS_NEURON), 16);
    assert_eq!(has("trn1.32xlarge", resource::AWS_NEURON_CORE), 32);
    assert_eq!(has("p5.48xlarge", resource::AWS_EFA), 32);
    assert_eq!(has("m5.large", resource::AWS_POD_ENI), 9);
    // A pod cannot request a fraction of a GPU.
    assert!(!build("g6f.large", &settings(AmiFamily::Al2023)).capacity.contains(resource::NVIDIA_GPU));
}

#[test]
fn windows_nodes_have_addresses_and_a_build_label() {
    let m5 = build("m5.large", &settings(AmiFamily::Windows2022));
    assert_eq!(m5.capacity.get(resource::AWS_PRIVATE_IPV4).units(), 9);
    assert_eq!(label(&m5, labels::OS).as_deref(), Some("windows"));
    assert_eq!(label(&m5, labels::WINDOWS_BUILD).as_deref(), Some("10.0.20348"));
    // The maximum number of pods is 110.
    assert_eq!(mebibytes(&m5.overhead.kube_reserved, name::MEMORY), 11 * 110 + 255);
    let arm = build("m6g.large", &settings(AmiFamily::Windows2022));
    assert!(arm.requirements.get(labels::OS).unwrap().is_empty());
    assert!(arm.offerings.iter().all(|offering| !offering.available));
}

#[test]
fn a_label_that_nodes_do_not_get_is_listed_as_absent() {
    let m5 = build("m5.large", &settings(AmiFamily::Al2023));
    for key in [
        labels::INSTANCE_GPU_COUNT,
        labels::INSTANCE_LOCAL_NVME,
        labels::INSTANCE_ACCELERATOR_NAME,
        labels::WINDOWS_BUILD,
        labels::CAPACITY_RESERVATION_ID,
        labels::PLACEMENT_GROUP_ID,
        labels::PLACEMENT_GROUP_PARTITION,
    ] {
        let requested = Requirements::from([(key, Requirement::exists())]);
        assert_eq!(m5.requirements.first_incompatible(&requested, labels::is_well_known), Some(key));
    }
}

fn reason(name: &str, change: impl FnOnce(&mut NodeClassSettings)) -> Option<Incompatibility> {
    let mut settings = settings(AmiFamily::Al2023);
    change(&mut settings);
    incompatibility(&catalog().get(name).unwrap().facts, &settings)
}

#[test]
fn settings_that_a_type_does_not_support_are_reported() {
    assert_eq!(reason("a1.large", |_| ()), Some(Incompatibility::AmiFamilyWithoutA1));
    assert_eq!(reason("a1.large", |settings| settings.ami_family = AmiFamily::Al2), None);
    let nested = |settings: &mut NodeClassSettings| settings.nested_virtualization = true;
    assert_eq!(reason("m5.large", nested), Some(Incompatibility::NestedVirtualization));
    let enclaves = |settings: &mut NodeClassSettings| settings.enclaves = true;
    assert_eq!(reason("t3.xlarge", enclaves), Some(Incompatibility::Enclaves));
    assert_eq!(reason("m5.xlarge", enclaves), None);
    let tracked = |settings: &mut NodeClassSettings| settings.connection_tracking = true;
    assert_eq!(reason("m5.metal", tracked), Some(Incompatibility::ConnectionTracking));
    assert_eq!(reason("m5.large", tracked), None);
    let cluster = |settings: &mut NodeClassSettings| {
        settings.placement_group =
            Some(PlacementGroup { id: "pg-1".into(), strategy: "cluster".into(), partitions: 0 });
    };
    assert_eq!(reason("t3.large", cluster), Some(Incompatibility::PlacementStrategy("cluster".into())));
    assert_eq!(reason("m5.large", cluster), None);
    let prefixes = |count| move |settings: &mut NodeClassSettings| settings.ip_prefix_count = count;
    assert_eq!(reason("m5.large", prefixes(9)), None);
    assert_eq!(reason("m5.large", prefixes(10)), Some(Incompatibility::IpPrefixCount { requested: 10, maximum: 9 }));
}

#[test]
fn network_interfaces_need_cards_and_adapters() {
    let with = |interfaces: Vec<NetworkInterface>| {
        move |settings: &mut NodeClassSettings| settings.network_interfaces = interfaces
    };
    let interface =
        |card, device, efa_only| NetworkInterface { network_card_index: card, device_index: device, efa_only };
    let primary = interface(0, 0, false);
    assert_eq!(reason("m5.large", with(vec![primary])), None);
    assert_eq!(reason("m3.large", with(vec![primary])), Some(Incompatibility::NoEna));
    assert_eq!(reason("m5.large", with(vec![primary, interface(1, 0, false)])), Some(Incompatibility::NetworkCard(1)));
    assert_eq!(
        reason("m5.large", with(vec![primary, interface(0, 3, false)])),
        Some(Incompatibility::DeviceIndex { card: 0, device: 3 })
    );
    assert_eq!(
        reason("m5.large", with(vec![primary, interface(0, 1, true)])),
        Some(Incompatibility::EfaInterfaces { requested: 1, maximum: 0 })
    );
    let mut settings = settings(AmiFamily::Al2023);
    settings.network_interfaces = vec![primary, interface(0, 1, true)];
    let c5n = build("c5n.18xlarge", &settings);
    assert_eq!(c5n.capacity.get(resource::AWS_EFA).units(), 1);
    // One of 15 interfaces has no pods: 14 x 49 + 2.
    assert_eq!(c5n.capacity.get(name::PODS).units(), 14 * 49 + 2);
}

proptest! {
    /// More cpus never mean fewer allocatable cpus, and the reserved part never exceeds 7%.
    #[test]
    fn reserved_cpu_is_at_most_seven_percent(cpus in 1_u32..2_000) {
        let kept = kube_reserved_cpu_milli(cpus);
        prop_assert!(kept >= 60 && kept * 100 <= i64::from(cpus) * 1000 * 7);
        let next = kube_reserved_cpu_milli(cpus + 1);
        prop_assert!((0..1000).contains(&(next - kept)));
    }

    /// For every `maxPods`, allocatable resources are within the capacity and not negative.
    #[test]
    fn allocatable_is_within_capacity(index in 0_usize..1_200, max_pods in proptest::option::of(0_u32..1_000),
                                      share in 0.0_f64..0.5, bottlerocket: bool) {
        let mut settings = settings(if bottlerocket { AmiFamily::Bottlerocket } else { AmiFamily::Al2023 });
        settings.kubelet.max_pods = max_pods;
        settings.vm_memory_overhead_percent = share;
        let facts = Facts::embedded().unwrap();
        let name = facts.instance_types.keys().nth(index).unwrap();
        let info = &facts.instance_types[name];
        if let Some(type_facts) = crate::type_facts::TypeFacts::new(info, facts.vpc_limits.get(name), None) {
            let entry = CatalogType { facts: type_facts, on_demand_price: None, derived_price: false, offers: vec![] };
            let catalog = Catalog { types: vec![], ..Catalog::new(1, &Facts::default(), crate::stored::OnDemandPriceSource::Embedded, None) };
            let kind = instance_type(&catalog, &entry, &settings, &UnavailableOfferings::default());
            for (resource, quantity) in kind.allocatable().iter() {
                prop_assert!(quantity >= Quantity::ZERO && quantity <= kind.capacity.get(resource), "{name} {resource}");
            }
        }
    }
}

#[test]
fn nodes_attach_what_the_csi_driver_reports() {
    let volumes = |name: &str, settings: &NodeClassSettings| build(name, settings).ebs_volumes.unwrap();
    let plain = settings(AmiFamily::Al2023);
    for (name, expected, why) in [
        ("m5.4xlarge", 25, "27, less the root volume and a second interface"),
        ("m5d.4xlarge", 23, "25, because two disks of the instance store take attachments"),
        ("m7i.4xlarge", 31, "32 of a dedicated limit, less the root volume"),
        ("m7i.24xlarge", 63, "64 of a dedicated limit, less the root volume"),
        ("c4.large", 38, "39 of Xen, less the root volume"),
        ("d3en.8xlarge", 9, "11, less the root volume and a second interface"),
    ] {
        assert_eq!(volumes(name, &plain), expected, "{name}: {why}");
    }
    let device = |name: &str| BlockDevice { device_name: Some(name.into()), ..BlockDevice::default() };
    let with_devices = |family: AmiFamily, names: &[&str]| NodeClassSettings {
        block_devices: names.iter().map(|name| device(name)).collect(),
        ..settings(family)
    };
    for (family, devices, expected) in [
        (AmiFamily::Al2023, &["/dev/xvda"][..], 25),
        (AmiFamily::Al2023, &["/dev/xvda", "/dev/xvdb"], 24),
        (AmiFamily::Al2023, &["/dev/xvdb"], 24),
        (AmiFamily::Bottlerocket, &[], 24),
        (AmiFamily::Custom, &[], 25),
        (AmiFamily::Custom, &["/dev/sdb"], 24),
    ] {
        assert_eq!(volumes("m5.4xlarge", &with_devices(family, devices)), expected, "{family:?} {devices:?}");
    }
    let interface = NetworkInterface { network_card_index: 0, device_index: 1, efa_only: false };
    let interfaces = NodeClassSettings { network_interfaces: vec![interface; 3], ..plain.clone() };
    assert_eq!(volumes("m5.4xlarge", &interfaces), 23, "two more interfaces at launch");
    let reserved = NodeClassSettings { reserved_enis: 1, ..plain };
    assert_eq!(volumes("m5.4xlarge", &reserved), 24);
    assert_eq!(volumes("m7i.4xlarge", &interfaces), 31);
}
