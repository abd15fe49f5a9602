//! Decision records of the planner, as text and JSON.

#[cfg(feature = "aws")]
pub(crate) mod stored;
pub(crate) mod text;

use crate::error::CliError;
use crate::plan::wording::parts::{Offering, Placement};
use crate::table::Item;
use jiff::{SignedDuration, Timestamp};
use nodeless_planner::unpacked;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A decision record.
#[derive(Debug, Serialize)]
pub(crate) struct Decision {
    pub(crate) at: Timestamp,
    pub(crate) kind: String,
    /// Usually the names of NodeClaims.
    pub(crate) subjects: Vec<String>,
    pub(crate) summary: String,
    /// The stored detail.
    detail: Value,
    /// The fields of `detail` that the text output uses.
    #[serde(skip)]
    pub(crate) parsed: Detail,
}

/// The fields of the records of all kinds; each kind uses some of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Detail {
    /// Commands that disrupt nodes, executed or proposed.
    pub(crate) commands: Vec<Command>,
    /// Why each other node is not disrupted.
    pub(crate) kept: Vec<Kept>,
    /// The nodes that were not evaluated for lack of time.
    pub(crate) not_looked_at: Vec<String>,
    /// Nodes to launch for pending pods.
    pub(crate) launches: Vec<Launch>,
    /// The existing or in-flight nodes where other pending pods fit.
    pub(crate) placements: Vec<Placement>,
    /// Pods that cannot be scheduled.
    pub(crate) unschedulable: Vec<Unschedulable>,
    /// The NodeClaims that were created or terminated.
    pub(crate) claims: Vec<String>,
    /// Why a command was rolled back.
    pub(crate) failure: Option<String>,
    /// Why a static NodePool got fewer nodes than its replicas.
    pub(crate) short: Option<String>,
    /// The interruption because of which a node is drained.
    pub(crate) interruption: Option<Interruption>,
}

/// An event of EC2 or AWS Health about an instance.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Interruption {
    /// The id of the instance.
    pub(crate) instance: Option<String>,
}

/// Nodes that are disrupted together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Command {
    pub(crate) method: String,
    pub(crate) reason: String,
    pub(crate) nodes: Vec<String>,
    pub(crate) replacements: Vec<Launch>,
    pub(crate) savings_per_hour: f64,
    pub(crate) evictions: usize,
    pub(crate) score: Option<f64>,
    pub(crate) placements: Vec<Placement>,
}

/// A node to launch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Launch {
    pub(crate) node_pool: String,
    pub(crate) offering: Offering,
    pub(crate) instance_types: Vec<TypeName>,
    pub(crate) pods: Vec<String>,
}

/// An instance type, with or without its price.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum TypeName {
    Plain(String),
    Priced { name: String },
}

impl TypeName {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Plain(name) | Self::Priced { name } => name,
        }
    }
}

/// A node that is not disrupted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Kept {
    pub(crate) node: String,
    pub(crate) reasons: Vec<String>,
}

/// An unschedulable pod.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Unschedulable {
    pub(crate) pod: String,
    pub(crate) reasons: Vec<String>,
}

/// Decisions of a kind that follow each other with the same outcome.
#[derive(Debug, Serialize)]
pub(crate) struct RepeatedDecision {
    /// The latest of them.
    #[serde(flatten)]
    pub(crate) decision: Decision,
    /// The time of the earliest.
    pub(crate) since: Timestamp,
    /// Their number.
    pub(crate) times: usize,
}

/// Which decisions to print.
pub(crate) struct Selection<'a> {
    /// Names of the Nodes, NodeClaims and pods concerned; empty for all.
    pub(crate) about: &'a [String],
    /// The kinds of decisions; empty for all.
    pub(crate) kinds: &'a [String],
    /// The time before the latest decision; `None` for all.
    pub(crate) window: Option<SignedDuration>,
}

impl Selection<'_> {
    /// The time of the earliest decision that is printed, by the latest one.
    fn from(&self, items: &[Item]) -> Result<Option<Timestamp>, CliError> {
        let Some(window) = self.window else { return Ok(None) };
        let times = items.iter().filter_map(Item::decision).map(|record| Ok(record?.at));
        let latest = times.collect::<Result<Vec<_>, CliError>>()?.into_iter().max();
        Ok(latest.map(|latest| latest.saturating_sub(window).unwrap_or(Timestamp::MIN)))
    }
}

/// The selected decisions among the items, in their order. Those of a kind with the same outcome are one.
pub(crate) fn outcomes(items: &[Item], selection: &Selection<'_>) -> Result<Vec<RepeatedDecision>, CliError> {
    let mut outcomes: Vec<RepeatedDecision> = Vec::new();
    let mut last_of_kind: BTreeMap<String, usize> = BTreeMap::new();
    for decision in read(items, selection)? {
        let last = last_of_kind.get(&decision.kind).and_then(|index| outcomes.get_mut(*index));
        let is_same = |last: &Decision| match selection.about {
            [] => last.is_same(&decision),
            _ => last.parsed.is_same(&decision.parsed),
        };
        if let Some(last) = last.filter(|last| is_same(&last.decision)) {
            last.since = last.since.min(decision.at);
            last.times += 1;
            continue;
        }
        last_of_kind.insert(decision.kind.clone(), outcomes.len());
        outcomes.push(RepeatedDecision { since: decision.at, times: 1, decision });
    }
    Ok(outcomes)
}

/// Whether the last of the items is older than what is selected, so that earlier ones need not be read.
pub(crate) fn are_older(items: &[Item], selection: &Selection<'_>) -> Result<bool, CliError> {
    let Some(from) = selection.from(items)? else { return Ok(false) };
    let last = items.iter().rev().find_map(Item::decision).transpose()?;
    Ok(last.is_some_and(|last| last.at < from))
}

/// The selected decisions among the items, in the order of the items.
fn read(items: &[Item], selection: &Selection<'_>) -> Result<Vec<Decision>, CliError> {
    let mut found = Vec::new();
    let from = selection.from(items)?;
    for item in items {
        let Some(record) = item.decision() else { continue };
        let record = record?;
        if from.is_some_and(|from| record.at < from) {
            continue;
        }
        if !selection.kinds.is_empty() && !selection.kinds.contains(&record.kind) {
            continue;
        }
        let detail = detail_of(item, &record)?;
        let parsed = parse(item, &detail)?;
        let mut decision = Decision {
            at: record.at,
            kind: record.kind,
            subjects: record.subjects,
            summary: record.summary,
            detail,
            parsed,
        };
        if selection.about.is_empty() || decision.retain_about(selection.about) {
            found.push(decision);
        }
    }
    Ok(found)
}

/// The stored detail of a decision.
fn detail_of(item: &Item, record: &nodeless_state::decisions::Decision) -> Result<Value, CliError> {
    unpacked(&record.detail).map_err(|error| item.damaged(&format!("attribute detail: {error}")))
}

fn parse(item: &Item, detail: &Value) -> Result<Detail, CliError> {
    Detail::deserialize(detail)
        .map_err(|error| item.damaged(&format!("attribute detail: this version cannot read it ({error})")))
}

/// Why no decision is selected.
pub(crate) fn explain_empty(items: &[Item], selection: &Selection<'_>) -> String {
    match items {
        [] => "the input contains no items: check the names of the table and the cluster; the table stores decisions for a week",
        _ if selection.window.is_some() && selection.about.is_empty() && selection.kinds.is_empty() => {
            "no decision in the input is within the time given with --window"
        }
        _ if !selection.about.is_empty() => "no decision in the input concerns a name given with --about",
        _ => "no decision in the input has a kind given with --kind",
    }
    .to_owned()
}

impl Detail {
    /// Whether the nodes and pods that were selected by their names have the same outcome.
    fn is_same(&self, other: &Self) -> bool {
        self.commands == other.commands
            && self.kept == other.kept
            && self.launches == other.launches
            && self.placements == other.placements
            && self.unschedulable == other.unschedulable
    }
}

impl Decision {
    /// Whether another decision of the kind has the same outcome.
    fn is_same(&self, other: &Self) -> bool {
        self.subjects == other.subjects && self.summary == other.summary && self.detail == other.detail
    }

    /// Removes what does not concern these names. Returns whether the decision concerns any of them.
    fn retain_about(&mut self, names: &[String]) -> bool {
        let named = |name: &String| names.contains(name);
        let subject = self.subjects.iter().any(named);
        let parsed = &mut self.parsed;
        parsed.commands.retain(|command| {
            let pods = command.replacements.iter().flat_map(|launch| &launch.pods);
            let moved = command.placements.iter().flat_map(|placement| [&placement.pod, &placement.node]);
            command.nodes.iter().chain(pods).chain(moved).any(named) || (subject && self.kind != "disruption-proposed")
        });
        parsed.kept.retain(|kept| named(&kept.node));
        parsed.launches.retain(|launch| subject || launch.pods.iter().any(named));
        parsed.placements.retain(|placement| named(&placement.pod) || named(&placement.node));
        parsed.unschedulable.retain(|refused| named(&refused.pod));
        let any = !(parsed.commands.is_empty()
            && parsed.kept.is_empty()
            && parsed.launches.is_empty()
            && parsed.placements.is_empty()
            && parsed.unschedulable.is_empty());
        subject || any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use nodeless_driver::scenarios::Scenario;
    use nodeless_driver::simulation::Run;
    use nodeless_telemetry::Null;
    use serde_json::json;
    use std::path::Path;
    use std::sync::Arc;

    /// An hour in which a Deployment is scaled up and down, and one pod is unschedulable.
    const HOUR: &str = r#"
name: hour
instanceFamilies: [m6i, c6i]
objects:
  - apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: { name: default }
    spec:
      template:
        spec:
          nodeClassRef: { group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }
          requirements: [{ key: karpenter.sh/capacity-type, operator: In, values: [on-demand] }]
      disruption: { consolidateAfter: 1m, budgets: [{ nodes: "100%" }] }
  - apiVersion: apps/v1
    kind: Deployment
    metadata: { name: web, namespace: default }
    spec:
      replicas: 9
      selector: { matchLabels: { app: web } }
      template:
        metadata: { labels: { app: web } }
        spec:
          containers: [{ name: c, image: pause, resources: { requests: { cpu: "1500m", memory: 1Gi } } }]
  - apiVersion: v1
    kind: Pod
    metadata: { name: odd, namespace: default }
    spec:
      nodeSelector: { no: such }
      containers: [{ name: c, image: pause }]
scale: [{ kind: Deployment, namespace: default, name: web, after: { 20m: 2 } }]
"#;

    /// The records of that hour as the table returns them, the latest first.
    async fn records() -> Vec<Item> {
        let run = Run::new(Scenario::parse(HOUR).unwrap(), 1, Some(1), Arc::new(Null)).unwrap();
        let claims = run.driver().claims().clone();
        assert!(run.finish().unwrap().holds());
        let decisions = claims.decisions(1000).await.unwrap();
        let item = |decision: &nodeless_state::decisions::Decision| {
            let record = serde_json::to_string(decision).unwrap();
            json!({ "pk": { "S": "hour" }, "sk": { "S": format!("decision#{}", decision.id) }, "record": { "S": record } })
        };
        let items: Vec<Value> = decisions.iter().map(item).collect();
        table::parse(&json!({ "Items": items }).to_string(), Path::new("items.json")).unwrap()
    }

    fn all<'a>() -> Selection<'a> {
        Selection { about: &[], kinds: &[], window: None }
    }

    #[tokio::test]
    async fn records_of_the_planner_are_read_completely() {
        let items = records().await;
        let found = read(&items, &all()).unwrap();
        assert_eq!(found.len(), items.len());
        let of = |kind: &str| found.iter().find(|one| one.kind == kind).unwrap_or_else(|| panic!("no {kind}"));

        let launched =
            &found.iter().rfind(|one| one.kind == "provisioning" && !one.parsed.launches.is_empty()).unwrap();
        let pods: usize = launched.parsed.launches.iter().map(|launch| launch.pods.len()).sum();
        assert_eq!(pods, 9);
        assert!(launched.parsed.launches[0].pods[0].starts_with("default/web-"), "{:?}", launched.parsed.launches);
        assert_eq!(launched.parsed.claims, launched.subjects);
        let refused = &launched.parsed.unschedulable[0];
        assert!(refused.pod == "default/odd" && !refused.reasons.is_empty(), "{refused:?}");

        let proposed = of("disruption-proposed");
        let command = &proposed.parsed.commands[0];
        assert!(!command.nodes.is_empty() && command.savings_per_hour > 0.0, "{command:?}");
        let disrupted = of("disruption");
        assert_eq!(disrupted.parsed.commands[0].nodes.len(), disrupted.subjects.len());

        let text = text::render(&outcomes(&items, &all()).unwrap());
        for part in [
            "  disruption-proposed  ",
            "/h saved",
            "     disrupt  ip-",
            "     for      ",
            "  default/odd is unschedulable: ",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        let parsed: Value = serde_json::to_value(&found).unwrap();
        assert_eq!(parsed.as_array().unwrap().len(), found.len());
        assert!(parsed[0]["detail"].get("gzip").is_none() && parsed[0]["at"].is_string(), "{}", parsed[0]);
    }

    #[tokio::test]
    async fn decisions_are_selected_by_name_and_kind() {
        let items = records().await;
        let kinds = ["disruption-proposed".to_owned()];
        let proposed = read(&items, &Selection { about: &[], kinds: &kinds, window: None }).unwrap();
        assert!(!proposed.is_empty() && proposed.iter().all(|one| one.kind == kinds[0]));
        let node = [proposed[0].parsed.commands[0].nodes[0].clone()];
        let about = read(&items, &Selection { about: &node, kinds: &kinds, window: None }).unwrap();
        assert!(about[0].parsed.commands.iter().all(|command| command.nodes.contains(&node[0])));
        assert!(about.iter().flat_map(|one| &one.parsed.kept).all(|kept| kept.node == node[0]));
        let odd = ["default/odd".to_owned()];
        let about = read(&items, &Selection { about: &odd, kinds: &[], window: None }).unwrap();
        assert!(about.iter().all(|one| one.parsed.launches.is_empty() && one.parsed.unschedulable.len() == 1));
        let other = ["unknown".to_owned()];
        let selection = Selection { about: &other, kinds: &[], window: None };
        assert!(read(&items, &selection).unwrap().is_empty());
        assert_eq!(explain_empty(&items, &selection), "no decision in the input concerns a name given with --about");
        assert!(explain_empty(&[], &all()).starts_with("the input contains no items"));
    }

    #[test]
    fn decisions_with_the_same_outcome_are_one() {
        let item = |minute: u32, kind: &str, summary: &str, detail: &Value| {
            let record = json!({ "id": minute.to_string(), "at": format!("2026-01-01T00:{minute:02}:00Z"), "kind": kind,
                "subjects": [], "summary": summary, "detail": detail.to_string() });
            json!({ "sk": { "S": format!("decision#{minute}") }, "record": { "S": record.to_string() } })
        };
        let refused = |pods: &[&str]| -> Value {
            let refused: Vec<_> = pods.iter().map(|pod| json!({ "pod": pod, "reasons": ["no node"] })).collect();
            json!({ "unschedulable": refused })
        };
        let kept = json!({ "kept": [{ "node": "ip-1", "reasons": ["it is young"] }] });
        let launch = json!({ "claims": ["default-a"], "unschedulable": [{ "pod": "a/odd", "reasons": ["no node"] }] });
        let items = [
            item(9, "provisioning", "2 pods", &refused(&["a/odd", "a/new"])),
            item(8, "disruption-proposed", "nothing", &kept),
            item(7, "provisioning", "1 pod", &refused(&["a/odd"])),
            item(6, "disruption-proposed", "nothing", &kept),
            item(5, "provisioning", "1 pod", &refused(&["a/odd"])),
            item(4, "provisioning", "launched", &launch),
            item(3, "provisioning", "1 pod", &refused(&["a/odd"])),
        ];
        let items = table::parse(&json!({ "Items": items }).to_string(), Path::new("items.json")).unwrap();
        let minutes = |selection: &Selection<'_>| -> Vec<_> {
            let found = outcomes(&items, selection).unwrap();
            let minute = |at: Timestamp| at.to_string()[14..16].to_owned();
            found.iter().map(|one| (minute(one.decision.at), minute(one.since), one.times)).collect()
        };
        let found = |all: &[(&str, &str, usize)]| -> Vec<_> {
            all.iter().map(|(at, since, times)| ((*at).to_owned(), (*since).to_owned(), *times)).collect()
        };
        assert_eq!(
            minutes(&all()),
            found(&[("09", "09", 1), ("08", "06", 2), ("07", "05", 2), ("04", "04", 1), ("03", "03", 1)])
        );
        let odd = ["a/odd".to_owned()];
        assert_eq!(minutes(&Selection { about: &odd, ..all() }), found(&[("09", "03", 5)]), "the same for this pod");
        let window = Some(SignedDuration::from_mins(4));
        assert_eq!(
            minutes(&Selection { window, ..all() }),
            found(&[("09", "09", 1), ("08", "06", 2), ("07", "05", 2)])
        );
        assert!(are_older(&items, &Selection { window, ..all() }).unwrap() && !are_older(&items, &all()).unwrap());
        let text = text::render(&outcomes(&items, &all()).unwrap());
        let line = "2026-01-01T00:07:00Z  provisioning  1 pod (since 2026-01-01T00:05:00Z, 2 times)\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn an_error_names_the_damaged_record() {
        let item = |record: &str| {
            let items = json!([{ "sk": { "S": "decision#7" }, "record": { "S": record } }]);
            table::parse(&items.to_string(), Path::new("items.json")).unwrap()
        };
        let decision = |detail: &str| {
            json!({ "id": "7", "at": "2026-01-01T00:00:00Z", "kind": "k", "subjects": [], "summary": "", "detail": detail })
                .to_string()
        };
        for (record, expected) in [
            ("{}", "attribute record: it is not a decision"),
            (&decision("hello"), "attribute detail: it is not JSON"),
            (&decision("{\"gzip\": \"!\"}"), "not base64"),
            (&decision("{\"gzip\": \"aGVsbG8=\"}"), "cannot be decompressed"),
            (&decision("{\"kept\": 7}"), "attribute detail: this version cannot read it"),
        ] {
            let error = read(&item(record), &all()).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("item decision#7"), "{error}");
        }
        assert_eq!(explain_empty(&item("{}"), &all()), "no decision in the input has a kind given with --kind");
    }
}
