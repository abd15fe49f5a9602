//! Tests the findings of each check, and that there are none in a cluster that is ready.

use jiff::Timestamp;
use nodeless_api::common::{Condition, ConditionStatus};
use nodeless_api::managed;
use nodeless_api::test_support::{auto_mode_node_pool, ec2_node_class, node_pool_manifest};
use nodeless_api::view::{ClusterView, InvalidObject, Outline};
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus, NodePool};
use nodeless_doctor::{
    Access, AccessEntry, Check, Definition, DefinitionState, EarlierObjects, Facts, Finding, Placed, Planned,
    ProbeOutcome, Quota, Read, Severity, Surging, Workload, check,
};
use nodeless_model::object::ObjectRef;
use nodeless_model::{LabelSelector, OptionFault, OptionHolder, Pod, PodDisruptionBudget};
use serde_json::json;
use std::collections::BTreeSet;

fn now() -> Timestamp {
    "2026-01-10T12:00:00Z".parse().unwrap()
}

fn condition(type_: &str, status: ConditionStatus, reason: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status,
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: serde_json::from_value(json!("2026-01-10T11:00:00Z")).unwrap(),
        observed_generation: None,
    }
}

fn pool(name: &str, class: &str, cpu: &str) -> nodeless_model::NodePool {
    let requirements = json!([{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }]);
    let mut manifest = node_pool_manifest(name, &requirements, &json!({ "limits": { "cpu": cpu } }));
    manifest["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!(class);
    let pool: NodePool = serde_json::from_value(manifest).unwrap();
    let mut pool = nodeless_model::NodePool::from(&pool);
    pool.ready = Ok(());
    pool
}

/// A cluster that is ready.
pub(super) fn ready() -> Facts {
    let fast = json!({ "volumeSize": "9Gi", "volumeType": "gp3", "throughput": 250 });
    let volumes = json!({ "blockDeviceMappings": [{ "rootVolume": true, "ebs": fast }] });
    let mut class = ec2_node_class("default", "demo", &volumes);
    class.spec.role = Some("nodes".to_owned());
    class.status = Some(EC2NodeClassStatus {
        conditions: vec![condition("SubnetsReady", ConditionStatus::True, "SubnetsReady")],
        ..EC2NodeClassStatus::default()
    });
    let mut view = ClusterView { node_pools: vec![pool("web", "default", "100")], ..ClusterView::default() };
    view.node_classes.insert("default".to_owned(), class);
    Facts {
        now: now(),
        view,
        unread: Vec::new(),
        definitions: Read::Done(vec![definition(DefinitionState::Fine)]),
        earlier: Read::Done(vec![EarlierObjects { kind: "Provisioner".to_owned(), count: 0 }]),
        karpenter: Read::Done(vec![karpenter(0, 0)]),
        lease: Read::Done(Some(now() - jiff::SignedDuration::from_hours(1))),
        other_deployment: Read::Done(false),
        planned: Read::Done(Planned {
            probes: vec![Placed { name: "web".to_owned(), outcome: ProbeOutcome::Placed }],
            pending: Vec::new(),
            daemon_sets: BTreeSet::new(),
        }),
        access: Read::Done(Access {
            cluster: "demo".to_owned(),
            mode: "API".to_owned(),
            entries: vec![access_entry("nodes", "EC2_LINUX")],
        }),
        quotas: Read::Done(vec![quota(100)]),
        surges: Read::Done(vec![surging("login", "restart", &[])]),
        deployment_options: Vec::new(),
        prefix_delegation: Read::Done(Some(true)),
    }
}

fn definition(state: DefinitionState) -> Definition {
    Definition { name: "nodepools.karpenter.sh".to_owned(), optional: false, state }
}

fn karpenter(replicas: i64, running: i64) -> Workload {
    Workload { namespace: "kube-system".to_owned(), name: "karpenter".to_owned(), replicas, running }
}

fn access_entry(role: &str, kind: &str) -> AccessEntry {
    AccessEntry { principal: format!("arn:aws:iam::1:role/path/{role}"), kind: kind.to_owned() }
}

fn quota(vcpus: i64) -> Quota {
    let mut quota =
        Quota::new("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "L-1216C47A", 0.0).unwrap();
    quota.vcpus = vcpus;
    quota
}

fn surging(name: &str, value: &str, denied: &[&str]) -> Surging {
    Surging {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        value: value.to_owned(),
        in_template: true,
        denied: denied.iter().map(|right| (*right).to_owned()).collect(),
    }
}

/// The only finding.
pub(super) fn one(facts: &Facts) -> Finding {
    let mut findings = check(facts);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = findings.remove(0);
    assert!(!finding.problem.is_empty() && !finding.advice.is_empty(), "{finding:#?}");
    finding
}

pub(super) fn found(facts: &Facts, severity: Severity, about: Check, problem: &str) {
    let finding = one(facts);
    assert_eq!((finding.severity, finding.check), (severity, about), "{finding:#?}");
    assert!(finding.problem.contains(problem), "no {problem:?} in {finding:#?}");
}

#[test]
fn a_cluster_that_is_ready_has_no_findings() {
    assert_eq!(check(&ready()), []);
}

#[test]
fn what_was_not_read_is_a_finding() {
    let not = || "no permission".to_owned();
    let cases: [(Facts, &[Check]); 8] = [
        (Facts { definitions: Read::Not(not()), ..ready() }, &[Check::Definitions]),
        (Facts { earlier: Read::Not(not()), ..ready() }, &[Check::Objects]),
        (Facts { karpenter: Read::Not(not()), ..ready() }, &[Check::Karpenter]),
        (Facts { lease: Read::Not(not()), ..ready() }, &[Check::Karpenter]),
        (Facts { planned: Read::Not(not()), ..ready() }, &[Check::NodePools, Check::Pods, Check::DaemonSets]),
        (Facts { access: Read::Not(not()), ..ready() }, &[Check::Access]),
        (Facts { quotas: Read::Not(not()), ..ready() }, &[Check::Quotas]),
        (Facts { unread: vec![("Pod".to_owned(), not())], ..ready() }, &[Check::Objects]),
    ];
    for (facts, checks) in cases {
        let findings = check(&facts);
        assert_eq!(findings.iter().map(|finding| finding.check).collect::<Vec<_>>(), checks, "{findings:#?}");
        for finding in findings {
            assert_eq!(finding.severity, Severity::NotChecked);
            assert!(finding.problem.starts_with("not checked: ") && finding.problem.contains("no permission"));
            assert!(!finding.advice.is_empty());
        }
    }
}

/// A ready cluster with these access entries.
fn with_access(mode: &str, entries: Vec<AccessEntry>) -> Facts {
    let access = Access { cluster: "demo".to_owned(), mode: mode.to_owned(), entries };
    Facts { access: Read::Done(access), ..ready() }
}

/// Makes the nodes of the class run Windows.
fn run_windows(class: &mut EC2NodeClass) {
    class.spec.ami_selector_terms[0].alias = Some("windows2022@latest".to_owned());
    class.spec.ami_family = None;
}

#[test]
fn nodes_need_an_access_entry_of_their_system() {
    let linux = vec![access_entry("nodes", "EC2_LINUX")];
    found(&with_access("CONFIG_MAP", linux), Severity::Error, Check::Access, "authentication mode is CONFIG_MAP");
    for entries in [vec![], vec![access_entry("other-nodes", "EC2_LINUX")]] {
        let facts = with_access("API", entries);
        found(&facts, Severity::Error, Check::Access, "role nodes has no access entry for Linux");
        assert!(one(&facts).advice.contains("unless the ConfigMap aws-auth maps the role"));
    }
    // EC2 is for nodes of EKS Auto Mode.
    for kind in ["STANDARD", "EC2", "EC2_WINDOWS"] {
        let facts = with_access("API", vec![access_entry("nodes", kind)]);
        found(&facts, Severity::Error, Check::Access, &format!("that of the role has the type {kind}"));
        assert!(one(&facts).advice.contains("cannot be changed"), "{:#?}", one(&facts));
    }
    let mut windows = with_access("API", vec![access_entry("nodes", "EC2_LINUX")]);
    run_windows(windows.view.node_classes.get_mut("default").unwrap());
    found(&windows, Severity::Error, Check::Access, "no access entry for Windows");
    windows.access = with_access("API", vec![access_entry("nodes", "EC2_WINDOWS")]).access;
    assert_eq!(check(&windows), []);
}

#[test]
fn a_role_of_linux_and_windows_nodes_is_checked_for_both() {
    for (kind, lacking, class) in
        [("EC2_LINUX", "Windows", "EC2NodeClass windows"), ("EC2_WINDOWS", "Linux", "EC2NodeClass default")]
    {
        let mut facts = with_access("API", vec![access_entry("nodes", kind)]);
        let mut windows = facts.view.node_classes["default"].clone();
        run_windows(&mut windows);
        facts.view.node_classes.insert("windows".to_owned(), windows);
        found(&facts, Severity::Error, Check::Access, &format!("no access entry for {lacking}"));
        assert_eq!(one(&facts).object, class);
    }
}

#[test]
fn the_role_of_an_instance_profile_is_not_checked() {
    let mut facts = with_access("API", Vec::new());
    let class = facts.view.node_classes.get_mut("default").unwrap();
    class.spec.role = None;
    class.spec.instance_profile = Some("old-nodes".to_owned());
    found(&facts, Severity::NotChecked, Check::Access, "not checked: the role of its instance profile old-nodes");
    assert_eq!(one(&facts).object, "EC2NodeClass default");
    assert!(one(&facts).advice.contains("has the type EC2_LINUX"), "{:#?}", one(&facts));
}

#[test]
fn definitions_by_state() {
    let with = |state, optional| Facts {
        definitions: Read::Done(vec![Definition { optional, ..definition(state) }]),
        ..ready()
    };
    found(&with(DefinitionState::Missing, false), Severity::Error, Check::Definitions, "not installed");
    assert_eq!(check(&with(DefinitionState::Missing, true)), []);
    let refused = || DefinitionState::Refused("a webhook converts it".to_owned());
    found(&with(refused(), false), Severity::Error, Check::Definitions, "a webhook converts it");
    found(&with(refused(), true), Severity::Warning, Check::Definitions, "a webhook converts it");
    let noted = DefinitionState::Noted("Helm release karpenter/crd manages it".to_owned());
    found(&with(noted, false), Severity::Warning, Check::Definitions, "Helm release");
}

#[test]
fn a_karpenter_that_runs() {
    for (replicas, running) in [(2, 0), (0, 1)] {
        let facts = Facts { karpenter: Read::Done(vec![karpenter(replicas, running)]), ..ready() };
        found(&facts, Severity::Error, Check::Karpenter, "Karpenter runs");
    }
    let renewed = Read::Done(Some(now() - jiff::SignedDuration::from_secs(10)));
    let facts = Facts { lease: renewed.clone(), ..ready() };
    found(&facts, Severity::Error, Check::Karpenter, "no Deployment of this cluster");
    // The Deployment is reported once, not with its lease again.
    one(&Facts { lease: renewed, karpenter: Read::Done(vec![karpenter(1, 1)]), ..ready() });
}

#[test]
fn objects_that_cannot_be_used() {
    let mut facts = ready();
    let invalid = InvalidObject {
        kind: "NodePool".to_owned(),
        name: "x".to_owned(),
        message: "spec: bad".to_owned(),
        outline: Outline::default(),
    };
    facts.view.invalid.push(invalid);
    found(&facts, Severity::Error, Check::Objects, "spec: bad");
    let earlier = Read::Done(vec![EarlierObjects { kind: "Provisioner".to_owned(), count: 2 }]);
    let finding = one(&Facts { earlier, ..ready() });
    assert!(finding.advice.contains("nodeless convert -f -"), "{finding:#?}");
}

#[test]
fn conditions_of_classes() {
    let with = |conditions: Vec<Condition>| {
        let mut facts = ready();
        let class = facts.view.node_classes.get_mut("default").unwrap();
        class.status = Some(EC2NodeClassStatus { conditions, ..EC2NodeClassStatus::default() });
        facts
    };
    let no = ConditionStatus::False;
    let facts = with(vec![
        condition("SubnetsReady", no, "SubnetsNotFound"),
        condition("ValidationSucceeded", no, "DependenciesNotReady"),
        condition("Ready", no, "UnhealthyDependents"),
    ]);
    found(&facts, Severity::Error, Check::Discovery, "SubnetsReady is False, SubnetsNotFound");
    assert!(one(&facts).advice.contains("Key=karpenter.sh/discovery,Value=demo"), "{:#?}", one(&facts));
    found(
        &with(vec![condition("InstanceProfileReady", no, "RoleNotFound")]),
        Severity::Error,
        Check::NodeClasses,
        "RoleNotFound",
    );
    let missing = one(&with(vec![condition("InstanceProfileReady", no, "RoleNotFound")]));
    assert_eq!(missing.advice, "create the role, or change spec.role");
    let mut facts = with(vec![condition("ValidationSucceeded", no, "InstanceProfileNotFound")]);
    assert!(one(&facts).advice.starts_with("check that the role"), "{:#?}", one(&facts));
    facts.view.node_classes.get_mut("default").unwrap().spec.instance_profile = Some("mine".to_owned());
    assert_eq!(one(&facts).advice, "create the instance profile, or change spec.instanceProfile");
    found(&with(vec![condition("Ready", no, "Other")]), Severity::Error, Check::NodeClasses, "Ready is False");
    let unknown = condition("ValidationSucceeded", ConditionStatus::Unknown, "AwaitingDryRun");
    found(&with(vec![unknown]), Severity::Warning, Check::NodeClasses, "Unknown, AwaitingDryRun");
    found(&with(Vec::new()), Severity::NotChecked, Check::NodeClasses, "no status");
}

#[test]
fn node_pools_that_nothing_serves() {
    let mut facts = ready();
    facts.view.node_pools.clear();
    found(&facts, Severity::Warning, Check::NodePools, "no NodePool");
    let mut facts = ready();
    facts.view.node_pools[0].template.node_class = "gone".to_owned();
    found(&facts, Severity::Error, Check::NodePools, "EC2NodeClass gone does not exist");
    let mut facts = ready();
    facts.view.node_pools[0].ready = Err("spec.limits[cpu]: bad".into());
    found(&facts, Severity::Error, Check::NodePools, "spec.limits[cpu]: bad");
    let refused = ProbeOutcome::Unschedulable {
        reasons: vec!["NodePool web: no instance type meets its requirements".to_owned()],
        remedies: vec!["widen them".to_owned()],
    };
    let probes = vec![Placed { name: "web".to_owned(), outcome: refused }];
    let facts = Facts { planned: Read::Done(Planned { probes, ..Planned::default() }), ..ready() };
    found(&facts, Severity::Error, Check::NodePools, "small pod: no instance type meets its requirements");
    assert_eq!(one(&facts).advice, "widen them");
}

#[test]
fn pods_with_the_same_reason_are_one_finding() {
    let pod = |name: &str, reason: &str| Placed {
        name: format!("default/{name}"),
        outcome: ProbeOutcome::Unschedulable { reasons: vec![reason.to_owned()], remedies: Vec::new() },
    };
    let mut pending = ["a", "b", "c", "d", "e"].map(|name| pod(name, "too large")).to_vec();
    pending.push(pod("f", "no zone"));
    let facts = Facts { planned: Read::Done(Planned { pending, ..Planned::default() }), ..ready() };
    let findings = check(&facts);
    let objects = findings.iter().map(|finding| finding.object.as_str()).collect::<Vec<_>>();
    assert_eq!(objects, ["Pod default/f", "Pods default/a, default/b, default/c and 2 more"]);
}

#[test]
fn budgets_that_never_allow_an_eviction() {
    let budget = |name: &str| PodDisruptionBudget {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        selector: Some(LabelSelector::default()),
        disruptions_allowed: 1,
        ..PodDisruptionBudget::default()
    };
    let with = |budgets: Vec<PodDisruptionBudget>, pods: usize| {
        let mut facts = ready();
        facts.view.disruption_budgets = budgets;
        facts.view.pods = (0..pods)
            .map(|index| Pod { namespace: "default".to_owned(), name: format!("web-{index}"), ..Pod::default() })
            .map(Into::into)
            .collect();
        facts
    };
    assert_eq!(check(&with(vec![budget("a")], 2)), []);
    let never = PodDisruptionBudget { blocks_always: true, ..budget("a") };
    found(
        &with(vec![never.clone()], 2),
        Severity::Warning,
        Check::DisruptionBudgets,
        "never allows an eviction of its 2 pods",
    );
    assert_eq!(check(&with(vec![never], 0)), []);
    let all = PodDisruptionBudget { wants_all: true, ..budget("a") };
    found(&with(vec![all], 2), Severity::Warning, Check::DisruptionBudgets, "minAvailable is at least the number");
    let both = with(vec![budget("a"), budget("b")], 2);
    found(&both, Severity::Warning, Check::DisruptionBudgets, "cover the same pods (default/web-0 and 1 more)");
}

#[test]
fn quotas_below_the_limits() {
    let facts = Facts { quotas: Read::Done(vec![quota(99)]), ..ready() };
    found(&facts, Severity::Warning, Check::Quotas, "99 vCPUs, and the limits of web together allow 100");
    let spot = Quota { capacity_type: "spot".to_owned(), ..quota(0) };
    assert_eq!(check(&Facts { quotas: Read::Done(vec![spot]), ..ready() }), []);
    let mut limited = facts;
    limited.view.options.set("nodeless.sh/max-cpu", Some("99"));
    assert_eq!(check(&limited), [], "the limit of the cluster is lower than those of its NodePools");
}

/// A NodePool with this requirement, and a quota of this name that allows nothing.
fn with_requirement(key: &str, values: &[&str], name: &str) -> Vec<Finding> {
    let mut facts = Facts { quotas: Read::Done(vec![Quota::new(name, "L-1", 0.0).unwrap()]), ..ready() };
    if !key.is_empty() {
        let requirement = nodeless_model::Requirement::one_of(values.iter().copied());
        facts.view.node_pools[0].template.requirements.add(key, requirement);
    }
    check(&facts)
}

#[test]
fn quotas_concern_the_families_that_a_node_pool_allows() {
    const STANDARD: &str = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances";
    const G: &str = "Running On-Demand G and VT instances";
    const P: &str = "Running On-Demand P4, P3 and P2 instances";
    let category = "karpenter.k8s.aws/instance-category";
    let family = "karpenter.k8s.aws/instance-family";
    let type_ = "node.kubernetes.io/instance-type";
    for (key, values, name, found) in [
        ("", &[][..], STANDARD, true),
        // The NodePool launches these instances only for pods that request a GPU.
        ("", &[], G, false),
        (category, &["g"], G, true),
        (category, &["g"], STANDARD, false),
        (family, &["g6", "g5"], G, true),
        (family, &["m5"], G, false),
        (family, &["inf2"], STANDARD, false),
        (type_, &["p4d.24xlarge"], P, true),
        (type_, &["p5.48xlarge"], P, false),
        (type_, &["p40.large"], P, false),
        (type_, &["m7i-flex.large"], STANDARD, true),
    ] {
        assert_eq!(!with_requirement(key, values, name).is_empty(), found, "{key} {values:?}: {name}");
    }
}

#[test]
fn a_deployment_that_does_not_serve_the_cluster() {
    let facts = |read| Facts { other_deployment: read, ..ready() };
    found(&facts(Read::Done(true)), Severity::Warning, Check::Table, "an Event says so, not verified");
    found(&facts(Read::Not("no right".to_owned())), Severity::NotChecked, Check::Table, "no right");
}

#[test]
fn node_pools_of_other_controllers() {
    let other = managed::other::<NodePool>(&auto_mode_node_pool()).unwrap();
    let mut facts = ready();
    facts.view.other_node_pools = vec![other];
    let problem = "general-purpose (class eks.amazonaws.com/NodeClass)";
    found(&facts, Severity::Warning, Check::OtherControllers, problem);
    assert!(one(&facts).advice.contains("docs/migrate/auto-mode.md#side-by-side"));
}

#[test]
fn annotations_that_are_invalid_or_not_read() {
    let mut facts = ready();
    facts.view.options.set("nodeless.sh/pause-disruption", Some("maybe"));
    found(&facts, Severity::Error, Check::Options, "which pauses disruption until it is corrected");
    assert_eq!(one(&facts).object, "Namespace kube-system");
    facts.view.options.set("nodeless.sh/pause-disruption", None);
    facts.view.node_pools[0].options.set("nodeless.sh/min-ondemand", Some("2"));
    found(&facts, Severity::Warning, Check::Options, "did you mean nodeless.sh/min-on-demand?");
    assert_eq!(one(&facts).object, "NodePool web");
    facts.view.node_pools[0].options.set("nodeless.sh/min-ondemand", None);
    let mut pod = Pod { namespace: "shop".to_owned(), name: "login-1".to_owned(), ..Pod::default() };
    pod.template_mut().annotations.insert("nodeless.sh/surge-before-drain".to_owned(), "maybe".to_owned());
    facts.view.pods = vec![pod.into()];
    found(&facts, Severity::Error, Check::Options, "write restart or scale");
    assert_eq!(one(&facts).object, "Pod shop/login-1");
    facts.surges = Read::Done(vec![Surging { namespace: "shop".to_owned(), ..surging("login", "maybe", &[]) }]);
    found(&facts, Severity::Warning, Check::Surges, "write restart or scale");
    let deployment = ObjectRef::workload("Deployment", "shop", "login");
    let unknown = OptionFault::unknown(&deployment, OptionHolder::Deployment, ["nodeless.sh/warm"].into_iter());
    let facts = Facts { deployment_options: unknown.collect(), ..ready() };
    found(&facts, Severity::Warning, Check::Options, "set it on a NodePool");
    assert_eq!(one(&facts).object, "Deployment shop/login");
}

#[test]
fn surges_without_the_right() {
    let facts = |surges| Facts { surges: Read::Done(surges), ..ready() };
    let denied = ["patch deployments"];
    let one_denied = facts(vec![surging("login", "restart", &denied), surging("other", "restart", &[])]);
    found(&one_denied, Severity::Warning, Check::Surges, "lifecycle may not patch deployments");
    assert_eq!(one(&one_denied).object, "Deployment default/login");
    let many = facts(["a", "b", "c", "d"].map(|name| surging(name, "scale", &denied)).to_vec());
    assert_eq!(one(&many).object, "Deployments a, b, c and 1 more in namespace default");
    found(&facts(vec![surging("login", "rstart", &[])]), Severity::Warning, Check::Surges, "write restart or scale");
    let unread = Facts { surges: Read::Not("no right".to_owned()), ..ready() };
    found(&unread, Severity::NotChecked, Check::Surges, "no right");
}

#[test]
fn errors_come_first() {
    let mut facts =
        Facts { access: Read::Not("no name".to_owned()), karpenter: Read::Done(vec![karpenter(1, 1)]), ..ready() };
    facts.view.node_pools.clear();
    let severities = check(&facts).iter().map(|finding| finding.severity).collect::<Vec<_>>();
    assert_eq!(severities, [Severity::Error, Severity::Warning, Severity::NotChecked]);
}

#[test]
fn values_in_commands_are_words_of_a_shell() {
    const VALUE: &str = "a;reboot";
    const WORD: &str = "'a;reboot'";
    let mut facts = ready();
    facts.karpenter =
        Read::Done(vec![Workload { namespace: VALUE.to_owned(), name: VALUE.to_owned(), ..karpenter(1, 1) }]);
    facts.access = Read::Done(Access { cluster: VALUE.to_owned(), mode: "CONFIG_MAP".to_owned(), entries: Vec::new() });
    facts.earlier = Read::Done(vec![EarlierObjects { kind: VALUE.to_owned(), count: 1 }]);
    facts.quotas = Read::Done(vec![Quota { code: VALUE.to_owned(), ..quota(1) }]);
    facts.surges = Read::Done(vec![Surging { namespace: VALUE.to_owned(), ..surging("a", "restart", &["patch"]) }]);
    let class = facts.view.node_classes.get_mut("default").unwrap();
    class.spec.subnet_selector_terms[0].tags = serde_json::from_value(json!({ VALUE: VALUE })).unwrap();
    class.status.as_mut().unwrap().conditions =
        vec![condition("SubnetsReady", ConditionStatus::False, "SubnetsNotFound")];
    let mut with_profile = class.clone();
    (with_profile.spec.role, with_profile.spec.instance_profile) = (None, Some(VALUE.to_owned()));
    facts.view.node_classes.insert("profile".to_owned(), with_profile);

    let mut commands = 0;
    for finding in check(&facts) {
        for command in finding.advice.split('`').skip(1).step_by(2).filter(|command| command.contains(VALUE)) {
            commands += 1;
            let bare = command.replace(WORD, "").replace("'Key=a;reboot,Value=a;reboot'", "");
            assert!(!bare.contains(VALUE), "{command}");
        }
    }
    // Of the mode, two for the profile, the entry of the role, Karpenter, the objects, the quota, the surge, and the tags of each class.
    assert_eq!(commands, 10);
}
