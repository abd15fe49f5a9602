"""Lists in pages, of which a real API server forgets the revision between two pages."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

import objects
from scenario import Scenario, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment
from tools.control_plane.gateway import Gateway
from tools.control_plane.rights import of_nodeless
from tools.control_plane.server import ControlPlane
from tools.processes import wait_for

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
IN_DEFAULT = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
# The functions read pages of 500 objects.
MORE_THAN_A_PAGE = 520


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


def test_a_list_whose_continue_token_expires_is_read_again(deployment: Deployment) -> None:
    plane = deployment.plane
    expiring = Expiring(plane)
    with many_budgets(plane), Gateway(plane.authority.server("gateway"), plane.authority.pair, plane.port, expiring.before) as gateway:
        with deployment.through(gateway, "planner"), Scenario(deployment, "pages") as scenario:
            scenario.apply(objects.deployment("pages", 2))
            scenario.all_run(2)
            scenario.initialized()
    assert expiring.expired, "no token expired, so the test has no effect"
    expired = [call.code for call in deployment.plane.audit.calls() if call.uri in expiring.expired and of_nodeless(call)]
    assert 410 in expired, f"the planner did not read the second page: {expired}"


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


@dataclass
class Expiring:
    """Has the continue token of one list of PodDisruptionBudgets expire before its second page is read."""

    plane: ControlPlane
    expired: list[str] = field(default_factory=list)

    def before(self, path: str) -> None:
        if self.expired or not path.startswith(BUDGETS) or "continue=" not in path:
            return
        self.plane.compact()
        wait_for("the continue token to expire", lambda: self.plane.client.call("GET", path).status == 410, 60)
        self.expired.append(path)


@contextmanager
def many_budgets(plane: ControlPlane) -> Iterator[None]:
    """More PodDisruptionBudgets than a page has; they select no pod."""

    def create(number: int) -> int:
        return plane.client.call("POST", IN_DEFAULT, objects.budget(f"page-{number:04}", minAvailable=0)).status

    with ThreadPoolExecutor(4) as pool:
        statuses = set(pool.map(create, range(MORE_THAN_A_PAGE)))
    try:
        assert statuses == {201}, statuses
        yield
    finally:
        plane.client.call("DELETE", IN_DEFAULT)
