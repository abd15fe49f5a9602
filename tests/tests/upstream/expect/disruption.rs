//! What a case expects of disruption.

use super::{NodeExpect, compare};
use crate::outcome::{CaseOutcome, Disrupted, Launched};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// What has to hold of disruption.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct DisruptionExpect {
    /// All nodes that commands disrupt, each with the reason: `Empty`, `Underutilized`, `Drifted` or `Unhealthy`.
    disrupted: Option<BTreeMap<String, String>>,
    /// The number of nodes that commands disrupt.
    count: Option<usize>,
    /// The nodes that are disrupted together, for each command.
    commands: Option<BTreeSet<BTreeSet<String>>>,
    /// Nodes that stay, each with a part of the reason.
    kept: BTreeMap<String, String>,
    /// The number of nodes that replace others.
    replacements: Option<usize>,
    replaced: Vec<NodeExpect>,
    /// The number of new nodes of each static NodePool that has any.
    static_launches: Option<BTreeMap<String, usize>>,
    /// The unhealthy nodes, each with `Wait`, `Repair`, `Terminate` or `Blocked`.
    repairs: Option<BTreeMap<String, String>>,
    /// The methods of the commands.
    methods: Option<BTreeSet<String>>,
    /// A part of an event.
    event: Option<String>,
    /// A part of the reason for which nothing is disrupted voluntarily.
    doubt: Option<String>,
}

impl DisruptionExpect {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { disrupted, count, commands, replacements, static_launches, repairs, methods, event, doubt, .. } =
            self;
        let none = [disrupted.is_none(), count.is_none(), commands.is_none(), replacements.is_none()];
        let others =
            [static_launches.is_none(), repairs.is_none(), event.is_none(), methods.is_none(), doubt.is_none()];
        none.into_iter().chain(others).all(|empty| empty) && self.kept.is_empty() && self.replaced.is_empty()
    }

    pub(crate) fn check(&self, outcome: &CaseOutcome, wrong: &mut Vec<String>) {
        let Some(actual) = &outcome.disruption else { return wrong.push("disruption was not decided".to_owned()) };
        let before = wrong.len();
        self.check_commands(actual, wrong);
        for (node, part) in &self.kept {
            if !actual.kept.get(node).is_some_and(|why| why.contains(part)) {
                wrong.push(format!("node {node} has to stay because {part:?}"));
            }
        }
        if let Some(expected) = &self.static_launches {
            compare("new nodes of static NodePools", expected, &actual.static_launches, wrong);
        }
        if let Some(expected) = &self.repairs {
            compare("repairs", expected, &actual.repairs, wrong);
        }
        if let Some(part) = &self.event
            && !actual.events.iter().any(|event| event.contains(part))
        {
            wrong.push(format!("expected an event with {part:?}"));
        }
        if let Some(part) = &self.doubt
            && !actual.doubt.as_ref().is_some_and(|doubt| doubt.contains(part))
        {
            wrong.push(format!("nothing may be disrupted because {part:?}"));
        }
        if wrong.len() > before {
            wrong.push(format!("of {actual:#?}"));
        }
    }

    fn check_commands(&self, actual: &Disrupted, wrong: &mut Vec<String>) {
        let by_node = || {
            let commands = actual.commands.iter();
            commands.flat_map(|command| command.nodes.iter().map(|node| (node.clone(), command.reason.clone())))
        };
        let nodes: BTreeMap<String, String> = by_node().collect();
        self.disrupted.iter().for_each(|expected| compare("disrupted nodes", expected, &nodes, wrong));
        self.count.iter().for_each(|expected| compare("number of disrupted nodes", expected, &nodes.len(), wrong));
        if let Some(expected) = &self.commands {
            let commands = actual.commands.iter().map(|command| command.nodes.iter().cloned().collect()).collect();
            compare("commands", expected, &commands, wrong);
        }
        if let Some(expected) = &self.methods {
            let methods = actual.commands.iter().map(|command| command.method.clone()).collect();
            compare("methods", expected, &methods, wrong);
        }
        let replacements: Vec<Launched> =
            actual.commands.iter().flat_map(|command| command.replacements.iter().cloned()).collect();
        self.replacements.iter().for_each(|count| compare("replacements", count, &replacements.len(), wrong));
        self.replaced.iter().for_each(|expected| expected.check(&replacements, wrong));
    }
}
