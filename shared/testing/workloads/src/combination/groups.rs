//! The groups of pods of a combination.

use super::Combination;
use super::relations::{relate, topologies};
use crate::build::{labelled, pod};
use crate::draw::Draw;
use nodeless_model::pod::{HostPort, VolumeClaim, Weighted};
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::taint::TolerationOperator;
use nodeless_model::{Operator, Pod, Quantity, Toleration, labels};

/// The key of the taints of NodePools.
pub(super) const TAINT: &str = "example.com/team";

/// A number of pods of the combination. Running pods have the groups of pending ones, and other names.
pub(super) fn pods(of: &Combination, count: usize, prefix: &str) -> Vec<Pod> {
    let each = of.get("group").max(1) as usize;
    let mut sizes = Draw::new(of.seed ^ 0x512e);
    let mut pods = Vec::with_capacity(count);
    for group in 0..count.div_ceil(each) {
        let template = template(of, group);
        for _ in 0..each.min(count - pods.len()) {
            let mut pod = template.clone();
            pod.name = format!("{prefix}-{:06}", pods.len());
            pod.uid = format!("uid-{}", pod.name);
            if of.get("sizes") == 3 {
                resize(&mut pod, of, &mut sizes);
            }
            if !template.template.volume_claims.is_empty() {
                pod.template_mut().volume_claims =
                    vec![VolumeClaim { claim_name: format!("data-{}", pod.name), ephemeral: false }];
            }
            pods.push(pod);
        }
    }
    pods
}

/// The common properties of the pods of a group.
fn template(of: &Combination, group: usize) -> Pod {
    let mut draw = Draw::new(of.seed.wrapping_mul(0x1_0001).wrapping_add(group as u64));
    let mut pod = pod(String::new(), 100, 128);
    match of.get("sizes") {
        0 => {
            let (cpu, memory) = (draw.one_of(&[50, 100, 150, 200, 250]), draw.one_of(&[64, 128, 192, 256, 384, 512]));
            ask(&mut pod, of, cpu, memory);
        }
        1 => ask(&mut pod, of, 100, 128),
        _ => resize(&mut pod, of, &mut draw),
    }
    if draw.percent(of.get("gpu")) {
        pod.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(1));
    }
    pod.template_mut().labels = labelled("app", &format!("g-{group:05}"));
    pod.template_mut().labels.insert("share".into(), format!("s-{}", group % 7));
    pod.template_mut().labels.insert("all".into(), "true".into());
    relate(&mut pod, of, group, &mut draw);
    ask_for_nodes(&mut pod, of, &mut draw);
    if draw.percent(of.get("volumes")) {
        pod.template_mut().volume_claims = vec![VolumeClaim { claim_name: String::new(), ephemeral: false }];
    }
    if draw.percent(of.get("ports")) {
        let port = i32::try_from(8000 + draw.below(of.get("port_numbers") as usize)).unwrap_or(8000);
        pod.template_mut().host_ports = vec![HostPort { ip: String::new(), port, protocol: "TCP".into() }];
    }
    if draw.percent(of.get("tolerates")) {
        let value = draw.below(of.get("pools") as usize).to_string();
        let operator = TolerationOperator::Equal;
        pod.template_mut().tolerations =
            vec![Toleration { key: TAINT.into(), operator, value, ..Toleration::default() }];
    }
    pod
}

fn resize(pod: &mut Pod, of: &Combination, draw: &mut Draw) {
    let cpu = draw.log_normal(150.0, 1.0).clamp(10.0, 2000.0) as i64;
    let memory = draw.log_normal(256.0, 1.1).clamp(16.0, 4096.0) as i64;
    ask(pod, of, cpu, memory);
}

fn ask(pod: &mut Pod, of: &Combination, cpu: i64, memory: i64) {
    let scale = i64::from(of.get("scale"));
    pod.template_mut().requests.set("cpu", Quantity::from_milli(cpu * scale));
    pod.template_mut().requests.set("memory", Quantity::from_mebibytes(memory * scale));
}

fn ask_for_nodes(pod: &mut Pod, of: &Combination, draw: &mut Draw) {
    let alternatives = of.get("alternatives") as usize;
    if draw.percent(of.get("node_affinity")) {
        pod.template_mut().required_node_affinity = (0..alternatives).map(|_| vec![node_term(of, draw)]).collect();
    }
    if draw.percent(of.get("rather_node_affinity")) {
        let one = |weight: usize| Weighted {
            weight: i32::try_from(weight * 7 % 100 + 1).unwrap_or(1),
            preference: vec![node_term(of, draw)],
        };
        pod.template_mut().preferred_node_affinity = (0..alternatives).map(one).collect();
    }
}

fn node_term(of: &Combination, draw: &mut Draw) -> RequirementTerm {
    let [zones, _, racks] = topologies(of);
    let (key, operator, value) = match draw.below(4) {
        0 => (
            labels::ZONE,
            Operator::In,
            draw.one_of(&zones.1.iter().map(String::as_str).collect::<Vec<_>>()).to_owned(),
        ),
        1 => {
            (racks.0, Operator::NotIn, draw.one_of(&racks.1.iter().map(String::as_str).collect::<Vec<_>>()).to_owned())
        }
        2 => (labels::INSTANCE_CPU, Operator::Gt, draw.one_of(&["1", "3", "7", "15"]).to_owned()),
        _ => (labels::INSTANCE_FAMILY, Operator::NotIn, draw.one_of(&["m5", "c5", "r5", "m6i", "c7i"]).to_owned()),
    };
    RequirementTerm { key: key.into(), operator, values: vec![value], min_values: None }
}
