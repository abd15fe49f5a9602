"""Functions whose clocks differ from those of the API server, of EC2 and of each other.

Only differences count: functions that are behind are also functions of which the API server and EC2 are ahead."""

from __future__ import annotations

from datetime import timedelta

import pytest

import objects
from scenario import Scenario, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment

ALL = ("planner", "lifecycle", "catalog", "interruption", "wake")
# How many seconds the clock of each function is ahead. EKS refuses tokens of the future and those older than 15 minutes, and AWS signatures that are more than 5 minutes off.
OFFSETS = {
    "ahead": dict.fromkeys(ALL, 180),
    "behind": dict.fromkeys(ALL, -180),
    "apart": {"planner": -15, "lifecycle": 15},
    # A claim is due at once by the clock of the planner, and so after this difference by that of lifecycle, which sends the message again.
    "apart-the-other-way": {"planner": 15, "lifecycle": -15},
}


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


@pytest.mark.parametrize("name", OFFSETS)
def test_nodes_are_launched_and_removed_by_functions_whose_clocks_differ(deployment: Deployment, name: str) -> None:
    offsets, checked = OFFSETS[name], len(deployment.authenticator.signed_after)
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5s"}
    with deployment.moved_clocks(offsets), Scenario(deployment, name, disruption=disruption) as scenario:
        scenario.apply(objects.deployment(name, 3))
        scenario.all_run(3)
        claims = scenario.initialized()
        assert len(scenario.instances()) == len(claims), "a launch was repeated, or an instance was taken for an orphan"
        scenario.plane.kubectl("scale", f"deployment/{name}", "--replicas=0")
        scenario.wait("no nodes", lambda: not scenario.nodes() and not scenario.claims() and not scenario.instances())
        for function in ("planner", "lifecycle"):
            check_moved(deployment, checked, function, offsets[function])


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


def check_moved(running: Deployment, since: int, function: str, seconds: int) -> None:
    """A function signed tokens by its own clock; otherwise the scenario proves nothing."""
    deployed, offset = running.functions()[function], timedelta(seconds=seconds)
    signed = [after for key, after in running.authenticator.signed_after[since:] if key == deployed]
    moved = [after for after in signed if (after > offset / 2 if seconds > 0 else after <= offset)]
    assert moved, f"no token of {function} was signed {seconds} s off: {sorted(set(signed))}"
