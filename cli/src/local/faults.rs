//! Faults of instances, injected through an annotation on the Node.

use nodeless_fake_aws::requests::TerminateInstances;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_fake_kubernetes::{ListOptions, PatchOptions, PatchType};
use nodeless_world::World;
use serde_json::{Value, json};

/// The annotation that names the fault of the Node's instance. It is removed when the fault is injected.
pub(crate) const FAULT: &str = "local.nodeless.sh/fault";

/// The faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    SpotInterruption,
    Rebalance,
    Stop,
    Silence,
    Impairment,
}

/// The faults by the values of the annotation.
const FAULTS: [(&str, Fault); 5] = [
    ("spot-interruption", Fault::SpotInterruption),
    ("rebalance-recommendation", Fault::Rebalance),
    ("stop", Fault::Stop),
    ("silence", Fault::Silence),
    ("impairment", Fault::Impairment),
];

/// Injects the faults that annotations request.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The revision of the cluster that was read last.
    seen: u64,
}

impl Faults {
    /// Injects the faults requested since the last call. Returns a line for each, or why it cannot be injected.
    pub(crate) fn inject(&mut self, world: &mut World) -> Vec<Result<String, String>> {
        let revision = world.api().revision();
        if revision == self.seen {
            return Vec::new();
        }
        self.seen = revision;
        let nodes = world.api().list(&NODES, &ListOptions::default()).map(|list| list.items).unwrap_or_default();
        let asked = |node: &Value| {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let annotations = &node["metadata"]["annotations"];
            let what = text(&annotations[FAULT])?;
            Some((text(&node["metadata"]["name"])?, text(&node["spec"]["providerID"]).unwrap_or_default(), what))
        };
        let asked: Vec<_> = nodes.iter().map(std::convert::AsRef::as_ref).filter_map(asked).collect();
        asked.into_iter().map(|(node, provider, what)| one(world, &node, &provider, &what)).collect()
    }
}

fn one(world: &mut World, node: &str, provider: &str, what: &str) -> Result<String, String> {
    let forget = json!({ "metadata": { "annotations": { FAULT: null } } });
    // A Node that was deleted meanwhile has no annotation to remove.
    let _deleted = world.api().patch(&NODES, "", node, None, PatchType::Merge, &forget, &PatchOptions::default());
    let known = || FAULTS.map(|(name, _)| name).join(", ");
    let fault = FAULTS.iter().find(|(name, _)| *name == what).map(|(_, fault)| *fault);
    let fault = fault.ok_or_else(|| {
        format!("Node {node}: unknown fault {what:?}; set the annotation {FAULT} to one of {}", known())
    })?;
    let id = provider.rsplit('/').next().unwrap_or_default();
    let ec2 = world.ec2().clone();
    let injected = match fault {
        Fault::SpotInterruption => ec2.interrupt_spot(id).map(drop).map_err(|error| error.to_string()),
        Fault::Rebalance => ec2.recommend_rebalance(id).map(drop).map_err(|error| error.to_string()),
        Fault::Stop => {
            let request = TerminateInstances { instance_ids: vec![id.to_owned()], dry_run: false };
            ec2.terminate_instances(&request).map(drop).map_err(|error| error.to_string())
        }
        Fault::Silence if world.silence(id) => Ok(()),
        Fault::Impairment if ec2.impair(id) => Ok(()),
        Fault::Silence | Fault::Impairment => Err("it is already in effect, or the instance does not run".to_owned()),
    };
    injected
        .map(|()| format!("{what} of instance {id}, Node {node}"))
        .map_err(|why| format!("Node {node}: {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_fake_kubernetes::CreateOptions;
    use nodeless_world::WorldOptions;

    #[test]
    fn a_fault_that_cannot_be_injected_is_reported_once_and_its_annotation_removed() {
        let mut world = World::new(WorldOptions::default()).unwrap();
        let node = |annotation: &str, what: &str| {
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": what, "annotations": { annotation: what } },
                "spec": { "providerID": "aws:///us-east-1a/i-1" }
            })
        };
        let mut faults = Faults::default();
        for (annotation, what, expected) in [
            (
                FAULT,
                "flood",
                "Node flood: unknown fault \"flood\"; set the annotation local.nodeless.sh/fault to one of spot-interruption, ",
            ),
            (FAULT, "spot-interruption", "Node spot-interruption: spot-interruption: "),
            (FAULT, "silence", "Node silence: silence: it is already in effect"),
        ] {
            world.api().create(&NODES, node(annotation, what), &CreateOptions::default()).unwrap();
            let reported = faults.inject(&mut world);
            assert!(reported[0].as_ref().unwrap_err().starts_with(expected), "{reported:?}");
            let left = world.api().get(&NODES, "", what).unwrap();
            assert!(left["metadata"]["annotations"].get(annotation).is_none(), "{left:?}");
            assert!(faults.inject(&mut world).is_empty());
        }
    }
}
