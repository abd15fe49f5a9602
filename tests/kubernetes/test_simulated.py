"""The simulated API server has the same responses as the real one; the differences that stay are listed with their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from definitions import FILES, established, remove_all
from exchange.comparison import differences
from exchange.objects import DEFINITIONS, NAMESPACE
from exchange.permitted import explained, unused
from exchange.play import REQUESTS, Server, play
from exchange.request import APPLY, COMPACT
from exchange.simulated import Simulated
from tools import artifacts
from tools.control_plane.server import ControlPlane

COMPARED = [request for request in REQUESTS if request.method != COMPACT]


@pytest.fixture
def real(plane: ControlPlane) -> Iterator[Server]:
    remove_all(plane)
    plane.kubectl("apply", "--server-side", "-f", str(FILES))
    established(plane)
    yield Server(plane.client.call, plane.compact)
    plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    remove_all(plane)


@pytest.fixture
def simulated(session_logs: Path) -> Iterator[Server]:
    with Simulated(artifacts.example("nodeless-fake-kubernetes", "serve"), session_logs / "simulated.log") as running:
        for file in sorted(FILES.glob("*.yaml")):
            definition = yaml.safe_load(file.read_text())
            path = f"{DEFINITIONS}/{definition['metadata']['name']}?fieldManager=kubectl&force=true"
            assert running.call("PATCH", path, definition, APPLY).status == 201
        yield running


def test_answers_are_those_of_a_real_api_server(real: Server, simulated: Server) -> None:
    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(play, (real, simulated))
    found = [(request.name, line) for request in COMPARED for line in differences(request, theirs[request.name], ours[request.name])]
    equal = len(COMPARED) - len({name for name, _ in found})
    print(f"\n{equal} of {len(COMPARED)} answers are equal, and the rest differs only where it may")
    unexplained = [f"{name}: {line}" for name, line in found if not explained(name, line)]
    assert not unexplained, "\n".join(unexplained)
    # A version may have differences that another has not.
    print("\n".join(f"no answer differs here: {line}" for line in unused(found)))


def test_a_status_is_never_explained() -> None:
    """A request that only one server rejects is always a fault of the simulated one."""
    assert not any(explained(request.name, "status: 400 and 200") for request in COMPARED)


def test_requests_have_names_of_their_own() -> None:
    assert len({request.name for request in REQUESTS}) == len(REQUESTS)
