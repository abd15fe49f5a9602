"""Fixtures of the deployed tests. Logs stay under pytest's base directory, which is printed when a test fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.ministack import Ministack
from tools.terraform import plugin_mirror


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of the AWS provider; without it nothing here can run, and every test reports it."""
    return plugin_mirror()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The folder of the logs of processes and Terraform."""
    directory = tmp_path / "logs"
    directory.mkdir()
    return directory


@pytest.fixture
def ministack(mirror: Path, logs: Path) -> Iterator[Ministack]:  # noqa: ARG001 mirror is asked for so that we skip before starting anything
    """A ministack of the test's own."""
    with Ministack(logs) as running:
        yield running


# The tests that take minutes, the longest first: one is the first of each worker, so that none begins when the others are done.
LONGEST = [
    "test_first_hour.py::test_every_step_is_done_and_nothing_is_left",
    "test_many_clusters.py::test_a_fault_of_one_cluster_does_not_hold_up_another",
    "test_documents.py::test_move_back_and_remove_by_hand",
    "test_documents.py::test_deploy_operate_and_remove",
    "test_documents.py::test_several_clusters_with_one_deployment",
    "test_end_to_end.py::test_pods_get_nodes_and_nodes_go_when_pods_are_gone[heartbeat-alone]",
    "test_end_to_end.py::test_pods_get_nodes_and_nodes_go_when_pods_are_gone[wake]",
    "test_module.py::test_every_trigger_reaches_its_function_and_destroy_leaves_nothing",
]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nightly: runs in `make nightly` and not in `make test`, because it takes minutes")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Orders the tests, when those with other marks have been left out, for pytest-xdist's distribution `worksteal`: each worker gets an equal part of the list, and tests from the end
    of a part go to workers that have nothing left."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    long = [item for name in LONGEST for item in items if item.nodeid.endswith(name)]
    short = [item for item in items if item not in long]
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        size = (len(items) - len(ordered)) // (workers - worker)
        own = long[worker::workers][:size]
        fill = size - len(own)
        ordered += own[:1] + short[:fill] + own[1:]
        short = short[fill:]
    items[:] = ordered


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Names the log directory, and shows the ends of the logs, when a test fails."""
    report = yield
    directory = getattr(item, "funcargs", {}).get("logs")
    if report.failed and directory is not None:
        report.sections.append(("logs", f"kept in {directory}"))
        for log in sorted(directory.glob("*.log")):
            report.sections.append((log.name, log.read_text(errors="replace")[-3000:]))
    return report
