"""The real functions, deployed by the real module: from pending pods to nodes and back to nothing.

Every AWS call that they make is put to the policy of the role that made it (DeployedProxy); docs/reference/unused-aws.csv lists what no call needed.
Seconds are printed, not asserted: how fast this machine is proves nothing.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tools import artifacts
from tools.control_plane import clock
from tools.ministack import Ministack
from tools.processes import wait_for
from tools.recording import DeployedProxy, signed_by_name
from tools.results import needs
from tools.security import documented_as_unused
from tools.terraform import ROOT, copy_module, environment, terraform
from tools.world import World

HERE = Path(__file__).parent
CLUSTER = "local"
REPLICAS = 5
INSTALLED = (
    "nodepools.karpenter.sh",
    "nodeclaims.karpenter.sh",
    "ec2nodeclasses.karpenter.k8s.aws",
    "nodeoverlays.karpenter.sh",
    "capacitybuffers.autoscaling.x-k8s.io",
    "provisioningrequests.autoscaling.x-k8s.io",
)


# The variables of each deployment. One uses the rights that few users need: its nodes are spot instances, its functions run inside a VPC and
# read zonal shifts.
VARIANTS: dict[str, dict[str, object]] = {
    "wake": {"wake_enabled": True},
    "heartbeat-alone": {
        "wake_enabled": False,
        "zonal_shift_enabled": True,
        "vpc_config": {"subnet_ids": ["subnet-0a", "subnet-0b"], "security_group_ids": ["sg-0a"]},
    },
}
# What has to be recorded of the functions in that deployment.
FURTHER = {
    "lifecycle": {"arc-zonal-shift:GetManagedResource", "ec2:DeleteLaunchTemplate", "ec2:DescribeInstanceStatus", "iam:PassRole"},
    "catalog": {
        "ec2:DeleteLaunchTemplate", "iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:DeleteInstanceProfile", "iam:PassRole",
        "iam:RemoveRoleFromInstanceProfile", "iam:TagInstanceProfile",
    },
}  # fmt: skip


@dataclass
class Deployment:
    """nodeless, applied."""

    ministack: Ministack
    world: World
    outputs: dict[str, object]
    proxy: DeployedProxy

    def used(self, function: str) -> set[str]:
        """The IAM actions of a function until now."""
        return self.proxy.recording.used(str(self.outputs["function_names"][function]))

    def dead_letters(self) -> dict[str, str]:
        """The number of messages in each dead-letter queue that has any."""
        sqs = self.ministack.client("sqs")
        counts = {
            name: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]["ApproximateNumberOfMessages"]
            for name, url in self.outputs["dead_letter_queue_urls"].items()
        }
        return {name: count for name, count in counts.items() if count != "0"}

    def claims(self) -> list[dict[str, object]]:
        """The records of all claims in the state table."""
        paginator = self.ministack.client("dynamodb").get_paginator("query")
        shards = [
            paginator.paginate(
                TableName=f"nodeless-{CLUSTER}",
                KeyConditionExpression="pk = :shard and begins_with(sk, :kind)",
                ExpressionAttributeValues={":shard": {"S": f"{CLUSTER}#{shard}"}, ":kind": {"S": "nodeclaim#"}},
            )
            for shard in range(8)
        ]
        return [item for pages in shards for page in pages for item in page["Items"]]


@pytest.fixture(scope="session")
def zips(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001 skip before building
    """The functions, built for this machine, each of which signs its calls with its name."""
    return signed_by_name(artifacts.function_zips(tmp_path_factory.mktemp("zips")), tmp_path_factory.mktemp("signed"))


@pytest.fixture(scope="session")
def binary(mirror: Path) -> Path:  # noqa: ARG001 skip before building
    """The `nodeless` command."""
    needs("kubectl")
    return artifacts.command()


@pytest.fixture
def world(binary: Path, tmp_path: Path, logs: Path) -> Iterator[World]:
    with World(binary, CLUSTER, tmp_path, logs) as running:
        yield running


@pytest.fixture
def proxy(world: World, ministack: Ministack, logs: Path) -> Iterator[DeployedProxy]:
    with DeployedProxy(world, ministack, logs) as running:
        yield running


@pytest.fixture(params=["wake", pytest.param("heartbeat-alone", marks=pytest.mark.nightly)])
def deployment(
    request: pytest.FixtureRequest, ministack: Ministack, world: World, proxy: DeployedProxy, zips: Path, mirror: Path, tmp_path: Path, logs: Path
) -> Iterator[Deployment]:
    """Applies the module, and destroys it afterwards; then nothing may be left of it."""
    copy_module(tmp_path / "terraform")
    root = Path(shutil.copytree(HERE / "root", tmp_path / "root"))
    before = ministack.leftovers()
    env = environment(AWS_ENDPOINT_URL=ministack.url)
    variables = [
        f"-var=cluster_name={CLUSTER}",
        f"-var=artifacts_directory={zips}",
        f"-var=extra_environment={json.dumps(proxy.endpoints())}",
        *(f"-var={name}={json.dumps(value)}" for name, value in VARIANTS[request.param].items()),
    ]
    terraform(root, "init", f"-plugin-dir={mirror}", env=env, log=logs / "terraform.log")
    terraform(root, "apply", "-auto-approve", *variables, env=env, log=logs / "terraform.log")
    ministack.drop_doubled_mappings(root / "terraform.tfstate")
    outputs = {name: output["value"] for name, output in json.loads(terraform(root, "output", "-json", env=env)).items()}
    proxy.read_policies()
    yield Deployment(ministack, world, outputs, proxy)
    # Terraform destroys the logs. A plan may read the new EC2NodeClass before the catalog resolves it.
    ministack.problems.allow("has not been resolved yet")
    ministack.problems.check()
    terraform(root, "destroy", "-auto-approve", *variables, env=env, log=logs / "terraform.log")
    name = str(outputs["function_names"]["installer"])
    assert [r.call.operation for r in proxy.recording.calls if r.call.caller == name][-1] == "DisassociateAccessPolicy"
    assert ministack.leftovers() == before
    assert not [c for c in world.items("validatingwebhookconfigurations") if c["metadata"]["name"].startswith("nodeless")]
    assert not [r for r in world.items("clusterrolebindings") if r["metadata"]["name"].startswith("nodeless:")]
    kept = {c["metadata"]["name"] for c in world.items("customresourcedefinitions")}
    assert kept.issuperset(INSTALLED), "destroying nodeless must leave the user's CRDs, and with them every NodePool"


def test_pods_get_nodes_and_nodes_go_when_pods_are_gone(deployment: Deployment, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    world = deployment.world
    wake = request.node.callspec.params["deployment"] == "wake"
    check_installation(deployment, wake)
    role = str(deployment.outputs["node_role_name"])
    world.add_instance_profile(str(deployment.outputs["node_instance_profile_name"]), role)
    seconds = apply_manifests(world, role, "on-demand" if wake else "spot")
    print(f"\n{'with wake' if wake else 'heartbeat alone'}: {seconds:.1f} s from a new EC2NodeClass to Ready")
    seconds = edit_node_class(world)
    print(f"\n{'with wake' if wake else 'heartbeat alone'}: {seconds:.1f} s from a changed EC2NodeClass to Ready")
    seconds = scale_up(world)
    print(f"\n{'with wake' if wake else 'heartbeat alone'}: {seconds:.1f} s from unschedulable to a launched instance")
    check_running(deployment)
    if wake:
        assert deployment.ministack.invocations(f"nodeless-{CLUSTER}-wake"), "the API server never called wake"
    else:
        wait_for("a sweep to read the status of instances", lambda: "ec2:DescribeInstanceStatus" in deployment.used("lifecycle"), 150, every=1)
    scale_down(deployment)
    if not wake:
        make_and_delete_a_profile(deployment)
        delete_unused_templates(deployment, tmp_path)
        check_further_rights(deployment)
    assert not deployment.dead_letters(), "a message was given up; the functions' logs explain why"
    check_rights(deployment)


def check_rights(deployment: Deployment) -> None:
    """No role may do what nothing needs and docs/reference/unused-aws.csv does not explain."""
    recording = deployment.proxy.recording
    print(f"{len(recording.calls)} AWS calls")
    documented = documented_as_unused()
    unexplained: dict[str, set[str]] = {}
    for function, deployed in deployment.outputs["function_names"].items():
        used, allowed = deployment.used(function), deployment.proxy.policies[deployed].allowed_actions()
        print(f"{function}: used {', '.join(sorted(used))}; unused {', '.join(sorted(allowed - used))}")
        if not allowed - used <= documented[function]:
            unexplained[function] = allowed - used - documented[function]
    assert not unexplained, "roles may do what no call needed and docs/reference/unused-aws.csv does not list"


def check_installation(deployment: Deployment, wake: bool) -> None:
    """A user needs to apply nothing but NodePools and EC2NodeClasses."""
    world = deployment.world
    check_cluster_admin(deployment)
    definitions = {c["metadata"]["name"] for c in world.items("customresourcedefinitions")}
    assert definitions.issuperset(INSTALLED)
    bound = {r["metadata"]["name"] for r in world.items("clusterrolebindings")}
    assert bound.issuperset({"nodeless:planner", "nodeless:lifecycle", "nodeless:catalog", "nodeless:interruption"})
    url = world.webhook_url()
    assert (url is not None) == wake
    if url is not None:
        forged = url.rsplit("/", 1)[0] + "/" + "x" * len(url.rsplit("/", 1)[1])
        status, _ = deployment.ministack.call_function_url(forged, {"kind": "AdmissionReview"})
        assert status == 404, "a call with another path must get no information"
        world.redirect_webhook(deployment.ministack)


def check_cluster_admin(deployment: Deployment) -> None:
    """The installer made itself cluster-admin in each invocation that did something, and is nothing afterwards."""
    name = str(deployment.outputs["function_names"]["installer"])
    calls = [r.call for r in deployment.proxy.recording.calls if r.call.caller == name and r.call.operation.endswith("AccessPolicy")]
    assert calls and {c.parameters["policyArn"].rsplit("/", 1)[-1] for c in calls} == {"AmazonEKSClusterAdminPolicy"}
    assert [c.operation for c in calls] == ["AssociateAccessPolicy", "DisassociateAccessPolicy"] * (len(calls) // 2)
    role = deployment.ministack.client("lambda").get_function_configuration(FunctionName=name)["Role"]
    eks = deployment.ministack.client("eks")
    assert eks.describe_access_entry(clusterName=CLUSTER, principalArn=role)["accessEntry"]["kubernetesGroups"] == []
    assert eks.list_associated_access_policies(clusterName=CLUSTER, principalArn=role)["associatedAccessPolicies"] == []


def apply_manifests(world: World, node_role: str, capacity_type: str) -> float:
    """Seconds until the EC2NodeClass is ready."""
    start = time.monotonic()
    pool = (HERE / "manifests/pool.yaml").read_text().replace("NODE_ROLE", node_role).replace("CLUSTER_NAME", CLUSTER)
    world.kubectl("apply", "-f", "-", stdin=pool.replace("on-demand", capacity_type))
    world.kubectl("apply", "-f", str(HERE / "manifests/inflate.yaml"))
    wait_for("the ec2nodeclass to be ready", lambda: condition(world, "ec2nodeclass", "Ready"), 120, every=0.05)
    seconds = time.monotonic() - start
    wait_for("the nodepool to be ready", lambda: condition(world, "nodepool", "Ready"), 180, every=1)
    return seconds


def edit_node_class(world: World) -> float:
    """Seconds until an EC2NodeClass whose spec was changed is ready again. The catalog's schedule may take five minutes."""
    world.kubectl("patch", "ec2nodeclass", "default", "--type=merge", "-p", json.dumps({"spec": {"tags": {"team": "search"}}}))
    start = time.monotonic()
    wait_for("the changed ec2nodeclass to be ready", lambda: condition(world, "ec2nodeclass", "Ready"), 120, every=0.05)
    return time.monotonic() - start


def condition(world: World, kind: str, name: str) -> bool:
    """Whether the only object of this kind has this condition, for its present spec."""
    (item,) = world.items(kind)
    generation = item["metadata"]["generation"]
    return any(
        c["type"] == name and c["status"] == "True" and c.get("observedGeneration", generation) == generation
        for c in item.get("status", {}).get("conditions", [])
    )


def pods(world: World) -> list[dict]:
    return world.items("pods", "-l", "app=inflate")


def unschedulable(pod: dict) -> bool:
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in pod.get("status", {}).get("conditions", []))


def scale_up(world: World) -> float:
    """Seconds from the first unschedulable pod to the first instance, both seen by polling."""
    world.kubectl("scale", "deployment/inflate", f"--replicas={REPLICAS}")
    wait_for("an unschedulable pod", lambda: any(map(unschedulable, pods(world))), 30, every=0.05)
    start = time.monotonic()
    wait_for("an instance", world.instances, 150, every=0.05)
    return time.monotonic() - start


def check_running(deployment: Deployment) -> None:
    world = deployment.world

    def running() -> bool:
        return sum(p["status"].get("phase") == "Running" for p in pods(world)) == REPLICAS

    wait_for(f"{REPLICAS} running pods", running, 240, every=0.5)
    wait_for("initialized claims", lambda: condition_of_all(world, "nodeclaims", "Initialized"), 180, every=1)
    nodes, instances, claims = world.items("nodes"), world.instances(), world.items("nodeclaims")
    assert {n["spec"]["providerID"].rsplit("/", 1)[-1] for n in nodes} == {i["InstanceId"] for i in instances}
    assert {c["metadata"]["name"] for c in claims} == {str(c["sk"]["S"]).removeprefix("nodeclaim#") for c in deployment.claims()}
    assert len(instances) == len(claims), "one instance a claim: nothing was launched twice"
    for instance in instances:
        tags = {t["Key"]: t["Value"] for t in instance["Tags"]}
        assert tags[f"kubernetes.io/cluster/{CLUSTER}"] == "owned" and tags["karpenter.sh/nodepool"] == "default"
        assert tags["eks:eks-cluster-name"] == CLUSTER


def condition_of_all(world: World, kind: str, name: str) -> bool:
    items = world.items(kind)
    return bool(items) and all(
        any(c["type"] == name and c["status"] == "True" for c in item.get("status", {}).get("conditions", [])) for item in items
    )


def scale_down(deployment: Deployment) -> None:
    """The pods go, and one instance is about to be taken at the same time: neither may leave anything behind."""
    world = deployment.world
    world.kubectl("scale", "deployment/inflate", "--replicas=0")
    warn_of_interruption(deployment, world.instances()[0]["InstanceId"])

    def left() -> dict[str, int]:
        counts = {
            "pods": len(pods(world)),
            "nodes": len(world.items("nodes")),
            "nodeclaims": len(world.items("nodeclaims")),
            "instances": len(world.instances()),
            "records": len(deployment.claims()),
        }
        return {kind: count for kind, count in counts.items() if count}

    wait_for("pods, nodes, claims and instances to be gone", lambda: not (rest := left()) or Rest(rest), 360, every=1)


def make_and_delete_a_profile(deployment: Deployment) -> None:
    """An EC2NodeClass with a role of its own gets an instance profile, and takes it and its launch templates along when it is deleted."""
    world, role = deployment.world, str(deployment.outputs["other_node_role_name"])
    world.client("iam").create_role(RoleName=role, AssumeRolePolicyDocument="{}")
    other = world.items("ec2nodeclass")[0]
    other = {"apiVersion": other["apiVersion"], "kind": other["kind"], "metadata": {"name": "other"}, "spec": {**other["spec"], "role": role}}
    world.kubectl("apply", "-f", "-", stdin=json.dumps(other))

    def status() -> dict[str, Any]:
        return json.loads(world.kubectl("get", "ec2nodeclass", "other", "-o", "json")).get("status", {})

    wait_for("the other ec2nodeclass to be ready", lambda: any(c["type"] == "Ready" and c["status"] == "True" for c in status().get("conditions", [])), 180, every=1)
    profile = status()["instanceProfile"]
    held = world.client("iam").get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"]
    assert [r["RoleName"] for r in held] == [role]
    world.kubectl("delete", "ec2nodeclass", "other", "--wait=false")
    wait_for("the other ec2nodeclass to be gone", lambda: len(world.items("ec2nodeclass")) == 1, 180, every=1)
    names = [p["InstanceProfileName"] for p in world.client("iam").list_instance_profiles()["InstanceProfiles"]]
    assert profile not in names


def delete_unused_templates(deployment: Deployment, directory: Path) -> None:
    """On the hour, lifecycle deletes launch templates whose last use was days ago."""
    ec2, functions = deployment.world.client("ec2"), deployment.ministack.client("lambda")
    templates = [t["LaunchTemplateId"] for t in ec2.describe_launch_templates()["LaunchTemplates"]]
    assert templates, "launches make templates"
    ec2.create_tags(Resources=templates, Tags=[{"Key": "nodeless.sh/last-used", "Value": "2026-01-01"}])
    name = str(deployment.outputs["function_names"]["lifecycle"])
    before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    sqs = deployment.ministack.client("sqs")
    queue = sqs.get_queue_url(QueueName=f"nodeless-{CLUSTER}-claims")["QueueUrl"]
    try:
        ahead = 3600 - int(time.time()) % 3600
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": before | clock.moved(directory, ahead)})
        at = datetime.fromtimestamp(time.time() + ahead, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        sqs.send_message(QueueUrl=queue, MessageBody=json.dumps({"kind": "sweep", "at": at}))
        wait_for("unused launch templates to be deleted", lambda: not ec2.describe_launch_templates()["LaunchTemplates"], 60)
    finally:
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": before})


def check_further_rights(deployment: Deployment) -> None:
    """Calls that only this deployment makes were recorded; DeployedProxy evaluates them."""
    for function, actions in FURTHER.items():
        assert actions <= deployment.used(function), f"not recorded of {function}: {sorted(actions - deployment.used(function))}"
    resources = {request.resource for recorded in deployment.proxy.recording.calls for request in recorded.requests}
    assert any(":spot-instances-request/" in resource for resource in resources), "no spot instance was launched"
    inside = deployment.proxy.policies[str(deployment.outputs["function_names"]["lifecycle"])].allowed_actions()
    assert "ec2:CreateNetworkInterface" in inside, "the functions are not inside a VPC"


def warn_of_interruption(deployment: Deployment, instance: str) -> None:
    """The event that EventBridge sends before EC2 interrupts an instance."""
    sample = json.loads((ROOT / "events/interruption.spot-warning.json").read_text())
    body = json.loads(sample["Records"][0]["body"])
    body["detail"]["instance-id"] = instance
    sqs = deployment.ministack.client("sqs")
    url = sqs.get_queue_url(QueueName=f"nodeless-{CLUSTER}-interruption")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(body))
    wait_for("the interruption function to look for the claim", lambda: "dynamodb:Query" in deployment.used("interruption"), 120)


class Rest(dict):
    """The remaining objects: falsy, so that waiting continues, and shown when it times out."""

    def __bool__(self) -> bool:
        return False
