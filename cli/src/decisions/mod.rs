//! Decision records, as people and programs read them.

pub(crate) mod text;

use crate::error::CliError;
use crate::plan::report::{Offering, Placement};
use crate::table::Item;
use jiff::Timestamp;
use nodeless_operations::plan::unpacked;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A decision with the whole of its story.
#[derive(Debug, Serialize)]
pub(crate) struct Decision {
    pub(crate) at: Timestamp,
    pub(crate) kind: String,
    /// The names of claims, mostly.
    pub(crate) subjects: Vec<String>,
    pub(crate) summary: String,
    /// As it was written.
    detail: Value,
    /// What is known to be told of it.
    #[serde(skip)]
    pub(crate) story: Story,
}

/// What the records of all kinds hold: of each kind a part.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Story {
    /// Nodes that go, or were to go.
    pub(crate) commands: Vec<Command>,
    /// Why each other node stays.
    pub(crate) kept: Vec<Kept>,
    /// Why these are not there, if so.
    pub(crate) kept_left_out: Option<String>,
    /// The nodes that there was no time for.
    pub(crate) not_looked_at: Vec<String>,
    /// Nodes to launch for pods that wait.
    pub(crate) launches: Vec<Launch>,
    /// Where other pods that wait fit.
    pub(crate) placements: Vec<Placement>,
    /// Why those are not there, if so.
    pub(crate) placements_left_out: Option<String>,
    /// Pods that fit nowhere.
    pub(crate) unschedulable: Vec<Unschedulable>,
    /// The claims that were written, or told to leave.
    pub(crate) claims: Vec<String>,
    /// Why a command was rolled back.
    pub(crate) failure: Option<String>,
    /// Why a NodePool got fewer nodes than its replicas.
    pub(crate) short: Option<String>,
    /// How many bytes there are of a story that was cut.
    pub(crate) cut_after_bytes: Option<u64>,
}

/// Nodes that go together.
#[derive(Clone, Debug, Deserialize)]
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
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Launch {
    pub(crate) node_pool: String,
    pub(crate) offering: Offering,
    pub(crate) instance_types: Vec<TypeName>,
    pub(crate) pods: Vec<String>,
}

/// An instance type, with or without its price.
#[derive(Clone, Debug, Deserialize)]
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

/// A node that stays.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Kept {
    pub(crate) node: String,
    pub(crate) reasons: Vec<String>,
}

/// A pod that fits nowhere.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Unschedulable {
    pub(crate) pod: String,
    pub(crate) reasons: Vec<String>,
}

/// Which decisions are asked for.
pub(crate) struct Selection<'a> {
    /// Names of what they are about; all where none is given.
    pub(crate) about: &'a [String],
    /// Their kinds; all where none is given.
    pub(crate) kinds: &'a [String],
}

/// The decisions among the items that are asked for, in the order of the items.
pub(crate) fn read(items: &[Item], selection: &Selection<'_>) -> Result<Vec<Decision>, CliError> {
    let mut found = Vec::new();
    for item in items {
        let Some(record) = item.decision() else { continue };
        let record = record?;
        if !selection.kinds.is_empty() && !selection.kinds.contains(&record.kind) {
            continue;
        }
        let detail = unpacked(&record.detail).map_err(|error| item.damaged(&format!("its detail: {error}")))?;
        let story: Story = Story::deserialize(&detail).map_err(|error| {
            item.damaged(&format!(
                "its detail is not what this version writes ({error}); see it with -o json of the version that wrote it"
            ))
        })?;
        let mut decision = Decision {
            at: record.at,
            kind: record.kind,
            subjects: record.subjects,
            summary: record.summary,
            detail,
            story,
        };
        if selection.about.is_empty() || decision.keep_about(selection.about) {
            found.push(decision);
        }
    }
    Ok(found)
}

/// Why nothing was found.
pub(crate) fn nothing(items: &[Item], selection: &Selection<'_>) -> String {
    let decisions = items.iter().filter(|item| item.decision().is_some()).count();
    match (items.len(), decisions) {
        (0, _) => "there are no items: check the name of the table and of the cluster, and that it is not longer than a week ago",
        (_, 0) => "none of the items is a decision#",
        _ if !selection.about.is_empty() => "no decision here concerns what --about names",
        _ => "no decision here is of a kind that --kind names",
    }
    .to_owned()
}

pub(crate) fn json(found: &[Decision]) -> Result<String, CliError> {
    serde_json::to_string_pretty(found).map(|text| text + "\n").map_err(CliError::Json)
}

impl Decision {
    /// Leaves of the story what concerns these names, and says whether that is anything.
    fn keep_about(&mut self, names: &[String]) -> bool {
        let named = |name: &String| names.contains(name);
        let subject = self.subjects.iter().any(named);
        let story = &mut self.story;
        story.commands.retain(|command| {
            let pods = command.replacements.iter().flat_map(|launch| &launch.pods);
            let moved = command.placements.iter().flat_map(|placement| [&placement.pod, &placement.node]);
            command.nodes.iter().chain(pods).chain(moved).any(named) || (subject && self.kind != "disruption-proposed")
        });
        story.kept.retain(|kept| named(&kept.node));
        story.launches.retain(|launch| subject || launch.pods.iter().any(named));
        story.placements.retain(|placement| named(&placement.pod) || named(&placement.node));
        story.unschedulable.retain(|refused| named(&refused.pod));
        let told = !(story.commands.is_empty()
            && story.kept.is_empty()
            && story.launches.is_empty()
            && story.placements.is_empty()
            && story.unschedulable.is_empty());
        subject || told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use nodeless_driver::scenarios::Scenario;
    use nodeless_driver::simulation::Run;
    use nodeless_ports::Decisions;
    use nodeless_telemetry::Null;
    use serde_json::json;
    use std::path::Path;
    use std::sync::Arc;

    /// An hour in which pods come and most go again, and one fits nowhere.
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

    /// The records of that hour as the table would give them, the latest first.
    async fn records() -> Vec<Item> {
        let run = Run::new(Scenario::parse(HOUR).unwrap(), 1, Some(1), Arc::new(Null)).unwrap();
        let claims = run.driver().claims().clone();
        assert!(run.finish().unwrap().holds());
        let decisions = claims.decisions(1000).await.unwrap();
        let item = |decision: &nodeless_ports::decisions::Decision| {
            let record = serde_json::to_string(decision).unwrap();
            json!({ "pk": { "S": "hour" }, "sk": { "S": format!("decision#{}", decision.id) }, "record": { "S": record } })
        };
        let items: Vec<Value> = decisions.iter().map(item).collect();
        table::parse(&json!({ "Items": items }).to_string(), Path::new("items.json")).unwrap()
    }

    fn all<'a>() -> Selection<'a> {
        Selection { about: &[], kinds: &[] }
    }

    #[tokio::test]
    async fn what_the_planner_wrote_is_read_whole() {
        let items = records().await;
        let found = read(&items, &all()).unwrap();
        assert_eq!(found.len(), items.len());
        let of = |kind: &str| found.iter().find(|one| one.kind == kind).unwrap_or_else(|| panic!("no {kind}"));

        let bought = &found.iter().rfind(|one| one.kind == "provisioning" && !one.story.launches.is_empty()).unwrap();
        let pods: usize = bought.story.launches.iter().map(|launch| launch.pods.len()).sum();
        assert_eq!(pods, 9);
        assert!(bought.story.launches[0].pods[0].starts_with("default/web-"), "{:?}", bought.story.launches);
        assert_eq!(bought.story.claims, bought.subjects);
        let refused = &bought.story.unschedulable[0];
        assert!(refused.pod == "default/odd" && !refused.reasons.is_empty(), "{refused:?}");

        let proposed = of("disruption-proposed");
        let command = &proposed.story.commands[0];
        assert!(!command.nodes.is_empty() && command.savings_per_hour > 0.0, "{command:?}");
        let done = of("disruption");
        assert_eq!(done.story.commands[0].nodes.len(), done.subjects.len());

        let text = text::render(&found);
        for part in
            ["  disruption-proposed  ", " $/h saved", "     goes   ip-", "     for    ", "  default/odd fits nowhere: "]
        {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        let programs: Value = serde_json::from_str(&json(&found).unwrap()).unwrap();
        assert_eq!(programs.as_array().unwrap().len(), found.len());
        assert!(programs[0]["detail"].get("gzip").is_none() && programs[0]["at"].is_string(), "{}", programs[0]);
    }

    #[tokio::test]
    async fn what_concerns_one_name_is_picked_out() {
        let items = records().await;
        let kinds = ["disruption-proposed".to_owned()];
        let proposed = read(&items, &Selection { about: &[], kinds: &kinds }).unwrap();
        assert!(!proposed.is_empty() && proposed.iter().all(|one| one.kind == kinds[0]));
        let node = [proposed[0].story.commands[0].nodes[0].clone()];
        let about = read(&items, &Selection { about: &node, kinds: &kinds }).unwrap();
        assert!(about[0].story.commands.iter().all(|command| command.nodes.contains(&node[0])));
        assert!(about.iter().flat_map(|one| &one.story.kept).all(|kept| kept.node == node[0]));
        let odd = ["default/odd".to_owned()];
        let about = read(&items, &Selection { about: &odd, kinds: &[] }).unwrap();
        assert!(about.iter().all(|one| one.story.launches.is_empty() && one.story.unschedulable.len() == 1));
        let other = ["nobody".to_owned()];
        let selection = Selection { about: &other, kinds: &[] };
        assert!(read(&items, &selection).unwrap().is_empty());
        assert_eq!(nothing(&items, &selection), "no decision here concerns what --about names");
        assert!(nothing(&[], &all()).starts_with("there are no items"));
    }

    #[test]
    fn a_damaged_record_is_named() {
        let item = |record: &str| {
            let items = json!([{ "sk": { "S": "decision#7" }, "record": { "S": record } }]);
            table::parse(&items.to_string(), Path::new("items.json")).unwrap()
        };
        let decision = |detail: &str| {
            json!({ "id": "7", "at": "2026-01-01T00:00:00Z", "kind": "k", "subjects": [], "summary": "", "detail": detail })
                .to_string()
        };
        for (record, expected) in [
            ("{}", "attribute record is no decision"),
            (&decision("hello"), "its detail: it is no JSON"),
            (&decision("{\"gzip\": \"!\"}"), "not as base64"),
            (&decision("{\"gzip\": \"aGVsbG8=\"}"), "cannot be unpacked"),
            (&decision("{\"kept\": 7}"), "is not what this version writes"),
        ] {
            let error = read(&item(record), &all()).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("item decision#7"), "{error}");
        }
        assert_eq!(nothing(&item("{}"), &all()), "no decision here is of a kind that --kind names");
    }
}
