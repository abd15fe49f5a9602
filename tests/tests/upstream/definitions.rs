//! The check of NodePools and EC2NodeClasses by their definitions, as `nodeless plan` makes it.

use nodeless_fake_kubernetes::schema::Schema;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static SCHEMAS: LazyLock<BTreeMap<String, Schema>> = LazyLock::new(|| {
    let definitions = nodeless_api::crds().unwrap();
    let checked = definitions.iter().filter(|crd| ["NodePool", "EC2NodeClass"].contains(&crd.spec.names.kind.as_str()));
    checked.map(|crd| (crd.spec.names.kind.clone(), Schema::from_crd(crd, "v1").unwrap())).collect()
});

/// The errors of an object, except for missing fields.
pub(crate) fn errors(kind: &str, object: &Value) -> Vec<(String, String)> {
    let schema = &SCHEMAS[kind];
    let mut object = object.clone();
    schema.prune(&mut object);
    schema.default(&mut object);
    let errors = schema.validate(&object, None).into_iter().filter(|error| error.message != "Required value");
    errors.map(|error| (error.path, error.message)).collect()
}
