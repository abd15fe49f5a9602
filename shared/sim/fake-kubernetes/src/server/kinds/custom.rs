//! Custom resources: the properties of a kind that a CustomResourceDefinition defines.

use crate::server::path::{Path as _, text};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::server::definition::{CustomVersion, Definition, Scale};
use crate::server::resource::Resource;
use crate::server::time::seconds;

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn pointer(path: &Value) -> Option<String> {
    path.as_str().map(|path| path.replace('.', "/"))
}

/// The definitions of all served versions of a valid CustomResourceDefinition.
pub(crate) fn definitions(crd: &Value) -> Vec<Definition> {
    let spec = &crd["spec"];
    let names = &spec["names"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    versions
        .iter()
        .filter(|version| version["served"] != false)
        .filter_map(|version| {
            let validator = match crate::server::schema::compile(crd, text(version, "/name")) {
                Ok(validator) => validator,
                Err(error) => {
                    tracing::error!(field = error.field, error = error.message, "a version is not served");
                    return None;
                }
            };
            let schema = version.at("/schema/openAPIV3Schema").cloned().unwrap_or_default();
            let fields = version["selectableFields"].as_array().map(Vec::as_slice).unwrap_or_default();
            let custom = CustomVersion {
                schema,
                validator,
                storage: version["storage"] == true,
                columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
                selectable_fields: fields.iter().map(|field| text(field, "/jsonPath").to_owned()).collect(),
            };
            let scale = version.at("/subresources/scale").map(|scale| Scale {
                spec_replicas: pointer(&scale["specReplicasPath"]).unwrap_or_default(),
                status_replicas: pointer(&scale["statusReplicasPath"]).unwrap_or_default(),
                selector: pointer(&scale["labelSelectorPath"]),
            });
            Some(Definition {
                resource: Resource::custom(
                    text(spec, "/group"),
                    text(version, "/name"),
                    text(names, "/plural"),
                    text(names, "/kind"),
                    spec["scope"] == "Namespaced",
                ),
                singular: text(names, "/singular").to_owned(),
                short_names: strings(&names["shortNames"]),
                categories: strings(&names["categories"]),
                status: version.at("/subresources/status").is_some(),
                scale,
                generation: true,
                custom: Some(Arc::new(custom)),
            })
        })
        .collect()
}

/// The status of a served CustomResourceDefinition, keeping the times of an older status.
pub(crate) fn established(crd: &mut Value, now: Timestamp) {
    let condition = |kind: &str, reason: &str, message: &str| {
        let time = crd
            .at("/status/conditions")
            .and_then(Value::as_array)
            .and_then(|list| list.iter().find(|it| it["type"] == kind))
            .map_or_else(|| json!(seconds(now)), |it| it["lastTransitionTime"].clone());
        json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": time})
    };
    let conditions = [
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ];
    let versions = crd["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let mut stored = strings(&crd.at("/status/storedVersions").cloned().unwrap_or_default());
    for version in versions.iter().filter(|version| version["storage"] == true) {
        let name = text(version, "/name").to_owned();
        if !stored.contains(&name) {
            stored.push(name);
        }
    }
    crd["status"] = json!({"conditions": conditions, "acceptedNames": crd["spec"]["names"], "storedVersions": stored});
}
