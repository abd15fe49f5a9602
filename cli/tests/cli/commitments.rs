//! `--commitments`: plans with Savings Plans and Reserved Instances.

use crate::support::objects::Objects;
use crate::support::{Ended, Folder, nodeless};
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_catalog::Catalog;
use nodeless_commitments::{Exports, Share, Usage, apply};
use nodeless_model::CapacityType;
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const REGION: &str = "us-east-1";
const HOURS: f64 = 730.0;

/// A NodePool for m5 and c5 with these capacity types, and pending pods.
fn cluster(capacity_types: &[&str], pods: usize) -> Objects {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types },
        { "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "c5"] },
    ]);
    let mut objects = Objects(vec![
        node_pool_manifest("default", &requirements, &json!({})),
        ec2_node_class_manifest("default", "example", &json!({})),
    ]);
    for index in 0..pods {
        objects.pod(&format!("web-{index}"), None, "900m");
    }
    objects
}

/// A node that runs a pod.
fn node(objects: &mut Objects, name: &str, instance_type: &str, capacity_type: &str) {
    let node = objects.node(name, instance_type, capacity_type);
    let amounts = json!({ "cpu": "1930m", "memory": "7000Mi", "pods": "29" });
    (node["status"]["allocatable"], node["status"]["capacity"]) = (amounts.clone(), amounts);
    objects.pod(&format!("on-{name}"), Some(name), "1500m");
}

fn run(objects: &Objects, arguments: &[&str]) -> Ended {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects.0 });
    let mut command = nodeless();
    command.args(["plan", "--cluster", "-"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

fn plan(objects: &Objects, arguments: &[&str]) -> Value {
    let ended = run(objects, &[&["-o", "json"], arguments].concat());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn price(instance_type: &str) -> f64 {
    let catalog = Catalog::embedded().unwrap();
    catalog.dollars_per_hour(instance_type, "us-east-1a", CapacityType::OnDemand).unwrap()
}

/// A Savings Plan of this commitment in dollars an hour, with rates of 60% for these types.
fn savings_plan(folder: &Folder, family: Option<&str>, dollars: f64, types: &[&str]) {
    let id = family.unwrap_or("compute");
    let mut own = json!({
        "savingsPlanId": id, "savingsPlanType": "Compute", "state": "active", "currency": "USD",
        "start": "2025-07-01T00:00:00.000Z", "end": "2028-06-30T23:59:59.000Z", "commitment": dollars.to_string(),
    });
    if let Some(family) = family {
        own["savingsPlanType"] = json!("EC2Instance");
        (own["ec2InstanceFamily"], own["region"]) = (json!(family), json!(REGION));
    }
    let rate = |name: &&str| {
        json!({
            "rate": (price(name) * 0.6).to_string(), "currency": "USD", "unit": "Hrs", "productType": "EC2",
            "serviceCode": "AmazonEC2", "usageType": format!("BoxUsage:{name}"), "operation": "RunInstances",
            "properties": [
                { "name": "region", "value": REGION }, { "name": "instanceType", "value": name },
                { "name": "productDescription", "value": "Linux/UNIX" }, { "name": "tenancy", "value": "shared" },
            ]
        })
    };
    write(folder, &format!("plan-{id}.json"), &json!({ "savingsPlans": [own] }));
    let rates: Vec<Value> = types.iter().map(rate).collect();
    write(folder, &format!("rates-{id}.json"), &json!({ "savingsPlanId": id, "searchResults": rates }));
}

fn reserved(folder: &Folder, instance_type: &str, count: u32) {
    let own = json!({
        "ReservedInstancesId": instance_type, "InstanceType": instance_type, "InstanceCount": count,
        "ProductDescription": "Linux/UNIX", "InstanceTenancy": "default", "CurrencyCode": "USD", "State": "active",
        "Start": "2025-07-01T00:00:00+00:00", "End": "2028-07-01T00:00:00+00:00", "Duration": 94_608_000,
        "FixedPrice": 0.0, "UsagePrice": 0.0, "Scope": "Region",
        "RecurringCharges": [{ "Amount": price(instance_type) * 0.6, "Frequency": "Hourly" }],
    });
    write(folder, &format!("reserved-{instance_type}.json"), &json!({ "ReservedInstances": [own] }));
}

fn write(folder: &Folder, name: &str, content: &Value) {
    fs::write(folder.path().join(name), content.to_string()).unwrap();
}

const TYPES: [&str; 10] = [
    "m5.large",
    "m5.xlarge",
    "m5.2xlarge",
    "m5.4xlarge",
    "m5.8xlarge",
    "c5.large",
    "c5.xlarge",
    "c5.2xlarge",
    "c5.4xlarge",
    "c5.9xlarge",
];

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {value:#}"))
}

/// What is paid in an hour for the launches of a plan that was made without commitments.
fn paid_without(plan: &Value, folder: &Path) -> f64 {
    let mut exports = Exports::default();
    for file in fs::read_dir(folder).unwrap() {
        exports.read("file", &fs::read(file.unwrap().path()).unwrap()).unwrap();
    }
    let all = exports.in_effect(REGION, "2026-06-01T00:00:00Z".parse().unwrap(), Share::ALL).unwrap();
    let offerings: Vec<(String, String, String, f64)> = plan["launches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|launch| {
            let text = |key: &str| launch["offering"][key].as_str().unwrap().to_owned();
            (text("instanceType"), text("zone"), text("capacityType"), number(launch, "/offering/pricePerHour"))
        })
        .collect();
    let usages: Vec<Usage<'_>> = offerings
        .iter()
        .map(|(instance_type, zone, capacity_type, price)| Usage {
            instance_type,
            zone,
            capacity_type: CapacityType::from_label(capacity_type).unwrap(),
            linux: true,
            hours: 1.0,
            price: Some(*price),
        })
        .collect();
    apply(&usages, &all).paid()
}

#[test]
fn prepaid_hours_are_used_before_spot_until_they_are_used_up() {
    let folder = Folder::new();
    savings_plan(&folder, None, 0.6 * price("m5.large") * 6.0, &TYPES);
    let files = folder.path().to_str().unwrap();
    let objects = cluster(&["on-demand", "spot"], 40);
    let without = plan(&objects, &[]);
    let on_demand = |plan: &Value| {
        let launches = plan["launches"].as_array().unwrap().iter();
        launches.filter(|launch| launch["offering"]["capacityType"] == "on-demand").count()
    };
    assert_eq!(on_demand(&without), 0);
    let with = plan(&objects, &["--commitments", files]);
    // Both: what is prepaid, and spot for the rest.
    let launches = with["launches"].as_array().unwrap().len();
    assert!(on_demand(&with) > 0 && on_demand(&with) < launches, "{with:#}");
    let paid = number(&with, "/commitments/planned/paidPerHour");
    assert!(paid < paid_without(&without, folder.path()) - 0.1, "{paid}: {with:#}");
    assert!(number(&with, "/commitments/planned/unusedPerHour") < 0.1, "{with:#}");
    // The prices of the launches are those without commitments.
    for launch in with["launches"].as_array().unwrap() {
        let (own, covered) = (number(launch, "/offering/pricePerHour"), number(launch, "/coveredPerHour"));
        assert!(own > 0.01 && covered <= own + 1e-6, "{launch:#}");
        assert!(launch["requirements"].get("karpenter.k8s.aws/capacity-reservation-id").is_none(), "{launch:#}");
    }
    let half = plan(&objects, &["--commitments", files, "--commitments-share", "0.5"]);
    let committed = |plan: &Value| number(plan, "/commitments/planned/committedPerHour");
    assert!((committed(&half) - 0.5 * committed(&with)).abs() < 1e-6);
}

#[test]
fn reserved_instances_choose_their_family() {
    let folder = Folder::new();
    reserved(&folder, "m5.xlarge", 2);
    let objects = cluster(&["on-demand"], 6);
    let with = plan(&objects, &["--commitments", folder.path().to_str().unwrap()]);
    let types: Vec<&str> = with["launches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["offering"]["instanceType"].as_str().unwrap())
        .collect();
    assert!(types.iter().all(|name| name.starts_with("m5.")), "{types:?}");
    assert_eq!(number(&with, "/commitments/planned/uncoveredPerHour"), 0.0, "{with:#}");
    let notes = with["commitments"]["notes"].to_string();
    assert!(notes.contains("assumed to be those of us-east-1"), "{notes}");
}

#[test]
fn a_plan_never_pays_more_than_without_commitments() {
    for capacity_types in [&["on-demand"][..], &["on-demand", "spot"]] {
        for pods in [3, 25] {
            let objects = cluster(capacity_types, pods);
            let without = plan(&objects, &[]);
            for kind in 0..5 {
                let folder = Folder::new();
                match kind {
                    0 => savings_plan(&folder, None, 0.3, &TYPES),
                    1 => savings_plan(&folder, Some("m5"), 1.5, &TYPES),
                    2 => reserved(&folder, "m5.4xlarge", 1),
                    3 => reserved(&folder, "c5.large", 3),
                    _ => {
                        savings_plan(&folder, None, 0.2, &TYPES[..4]);
                        savings_plan(&folder, Some("c5"), 0.2, &TYPES);
                        reserved(&folder, "m5.large", 2);
                    }
                }
                let with = plan(&objects, &["--commitments", folder.path().to_str().unwrap()]);
                let paid = number(&with, "/commitments/planned/paidPerHour");
                let list = paid_without(&without, folder.path());
                assert!(paid <= list + 1e-5, "{capacity_types:?} {pods} {kind}: {paid} instead of {list}");
            }
        }
    }
}

#[test]
fn what_if_shows_that_commitments_stay_paid() {
    let folder = Folder::new();
    let rate = 0.6 * price("m5.large");
    savings_plan(&folder, Some("m5"), 4.0 * rate, &TYPES);
    let mut objects = cluster(&["on-demand"], 0);
    for index in 0..3 {
        node(&mut objects, &format!("n{index}"), "m5.large", "on-demand");
    }
    let files = folder.path().to_str().unwrap();
    let compared = plan(&objects, &["--what-if", "--commitments", files]);
    let today = &compared["today"];
    // Three of four hours are used, and all are paid.
    let month = |dollars: f64| (dollars * HOURS).round();
    assert_eq!(number(today, "/dollarsPerMonth"), month(4.0 * rate), "{today:#}");
    assert!((number(today, "/commitments/unusedPerHour") - rate).abs() < 1e-5, "{today:#}");
    let spot = compared["alternatives"].as_array().unwrap().iter().find(|one| one["kind"] == "spot").unwrap();
    // Spot is no cheaper than hours that are paid anyway.
    assert!(number(spot, "/dollarsPerMonth") >= month(4.0 * rate), "{spot:#}");
    assert!(number(spot, "/difference/dollarsPerMonth") >= 0.0, "{spot:#}");
    let without = plan(&objects, &["--what-if"]);
    let spot = without["alternatives"].as_array().unwrap().iter().find(|one| one["kind"] == "spot").unwrap();
    assert!(number(spot, "/difference/dollarsPerMonth") < 0.0, "{spot:#}");
    let text = run(&objects, &["--what-if", "--commitments", files]).stdout;
    assert!(text.contains("unused commitments") && text.contains("EC2 Instance Savings Plan m5 m5: "), "{text}");
    assert!(text.contains("of which $"), "{text}");
}

#[test]
fn the_text_shows_what_is_covered() {
    let exports = Folder::new();
    savings_plan(&exports, None, 1.0, &TYPES[..9]);
    let mut objects = cluster(&["on-demand"], 3);
    node(&mut objects, "n", "c5.9xlarge", "on-demand");
    let arguments = ["--commitments", exports.path().to_str().unwrap(), "--explain", "web-0"];
    let ended = run(&objects, &arguments);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("Now with commitments: "), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("With this plan: ") && ended.stdout.contains("commitments cover $"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("Compute Savings Plan compute: $"), "{}", ended.stdout);
    let why = "the rates of Savings Plan compute do not contain c5.9xlarge, so it does not cover them here";
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
}

#[test]
fn files_that_cannot_be_used_are_refused_in_one_line_and_nothing_is_written() {
    let folder = Folder::new();
    let page: PathBuf = folder.path().join("page.html");
    let objects = cluster(&["on-demand"], 1);
    let refused = |exports: &Folder| {
        let files = exports.path().to_str().unwrap();
        let ended = run(&objects, &["--what-if", "--commitments", files, "--html", page.to_str().unwrap()]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{}", ended.stderr);
        assert!(!page.exists());
        ended.stderr
    };
    assert!(refused(&Folder::new()).contains("has no .yaml, .yml or .json file"));
    for text in ["{{ .Values.plans }}", "{\"savingsPlans\": [{\"savingsPlanId\": \"x\"", "kind: Pod\n", "{}"] {
        let exports = Folder::new();
        fs::write(exports.path().join("x.json"), text).unwrap();
        let why = refused(&exports);
        assert!(
            why.contains("x.json") && why.contains("export it again") | why.contains("give the output of"),
            "{why}"
        );
    }
    let exports = Folder::new();
    savings_plan(&exports, None, 1.0, &TYPES);
    fs::remove_file(exports.path().join("rates-compute.json")).unwrap();
    let why = refused(&exports);
    assert!(why.contains("aws savingsplans describe-savings-plan-rates --savings-plan-id compute "), "{why}");
    // In a region without rates, they are as good as missing.
    savings_plan(&exports, None, 1.0, &TYPES);
    let ended = run(&objects, &["--commitments", exports.path().to_str().unwrap(), "--region", "eu-west-1"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("name=region,values=eu-west-1"), "{}", ended.stderr);
    let ended = run(&objects, &["--commitments-share", "0.5"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("--commitments"), "{}", ended.stderr);
}

#[test]
fn a_report_states_what_commitments_cover_of_its_hours() {
    let folder = Folder::new();
    let mut record = crate::report::record();
    record["offerings"] = json!([{
        "instanceType": "m5.large", "zone": "us-east-1a", "capacityType": "on-demand",
        "seconds": 7200.0, "dollars": 2.0 * price("m5.large"), "onDemandDollars": 2.0 * price("m5.large")
    }]);
    let item = crate::report::item("2026-11-23T12", 1, &record);
    let hours = folder.path().join("hours.json");
    fs::write(&hours, json!({ "Items": [item] }).to_string()).unwrap();
    let exports = Folder::new();
    reserved(&exports, "m5.large", 1);
    let mut command = nodeless();
    command.arg("report").arg(&hours).args(["--commitments", exports.path().to_str().unwrap()]);
    let ended: Ended = command.output().unwrap().into();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let expected = "note: commitments in 1 hour: $0.0576 committed, which cover on-demand prices of $0.0960; $0.0960 uncovered, \
                    $0.0000 of the commitments unused";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
}
