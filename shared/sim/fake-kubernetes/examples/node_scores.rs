//! Scores nodes for pods as the simulated kube-scheduler does, to compare them with the choices of a real one.
//!
//! Reads a JSON document from standard input: `objects`, which are created first, and `steps`, each with a `pod` and the `node` to which it
//! is bound after it has been scored; a pod without a node is deleted. Writes an array with the scores of the feasible nodes for each pod,
//! by the names of the nodes.

use nodeless_fake_kubernetes::controllers::node_scores;
use nodeless_fake_kubernetes::resource::{NAMESPACES, NODES, PODS, SERVICES};
use nodeless_fake_kubernetes::{ApiServer, CreateOptions, DeleteOptions, Options, Resource};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct Recording {
    objects: Vec<Value>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    pod: Value,
    node: Option<String>,
}

fn main() -> Result<(), Failure> {
    let recording: Recording = serde_json::from_reader(std::io::stdin())?;
    let api = ApiServer::new(Options::with_clock(Arc::new(jiff::Timestamp::now)))?;
    for object in recording.objects {
        create(&api, &resource(&object)?, object)?;
    }
    let mut scores = Vec::new();
    for step in recording.steps {
        let text = |field: &str| step.pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        create(&api, &PODS, step.pod)?;
        scores.push(node_scores(&api, &namespace, &name)?);
        match step.node {
            Some(node) => api.bind(&namespace, &name, &node)?,
            None => drop(api.delete(&PODS, &namespace, &name, &DeleteOptions::default())?),
        }
    }
    println!("{}", serde_json::to_string(&scores)?);
    Ok(())
}

fn resource(object: &Value) -> Result<Resource, Failure> {
    match object["kind"].as_str() {
        Some("Namespace") => Ok(NAMESPACES),
        Some("Node") => Ok(NODES),
        Some("Service") => Ok(SERVICES),
        kind => Err(format!("objects of the kind {kind:?} are not read").into()),
    }
}

fn create(api: &ApiServer, resource: &Resource, object: Value) -> Result<(), Failure> {
    api.create(resource, object, &CreateOptions::default())?;
    Ok(())
}
