//! Metrics of conditions: `status/metrics.go` of operatorpkg, with the labels that Karpenter adds (`pkg/controllers/controllers.go`).

use super::text::{Labels, Writer};
use super::{Sources, StatusMore, seconds};
use crate::objects::decode::ShownKind;
use nodeless_model::{StringMap, labels};

/// A kind whose conditions are measured.
struct Of {
    kind: ShownKind,
    /// Its name in metrics.
    name: &'static str,
    /// Its group, if the metrics that operatorpkg deprecates are published too.
    group: Option<&'static str>,
    /// The labels of objects that become labels of the metrics.
    labels: &'static [&'static str],
}

const KINDS: [Of; 4] = [
    Of {
        kind: ShownKind::NodeClaim,
        name: "nodeclaim",
        group: Some("karpenter.sh"),
        labels: &[labels::EC2_NODE_CLASS, labels::NODE_POOL],
    },
    Of { kind: ShownKind::NodePool, name: "nodepool", group: Some("karpenter.sh"), labels: &[] },
    Of { kind: ShownKind::NodeClass, name: "ec2nodeclass", group: Some("karpenter.k8s.aws"), labels: &[] },
    Of {
        kind: ShownKind::Node,
        name: "node",
        group: None,
        labels: &[labels::EC2_NODE_CLASS, labels::NODE_POOL, labels::INITIALIZED],
    },
];

const COUNT: &str = "The number of a condition for a given object, type and status. e.g. Alarm := Available=False > 0";
const STATUS: &str = "The current amount of time in seconds that a status condition has been in a specific state. Alarm := P99(Updated=Unknown) > 5 minutes";
const TERMINATION: &str = "The current amount of time in seconds that an object has been in terminating state.";

pub(super) fn write(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    for of in &KINDS {
        let name = of.name;
        if writer.gauge(format_args!("operator_{name}_status_condition_count"), COUNT, &[of.kind]) {
            counts(sources, of, writer, &|name| of.additional(sources, name));
        }
        if writer.gauge(format_args!("operator_{name}_status_condition_current_status_seconds"), STATUS, &[of.kind]) {
            times(sources, of, writer, &|name| of.additional(sources, name));
        }
        let family = format!("operator_{name}_termination_current_time_seconds");
        if writer.gauge(family, TERMINATION, &[of.kind]) {
            terminations(sources, of, writer, &|name| of.additional(sources, name));
        }
    }
    deprecated(sources, writer);
}

/// The same metrics for all kinds, which operatorpkg deprecates and Karpenter still publishes.
fn deprecated(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let kinds = || KINDS.iter().filter_map(|of| Some((of, of.group?)));
    let kind = |of: &Of, group: &str| Labels::default().with("group", group).with("kind", of.kind.name());
    writer.gauge("operator_status_condition_count", COUNT, &[]);
    kinds().for_each(|(of, group)| counts(sources, of, writer, &|_| kind(of, group)));
    writer.gauge("operator_status_condition_current_status_seconds", STATUS, &[]);
    kinds().for_each(|(of, group)| times(sources, of, writer, &|_| kind(of, group)));
    writer.gauge("operator_termination_current_time_seconds", TERMINATION, &[]);
    kinds().for_each(|(of, group)| terminations(sources, of, writer, &|_| kind(of, group)));
}

impl Of {
    /// The objects of the kind with their names.
    fn objects<'s>(&self, sources: &Sources<'s>) -> impl Iterator<Item = (&'s str, &'s StatusMore)> {
        let kind = self.kind;
        let all = sources.measured.statuses.iter().filter(move |((of, _), _)| *of == kind);
        all.map(|((_, (_, name)), status)| (name.as_str(), status))
    }

    fn additional(&self, sources: &Sources<'_>, name: &str) -> Labels {
        let key = (String::new(), name.to_owned());
        let all: Option<&StringMap> = match self.kind {
            ShownKind::Node => sources.cluster.nodes.get(&key).map(|node| &node.labels),
            ShownKind::NodeClaim => sources.cluster.claims.get(&key).map(|claim| &claim.labels),
            _ => None,
        };
        self.labels.iter().fold(Labels::default(), |labels, label| {
            let value = all.and_then(|all| all.get(*label)).map_or("", String::as_str);
            labels.with(&label.replace(['/', '.', '-'], "_"), value)
        })
    }
}

fn counts(sources: &Sources<'_>, of: &Of, writer: &mut Writer<'_>, additional: &dyn Fn(&str) -> Labels) {
    for (name, status) in of.objects(sources) {
        let labels = additional(name).with("name", name);
        for one in &status.conditions {
            let labels = labels.clone().with("type", &one.kind).with("status", &one.status).with("reason", &one.reason);
            writer.sample(&labels, 1.0);
        }
    }
}

fn times(sources: &Sources<'_>, of: &Of, writer: &mut Writer<'_>, additional: &dyn Fn(&str) -> Labels) {
    for (name, status) in of.objects(sources) {
        let labels = additional(name).with("name", name);
        for one in &status.conditions {
            let Some(since) = one.last_transition_time else { continue };
            let labels = labels.clone().with("type", &one.kind).with("status", &one.status).with("reason", &one.reason);
            writer.sample(&labels, seconds(since, sources.now));
        }
    }
}

fn terminations(sources: &Sources<'_>, of: &Of, writer: &mut Writer<'_>, additional: &dyn Fn(&str) -> Labels) {
    for (name, status) in of.objects(sources) {
        if let Some(deleted) = status.deleted {
            writer.sample(&additional(name).with("name", name), seconds(deleted, sources.now));
        }
    }
}
