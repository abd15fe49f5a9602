"""NodeClaims without a NodePool in a real control plane: the API server calls wake for them, and each is one node."""

from __future__ import annotations

import json
from typing import Any

import pytest

import objects
from scenario import TIMEOUT, answered, condition, instance_of, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment
from tools.processes import wait_for

NAME = "single"
ROLE = {"role": NAME}


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


def node_claim() -> dict[str, Any]:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    ]
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": requirements,
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
        "taints": [{"key": "role", "value": NAME, "effect": "NoSchedule"}],
        "expireAfter": "Never",
    }
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": NAME, "labels": ROLE}, "spec": spec}


def test_a_node_claim_of_a_user_is_a_node_until_it_is_deleted(deployment: Deployment) -> None:
    plane, before = deployment.plane, len(deployment.relay.calls)
    plane.apply(node_claim())
    plane.kubectl("wait", f"nodeclaim/{NAME}", "--for=condition=Ready", f"--timeout={TIMEOUT}s")
    claim = plane.get("nodeclaims", NAME)
    assert all(condition(claim, kind) for kind in ("Launched", "Registered", "Initialized")), claim["status"]
    assert claim["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    assert objects.POOL_LABEL not in claim["metadata"]["labels"]
    assert "ownerReferences" not in claim["metadata"]
    node = plane.get("nodes", claim["status"]["nodeName"])
    assert node["metadata"]["labels"]["role"] == NAME
    assert [taint for taint in node["spec"].get("taints", []) if taint["key"] == "role"]
    called = [call.review["request"] for call in deployment.relay.calls[before:]]
    assert [(r["operation"], r["name"]) for r in called if r["resource"]["resource"] == "nodeclaims"] == [("CREATE", NAME)]

    tolerations = [{"key": "role", "operator": "Exists"}]
    plane.apply(objects.deployment(NAME, 1, "500m", nodeSelector=ROLE, tolerations=tolerations))
    wait_for("a running pod", answered(lambda: runs_on(deployment, node["metadata"]["name"])), TIMEOUT, every=0.5)
    plane.kubectl("delete", "nodeclaim", NAME, f"--timeout={TIMEOUT}s")
    assert not [one for one in plane.items("nodes") if one["metadata"]["name"] == node["metadata"]["name"]]
    assert instance_of(claim) not in {instance["InstanceId"] for instance in deployment.instances()}
    assert not runs_on(deployment, node["metadata"]["name"]), "the pod was not evicted"


def test_a_node_claim_that_cannot_be_launched_has_an_event_with_the_reason(deployment: Deployment) -> None:
    claim = node_claim()
    claim["spec"]["resources"]["requests"]["cpu"] = "5000"
    deployment.ministack.problems.allow("no node is launched for it")
    deployment.plane.apply(claim)

    def reasons() -> list[str]:
        found = json.loads(deployment.plane.kubectl("get", "events", "-A", "-o", "json"))["items"]
        return [event["message"] for event in found if event["involvedObject"]["name"] == NAME and event["reason"] == "NotLaunched"]

    messages = wait_for("an event on the NodeClaim", answered(reasons), TIMEOUT, every=0.5)
    assert "cpu" in messages[0], messages
    deployment.plane.kubectl("delete", "nodeclaim", NAME, f"--timeout={TIMEOUT}s")
    deployment.plane.kubectl("delete", "deployment", NAME)


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


def runs_on(deployment: Deployment, node: str) -> list[dict[str, Any]]:
    pods = deployment.plane.items("pods", f"app={NAME}")
    return [pod for pod in pods if pod["status"].get("phase") == "Running" and pod["spec"].get("nodeName") == node]
