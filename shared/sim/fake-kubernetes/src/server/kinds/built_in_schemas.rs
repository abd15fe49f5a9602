//! The OpenAPI schemas of built-in kinds, for `kubectl explain`.
//!
//! The types of k8s-openapi have the schemas and descriptions of Kubernetes. They lack the merge strategies of fields, which the schemas of
//! a real server have: without them, `kubectl apply` would replace whole lists. `data/kubernetes-patches.txt` has the strategies, one field
//! a line.

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const PATCHES: &str = include_str!("../../../data/kubernetes-patches.txt");
/// The reference of one schema to another.
const REFERENCE: &str = "$ref";

/// Adds the schema of a type and of all types that it uses. Returns its name.
type Add = fn(&mut SchemaGenerator) -> String;

fn add<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> String {
    let _reference = generator.subschema_for::<T>();
    T::schema_name().into_owned()
}

macro_rules! kinds {
    ($($group:literal $version:literal $kind:literal $type:ty,)*) => {
        &[$(($group, $version, $kind, add::<$type>)),*]
    };
}

const KINDS: &[(&str, &str, &str, Add)] = kinds! {
    "" "v1" "Pod" api::core::v1::Pod,
    "" "v1" "Node" api::core::v1::Node,
    "" "v1" "Namespace" api::core::v1::Namespace,
    "" "v1" "Service" api::core::v1::Service,
    "" "v1" "Endpoints" api::core::v1::Endpoints,
    "" "v1" "ConfigMap" api::core::v1::ConfigMap,
    "" "v1" "Secret" api::core::v1::Secret,
    "" "v1" "ServiceAccount" api::core::v1::ServiceAccount,
    "" "v1" "Event" api::core::v1::Event,
    "" "v1" "PersistentVolume" api::core::v1::PersistentVolume,
    "" "v1" "PersistentVolumeClaim" api::core::v1::PersistentVolumeClaim,
    "" "v1" "ReplicationController" api::core::v1::ReplicationController,
    "" "v1" "PodTemplate" api::core::v1::PodTemplate,
    "" "v1" "LimitRange" api::core::v1::LimitRange,
    "" "v1" "ResourceQuota" api::core::v1::ResourceQuota,
    "apps" "v1" "Deployment" api::apps::v1::Deployment,
    "apps" "v1" "ReplicaSet" api::apps::v1::ReplicaSet,
    "apps" "v1" "StatefulSet" api::apps::v1::StatefulSet,
    "apps" "v1" "DaemonSet" api::apps::v1::DaemonSet,
    "apps" "v1" "ControllerRevision" api::apps::v1::ControllerRevision,
    "batch" "v1" "Job" api::batch::v1::Job,
    "batch" "v1" "CronJob" api::batch::v1::CronJob,
    "policy" "v1" "PodDisruptionBudget" api::policy::v1::PodDisruptionBudget,
    "storage.k8s.io" "v1" "StorageClass" api::storage::v1::StorageClass,
    "storage.k8s.io" "v1" "CSINode" api::storage::v1::CSINode,
    "storage.k8s.io" "v1" "CSIDriver" api::storage::v1::CSIDriver,
    "storage.k8s.io" "v1" "VolumeAttachment" api::storage::v1::VolumeAttachment,
    "scheduling.k8s.io" "v1" "PriorityClass" api::scheduling::v1::PriorityClass,
    "scheduling.k8s.io" "v1alpha2" "PodGroup" api::scheduling::v1alpha2::PodGroup,
    "scheduling.k8s.io" "v1alpha2" "Workload" api::scheduling::v1alpha2::Workload,
    "coordination.k8s.io" "v1" "Lease" api::coordination::v1::Lease,
    "rbac.authorization.k8s.io" "v1" "Role" api::rbac::v1::Role,
    "rbac.authorization.k8s.io" "v1" "RoleBinding" api::rbac::v1::RoleBinding,
    "rbac.authorization.k8s.io" "v1" "ClusterRole" api::rbac::v1::ClusterRole,
    "rbac.authorization.k8s.io" "v1" "ClusterRoleBinding" api::rbac::v1::ClusterRoleBinding,
    "apiextensions.k8s.io" "v1" "CustomResourceDefinition" extensions::CustomResourceDefinition,
    "admissionregistration.k8s.io" "v1" "ValidatingWebhookConfiguration"
        api::admissionregistration::v1::ValidatingWebhookConfiguration,
    "events.k8s.io" "v1" "Event" api::events::v1::Event,
    "discovery.k8s.io" "v1" "EndpointSlice" api::discovery::v1::EndpointSlice,
    "autoscaling" "v1" "HorizontalPodAutoscaler" api::autoscaling::v1::HorizontalPodAutoscaler,
    "autoscaling" "v2" "HorizontalPodAutoscaler" api::autoscaling::v2::HorizontalPodAutoscaler,
    "networking.k8s.io" "v1" "Ingress" api::networking::v1::Ingress,
    "networking.k8s.io" "v1" "IngressClass" api::networking::v1::IngressClass,
    "networking.k8s.io" "v1" "NetworkPolicy" api::networking::v1::NetworkPolicy,
    "resource.k8s.io" "v1" "ResourceSlice" api::resource::v1::ResourceSlice,
    "resource.k8s.io" "v1" "DeviceClass" api::resource::v1::DeviceClass,
    "resource.k8s.io" "v1" "ResourceClaim" api::resource::v1::ResourceClaim,
    "resource.k8s.io" "v1" "ResourceClaimTemplate" api::resource::v1::ResourceClaimTemplate,
    "node.k8s.io" "v1" "RuntimeClass" api::node::v1::RuntimeClass,
};

type Schemas = Map<String, Value>;

/// The schemas of the built-in kinds of a group version, by name. They are made once.
pub(crate) fn schemas_of_group(group: &str, version: &str) -> Schemas {
    static MADE: OnceLock<BTreeMap<(&str, &str), Schemas>> = OnceLock::new();
    let all = MADE.get_or_init(|| {
        let groups = KINDS.iter().map(|(group, version, ..)| (*group, *version));
        groups.map(|(group, version)| ((group, version), make(group, version))).collect()
    });
    all.get(&(group, version)).cloned().unwrap_or_default()
}

fn make(group: &str, version: &str) -> Schemas {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let own = KINDS.iter().filter(|(of_group, of_version, ..)| (*of_group, *of_version) == (group, version));
    let named: Vec<(&str, String)> = own.map(|(_, _, kind, add)| (*kind, add(&mut generator))).collect();
    let mut schemas: Schemas = generator.take_definitions(true).into_iter().collect();
    for (kind, name) in named {
        if let Some(schema) = schemas.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([{ "group": group, "version": version, "kind": kind }]);
        }
    }
    for (name, field, strategy, key) in PATCHES.lines().filter_map(patch) {
        let property = schemas.get_mut(&name).and_then(|schema| schema.pointer_mut(&format!("/properties/{field}")));
        if let Some(property) = property {
            annotate(property, strategy, key);
        }
    }
    schemas
}

/// A line of the table: the name of the schema, the field, the strategy and the merge key.
fn patch(line: &str) -> Option<(String, &str, &str, Option<&str>)> {
    let mut words = line.split(' ');
    let (name, field, strategy) = (words.next()?, words.next()?, words.next()?);
    // In JSON, the fields of EphemeralContainerCommon are inline.
    let name = name.replace("EphemeralContainerCommon", "EphemeralContainer");
    Some((name, field, strategy, words.next()))
}

fn annotate(property: &mut Value, strategy: &str, key: Option<&str>) {
    // Fields beside a reference are ignored.
    if let Some(reference) = property.as_object_mut().and_then(|fields| fields.remove(REFERENCE)) {
        property["allOf"] = json!([{ REFERENCE: reference }]);
    }
    property["x-kubernetes-patch-strategy"] = json!(strategy);
    if let Some(key) = key {
        property["x-kubernetes-patch-merge-key"] = json!(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::definition::built_in;
    use crate::server::resource::Resource;

    fn is_known(resource: &Resource) -> bool {
        let own = (&*resource.group, &*resource.version, &*resource.kind);
        KINDS.iter().any(|(group, version, kind, _)| (*group, *version, *kind) == own)
    }

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for definition in built_in() {
            assert!(is_known(&definition.resource), "{:?}", definition.resource);
        }
    }

    #[test]
    fn schemas_have_descriptions_and_what_kubectl_merges_by() {
        let schemas = schemas_of_group("", "v1");
        let pod = &schemas["io.k8s.api.core.v1.Pod"];
        assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert!(containers["description"].as_str().unwrap().contains("containers"), "{containers}");
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["items"]["$ref"], "#/components/schemas/io.k8s.api.core.v1.Container");
        let strategy = &schemas_of_group("apps", "v1")["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"];
        assert_eq!(strategy["x-kubernetes-patch-strategy"], "retainKeys");
        assert!(schemas_of_group("karpenter.sh", "v1").is_empty());
    }

    #[test]
    fn every_line_of_the_table_about_a_served_type_names_its_field() {
        let all: Vec<Schemas> = KINDS.iter().map(|(group, version, ..)| schemas_of_group(group, version)).collect();
        let mut served = 0;
        for (name, field, ..) in PATCHES.lines().filter_map(patch) {
            for schema in all.iter().filter_map(|schemas| schemas.get(&name)) {
                assert!(schema["properties"].get(field).is_some(), "{name} has no {field}");
                served += 1;
            }
        }
        assert!(served > 40, "{served}");
    }
}
