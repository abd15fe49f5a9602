"""Objects of users that nodeless writes to as well: neither side removes fields of the other, and neither writes again and again."""

from __future__ import annotations

import json
from typing import Any

import pytest

import objects
from scenario import Scenario, condition, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment

OURS = "nodeless"
GITOPS, FINANCE, INVENTORY = "gitops", "finance", "inventory"


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


def test_managers_of_one_nodepool_keep_their_fields(deployment: Deployment) -> None:
    with Scenario(deployment, "managers") as scenario:
        # A second manager has a single field, and the first one applies the NodePool without it.
        limits = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "managers"}, "spec": {"limits": {"cpu": "100"}}}
        apply(scenario, FINANCE, limits)
        apply(scenario, GITOPS, scenario.pool)
        scenario.apply(objects.deployment("managers", 1))
        scenario.wait("a NodeClaim", scenario.claims)
        # While lifecycle writes the status of the NodeClaim, someone labels it.
        (claim,) = scenario.claims()
        apply(scenario, INVENTORY, labelled("karpenter.sh/v1", "NodeClaim", claim["metadata"]["name"]))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        apply(scenario, INVENTORY, labelled("v1", "Node", claim["status"]["nodeName"]))
        scenario.wait("the NodePool to be ready", lambda: condition(pool(scenario), "Ready"))
        scenario.wait("the usage of the NodePool", lambda: pool(scenario)["status"].get("resources", {}).get("nodes") == "1")

        assert pool(scenario)["spec"]["limits"] == {"cpu": "100"}
        assert claim["metadata"]["labels"]["example.com/owner"] == INVENTORY
        assert owned(pool(scenario), OURS) <= {"f:status", "f:metadata"}, pool(scenario)["metadata"]["managedFields"]
        assert owned(scenario.plane.get("ec2nodeclasses", "default"), OURS) <= {"f:status", "f:metadata"}
        for manager in (GITOPS, FINANCE):
            assert "f:status" not in owned(pool(scenario), manager)

        check_applied_again(scenario, limits)
        # A field that its only manager no longer applies is removed, and nothing else.
        apply(scenario, FINANCE, limits | {"spec": {}})
        assert not pool(scenario)["spec"].get("limits")
        assert pool(scenario)["status"]["conditions"]
        assert scenario.plane.get("nodes", claim["status"]["nodeName"])["metadata"]["labels"]["example.com/owner"] == INVENTORY


def test_nothing_is_written_while_nothing_changes(deployment: Deployment) -> None:
    with Scenario(deployment, "quiet") as scenario:
        scenario.apply(objects.deployment("quiet", 1))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        scenario.wait("the usage of the NodePool", lambda: pool(scenario)["status"].get("resources", {}).get("nodes") == "1")
        # The planner is called each minute. One of its calls may still have been made with the earlier state.
        plans(scenario, 2)
        before = written(scenario, claim)
        plans(scenario, 2)
        assert written(scenario, claim) == before, "objects are written though nothing has changed"


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


def check_applied_again(scenario: Scenario, limits: dict[str, Any]) -> None:
    """A GitOps tool applies the same manifests again: no conflict, and no change."""
    before = pool(scenario)
    apply(scenario, FINANCE, limits)
    apply(scenario, GITOPS, scenario.pool)
    after = pool(scenario)
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
    assert {c["type"] for c in before["status"]["conditions"]} <= {c["type"] for c in after["status"]["conditions"]}


def apply(scenario: Scenario, manager: str, item: dict[str, Any]) -> None:
    """Server-side apply without force, which fails if another manager has set a field to another value."""
    scenario.plane.kubectl("apply", "--server-side", f"--field-manager={manager}", "-f", "-", stdin=json.dumps(item))


def labelled(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": {"example.com/owner": INVENTORY}}}


def pool(scenario: Scenario) -> dict[str, Any]:
    return scenario.plane.get("nodepools", scenario.name)


def owned(item: dict[str, Any], manager: str) -> set[str]:
    """The top-level fields of an object of which a manager owns something."""
    entries = [entry for entry in item["metadata"]["managedFields"] if entry["manager"] == manager]
    assert entries, f"{manager} owns nothing of {item['kind']} {item['metadata']['name']}"
    return {name for entry in entries for name in entry["fieldsV1"]}


def plans(scenario: Scenario, number: int) -> None:
    """Waits until the planner was invoked this many times more."""
    ministack, planner = scenario.running.ministack, scenario.running.functions()["planner"]
    expected = ministack.invocations(planner) + number
    scenario.wait(f"{number} more plans", lambda: ministack.invocations(planner) >= expected)


def written(scenario: Scenario, claim: dict[str, Any]) -> dict[str, str]:
    """The revisions of the objects that nodeless writes."""
    found = {"nodepool": pool(scenario), "nodeclaim": scenario.plane.get("nodeclaims", claim["metadata"]["name"])}
    found["ec2nodeclass"] = scenario.plane.get("ec2nodeclasses", "default")
    return {kind: item["metadata"]["resourceVersion"] for kind, item in found.items()}
