//! The manifests in `infra/`, built in.

use super::{InstallError, Rights, Wake};
use serde_json::Value;

const RBAC: [(&str, &str); 6] = [
    ("infra/rbac/admin.yaml", include_str!("../../../../../infra/rbac/admin.yaml")),
    ("infra/rbac/planner.yaml", include_str!("../../../../../infra/rbac/planner.yaml")),
    ("infra/rbac/lifecycle.yaml", include_str!("../../../../../infra/rbac/lifecycle.yaml")),
    ("infra/rbac/catalog.yaml", include_str!("../../../../../infra/rbac/catalog.yaml")),
    ("infra/rbac/interruption.yaml", include_str!("../../../../../infra/rbac/interruption.yaml")),
    ("infra/rbac/nominations.yaml", include_str!("../../../../../infra/rbac/nominations.yaml")),
];
const WEBHOOK: (&str, &str) = (
    "infra/webhook/validatingwebhookconfiguration.yaml",
    include_str!("../../../../../infra/webhook/validatingwebhookconfiguration.yaml"),
);
/// The placeholder for the URL in the webhook's manifest.
const URL_PLACEHOLDER: &str = "WAKE_URL";

fn parse(file: &str, text: &str) -> Result<Vec<Value>, InstallError> {
    serde_saphyr::from_multiple(text)
        .map_err(|error| InstallError::Embedded { object: file.to_owned(), reason: error.to_string() })
}

/// The roles and bindings.
pub(super) fn rbac() -> Result<Vec<Value>, InstallError> {
    RBAC.into_iter().map(|(file, text)| parse(file, text)).collect::<Result<Vec<_>, _>>().map(|files| files.concat())
}

/// The role and the binding of nominations.
const NOMINATIONS: &str = "nodeless:nominations";

/// The role for people.
const ADMIN: &str = "nodeless:admin";
/// The label of roles that are part of the role `admin` of Kubernetes.
const AGGREGATE_TO_ADMIN: &str = "rbac.authorization.k8s.io/aggregate-to-admin";

/// The roles and bindings with these rights. Without the right to nominate nodes for pods, that role has no rules, so that it takes away
/// what an earlier installation granted.
pub(super) fn rbac_with(rights: Rights) -> Result<Vec<Value>, InstallError> {
    let mut objects = rbac()?;
    for role in objects.iter_mut().filter(|object| object["kind"] == "ClusterRole") {
        let metadata = &mut role["metadata"];
        if metadata["name"] == ADMIN {
            metadata["labels"][AGGREGATE_TO_ADMIN] = rights.aggregate_to_admin.to_string().into();
        } else if metadata["name"] == NOMINATIONS && !rights.nominations {
            role["rules"] = Value::Array(Vec::new());
        }
    }
    Ok(objects)
}

/// The webhook, with the placeholder as its URL.
pub(super) fn webhook_template() -> Result<Value, InstallError> {
    let malformed = |reason: &str| InstallError::Embedded { object: WEBHOOK.0.to_owned(), reason: reason.to_owned() };
    match <[Value; 1]>::try_from(parse(WEBHOOK.0, WEBHOOK.1)?) {
        Ok([webhook]) => Ok(webhook),
        Err(_) => Err(malformed("it is not a single object")),
    }
}

/// The webhook that calls the wake function, if it is enabled.
pub(super) fn webhook(wake: &Wake) -> Result<Option<Value>, InstallError> {
    let Wake::Url(url) = wake else { return Ok(None) };
    if !url.starts_with("https://") || url.contains(['?', '#', '@', ' ']) {
        return Err(InstallError::Invalid(format!(
            "the API server cannot call wakeUrl {url:?}: it must be https:// with a host and a path, and nothing else"
        )));
    }
    let mut object = webhook_template()?;
    let hooks = object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten();
    let mut replaced = 0;
    for target in hooks.filter_map(|hook| hook.pointer_mut("/clientConfig/url")) {
        if *target == URL_PLACEHOLDER {
            *target = Value::String(url.clone());
            replaced += 1;
        }
    }
    if replaced == 0 {
        let reason = format!("no webhook has the url {URL_PLACEHOLDER}");
        return Err(InstallError::Embedded { object: WEBHOOK.0.to_owned(), reason });
    }
    Ok(Some(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_cluster::merge::string;
    use std::collections::BTreeSet;

    #[test]
    fn the_installer_can_install_every_manifest() {
        let objects = rbac().unwrap();
        assert!(objects.len() > RBAC.len());
        for object in objects.iter().chain([&webhook_template().unwrap()]) {
            assert!(super::super::apply::path(object).is_ok(), "{object}");
            assert!(string(object, "/metadata/name").unwrap().starts_with("nodeless"), "{object}");
            assert_eq!(string(object, "/metadata/labels/app.kubernetes.io~1managed-by"), Some("nodeless"));
        }
    }

    /// The planner lists and watches every kind of the view. What only others read, and what is read by name, is named here.
    #[test]
    fn the_functions_may_read_only_the_kinds_that_they_read() {
        use nodeless_cluster::kinds::*;
        let view = [
            Nodes::PATH,
            Pods::PATH,
            DaemonSets::PATH,
            LimitRanges::PATH,
            ResourceQuotas::PATH,
            DisruptionBudgets::PATH,
            NodePools::PATH,
            NodeClasses::PATH,
            NodeClaims::PATH,
            NodeOverlays::PATH,
            CapacityBuffers::PATH,
            ProvisioningRequests::PATH,
            Namespaces::PATH,
            PersistentVolumeClaims::PATH,
            PersistentVolumes::PATH,
            StorageClasses::PATH,
            CsiNodes::PATH,
            ResourceSlices::PATH,
            DeviceClasses::PATH,
            ResourceClaims::PATH,
            ResourceClaimTemplates::PATH,
            Services::PATH,
            ReplicationControllers::PATH,
            ReplicaSets::PATH,
            StatefulSets::PATH,
        ];
        let named = ["/apis/apps/v1/deployments", "/api/v1/podtemplates"].map(resource);
        let view = BTreeSet::from(view.map(resource));
        assert_eq!(may("planner", &["list", "watch"]), view);
        assert_eq!(may("planner", &["get", "list", "watch"]), view.into_iter().chain(named).collect());
        let kept = [Nodes::PATH, Pods::PATH, NodePools::PATH, NodeClasses::PATH, NodeClaims::PATH, NodeOverlays::PATH]
            .map(resource);
        // Deployments that are raised before a drain are listed by their label.
        let listed = [DisruptionBudgets::PATH, VolumeAttachments::PATH, "/apis/apps/v1/deployments"].map(resource);
        // What a driver publishes of a node whose kubelet does not report a requested resource.
        let devices = [DeviceClasses::PATH, ResourceSlices::PATH].map(resource);
        assert_eq!(may("lifecycle", &["watch"]), BTreeSet::from(kept.clone()));
        assert_eq!(may("lifecycle", &["list", "watch"]), kept.into_iter().chain(listed).chain(devices).collect());
        assert_eq!(may("catalog", &["list", "watch"]), BTreeSet::from([resource(NodeClasses::PATH)]));
        assert_eq!(may("interruption", &["get", "list", "watch"]), BTreeSet::from([resource(NodeClaims::PATH)]));
    }

    /// The group and resource of a collection.
    fn resource(path: impl AsRef<str>) -> (String, String) {
        match path.as_ref().split('/').collect::<Vec<_>>()[..] {
            ["", "api", _, plural] => (String::new(), plural.to_owned()),
            ["", "apis", group, _, plural] => (group.to_owned(), plural.to_owned()),
            _ => panic!("{}", path.as_ref()),
        }
    }

    /// The resources for which the role of a function has one of these verbs.
    fn may(function: &str, verbs: &[&str]) -> BTreeSet<(String, String)> {
        let name = format!("nodeless:{function}");
        let is_role = |object: &Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == *name;
        let role = rbac().unwrap().into_iter().find(is_role).unwrap();
        let granted = rights(&role).into_iter().filter(|(.., verb)| verbs.contains(&verb.as_str()));
        granted.map(|(group, resource, ..)| (group, resource)).collect()
    }

    /// Secrets and ConfigMaps are readable for no function, and every function has one role and one group of its name.
    #[test]
    fn every_function_has_a_role_of_its_own() {
        let objects = rbac().unwrap();
        for function in ["planner", "lifecycle", "catalog", "interruption"] {
            let name = format!("nodeless:{function}");
            let binding = objects
                .iter()
                .find(|object| object["kind"] == "ClusterRoleBinding" && object["metadata"]["name"] == *name);
            let binding = binding.unwrap();
            assert_eq!(
                (&binding["roleRef"]["name"], &binding["subjects"][0]["name"]),
                (&name.clone().into(), &name.into())
            );
        }
        let granted: BTreeSet<_> = objects.iter().flat_map(rights).map(|(_, resource, ..)| resource).collect();
        assert!(granted.is_disjoint(&["secrets", "configmaps"].map(str::to_owned).into()), "{granted:?}");
    }

    #[test]
    fn without_nominations_their_role_has_no_rules() {
        let patching_pods = |on: bool| {
            let of = |role: &Value| rights(role).into_iter().filter(|(_, resource, ..)| resource == "pods/status");
            let rights = Rights { nominations: on, ..Rights::default() };
            rbac_with(rights).unwrap().iter().flat_map(|role| of(role).collect::<Vec<_>>()).count()
        };
        assert_eq!((patching_pods(true), patching_pods(false)), (1, 0));
        assert_eq!(rbac_with(Rights::default()).unwrap(), rbac().unwrap());
    }

    #[test]
    fn people_write_no_status_and_admins_of_namespaces_get_the_role_only_on_request() {
        let admin = |aggregate_to_admin: bool| {
            let objects = rbac_with(Rights { aggregate_to_admin, ..Rights::default() }).unwrap();
            objects.into_iter().find(|object| object["metadata"]["name"] == ADMIN).unwrap()
        };
        let label = |role: &Value| role["metadata"]["labels"][AGGREGATE_TO_ADMIN].clone();
        assert_eq!([false, true].map(|on| label(&admin(on))), ["false", "true"]);
        let statuses: Vec<_> =
            rights(&admin(true)).into_iter().filter(|(_, resource, ..)| resource.contains('/')).collect();
        assert_eq!(statuses, []);
        let aggregated = |role: &Value| {
            role["metadata"]["labels"].as_object().is_some_and(|labels| {
                labels.iter().any(|(key, value)| key.contains("/aggregate-to-") && value == "true")
            })
        };
        assert!(!rbac_with(Rights::default()).unwrap().iter().any(aggregated));
    }

    /// Every permission as group, resource, name (`*` for all) and verb.
    fn rights(role: &Value) -> BTreeSet<(String, String, String, String)> {
        let mut rights = BTreeSet::new();
        for rule in role["rules"].as_array().into_iter().flatten() {
            let texts = |key: &str| nodeless_cluster::merge::strings(rule, &format!("/{key}"));
            let names = Some(texts("resourceNames")).filter(|names| !names.is_empty());
            for group in texts("apiGroups") {
                for resource in texts("resources") {
                    for name in names.clone().unwrap_or_else(|| vec!["*".to_owned()]) {
                        let of = |verb| (group.clone(), resource.clone(), name.clone(), verb);
                        rights.extend(texts("verbs").into_iter().map(of));
                    }
                }
            }
        }
        rights
    }

    /// Not installed, so that only those who want surges grant it.
    #[test]
    fn the_optional_role_grants_what_surges_change_and_nothing_else() {
        let text = include_str!("../../../../../infra/rbac/optional/surge.yaml");
        let objects = parse("surge.yaml", text).unwrap();
        let right = |group: &str, resource: &str| {
            let name = "*".to_owned();
            (group.to_owned(), resource.to_owned(), name, "patch".to_owned())
        };
        assert_eq!(rights(&objects[0]), BTreeSet::from([right("apps", "deployments"), right("", "pods")]));
        assert_eq!(string(&objects[1], "/roleRef/name"), string(&objects[0], "/metadata/name"));
        assert_eq!(string(&objects[1], "/subjects/0/name"), Some("nodeless:lifecycle"));
        let installed: BTreeSet<_> = rbac().unwrap().iter().flat_map(rights).collect();
        assert!(installed.is_disjoint(&rights(&objects[0])), "the installer grants a part of it");
    }

    /// Not installed, because only a setting needs it.
    #[test]
    fn the_optional_role_for_expected_pods_only_reads() {
        let text = include_str!("../../../../../infra/rbac/optional/expected-pods.yaml");
        let objects = parse("expected-pods.yaml", text).unwrap();
        let right = |group: &str, resource: &str, verb: &str| {
            (group.to_owned(), resource.to_owned(), "*".to_owned(), verb.to_owned())
        };
        let kinds = [("apps", "deployments"), ("batch", "jobs")];
        let granted =
            kinds.into_iter().flat_map(|(group, resource)| ["list", "watch"].map(|verb| right(group, resource, verb)));
        assert_eq!(rights(&objects[0]), granted.collect());
        assert_eq!(string(&objects[1], "/roleRef/name"), string(&objects[0], "/metadata/name"));
        assert_eq!(string(&objects[1], "/subjects/0/name"), Some("nodeless:planner"));
    }

    #[test]
    fn the_webhook_calls_the_url_and_never_blocks() {
        let object = webhook(&Wake::Url("https://x.lambda-url.us-east-1.on.aws/secret".into())).unwrap().unwrap();
        let hooks = object["webhooks"].as_array().unwrap();
        assert_eq!(hooks.len(), 4, "for Events, EC2NodeClasses, NodeClaims and deletions");
        for hook in hooks {
            assert_eq!(hook["clientConfig"]["url"], "https://x.lambda-url.us-east-1.on.aws/secret");
            assert_eq!((&hook["failurePolicy"], &hook["sideEffects"]), (&"Ignore".into(), &"None".into()));
        }
        assert!(!object.to_string().contains(URL_PLACEHOLDER));
        assert_eq!(webhook(&Wake::Off).unwrap(), None);
    }

    #[test]
    fn a_url_that_cannot_be_called_is_refused() {
        for url in ["http://x/y", "x", "https://x/y?z", "https://user@x/y", ""] {
            assert!(webhook(&Wake::Url(url.into())).unwrap_err().to_string().contains("wakeUrl"), "{url}");
        }
    }
}
