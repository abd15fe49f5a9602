//! Helpers of the tests of conversions.

use nodeless_api::NodePool;
use nodeless_convert::{Conversion, Identity, Options, SourceFile, convert};
use nodeless_fake_kubernetes::schema::Schema;
use serde_json::Value;

pub(crate) fn with_role(text: &str) -> Conversion {
    let options = Options { identity: Some(Identity::Role("node-role".to_owned())), ignore_defaults: false };
    convert(&[source(text)], &options)
}

pub(crate) fn source(text: &str) -> SourceFile {
    SourceFile { name: "in.yaml".to_owned(), text: text.to_owned() }
}

/// Converts, and checks that the API server and the planner accept each object.
pub(crate) fn valid(text: &str) -> Conversion {
    let conversion = with_role(text);
    let problems = conversion.problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(problems, Vec::<String>::new());
    for object in &conversion.objects {
        accepted(object.kind, &object.value);
    }
    conversion
}

pub(crate) fn accepted(kind: &str, value: &Value) {
    let crd = nodeless_api::crds().unwrap().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let schema = Schema::from_crd(&crd, "v1").unwrap();
    let mut read = value.clone();
    schema.prune(&mut read);
    assert_eq!(&read, value, "every field is one of v1");
    schema.default(&mut read);
    assert_eq!(schema.validate(&read, None), [], "{value:#}");
    if kind == "NodePool" {
        let pool: NodePool = serde_json::from_value(read).unwrap();
        assert_eq!(nodeless_api::convert::validate::node_pool(&pool), Vec::<String>::new());
    }
}

pub(crate) fn lines(conversion: &Conversion) -> Vec<String> {
    conversion.notes.iter().map(ToString::to_string).collect()
}

pub(crate) fn problems(text: &str) -> Vec<String> {
    let conversion = convert(&[source(text)], &Options::default());
    conversion.problems.iter().map(ToString::to_string).collect()
}

pub(crate) fn object<'c>(conversion: &'c Conversion, kind: &str, name: &str) -> &'c Value {
    let found =
        conversion.objects.iter().find(|object| object.kind == kind && object.value["metadata"]["name"] == name);
    &found.unwrap_or_else(|| panic!("no {kind} {name} in {:#?}", conversion.objects)).value
}
