"""Functions whose clocks differ from those of the API server, of EC2 and of each other.

Only differences matter: a clock of a function that is behind is the same as clocks of the API server and EC2 that are ahead."""

from __future__ import annotations

from datetime import timedelta

import pytest

import objects
from scenario import Scenario, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment

ALL = ("planner", "lifecycle", "catalog", "interruption", "wake")
# The number of seconds by which the clock of each function is ahead. EKS rejects tokens from the future and those older than 15 minutes,
# and AWS rejects signatures that differ by more than 5 minutes.
OFFSETS = {
    "ahead": dict.fromkeys(ALL, 180),
    "behind": dict.fromkeys(ALL, -180),
    "apart": {"planner": -15, "lifecycle": 15},
    # A claim is due immediately by the clock of the planner, and later by that of lifecycle, which sends the message again.
    "apart-the-other-way": {"planner": 15, "lifecycle": -15},
}


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)
    # By clocks that differ, tokens and messages are from the future or old.
    deployment.ministack.problems.allow_any()


@pytest.mark.parametrize("name", OFFSETS)
def test_nodes_are_launched_and_removed_by_functions_whose_clocks_differ(deployment: Deployment, name: str) -> None:
    offsets, checked = OFFSETS[name], len(deployment.authenticator.signed_after)
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5s"}
    with deployment.moved_clocks(offsets), Scenario(deployment, name, disruption=disruption) as scenario:
        scenario.apply(objects.deployment(name, 3))
        scenario.all_run(3)
        claims = scenario.initialized()
        assert len(scenario.instances()) == len(claims), "a launch was repeated, or an instance was treated as an orphan"
        scenario.plane.kubectl("scale", f"deployment/{name}", "--replicas=0")
        scenario.wait("no nodes", lambda: not scenario.nodes() and not scenario.claims() and not scenario.instances())
        for function in ("planner", "lifecycle"):
            check_moved(deployment, checked, function, offsets[function])


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


def check_moved(running: Deployment, since: int, function: str, seconds: int) -> None:
    """The function signed tokens with its own clock; otherwise the scenario has no effect."""
    deployed, offset = running.functions()[function], timedelta(seconds=seconds)
    signed = [after for key, after in running.authenticator.signed_after[since:] if key == deployed]
    moved = [after for after in signed if (after > offset / 2 if seconds > 0 else after <= offset)]
    assert moved, f"no token of {function} was signed with a difference of {seconds} s: {sorted(set(signed))}"
