//! Commands that read a local cluster.

use crate::simulated::local::{INFLATE, with_pods};
use crate::support::{Ended, Folder, Kubectl, World, example_node_pool, nodeless, run, wait_for};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// A command as in another terminal, where KUBECONFIG is set as `nodeless local` prints it.
fn elsewhere(world: &World, arguments: &[&str]) -> Ended {
    let folder = Folder::new();
    let mut command = nodeless();
    without_aws(&mut command).args(arguments).env("KUBECONFIG", &world.kubeconfig).current_dir(folder.path());
    run(&mut command)
}

/// A command in a terminal without an AWS configuration, or any other in the home directory.
fn without_aws(command: &mut Command) -> &mut Command {
    let configured = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("AWS_"));
    configured.fold(command, Command::env_remove).env("HOME", "/none").env("AWS_EC2_METADATA_DISABLED", "true")
}

#[test]
fn decisions_are_read_from_the_process_of_a_local_cluster() {
    let world = World::start(&["--speed", "20"]);
    let Some(_kubectl) = with_pods(&world) else { return };
    let found = elsewhere(&world, &["decisions", "--cluster", "local"]);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    assert!(found.stdout.contains("provisioning") && found.stdout.contains("default/inflate-"), "{}", found.stdout);
    // In the directory in which the cluster was started, no variable is needed.
    let folder = Folder::new();
    fs::copy(&world.kubeconfig, folder.path().join("nodeless.kubeconfig")).unwrap();
    let latest = |number: &str| {
        let mut command = nodeless();
        command.args(["decisions", "--cluster", "local", "-o", "json", "--limit", number]).current_dir(folder.path());
        let found = run(without_aws(&mut command));
        assert_eq!(found.code, Some(0), "{}", found.stderr);
        serde_json::from_str::<Vec<Value>>(&found.stdout).unwrap()
    };
    let (all, last) = (latest("100"), latest("1"));
    // With the AWS SDK, which reads the table that is named.
    #[cfg(feature = "aws")]
    {
        let mut command = nodeless();
        without_aws(&mut command).args(["decisions", "--cluster", "local", "--table", "local", "-o", "json"]);
        command.env("AWS_ENDPOINT_URL", &world.aws).env("AWS_REGION", "us-east-1").current_dir(folder.path());
        let found = run(command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b"));
        assert_eq!(found.code, Some(0), "{}", found.stderr);
        let found: Vec<Value> = serde_json::from_str(&found.stdout).unwrap();
        // Later decisions with the same outcome are the same entry.
        let is_same = |one: &Value, other: &Value| one["kind"] == other["kind"] && one["since"] == other["since"];
        assert!(all.iter().all(|one| found.iter().any(|other| is_same(one, other))), "{all:?} {found:?}");
    }
    assert!(last.len() == 1 && all.iter().all(|decision| decision["at"].as_str() <= last[0]["at"].as_str()), "{all:?}");
}

#[test]
fn what_the_nodes_of_a_local_cluster_cost_is_reported() {
    let world = World::start(&["--speed", "60", "--cluster-name", "shop"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.apply(&example_node_pool("shop"), &[]);
    kubectl.apply(INFLATE, &[]);
    let report = || elsewhere(&world, &["report", "--cluster", "shop", "--by", "namespace"]);
    wait_for("a cost record", || report().code == Some(0));
    let found = report();
    assert!(found.stdout.contains("Nodes of cluster shop, ") && found.stdout.contains("\nNAMESPACE "), "{found:?}");
    let early = elsewhere(&world, &["report", "--cluster", "shop", "--to", "2020-01-01"]);
    assert!(early.code == Some(1) && early.stdout.is_empty(), "{early:?}");
    assert!(early.stderr.contains("there is no cost record of this time: costs are recorded from "), "{early:?}");
}

#[test]
fn the_catalog_of_a_local_cluster_is_exported() {
    let world = World::start(&["--region", "us-west-2"]);
    let folder = Folder::new();
    let path = folder.path().join("catalog.json");
    let path = path.to_str().unwrap();
    let exported = elsewhere(&world, &["catalog", "export", "--cluster", "local", "--write", path]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert!(exported.stderr.contains("instance types of us-west-2, of local cluster local"), "{exported:?}");
    let shown = elsewhere(&world, &["catalog", "show", "--catalog", path]);
    assert!(shown.code == Some(0) && shown.stdout.contains("us-west-2d"), "{}", shown.stderr);
    assert!(
        fs::read_to_string(path).unwrap().contains(r#""name":"local-partition","strategy":"partition","partitions":7"#)
    );
    // With the AWS SDK, EC2 and the Price List of the simulated account describe the same.
    #[cfg(feature = "aws")]
    {
        let mut command = nodeless();
        without_aws(&mut command).args(["catalog", "export"]).env("AWS_ENDPOINT_URL", &world.aws);
        command.env("AWS_REGION", "us-west-2").env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
        let with_sdk = run(&mut command);
        assert_eq!(with_sdk.code, Some(0), "{}", with_sdk.stderr);
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let mut own = parsed(&fs::read_to_string(path).unwrap());
        // The simulated Price List publishes all prices.
        let offerings = own["offerings"].as_array_mut().unwrap().iter_mut();
        let derived = offerings.filter_map(|offering| offering.as_object_mut()?.remove("derived")).count();
        assert!(derived > 100, "{derived} prices are derived");
        let other = parsed(&with_sdk.stdout);
        for part in ["region", "zones", "instanceTypes", "offerings", "placementGroups"] {
            assert!(own[part] == other[part], "{part} differ");
        }
    }
}

#[test]
fn without_a_local_cluster_the_error_names_how_to_start_one() {
    let folder = Folder::new();
    let exported = run(nodeless().args(["catalog", "export", "--cluster", "prod"]).current_dir(folder.path()));
    assert_eq!((exported.code, exported.stdout.as_str()), (Some(1), ""), "{exported:?}");
    assert!(
        exported.stderr.contains("no local cluster prod") && exported.stderr.contains("--cluster-name prod"),
        "{exported:?}"
    );
    // A process that was killed leaves its kubeconfig.
    let kubeconfig = {
        let world = World::start(&[]);
        fs::read(&world.kubeconfig).unwrap()
    };
    fs::write(folder.path().join("nodeless.kubeconfig"), kubeconfig).unwrap();
    for command in [&["decisions"][..], &["report"], &["catalog", "export"]] {
        let ended = run(nodeless().args(command).args(["--cluster", "local"]).current_dir(folder.path()));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        for part in
            ["nodeless.kubeconfig is the kubeconfig of the local cluster local", "start it again with `nodeless local`"]
        {
            assert!(ended.stderr.contains(part), "{ended:?}");
        }
    }
    // nodeless does not run in it, so it has no records.
    let world = World::start(&["--no-controllers"]);
    for command in ["decisions", "report"] {
        let ended = elsewhere(&world, &[command, "--cluster", "local"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        for part in ["no local cluster local", "set KUBECONFIG as `nodeless local` prints it", "--table"] {
            assert!(ended.stderr.contains(part), "{ended:?}");
        }
    }
}

#[test]
fn the_view_of_a_local_cluster_is_served() {
    let world = World::start(&["--with-nodepool", "--web"]);
    let web = world.web.as_deref().unwrap().strip_prefix("http://").unwrap().to_owned();
    let get = |path: &str| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(&web).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {web}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // The port is bound before the view has read the cluster.
    wait_for("the page", || get("/").contains("<html"));
}
