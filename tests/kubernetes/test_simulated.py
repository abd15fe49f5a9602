"""The simulated API server of `nodeless local` has the same responses as the real one; permitted differences are listed with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from definitions import FILES, established, remove_all
from exchange import NAMESPACE, REQUESTS, differences, play, simulated
from tools.control_plane.deployment import CLUSTER
from tools.control_plane.server import ControlPlane
from tools.world import World

# Requests by name (a pattern), paths in the response (a pattern), and why these may differ.
MAY_DIFFER = (
    (".*", r"\.status\.(nodeInfo|daemonEndpoints)", "facts of a kubelet that no kubelet in this test has reported"),
    (".*", r"\.metadata\.annotations", "the node lifecycle controller marks nodes for which it attaches volumes"),
    (".*node.*|a finalizer .*|the last finalizer .*", r"\.spec\.taints", "admission and controllers add taints at different times, in a different order"),
    (".*", r".*\.metadata\.generation", "newer API servers count the generations of Pods"),
    (".*", r".*\.spec\.(enableServiceLinks|serviceAccount)", "fields of Pods that no client of the simulation reads"),
    ("pods by label|pages", r"\.items\[0\]\.(apiVersion|kind)", "clients decode items of a list with and without their kind"),
    (".*", r".*\.status\.conditions.*", "the scheduler of either server may have written its condition already"),
    (".*", r"\.details.*", "details of an error that clients do not use"),
    ("pods as a table", r"\.columnDefinitions\[\d\]\.description", "explanations for people"),
    ("an event .*", r"\.(eventTime|firstTimestamp|lastTimestamp)", "null or missing"),
    (".* (deployment|budget) is created", r"\.status", "empty until its controller has run"),
    ("the definition is deleted", r"\..*", "a real API server deletes the objects of a definition first, and returns the definition until then"),
    ("the definition .*", r"\.(spec|status|metadata)(\..*)?", "the controllers of definitions complete them later"),
    ("a deployment is scaled", r"\.spec\.replicas", "zero or missing"),
    ("a version that is not served", r"", "text or a Status; both are 404"),
)


@pytest.fixture
def real(plane: ControlPlane) -> Iterator[ControlPlane]:
    remove_all(plane)
    plane.kubectl("apply", "--server-side", "-f", str(FILES))
    established(plane)
    yield plane
    plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    remove_all(plane)


@pytest.fixture
def world(nodeless: Path, tmp_path: Path, session_logs: Path) -> Iterator[World]:
    with World(nodeless, CLUSTER, tmp_path, session_logs) as running:
        running.kubectl("apply", "--server-side", "-f", str(FILES))
        yield running


def test_answers_are_those_of_a_real_api_server(real: ControlPlane, world: World) -> None:
    theirs, ours = play(real.client.call), play(simulated(world.kubernetes_url))
    unexplained, equal = [], 0
    for request in REQUESTS:
        found = differences(theirs[request.name], ours[request.name])
        equal += not found
        unexplained += [f"{request.name}: {d}" for d in found if not explained(request.name, d)]
    print(f"\n{equal} of {len(REQUESTS)} answers are equal, and the rest differs only where it may")
    assert not unexplained, "\n".join(unexplained)


def explained(request: str, difference: str) -> bool:
    path = difference.partition(": ")[0]
    return any(re.fullmatch(name, request) and re.fullmatch(where, path) for name, where, _ in MAY_DIFFER)


def test_a_status_is_never_explained() -> None:
    """A request that only one server rejects is always a fault of the simulated one."""
    assert not any(explained(request.name, "status: 400 and 200") for request in REQUESTS)
