"""A cluster after Karpenter was stopped: its definitions, a NodePool, and nodes with their NodeClaims and tagged instances.

The names and values are those of Karpenter 1.14 and its provider for AWS: labels, annotations, finalizers, conditions and tags.
The instances are launched in EC2 with the requests of Karpenter, and join with their user data."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import objects
from definitions import established
from released import names, released
from scenario import condition
from tools.control_plane.deployment import CLUSTER, Deployment

MINOR = "1.14"
HELM_RELEASE = "karpenter-crd"
# A field of EC2NodeClasses that the definition of 1.14 does not have.
ADDED_LATER = "enclaveOptions"
POOL, NODE_CLASS = "shop", "default"
ROLE, PROFILE = f"{CLUSTER}-node", f"{CLUSTER}_karpenter"
INSTANCE_TYPE = "m5.large"
# The labels of the instance type, which Karpenter copies from a NodeClaim to its Node at registration.
TYPE_LABELS = {
    "karpenter.k8s.aws/instance-category": "m",
    "karpenter.k8s.aws/instance-family": "m5",
    "karpenter.k8s.aws/instance-generation": "5",
    "karpenter.k8s.aws/instance-size": "large",
    "karpenter.k8s.aws/instance-cpu": "2",
    "karpenter.k8s.aws/instance-memory": "8192",
    "karpenter.k8s.aws/instance-hypervisor": "nitro",
}
# Hashes of Karpenter, in the version of its releases 1.x.
POOL_HASHES = {"karpenter.sh/nodepool-hash": "11225813741226138712", "karpenter.sh/nodepool-hash-version": "v3"}
CLASS_HASHES = {"karpenter.k8s.aws/ec2nodeclass-hash": "8071532983407210461", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4"}
TERMINATION = "karpenter.sh/termination"
WAIT = 300


@dataclass
class Left:
    """The objects that existed when Karpenter was stopped."""

    claims: dict[str, str]
    """The names of NodeClaims, with their instances."""
    pods: dict[str, str]
    """The uids of the running pods, with their nodes."""


def leave(running: Deployment, nodes: int = 2) -> Left:
    """Creates the objects that Karpenter created before it was stopped."""
    plane = running.plane
    plane.apply(*definitions())
    established(plane, released_names())
    pool = annotated(objects.node_pool(POOL), POOL_HASHES)
    node_class = annotated(objects.node_class(NODE_CLASS, ROLE), CLASS_HASHES)
    node_class["metadata"]["finalizers"] = ["karpenter.k8s.aws/termination"]
    plane.apply(pool, node_class)
    running.world.add_instance_profile(PROFILE, ROLE)
    claims = {f"{POOL}-{suffix}": "" for suffix in ("4kx7w", "9bq2n", "tz5mh")[:nodes]}
    for name in claims:
        claims[name] = launch(running, name)
    for name, instance in claims.items():
        join(running, name, instance)
    plane.apply(objects.deployment(POOL, nodes))
    running.wait("the pods of Karpenter's nodes", lambda: len(running_pods(running)) == nodes, WAIT)
    return Left(claims, running_pods(running))


def definitions() -> list[dict[str, Any]]:
    """The definitions as installed by Karpenter's chart karpenter-crd."""
    found = copy.deepcopy(released(MINOR))
    for definition in found:
        definition["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
        definition["metadata"]["annotations"] = {"meta.helm.sh/release-name": HELM_RELEASE, "meta.helm.sh/release-namespace": "kube-system"}
        if definition["spec"]["names"]["kind"] == "EC2NodeClass":
            assert ADDED_LATER not in spec_fields(definition)
    return found


def released_names() -> list[str]:
    """The names of these definitions."""
    return names(released(MINOR))


def spec_fields(definition: dict[str, Any]) -> dict[str, Any]:
    """The schemas of the fields of a kind's spec."""
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def running_pods(running: Deployment) -> dict[str, str]:
    """The uids of the running pods, and their nodes."""
    pods = running.plane.items("pods", f"app={POOL}")
    return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if pod["status"].get("phase") == "Running"}


def annotated(item: dict[str, Any], annotations: dict[str, str]) -> dict[str, Any]:
    item["metadata"]["annotations"] = annotations
    return item


def launch(running: Deployment, name: str) -> str:
    """An instance with the tags of Karpenter; returns its id."""
    ec2 = running.world.client("ec2")
    discovery = [{"Name": "tag:karpenter.sh/discovery", "Values": [CLUSTER]}]
    tags = {
        "Name": f"{POOL}/{name}",
        "karpenter.sh/nodepool": POOL,
        "karpenter.sh/nodeclaim": name,
        "karpenter.k8s.aws/ec2nodeclass": NODE_CLASS,
        "eks:eks-cluster-name": CLUSTER,
        f"kubernetes.io/cluster/{CLUSTER}": "owned",
    }
    answer = ec2.run_instances(
        MinCount=1,
        MaxCount=1,
        InstanceType=INSTANCE_TYPE,
        ImageId=image(running),
        SubnetId=ec2.describe_subnets(Filters=discovery)["Subnets"][0]["SubnetId"],
        SecurityGroupIds=[group["GroupId"] for group in ec2.describe_security_groups(Filters=discovery)["SecurityGroups"]],
        IamInstanceProfile={"Name": PROFILE},
        UserData=user_data(),
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}],
    )
    return answer["Instances"][0]["InstanceId"]


def image(running: Deployment) -> str:
    """The image of the alias al2023@latest."""
    version = running.world.client("eks").describe_cluster(name=CLUSTER)["cluster"]["version"]
    parameter = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/standard/recommended/image_id"
    return running.world.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]


def user_data() -> str:
    """A NodeConfig of nodeadm. boto3 encodes it."""
    labels = {"karpenter.sh/nodepool": POOL, "karpenter.k8s.aws/ec2nodeclass": NODE_CLASS, "karpenter.sh/capacity-type": "on-demand"}
    kubelet = {
        "config": {"maxPods": 29, "registerWithTaints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
        "flags": ["--node-labels=" + ",".join(f"{key}={value}" for key, value in labels.items())],
    }
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"cluster": {"name": CLUSTER}, "kubelet": kubelet}}
    return (
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n--//\n'
        f"Content-Type: application/node.eks.aws\n\n{json.dumps(config)}\n--//--\n"
    )


def join(running: Deployment, name: str, instance: str) -> None:
    """Creates the NodeClaim, and changes the Node like Karpenter at its registration."""
    plane = running.plane
    node = running.wait(f"the node of {instance}", lambda: node_of(running, instance), WAIT)
    plane.kubectl("taint", "node", node["metadata"]["name"], "karpenter.sh/unregistered-")
    hashes = POOL_HASHES | CLASS_HASHES
    metadata = {
        "labels": {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"} | TYPE_LABELS,
        "annotations": hashes,
        "finalizers": [TERMINATION],
    }
    plane.kubectl("patch", "node", node["metadata"]["name"], "--type=merge", "-p", json.dumps({"metadata": metadata}))
    running.wait(f"Node {node['metadata']['name']} to be ready", lambda: condition(plane.get("nodes", node["metadata"]["name"]), "Ready"), WAIT)
    pool = plane.get("nodepools", POOL)
    claim = node_claim(name, pool, node, hashes)
    status = claim.pop("status")
    plane.kubectl("create", "-f", "-", stdin=json.dumps(claim))
    plane.kubectl("patch", "nodeclaim", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


def node_of(running: Deployment, instance: str) -> dict[str, Any] | None:
    return next((node for node in running.plane.items("nodes") if node["spec"].get("providerID", "").endswith(f"/{instance}")), None)


def node_claim(name: str, pool: dict[str, Any], node: dict[str, Any], hashes: dict[str, str]) -> dict[str, Any]:
    of_node = node["metadata"]["labels"] | TYPE_LABELS
    labels = {key: value for key, value in of_node.items() if key != "kubernetes.io/hostname" and "beta.kubernetes.io" not in key}
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": POOL, "uid": pool["metadata"]["uid"], "blockOwnerDeletion": True}
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    reached = ("Launched", "Registered", "Initialized", "Ready", "Consolidatable")
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": now, "observedGeneration": 1} for kind in reached
    ]
    template = pool["spec"]["template"]["spec"]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels, "annotations": hashes, "finalizers": [TERMINATION], "ownerReferences": [owner]},
        "spec": {
            "expireAfter": "720h",
            "nodeClassRef": template["nodeClassRef"],
            "requirements": template["requirements"],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi", "pods": "1"}},
        },
        "status": {
            "providerID": node["spec"]["providerID"],
            "nodeName": node["metadata"]["name"],
            "capacity": node["status"]["capacity"],
            "allocatable": node["status"]["allocatable"],
            "conditions": conditions,
        },
    }
