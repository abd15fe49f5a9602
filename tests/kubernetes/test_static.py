"""Static capacity in a real control plane: a NodePool with `spec.replicas` has this number of nodes, whatever pods there are."""

from __future__ import annotations

from typing import Any

import pytest

import objects
from scenario import Scenario, names, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


def test_a_static_nodepool_has_its_number_of_nodes(deployment: Deployment) -> None:
    with Scenario(deployment, "static", replicas=2) as scenario:
        before = scenario.initialized(2)
        scenario.wait("the status of the NodePool", lambda: scale(scenario) == 2)
        deleted = before[0]["metadata"]["name"]
        scenario.plane.kubectl("delete", "nodeclaim", deleted, "--wait=false")
        scenario.wait("another NodeClaim", lambda: deleted not in names(scenario.claims()) and len(scenario.claims()) == 2)
        after = scenario.initialized(2)
        assert before[1]["metadata"]["name"] in names(after), "the other node was replaced too"

        # Three pods that need a node each: nothing is launched for the third.
        scenario.apply(objects.deployment("static", 3, "100m", affinity=objects.apart("static")))
        scenario.wait("two running pods", lambda: len(scenario.running_pods()) == 2)
        scenario.wait("an event on the pod without a node", lambda: refused(scenario))
        assert names(scenario.claims()) == names(after)

        scenario.plane.kubectl("scale", "nodepool/static", "--replicas=1")
        scenario.wait("a single node", lambda: len(scenario.claims()) == len(scenario.nodes()) == len(scenario.instances()) == 1)
        scenario.wait("a running pod", lambda: len(scenario.running_pods()) == 1)
        assert names(scenario.claims())[0] in names(after)
        scenario.wait("the status of the NodePool", lambda: scale(scenario) == 1)
        scenario.plane.kubectl("scale", "nodepool/static", "--replicas=0")
        scenario.wait("no nodes", lambda: not scenario.claims() and not scenario.nodes() and not scenario.instances())
        assert scenario.plane.get("nodepools", "static"), "the NodePool itself stays"


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


def scale(scenario: Scenario) -> int:
    """The number of nodes in the scale subresource, which `kubectl scale` and autoscalers use."""
    answer = scenario.plane.client.call("GET", f"/apis/karpenter.sh/v1/nodepools/{scenario.name}/scale")
    assert answer.status == 200, answer.body
    return answer.body["status"].get("replicas", 0)


def refused(scenario: Scenario) -> list[dict[str, Any]]:
    """Events of nodeless on pods for which it launches no node."""
    pending = {pod["metadata"]["name"] for pod in scenario.pods() if not pod["spec"].get("nodeName")}
    return [
        event
        for event in scenario.plane.items("events")
        if event["involvedObject"]["name"] in pending
        and event["reason"] == "FailedScheduling"
        and event.get("source", {}).get("component") != "default-scheduler"
        and event.get("reportingComponent") != "default-scheduler"
    ]
