//! Karpenter's earlier APIs in the simulated cluster: a manifest of one of them is refused with what to do, instead of
//! kubectl's "no matches for kind", which sounds like a missing installation.

use crate::error::CliError;
use nodeless_fake_kubernetes::resource::CUSTOM_RESOURCE_DEFINITIONS;
use nodeless_fake_kubernetes::{ApiServer, CreateOptions, Status, UpdateOptions};
use serde_json::{Value, json};

const MESSAGE: &str = "nodeless serves v1 only; convert the manifest with `nodeless convert -f FILE`";
/// The kinds that v1beta1 renamed: group, version, plural, singular, kind.
const RENAMED: [(&str, &str, &str, &str, &str); 2] = [
    ("karpenter.sh", "v1alpha5", "provisioners", "provisioner", "Provisioner"),
    ("karpenter.k8s.aws", "v1alpha1", "awsnodetemplates", "awsnodetemplate", "AWSNodeTemplate"),
];
/// The kinds that exist in v1beta1 and v1.
const KEPT: [&str; 2] = ["nodepools.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"];

/// Adds the definitions of the earlier APIs, whose objects are all refused.
///
/// # Errors
/// When the API server refuses a definition.
pub(crate) fn refuse(api: &ApiServer) -> Result<(), CliError> {
    let failed = |status: Status| CliError::World(nodeless_world::WorldError::from(status));
    for (group, version, plural, singular, kind) in RENAMED {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group,
                "scope": "Cluster",
                "names": { "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List") },
                "versions": [refusing(version, true)],
            },
        });
        api.create(&CUSTOM_RESOURCE_DEFINITIONS, definition, &CreateOptions::default()).map_err(failed)?;
    }
    for name in KEPT {
        let mut definition = (*api.get(&CUSTOM_RESOURCE_DEFINITIONS, "", name).map_err(failed)?).clone();
        if let Some(Value::Array(versions)) = definition.pointer_mut("/spec/versions") {
            versions.push(refusing("v1beta1", false));
        }
        api.update(&CUSTOM_RESOURCE_DEFINITIONS, definition, &UpdateOptions::default()).map_err(failed)?;
    }
    Ok(())
}

/// A version of which no object is valid.
fn refusing(version: &str, storage: bool) -> Value {
    json!({
        "name": version,
        "served": true,
        "storage": storage,
        "deprecated": true,
        "schema": { "openAPIV3Schema": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{ "rule": "false", "message": MESSAGE }],
        } },
    })
}
