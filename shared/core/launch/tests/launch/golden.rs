//! Compares user data, launch templates and fleet requests with the files in `tests/golden`, so that a review shows changes
//! of the requests to EC2. After an intended change, write the files again:
//!
//! ```sh
//! NODELESS_WRITE_GOLDEN=1 cargo test -p nodeless-launch --test launch golden
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodeless_api::EC2NodeClass;
use nodeless_launch::request::{FleetCall, create_fleet, launch_template_data};
use nodeless_launch::template::{TemplateSpec, instance_tags};
use nodeless_launch::{ClusterDetails, fleet};
use nodeless_model::claim::{LaunchGroup, NodeClaimSpec, NodeClaimStatus, Phase};
use nodeless_model::instance::LaunchCandidate;
use nodeless_model::{
    CapacityType, NodeClaim, Requirement, Requirements, ResourceList, StringMap, Taint, TaintEffect, labels,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A launch, described by a JSON file `tests/golden/NAME.in.json`: the spec of the class, and other values that are not
/// defaults.
struct Launch {
    name: String,
    cluster: ClusterDetails,
    class: EC2NodeClass,
    claim: NodeClaim,
    candidates: Vec<LaunchCandidate>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn launches() -> Vec<Launch> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str().unwrap().strip_suffix(".in.json").map(str::to_owned))
        .collect();
    names.sort();
    names.into_iter().map(launch).collect()
}

fn launch(name: String) -> Launch {
    let text = fs::read_to_string(folder().join(format!("{name}.in.json"))).unwrap();
    let input: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}.in.json: {error}"));
    let cidr = input["serviceCidr"].as_str().unwrap_or("10.100.0.0/16");
    let windows = input["spec"]["amiFamily"].as_str().is_some_and(|family| family.starts_with("Windows"));
    let cluster = ClusterDetails {
        name: "prod".into(),
        version: "1.32".into(),
        endpoint: "https://ABCDEF.gr7.us-east-1.eks.amazonaws.com".into(),
        certificate_authority: "Q0VSVElGSUNBVEU=".into(),
        service_cidr: Some(cidr.into()),
    };
    let status = json!({
        "subnets": [{"id": "subnet-a", "zone": "us-east-1a"}, {"id": "subnet-b", "zone": "us-east-1b"}],
        "securityGroups": [{"id": "sg-1"}, {"id": "sg-2"}],
        "instanceProfile": "prod_0123456789abcdef",
        "amis": [
            {"id": "ami-x86", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]},
            {"id": "ami-arm", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]},
        ],
    });
    let read = |error| panic!("{name}.in.json: {error}");
    let mut class = EC2NodeClass::new("default", serde_json::from_value(input["spec"].clone()).unwrap_or_else(read));
    class.status = serde_json::from_value(status).unwrap();
    let candidates = input["candidates"].as_array().unwrap().iter().map(candidate).collect();
    Launch { cluster, class, claim: claim(&input, windows), candidates, name }
}

fn candidate(input: &Value) -> LaunchCandidate {
    let text = |key: &str| input[key].as_str().map(str::to_owned);
    let resources = |key: &str| -> ResourceList {
        input.get(key).map(|list| serde_json::from_value(list.clone()).unwrap()).unwrap_or_default()
    };
    LaunchCandidate {
        instance_type: text("type").unwrap(),
        architecture: text("architecture").unwrap_or_else(|| "amd64".into()),
        labels: serde_json::from_value(input.get("labels").cloned().unwrap_or_else(|| json!({}))).unwrap(),
        max_pods: u32::try_from(input["pods"].as_u64().unwrap_or(29)).unwrap(),
        kube_reserved: resources("kubeReserved"),
        system_reserved: resources("systemReserved"),
        zone: text("zone").unwrap_or_else(|| "us-east-1a".into()),
        capacity_type: serde_json::from_value::<CapacityType>(input["capacityType"].clone()).unwrap(),
        price: input["price"].as_f64().unwrap(),
        reservation_id: text("reservation"),
        partition: input["partition"].as_u64().map(|number| u32::try_from(number).unwrap()),
        efa_interfaces: u32::try_from(input["efa"].as_u64().unwrap_or(0)).unwrap(),
        root_volume_gib: input["rootVolumeGib"].as_u64().map(|gib| u32::try_from(gib).unwrap()),
    }
}

fn claim(input: &Value, windows: bool) -> NodeClaim {
    let tenancy = input["tenancy"].as_str().map(|tenancy| (labels::INSTANCE_TENANCY, Requirement::one_of([tenancy])));
    let all_or_none = input["allOrNone"].as_bool().unwrap_or(false);
    let os = if windows { "windows" } else { "linux" };
    NodeClaim {
        name: "default-abcde".into(),
        uid: "6f0c".into(),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        version: 1,
        spec: NodeClaimSpec {
            launch_group: Some(LaunchGroup { id: "group-1".into(), index: 0, size: 2, all_or_none }),
            labels: StringMap::from([
                (labels::NODE_POOL.to_owned(), "default".to_owned()),
                (labels::OS.to_owned(), os.to_owned()),
                ("team".to_owned(), "a".to_owned()),
            ]),
            taints: vec![Taint { key: "dedicated".into(), value: "a".into(), effect: TaintEffect::NoSchedule }],
            requests: serde_json::from_value(input.get("requests").cloned().unwrap_or_else(|| json!({}))).unwrap(),
            requirements: tenancy.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Requirements>(),
            ..NodeClaimSpec::default()
        },
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    }
}

impl Launch {
    /// The requests to EC2: the templates, with user data also as text, and the fleet.
    fn requests(&self) -> Value {
        let plan = fleet::plan(&self.class, &self.claim, &self.candidates).unwrap();
        let spot = plan.capacity_type == CapacityType::Spot;
        let mut names = BTreeMap::new();
        let mut templates = serde_json::Map::new();
        for variant in plan.groups.keys() {
            let spec = TemplateSpec::new(&self.cluster, &self.claim, &self.class, variant, spot).unwrap();
            // The name is a hash of the content, which is in the file too; a constant name is easier to review.
            let name = format!("template {}", names.len() + 1);
            let mut data = launch_template_data(&spec);
            let encoded = data["UserData"].take();
            let text = encoded.as_str().map(|text| String::from_utf8(STANDARD.decode(text).unwrap()).unwrap());
            data["UserData"] = text.map_or(Value::Null, |text| text.lines().collect::<Vec<_>>().into());
            names.insert(variant.clone(), name.clone());
            templates.insert(name, data);
        }
        let tags = instance_tags(&self.cluster, &self.claim, &self.class.spec);
        let fleet =
            create_fleet(&FleetCall { plan: &plan, templates: &names, count: 2, client_token: "group-1", tags: &tags });
        json!({ "launchTemplates": templates, "createFleet": fleet })
    }
}

#[test]
fn the_requests_to_ec2_are_those_of_the_files() {
    let launches = launches();
    assert!(launches.len() >= 12, "{} launches", launches.len());
    let write = std::env::var_os("NODELESS_WRITE_GOLDEN").is_some();
    let mut differing = Vec::new();
    for launch in &launches {
        let path = folder().join(format!("{}.out.json", launch.name));
        let made = serde_json::to_string_pretty(&launch.requests()).unwrap() + "\n";
        if write {
            fs::write(&path, &made).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != made {
            differing.push(format!("{}:\n{made}", path.display()));
        }
    }
    assert!(
        differing.is_empty(),
        "{} files differ; see the head of this test\n{}",
        differing.len(),
        differing.join("\n")
    );
}

/// The fields of `spec` that do not affect a launch: they are resolved before, and the status contains the result.
const RESOLVED_BEFORE: [&str; 6] = [
    "amiSelectorTerms",
    "capacityReservationSelectorTerms",
    "instanceProfile",
    "role",
    "securityGroupSelectorTerms",
    "subnetSelectorTerms",
];

#[test]
fn the_files_cover_every_field_of_an_ec2nodeclass() {
    let mut covered: BTreeSet<String> = RESOLVED_BEFORE.map(str::to_owned).into();
    for launch in launches() {
        let spec = serde_json::to_value(&launch.class.spec).unwrap();
        covered.extend(spec.as_object().unwrap().keys().cloned());
    }
    let fields = fields_of_the_definition();
    assert!(fields.len() > 15, "{fields:?}");
    let missing: Vec<&String> = fields.difference(&covered).collect();
    assert!(missing.is_empty(), "no launch sets {missing:?}");
}

/// The names of `spec` in the CustomResourceDefinition that is generated from the types.
fn fields_of_the_definition() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../infra/crds/karpenter.k8s.aws_ec2nodeclasses.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let definition: Value = serde_saphyr::from_str(&text).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"].as_object().unwrap().keys().cloned().collect()
}
