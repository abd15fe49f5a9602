"""EKS Auto Mode beside nodeless: its objects are not written, and its finalizers stay."""

from __future__ import annotations

import json
from typing import Any

import pytest

import auto_mode
import objects
from definitions import established
from scenario import Scenario, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment

OBJECTS = {"nodepools": auto_mode.POOL, "nodeclaims": auto_mode.CLAIM, "nodes": auto_mode.NODE}
OURS = "nodeless"


@pytest.fixture(scope="module", autouse=True)
def beside(deployment: Deployment) -> None:
    ready_class(deployment)
    plane = deployment.plane
    plane.apply(auto_mode.definition())
    established(plane, [auto_mode.definition()["metadata"]["name"]])
    plane.apply(auto_mode.node_class(), auto_mode.node_pool(), auto_mode.node_claim(), auto_mode.node())


def test_nothing_of_auto_mode_is_written_while_nodes_are_launched_and_removed(deployment: Deployment) -> None:
    with Scenario(deployment, "beside") as scenario:
        scenario.apply(objects.deployment("beside", 1))
        scenario.all_run(1)
        after_sweeps(scenario, 3)
        untouched(deployment)
        scenario.patch("deployment", "beside", {"spec": {"replicas": 0}})
        after_sweeps(scenario, 3)
        untouched(deployment)


def test_no_node_is_launched_for_its_nodepool(deployment: Deployment) -> None:
    with Scenario(deployment, "selects") as scenario:
        tolerations = [{"operator": "Exists"}]
        scenario.apply(objects.deployment("selects", 1, nodeSelector={objects.POOL_LABEL: auto_mode.POOL}, tolerations=tolerations))
        scenario.wait("a pending pod", lambda: [pod for pod in scenario.pods() if pod["status"]["phase"] == "Pending"])
        after_sweeps(scenario, 2)
        claims = [claim for claim in deployment.plane.items("nodeclaims") if claim["metadata"]["labels"].get(objects.POOL_LABEL) == auto_mode.POOL]
        assert [claim["metadata"]["name"] for claim in claims] == [auto_mode.CLAIM]
        untouched(deployment)


def after_sweeps(scenario: Scenario, number: int) -> None:
    """Waits until planner and lifecycle were invoked by their schedules this many times more."""
    ministack = scenario.running.ministack
    for name in ("planner", "lifecycle"):
        function = scenario.running.functions()[name]
        expected = ministack.invocations(function) + number
        scenario.wait(f"{number} more calls of {name}", lambda f=function, n=expected: ministack.invocations(f) >= n)


def untouched(deployment: Deployment) -> None:
    for kind, name in OBJECTS.items():
        item = deployment.plane.get(kind, name)
        managers = {entry["manager"] for entry in item["metadata"]["managedFields"]}
        assert OURS not in managers, f"nodeless has written {kind} {name}: {item['metadata']['managedFields']}"
        assert "deletionTimestamp" not in item["metadata"], f"{kind} {name} is being deleted"
        if kind != "nodepools":
            assert auto_mode.FINALIZER in item["metadata"]["finalizers"], f"{kind} {name} has lost its finalizer"
    assert not events_of_nodeless(deployment)


def events_of_nodeless(deployment: Deployment) -> list[dict[str, Any]]:
    found = json.loads(deployment.plane.kubectl("get", "events", "-A", "-o", "json"))["items"]
    about = [event for event in found if event["involvedObject"]["name"] in OBJECTS.values()]
    return [event for event in about if event.get("reportingComponent") == OURS or event.get("source", {}).get("component") == OURS]


def test_nothing_is_left(deployment: Deployment) -> None:
    plane = deployment.plane
    for kind, name in OBJECTS.items():
        plane.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": None}}))
        plane.kubectl("delete", kind, name)
    nothing_is_left(deployment)
    plane.kubectl("delete", "crd", auto_mode.definition()["metadata"]["name"])
