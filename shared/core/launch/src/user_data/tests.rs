use super::*;
use nodeless_model::TaintEffect;

fn cluster() -> ClusterDetails {
    ClusterDetails {
        name: "prod".into(),
        version: "1.33".into(),
        endpoint: "https://api.example.com".into(),
        certificate_authority: "Q0E=".into(),
        service_cidr: Some("10.100.0.0/16".into()),
    }
}

fn build(family: AmiFamily, custom: Option<&str>) -> Result<String, UserDataError> {
    let labels = StringMap::from([
        ("team".to_owned(), "a".to_owned()),
        (labels::NODE_POOL.to_owned(), "default".to_owned()),
        (labels::ZONE.to_owned(), "us-east-1a".to_owned()),
    ]);
    let taints =
        [Taint::unregistered(), Taint { key: "gpu".into(), value: "yes".into(), effect: TaintEffect::NoSchedule }];
    user_data(&UserDataInput {
        cluster: &cluster(),
        family,
        image: None,
        custom,
        kubelet: &KubeletConfiguration { pods_per_core: Some(4), ..KubeletConfiguration::default() },
        kubelet_fields: &BTreeMap::from([("podsPerCore".to_owned(), Value::from(4))]),
        max_pods: 29,
        instance_store: Some(InstanceStorePolicy::Raid0),
        labels: &labels,
        taints: &taints,
    })
}

fn last_part(document: &str) -> serde_json::Value {
    let parts = mime::parts(document).unwrap();
    let (_, body) = parts.last().unwrap().split_once("\n\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[test]
fn al2023_gets_a_node_config() {
    let text = build(AmiFamily::AL2023, None).unwrap();
    assert!(text.starts_with("MIME-Version: 1.0\n") && text.ends_with("--//--\n"), "{text}");
    let config = last_part(&text);
    assert_eq!(config["kind"], "NodeConfig");
    assert_eq!(config["spec"]["cluster"]["cidr"], "10.100.0.0/16");
    assert_eq!(config["spec"]["kubelet"]["config"]["maxPods"], 29);
    assert_eq!(config["spec"]["kubelet"]["config"]["podsPerCore"], 4);
    assert_eq!(config["spec"]["kubelet"]["config"]["registerWithTaints"][0]["key"], "karpenter.sh/unregistered");
    assert_eq!(config["spec"]["instance"]["localStorage"]["strategy"], "RAID0");
    let flag = config["spec"]["kubelet"]["flags"][0].as_str().unwrap();
    assert_eq!(flag, "--node-labels=karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=default,team=a");
}

#[test]
fn al2023_keeps_the_user_data_and_adds_its_own_part_last() {
    let script = build(AmiFamily::AL2023, Some("#!/bin/bash\necho hello\n")).unwrap();
    assert!(
        script.contains("Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\necho hello\n--//"),
        "{script}"
    );
    assert_eq!(last_part(&script)["kind"], "NodeConfig");

    let config = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}";
    let parts = mime::parts(&build(AmiFamily::AL2023, Some(config)).unwrap()).unwrap();
    assert_eq!(parts[0], format!("Content-Type: application/node.eks.aws\n\n{config}"));

    let multipart = "MIME-Version: 1.0\nContent-Type: multipart/mixed;\n boundary=\"XX\"\n\n--XX\nContent-Type: text/x-shellscript\n\necho a\n\n--XX\nContent-Type: text/cloud-config\n\nb: c\n--XX--\n";
    let parts = mime::parts(&build(AmiFamily::AL2023, Some(multipart)).unwrap()).unwrap();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[0], "Content-Type: text/x-shellscript\n\necho a");
}

const HEAD: &str = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"XX\"\n\n";
const SCRIPT: &str = "--XX\nContent-Type: text/x-shellscript\n\necho a\n";

/// The results were verified with Karpenter's parser.
#[test]
fn a_mime_document_ends_at_its_last_delimiter() {
    for end in ["--XX--\n", "--XX--", "--XX\n", "--XX", "--XX  \n\n", "\n--XX--\nwhat follows is not read\n--XX\n"] {
        let document = format!("{HEAD}{SCRIPT}{end}");
        for family in [AmiFamily::AL2023, AmiFamily::AL2] {
            let parts = mime::parts(&build(family, Some(&document)).unwrap()).unwrap();
            assert_eq!(parts.len(), 2, "{end:?}");
            assert_eq!(parts[0], "Content-Type: text/x-shellscript\n\necho a", "{end:?}");
        }
    }
}

#[test]
fn the_headers_of_a_mime_document_may_be_written_differently() {
    for head in [
        "Mime-Version: 1.0\nCONTENT-TYPE: Multipart/Mixed; BOUNDARY=XX\n\n",
        "Content-Type: multipart/mixed; charset=utf-8; boundary = XX ; more=1\nMIME-Version: 1.0\n\n",
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n\tboundary=\"XX\"\r\n\r\npreamble\n",
    ] {
        let parts = mime::parts(&build(AmiFamily::AL2023, Some(&format!("{head}{SCRIPT}--XX--"))).unwrap()).unwrap();
        assert_eq!(parts[0], "Content-Type: text/x-shellscript\n\necho a", "{head:?}");
    }
}

#[test]
fn a_broken_mime_document_is_refused() {
    for (document, why) in [
        (format!("{HEAD}{SCRIPT}"), "has no end: add the line --XX--"),
        (format!("{HEAD}echo a\n"), "the line --XX is missing"),
        (format!("{HEAD}--XX\n"), "the line --XX is missing"),
        ("MIME-Version: 1.0\n\necho a\n".to_owned(), "no header Content-Type"),
        ("Content-Type: multipart/mixed\n\n--XX\n".to_owned(), "has no boundary"),
        ("Content-Type: text/x-shellscript\n\necho a\n".to_owned(), "its Content-Type is text/x-shellscript"),
    ] {
        for family in [AmiFamily::AL2023, AmiFamily::AL2] {
            let error = build(family, Some(&document)).unwrap_err().to_string();
            assert!(error.contains("spec.userData") && error.contains(why), "{document:?}: {error}");
        }
    }
}

#[test]
fn al2023_recognizes_every_form_of_a_node_config() {
    for config in [
        "---\napiVersion: \"node.eks.aws/v1alpha1\"\nkind: 'NodeConfig' # ours\nspec: {}",
        "\"kind\": NodeConfig\nspec: {}",
        "{\"apiVersion\":\"node.eks.aws/v1alpha1\",\"kind\":\"NodeConfig\",\"spec\":{\"instance\":{}}}",
        "{ kind: NodeConfig, spec: {} }",
    ] {
        let parts = mime::parts(&build(AmiFamily::AL2023, Some(config)).unwrap()).unwrap();
        assert_eq!(parts[0], format!("Content-Type: application/node.eks.aws\n\n{config}"));
    }
    // Scripts, although one of them writes a NodeConfig and the other is valid YAML.
    for script in ["#!/bin/bash\ncat > /tmp/config <<EOF\nkind: NodeConfig\nspec: {}\nEOF\nnodeadm init", "echo a: b"] {
        let parts = mime::parts(&build(AmiFamily::AL2023, Some(script)).unwrap()).unwrap();
        assert_eq!(parts[0], format!("Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n{script}"));
    }
}

#[test]
fn al2023_needs_the_service_addresses() {
    let cluster = ClusterDetails { service_cidr: None, ..cluster() };
    let input = UserDataInput {
        cluster: &cluster,
        family: AmiFamily::AL2023,
        image: None,
        custom: None,
        kubelet: &KubeletConfiguration::default(),
        kubelet_fields: &BTreeMap::new(),
        max_pods: 10,
        instance_store: None,
        labels: &StringMap::new(),
        taints: &[],
    };
    assert!(user_data(&input).unwrap_err().to_string().contains("serviceIpv4Cidr"));
}

#[test]
fn bottlerocket_keeps_user_settings_that_nodeless_does_not_set() {
    let custom = "[settings.kubernetes]\napi-server = \"https://wrong\"\nstandalone-mode = false\n[settings.kubernetes.node-labels]\nmine = \"1\"\n[settings.host-containers.admin]\nenabled = true\n";
    let text = build(AmiFamily::Bottlerocket, Some(custom)).unwrap();
    let document: toml::Table = text.parse().unwrap();
    let kubernetes = &document["settings"]["kubernetes"];
    assert_eq!(kubernetes["api-server"].as_str(), Some("https://api.example.com"));
    assert_eq!(kubernetes["standalone-mode"].as_bool(), Some(false));
    assert_eq!(kubernetes["max-pods"].as_integer(), Some(29));
    assert_eq!(kubernetes["node-labels"]["mine"].as_str(), Some("1"));
    assert_eq!(kubernetes["node-labels"]["team"].as_str(), Some("a"));
    assert_eq!(kubernetes["node-taints"]["gpu"][0].as_str(), Some("yes:NoSchedule"));
    assert_eq!(document["settings"]["host-containers"]["admin"]["enabled"].as_bool(), Some(true));
    assert!(document["settings"]["bootstrap-commands"].get("000-mount-instance-storage").is_some());
    assert!(build(AmiFamily::Bottlerocket, Some("not toml")).unwrap_err().to_string().contains("not TOML"));
}

#[test]
fn bottlerocket_names_the_directories_of_local_disks_where_a_release_requires_them() {
    let bind = |image: Option<&str>| {
        let (cluster, kubelet, fields) = (cluster(), KubeletConfiguration::default(), BTreeMap::new());
        let input = UserDataInput {
            cluster: &cluster,
            family: AmiFamily::Bottlerocket,
            image,
            custom: None,
            kubelet: &kubelet,
            kubelet_fields: &fields,
            max_pods: 29,
            instance_store: Some(InstanceStorePolicy::Raid0),
            labels: &StringMap::new(),
            taints: &[],
        };
        let document: toml::Table = user_data(&input).unwrap().parse().unwrap();
        let commands = &document["settings"]["bootstrap-commands"]["000-mount-instance-storage"]["commands"];
        commands[1].as_array().unwrap().len()
    };
    for old in
        ["bottlerocket-aws-k8s-1.33-x86_64-v1.45.0-0f54a5b8", "bottlerocket-aws-k8s-1.33-nvidia-aarch64-v1.9.2-aa"]
    {
        assert_eq!(bind(Some(old)), 7, "{old}");
    }
    for new in ["bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-0f54a5b8", "bottlerocket-aws-k8s-1.33-aarch64-v2.0.0-aa"] {
        assert_eq!(bind(Some(new)), 3, "{new}");
    }
    assert_eq!(bind(Some("ours")), 7, "every release has --dirs");
    assert_eq!(bind(None), 7);
}

#[test]
fn bottlerocket_waits_for_no_auto_scaling_group() {
    let custom = "[settings.autoscaling]\nshould-wait = true\n";
    let document: toml::Table = build(AmiFamily::Bottlerocket, Some(custom)).unwrap().parse().unwrap();
    assert_eq!(document["settings"]["autoscaling"]["should-wait"].as_bool(), Some(false));
    let document: toml::Table = build(AmiFamily::Bottlerocket, None).unwrap().parse().unwrap();
    assert!(document["settings"].get("autoscaling").is_none());
}

#[test]
fn scripts_run_at_the_first_start_alone() {
    let document = |kind: &str| mime::document(&[mime::part(kind, "echo hello")]);
    let node_config = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";
    for family in [AmiFamily::AL2023, AmiFamily::AL2, AmiFamily::Custom] {
        let has = |text: &str| has_script_of_first_start(family, Some(text));
        assert!(has("#!/bin/bash\necho hello") && has("#cloud-config\nruncmd: []"), "{family:?}");
        assert!(has(&document("text/x-shellscript; charset=\"us-ascii\"")), "{family:?}");
        assert!(!has("") && !has(node_config) && !has("#cloud-boothook\necho hello"), "{family:?}");
        assert!(!has(&document("application/node.eks.aws")) && !has(&document("text/cloud-boothook")), "{family:?}");
        assert!(!has_script_of_first_start(family, None));
    }
    assert!(!has_script_of_first_start(
        AmiFamily::Bottlerocket,
        Some("[settings.host-containers.admin]\nenabled = true")
    ));
}

#[test]
fn custom_data_is_not_changed() {
    assert_eq!(build(AmiFamily::Custom, Some("anything")).unwrap(), "anything");
    let long = "x".repeat(MAXIMUM_BYTES + 1);
    assert!(build(AmiFamily::Custom, Some(&long)).unwrap_err().to_string().contains("16384"));
}

#[test]
fn al2_calls_the_bootstrap_script_after_the_script_of_the_user() {
    let text = build(AmiFamily::AL2, Some("echo hello")).unwrap();
    let parts = mime::parts(&text).unwrap();
    assert!(parts[0].ends_with("\n\necho hello"), "{text}");
    let script = &parts[1];
    for words in [
        "/etc/eks/bootstrap.sh 'prod' \\\n",
        "--use-max-pods false",
        "--node-labels=\"karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=default,team=a\"",
        "--register-with-taints=\"karpenter.sh/unregistered=:NoExecute,gpu=yes:NoSchedule\"",
        "--max-pods=29 --pods-per-core=4",
        "--local-disks raid0",
    ] {
        assert!(script.contains(words), "{words} is not in {script}");
    }
}

#[test]
fn windows_runs_the_commands_of_the_user_and_rejects_instance_store_policies() {
    let input = UserDataInput {
        cluster: &cluster(),
        family: AmiFamily::Windows2022,
        image: None,
        custom: Some("<powershell>\nWrite-Host hello\n</powershell>"),
        kubelet: &KubeletConfiguration::default(),
        kubelet_fields: &BTreeMap::new(),
        max_pods: 110,
        instance_store: None,
        labels: &StringMap::new(),
        taints: &[Taint::unregistered()],
    };
    let text = user_data(&input).unwrap();
    assert!(text.starts_with("<powershell>\nWrite-Host hello\n[string]"), "{text}");
    assert!(text.contains("-EKSClusterName 'prod'") && text.contains("--max-pods=110"), "{text}");
    assert_eq!(text.matches("<powershell>").count(), 1);
    let error = build(AmiFamily::Windows2022, None).unwrap_err().to_string();
    assert!(error.contains("spec.instanceStorePolicy"), "{error}");
}

#[test]
fn a_quotation_mark_in_a_value_is_rejected() {
    let kubelet = KubeletConfiguration { cluster_dns: Some(vec!["10.0.0.1'; reboot".into()]), ..Default::default() };
    let input = UserDataInput {
        cluster: &cluster(),
        family: AmiFamily::AL2,
        image: None,
        custom: None,
        kubelet: &kubelet,
        kubelet_fields: &BTreeMap::new(),
        max_pods: 10,
        instance_store: None,
        labels: &StringMap::new(),
        taints: &[],
    };
    assert!(user_data(&input).unwrap_err().to_string().contains("spec.kubelet"));
}
