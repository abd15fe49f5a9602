"""nodeless installed in a cluster that Karpenter has left, and removed from it: nodes, pods and objects stay as they are.

A deployment of its own, since these tests need a cluster before nodeless is applied and after it is destroyed. The tests build on each other.
The functions and the API server restart while nodes are adopted, launched and drained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import karpenter
from scenario import TIMEOUT, answered, condition, instance_of, names
from tools.control_plane.deployment import WEBHOOK, Deployment, Inputs

RECORD = "nodeless.sh/record-uid"


@pytest.fixture(scope="module")
def session_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("migration-logs")


@pytest.fixture(scope="module")
def moved(inputs: Inputs, session_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployment, karpenter.Left]]:
    """nodeless applied in a cluster of Karpenter, and what Karpenter had left."""
    left: list[karpenter.Left] = []
    with Deployment(inputs, tmp_path_factory.mktemp("migration"), session_logs, lambda running: left.append(karpenter.leave(running))) as running:
        yield running, left[0]


def test_nodes_of_karpenter_are_adopted_and_none_is_replaced(moved: tuple[Deployment, karpenter.Left]) -> None:
    running, left = moved
    # Adoption has begun, and usually has not ended.
    running.restart()
    wait(running, "adopted NodeClaims", lambda: all(is_adopted(c) for c in running.plane.items("nodeclaims")) and running.plane.items("nodeclaims"))
    check_kept(running, left)
    # The planner takes these nodes into account for new pods: one of them needs another node.
    running.plane.kubectl("scale", f"deployment/{karpenter.POOL}", "--replicas=4")
    wait(running, "another NodeClaim", lambda: len(running.plane.items("nodeclaims")) > len(left.claims))
    running.restart()
    wait(running, "4 running pods", lambda: len(karpenter.running_pods(running)) == 4)
    wait(running, "initialized NodeClaims", lambda: all(condition(c, "Initialized") for c in running.plane.items("nodeclaims")))
    assert len(running.plane.items("nodeclaims")) > len(left.claims)
    check_kept(running, left)


def test_the_definitions_of_karpenter_are_extended_and_remain_those_of_helm(moved: tuple[Deployment, karpenter.Left]) -> None:
    running, _ = moved
    for definition in (running.plane.get("customresourcedefinitions", name) for name in karpenter.released_names()):
        assert definition["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "Helm"}, definition["metadata"]
        assert definition["metadata"]["annotations"]["meta.helm.sh/release-name"] == karpenter.HELM_RELEASE
    extended = running.plane.get("customresourcedefinitions", "ec2nodeclasses.karpenter.k8s.aws")
    assert karpenter.ADDED_LATER in karpenter.spec_fields(extended)


def test_an_adopted_node_is_drained_and_its_instance_terminated(moved: tuple[Deployment, karpenter.Left]) -> None:
    running, left = moved
    name, instance = left.claims.popitem()
    running.plane.kubectl("delete", "nodeclaim", name, "--wait=false")
    running.restart()
    wait(running, "the instance to be terminated", lambda: instance not in {i["InstanceId"] for i in running.instances()})
    wait(running, "the NodeClaim to be gone", lambda: name not in names(running.plane.items("nodeclaims")))
    wait(running, "4 running pods", lambda: len(karpenter.running_pods(running)) == 4)


def test_nodes_and_pods_stay_when_nodeless_is_removed(moved: tuple[Deployment, karpenter.Left]) -> None:
    running, _ = moved
    plane = running.plane
    # docs/moving.md: wait until all launched nodes are ready.
    wait(running, "ready NodeClaims", lambda: all(condition(c, "Ready") for c in plane.items("nodeclaims")))
    wait(running, "a Node for each NodeClaim", lambda: len(plane.items("nodes")) == len(plane.items("nodeclaims")))
    pods, objects, instances = karpenter.running_pods(running), stored(running), {i["InstanceId"] for i in running.instances()}
    running.destroy()
    assert {i["InstanceId"] for i in running.instances()} == instances
    assert karpenter.running_pods(running) == pods
    assert stored(running) == objects, "an object has changed"
    assert set(karpenter.released_names()) <= set(names(plane.items("customresourcedefinitions")))
    for claim in plane.items("nodeclaims"):
        assert karpenter.TERMINATION in claim["metadata"]["finalizers"] and condition(claim, "Ready"), claim
        assert instance_of(claim) in instances
    assert not plane.kubectl("get", "validatingwebhookconfiguration", WEBHOOK, "--ignore-not-found")
    rbac = [*plane.items("clusterroles"), *plane.items("clusterrolebindings")]
    assert not [name for name in names(rbac) if name.startswith("nodeless")]


def wait(running: Deployment, what: str, holds: Any) -> None:
    running.wait(what, answered(holds), TIMEOUT)


def is_adopted(claim: dict[str, Any]) -> bool:
    return RECORD in claim["metadata"].get("annotations", {})


def check_kept(running: Deployment, left: karpenter.Left) -> None:
    """Every node of Karpenter is there with its instance, and no pod of it has moved."""
    claims = {claim["metadata"]["name"]: claim for claim in running.plane.items("nodeclaims")}
    for name, instance in left.claims.items():
        assert instance_of(claims[name]) == instance
        assert "deletionTimestamp" not in claims[name]["metadata"], claims[name]
    assert set(left.claims.values()) <= {i["InstanceId"] for i in running.instances()}
    assert left.pods.items() <= karpenter.running_pods(running).items()


def stored(running: Deployment) -> dict[str, str]:
    """The specs and finalizers of all objects that users and Karpenter made, as text."""
    kinds = ("nodepools", "ec2nodeclasses", "nodeclaims", "nodes")
    found = [(kind, item) for kind in kinds for item in running.plane.items(kind)]
    return {f"{kind} {i['metadata']['name']}": json.dumps([i["spec"], i["metadata"].get("finalizers")], sort_keys=True) for kind, i in found}
