"""Two clusters that share the functions of one deployment, each with a world of its own.

One of them cannot be reached by the functions for a while, and its queues contain messages that cannot be read. The other one works
meanwhile as if it were alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools import artifacts
from tools.ministack import Ministack
from tools.processes import wait_for
from tools.recording import DeployedProxy, signed_by_name
from tools.relay import Relay
from tools.results import needs
from tools.terraform import copy_module, environment, terraform
from tools.world import World

HERE = Path(__file__).parent
REPLICAS = 3
SHARED = ("planner", "lifecycle", "interruption", "catalog")


@dataclass
class Cluster:
    """A cluster with its own EC2, and how the functions reach both."""

    world: World
    proxy: DeployedProxy
    relay: Relay

    def pods(self) -> list[dict[str, Any]]:
        return self.world.items("pods", "-l", "app=inflate")

    def scale(self, replicas: int) -> None:
        self.world.kubectl("scale", "deployment/inflate", f"--replicas={replicas}")

    def running(self) -> bool:
        pods = self.pods()
        return len(pods) == REPLICAS and all(pod["status"].get("phase") == "Running" for pod in pods)

    def left(self) -> dict[str, int]:
        counts = {kind: len(self.world.items(kind)) for kind in ("nodes", "nodeclaims")} | {"instances": len(self.world.instances())}
        return {kind: count for kind, count in counts.items() if count}


@dataclass
class Deployment:
    """nodeless, applied for both clusters."""

    ministack: Ministack
    blue: Cluster
    green: Cluster
    outputs: dict[str, dict[str, Any]]

    def clusters(self) -> dict[str, Cluster]:
        return {"blue": self.blue, "green": self.green}

    def lines(self, function: str) -> list[dict[str, Any]]:
        """The log lines of a shared function that nodeless itself writes."""
        pages = self.ministack.client("logs").get_paginator("filter_log_events").paginate(logGroupName=f"/aws/lambda/nodeless-blue-{function}")
        messages = [event["message"].strip() for page in pages for event in page["events"]]
        lines = [json.loads(message) for message in messages if message.startswith("{")]
        return [line for line in lines if "event" in line or "_aws" in line]


@pytest.fixture(scope="module")
def zips(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001 skip before building
    return signed_by_name(artifacts.function_zips(tmp_path_factory.mktemp("zips")), tmp_path_factory.mktemp("signed"))


@pytest.fixture
def clusters(mirror: Path, ministack: Ministack, tmp_path: Path, logs: Path) -> Iterator[dict[str, Cluster]]:  # noqa: ARG001
    needs("kubectl")
    binary = artifacts.command()
    with ExitStack() as stack:
        found = {}
        for name in ("blue", "green"):
            directory = tmp_path / name
            directory.mkdir()
            world = stack.enter_context(World(binary, name, directory, logs))
            proxy = stack.enter_context(DeployedProxy(world, ministack, logs, f"aws-calls-{name}"))
            relay = stack.enter_context(Relay(world.kubernetes_url))
            proxy.replaced[world.kubernetes_url] = relay.url
            found[name] = Cluster(world, proxy, relay)
        yield found


@pytest.fixture
def deployment(ministack: Ministack, clusters: dict[str, Cluster], zips: Path, mirror: Path, tmp_path: Path, logs: Path) -> Iterator[Deployment]:
    """Applies the module twice, and destroys both afterwards; then nothing may be left of them."""
    copy_module(tmp_path / "terraform")
    root = Path(shutil.copytree(HERE / "root-shared", tmp_path / "root"))
    before = ministack.leftovers()
    env = environment(AWS_ENDPOINT_URL=ministack.url)
    endpoints = {name: cluster.proxy.endpoints() for name, cluster in clusters.items()}
    variables = [f"-var=artifacts_directory={zips}", f"-var=endpoints={json.dumps(endpoints)}"]
    terraform(root, "init", f"-plugin-dir={mirror}", env=env, log=logs / "terraform.log")
    terraform(root, "apply", "-auto-approve", *variables, env=env, log=logs / "terraform.log")
    ministack.drop_doubled_mappings(root / "terraform.tfstate")
    outputs = json.loads(terraform(root, "output", "-json", env=env))["clusters"]["value"]
    for cluster in clusters.values():
        cluster.proxy.read_policies()
    yield Deployment(ministack, clusters["blue"], clusters["green"], outputs)
    # Terraform destroys the logs. Only blue cannot be reached. A plan may read a new EC2NodeClass before the catalog resolves it.
    ministack.problems.allow('"cluster":"blue"', "has not been resolved yet")
    ministack.problems.check()
    terraform(root, "destroy", "-auto-approve", *variables, env=env, log=logs / "terraform.log")
    for cluster in clusters.values():
        assert not cluster.world.client("ec2").describe_launch_templates()["LaunchTemplates"], "each cluster's launch templates are deleted"
        assert not [c for c in cluster.world.items("validatingwebhookconfigurations") if c["metadata"]["name"].startswith("nodeless")]
    assert ministack.leftovers() == before


@pytest.mark.nightly
def test_a_fault_of_one_cluster_does_not_hold_up_another(deployment: Deployment) -> None:
    blue, green = deployment.blue, deployment.green
    for function in SHARED:
        assert deployment.outputs["green"]["functions"][function] == f"nodeless-blue-{function}"
    for name, cluster in deployment.clusters().items():
        prepare(deployment, name, cluster)

    blue.relay.hold()
    poison(deployment, "blue")
    blue.scale(REPLICAS)
    green.scale(REPLICAS)
    wait_for("the pods of green to run while blue cannot be reached", green.running, 240, every=0.5)
    assert not blue.world.instances(), "nothing is launched for a cluster that cannot be read"
    wait_for("a plan of blue to fail", lambda: failed_plans(deployment, "blue"), 120, every=1)
    assert not failed_plans(deployment, "green")

    blue.relay.resume()
    wait_for("the pods of blue to run after the outage", blue.running, 300, every=0.5)
    for name, cluster in deployment.clusters().items():
        check_nodes(name, cluster)
    for cluster in deployment.clusters().values():
        cluster.scale(0)
    for name, cluster in deployment.clusters().items():
        wait_for(f"all nodes of {name} to be gone", lambda cluster=cluster: not cluster.left(), 360, every=1)

    check_lines(deployment)
    letters = deployment.outputs["green"]["dead_letters"].values()
    assert not any(waiting(deployment, url) for url in letters), "messages of blue must not become dead letters of green"


def prepare(deployment: Deployment, name: str, cluster: Cluster) -> None:
    """An EC2NodeClass that is ready, a NodePool, and a deployment without pods."""
    outputs, world = deployment.outputs[name], cluster.world
    world.redirect_webhook(deployment.ministack)
    world.add_instance_profile(outputs["instance_profile"], outputs["node_role"])
    pool = (HERE / "manifests/pool.yaml").read_text().replace("NODE_ROLE", outputs["node_role"]).replace("CLUSTER_NAME", name)
    world.kubectl("apply", "-f", "-", stdin=pool)
    world.kubectl("apply", "-f", str(HERE / "manifests/inflate.yaml"))

    def ready() -> bool:
        conditions = [c for item in world.items("ec2nodeclass") + world.items("nodepool") for c in item.get("status", {}).get("conditions", [])]
        return sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions) == 2

    wait_for(f"the NodePool of {name} to be ready", ready, 180, every=0.5)


def poison(deployment: Deployment, name: str) -> None:
    sqs = deployment.ministack.client("sqs")
    for queue in ("claims_queue", "interruptions"):
        sqs.send_message(QueueUrl=deployment.outputs[name][queue], MessageBody="{")


def waiting(deployment: Deployment, url: str) -> bool:
    attributes = deployment.ministack.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return attributes["Attributes"]["ApproximateNumberOfMessages"] != "0"


def failed_plans(deployment: Deployment, cluster: str) -> list[dict[str, Any]]:
    return [line for line in deployment.lines("planner") if line.get("event") == "plan-failed" and line["cluster"] == cluster]


def check_nodes(name: str, cluster: Cluster) -> None:
    """The nodes of each cluster are its own."""
    instances = cluster.world.instances()
    assert len(instances) == len(cluster.world.items("nodeclaims")) == len(cluster.world.items("nodes"))
    for instance in instances:
        tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
        assert tags["eks:eks-cluster-name"] == name and tags[f"kubernetes.io/cluster/{name}"] == "owned", tags


def check_lines(deployment: Deployment) -> None:
    """Every log line and every metric has the name of its cluster."""
    for function in SHARED:
        lines = deployment.lines(function)
        nameless = [line for line in lines if line.get("cluster", line.get("Cluster")) not in deployment.outputs]
        assert not nameless, f"{function}: {nameless[:3]}"
    served = {line.get("cluster") for line in deployment.lines("lifecycle")}
    assert served >= {"blue", "green"}, served
    for function in ("lifecycle", "interruption"):
        unreadable = {line["cluster"] for line in deployment.lines(function) if line.get("event") == "message-unreadable"}
        assert unreadable == {"blue"}, f"{function}: {unreadable}"
