//! What happens to machines because somebody asks for it: an annotation on the Node, as nothing else in a cluster can say it.

use nodeless_fake_aws::requests::TerminateInstances;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_fake_kubernetes::{ListOptions, PatchOptions, PatchType};
use nodeless_world::World;
use serde_json::{Value, json};

/// The annotation: what is to happen to the Node's machine. It goes when that has happened.
pub(crate) const MISHAP: &str = "local.nodeless.sh/mishap";

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    SpotInterruption,
    Rebalance,
    Stop,
    Silence,
    Impairment,
}

/// What can be asked for, by its name.
const MISHAPS: [(&str, Mishap); 5] = [
    ("spot-interruption", Mishap::SpotInterruption),
    ("rebalance-recommendation", Mishap::Rebalance),
    ("stop", Mishap::Stop),
    ("silence", Mishap::Silence),
    ("impairment", Mishap::Impairment),
];

/// Sees to the annotations that are there.
#[derive(Debug, Default)]
pub(crate) struct Mishaps {
    /// The revision of the cluster that was looked at.
    seen: u64,
}

impl Mishaps {
    /// Lets happen what Nodes ask for since the last call, and says each in a line; or why it cannot happen.
    pub(crate) fn see_to(&mut self, world: &mut World) -> Vec<Result<String, String>> {
        let revision = world.api().revision();
        if revision == self.seen {
            return Vec::new();
        }
        self.seen = revision;
        let nodes = world.api().list(&NODES, &ListOptions::default()).map(|list| list.items).unwrap_or_default();
        let asked = |node: &Value| {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let what = text(&node["metadata"]["annotations"][MISHAP])?;
            Some((text(&node["metadata"]["name"])?, text(&node["spec"]["providerID"]).unwrap_or_default(), what))
        };
        let asked: Vec<_> = nodes.iter().map(std::convert::AsRef::as_ref).filter_map(asked).collect();
        asked.into_iter().map(|(node, provider, what)| one(world, &node, &provider, &what)).collect()
    }
}

fn one(world: &mut World, node: &str, provider: &str, what: &str) -> Result<String, String> {
    let forget = json!({ "metadata": { "annotations": { MISHAP: null } } });
    // One that is deleted at this moment has no annotation any more.
    let _gone = world.api().patch(&NODES, "", node, None, PatchType::Merge, &forget, &PatchOptions::default());
    let known = || MISHAPS.map(|(name, _)| name).join(", ");
    let mishap = MISHAPS.iter().find(|(name, _)| *name == what).map(|(_, mishap)| *mishap);
    let mishap = mishap
        .ok_or_else(|| format!("Node {node}: {MISHAP} is {what:?}, which cannot happen; there are {}", known()))?;
    let id = provider.rsplit('/').next().unwrap_or_default();
    let ec2 = world.ec2().clone();
    let happened = match mishap {
        Mishap::SpotInterruption => ec2.interrupt_spot(id).map(drop).map_err(|error| error.to_string()),
        Mishap::Rebalance => ec2.recommend_rebalance(id).map(drop).map_err(|error| error.to_string()),
        Mishap::Stop => {
            let request = TerminateInstances { instance_ids: vec![id.to_owned()], dry_run: false };
            ec2.terminate_instances(&request).map(drop).map_err(|error| error.to_string())
        }
        Mishap::Silence if world.silence(id) => Ok(()),
        Mishap::Impairment if ec2.impair(id) => Ok(()),
        Mishap::Silence | Mishap::Impairment => Err("it has happened already, or the machine does not run".to_owned()),
    };
    happened
        .map(|()| format!("{what} of instance {id}, Node {node}"))
        .map_err(|why| format!("Node {node}: {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_fake_kubernetes::CreateOptions;
    use nodeless_world::WorldOptions;

    #[test]
    fn what_cannot_happen_is_told_once_and_forgotten() {
        let mut world = World::new(WorldOptions::default()).unwrap();
        let node = |what: &str| {
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": what, "annotations": { MISHAP: what } },
                "spec": { "providerID": "aws:///us-east-1a/i-1" }
            })
        };
        let mut mishaps = Mishaps::default();
        for (what, expected) in [
            (
                "flood",
                "Node flood: local.nodeless.sh/mishap is \"flood\", which cannot happen; there are spot-interruption, ",
            ),
            ("spot-interruption", "Node spot-interruption: spot-interruption: "),
            ("silence", "Node silence: silence: it has happened already"),
        ] {
            world.api().create(&NODES, node(what), &CreateOptions::default()).unwrap();
            let told = mishaps.see_to(&mut world);
            assert!(told[0].as_ref().unwrap_err().starts_with(expected), "{told:?}");
            let left = world.api().get(&NODES, "", what).unwrap();
            assert!(left["metadata"]["annotations"].get(MISHAP).is_none(), "{left:?}");
            assert!(mishaps.see_to(&mut world).is_empty());
        }
    }
}
