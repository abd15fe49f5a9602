//! The configuration in an instance's user data: the part of nodeadm and Bottlerocket that decides how a node joins.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodeless_model::{StringMap, Taint, TaintEffect};
use serde_json::Value;

/// The operating system, if nodes differ by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum System {
    /// Amazon Linux 2023.
    #[default]
    AmazonLinux,
    /// Bottlerocket.
    Bottlerocket,
    /// Amazon Linux 2.
    AmazonLinux2,
    /// Windows Server.
    Windows,
}

/// How a kubelet registers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Registration {
    pub(super) system: System,
    pub(super) labels: StringMap,
    pub(super) taints: Vec<Taint>,
    pub(super) max_pods: Option<u32>,
}

/// Parses user data in base64; `None` if it does not join a cluster.
///
/// # Errors
/// If no node can parse it.
pub(super) fn registration(user_data: Option<&str>) -> Result<Option<Registration>, String> {
    let Some(encoded) = user_data.filter(|data| !data.is_empty()) else { return Ok(None) };
    let bytes = STANDARD.decode(encoded.trim()).map_err(|error| format!("user data is not base64: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|error| format!("user data is not text: {error}"))?;
    if text.contains("node.eks.aws") {
        return node_configs(&text).map(Some);
    }
    for (script, system) in
        [("/etc/eks/bootstrap.sh", System::AmazonLinux2), ("Start-EKSBootstrap.ps1", System::Windows)]
    {
        if let Some((_, call)) = text.split_once(script) {
            return bootstrap_script(call, system).map(Some);
        }
    }
    match text.parse::<toml::Table>() {
        Ok(document) => bottlerocket(&document),
        // A custom script, which is not interpreted.
        Err(_) => Ok(None),
    }
}

/// The kubelet's flags in the call of an image's bootstrap script.
fn bootstrap_script(call: &str, system: System) -> Result<Registration, String> {
    let flag = |name: &str| {
        let (_, value) = call.split_once(&format!("--{name}="))?;
        Some(match value.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().unwrap_or_default(),
            None => value.split([' ', '\'', '\n']).next().unwrap_or_default(),
        })
    };
    let list = |name: &str| flag(name).into_iter().flat_map(|text| text.split(',')).filter(|item| !item.is_empty());
    let mut taints = Vec::new();
    for text in list("register-with-taints") {
        let (key, rest) = text.split_once('=').unwrap_or((text, ""));
        let (value, effect) = rest.rsplit_once(':').unwrap_or(("", rest));
        let effect = effect_of(effect).ok_or_else(|| format!("--register-with-taints: {text:?} has no effect"))?;
        taints.push(Taint { key: key.to_owned(), value: value.to_owned(), effect });
    }
    let labels = list("node-labels").filter_map(|label| label.split_once('='));
    Ok(Registration {
        system,
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        taints,
        max_pods: flag("max-pods").and_then(|count| count.parse().ok()),
    })
}

/// nodeadm merges all NodeConfigs of the document; for duplicate keys the last one wins.
fn node_configs(text: &str) -> Result<Registration, String> {
    let mut registration = Registration::default();
    for part in parts(text).into_iter().filter(|part| part.contains("NodeConfig")) {
        let config: Value =
            serde_saphyr::from_str(part).map_err(|error| format!("a NodeConfig cannot be read: {error}"))?;
        let kubelet = &config["spec"]["kubelet"];
        for flag in kubelet["flags"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if let Some(labels) = flag.strip_prefix("--node-labels=") {
                let pairs = labels.split(',').filter_map(|label| label.split_once('='));
                registration.labels.extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
            }
        }
        let settings = &kubelet["config"];
        if let Some(taints) = settings.get("registerWithTaints").filter(|taints| !taints.is_null()) {
            registration.taints = serde_json::from_value(taints.clone())
                .map_err(|error| format!("registerWithTaints cannot be read: {error}"))?;
        }
        if let Some(count) = settings["maxPods"].as_u64() {
            registration.max_pods = u32::try_from(count).ok();
        }
    }
    Ok(registration)
}

/// The bodies of a MIME document, or the whole text if it is not one.
fn parts(text: &str) -> Vec<&str> {
    let after = text.split_once("boundary=").map(|(_, after)| after.trim_start());
    let boundary = after.and_then(|after| match after.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').map(|(name, _)| name),
        None => after.split_whitespace().next(),
    });
    let Some(boundary) = boundary else { return vec![text] };
    let delimiter = format!("\n--{boundary}");
    let sections = text.split(delimiter.as_str()).skip(1);
    sections.filter_map(|section| section.split_once("\n\n")).map(|(_, body)| body).collect()
}

fn bottlerocket(document: &toml::Table) -> Result<Option<Registration>, String> {
    let Some(settings) = document.get("settings").and_then(|it| it.get("kubernetes")) else { return Ok(None) };
    let tables = |key: &str| settings.get(key).and_then(toml::Value::as_table).into_iter().flatten();
    let labels = tables("node-labels").filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let mut taints = Vec::new();
    for (key, values) in tables("node-taints") {
        for text in values.as_array().into_iter().flatten().filter_map(toml::Value::as_str) {
            let (value, effect) = text.rsplit_once(':').unwrap_or(("", text));
            let effect = effect_of(effect).ok_or_else(|| format!("node-taints.{key}: {text:?} has no effect"))?;
            taints.push(Taint { key: key.clone(), value: value.to_owned(), effect });
        }
    }
    let max_pods = settings.get("max-pods").and_then(toml::Value::as_integer);
    Ok(Some(Registration {
        system: System::Bottlerocket,
        labels: labels.collect(),
        taints,
        max_pods: max_pods.and_then(|count| u32::try_from(count).ok()),
    }))
}

fn effect_of(text: &str) -> Option<TaintEffect> {
    use TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};
    [NoSchedule, PreferNoSchedule, NoExecute].into_iter().find(|effect| effect.as_str() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Registration> {
        registration(Some(&STANDARD.encode(text))).unwrap()
    }

    #[test]
    fn reads_the_node_config_of_amazon_linux() {
        let config = r#"{ "apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": { "kubelet": {
            "config": { "maxPods": 29, "registerWithTaints": [
                { "key": "karpenter.sh/unregistered", "effect": "NoExecute" },
                { "key": "team", "value": "a", "effect": "NoSchedule" } ] },
            "flags": ["--node-labels=karpenter.sh/nodepool=default,a=b"] } } }"#;
        let text = format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
             Content-Type: text/x-shellscript\n\n#!/bin/sh\necho hello\n--//\n\
             Content-Type: application/node.eks.aws\n\n{config}\n--//--\n"
        );
        let read = read(&text).unwrap();
        assert_eq!((read.system, read.max_pods), (System::AmazonLinux, Some(29)));
        assert_eq!(read.labels["karpenter.sh/nodepool"], "default");
        assert_eq!(read.labels["a"], "b");
        assert_eq!(read.taints[0], Taint::unregistered());
        assert_eq!(read.taints[1].to_string(), "team=a:NoSchedule");
    }

    #[test]
    fn reads_the_settings_of_bottlerocket() {
        let text = "[settings.kubernetes]\nmax-pods = 8\n[settings.kubernetes.node-labels]\n\"a/b\" = \"c\"\n\
                    [settings.kubernetes.node-taints]\n\"karpenter.sh/unregistered\" = [\":NoExecute\"]\n";
        let read = read(text).unwrap();
        assert_eq!((read.system, read.max_pods, read.labels["a/b"].as_str()), (System::Bottlerocket, Some(8), "c"));
        assert_eq!(read.taints, [Taint::unregistered()]);
    }

    #[test]
    fn reads_the_flags_of_bootstrap_scripts() {
        for (script, system) in [
            ("/etc/eks/bootstrap.sh 'c' \\\n--kubelet-extra-args ", System::AmazonLinux2),
            ("<powershell>\n$f = \"Start-EKSBootstrap.ps1\"\n& $f -KubeletExtraArgs ", System::Windows),
        ] {
            let flags =
                "'--node-labels=\"a/b=c,d=e\" --register-with-taints=\"k=v:NoSchedule,u=:NoExecute\" --max-pods=17'";
            let read = read(&format!("{script}{flags}\n")).unwrap();
            assert_eq!((read.system, read.max_pods, read.labels["a/b"].as_str()), (system, Some(17), "c"));
            let taints: Vec<String> = read.taints.iter().map(ToString::to_string).collect();
            assert_eq!(taints, ["k=v:NoSchedule", "u:NoExecute"]);
        }
    }

    #[test]
    fn other_scripts_join_nothing() {
        assert_eq!(read("#!/bin/sh\necho hello\n"), None);
        assert_eq!(registration(None), Ok(None));
        assert!(registration(Some("%")).is_err());
    }
}
