"""Fixtures of the tests with a real Kubernetes control plane. Logs are kept in pytest's base directory, which is printed when a test fails."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from order import arrange  # noqa: E402
from tools import artifacts  # noqa: E402
from tools.control_plane.binaries import Binaries, binaries  # noqa: E402
from tools.control_plane.deployment import CLUSTER, SECRET, Deployment, Inputs  # noqa: E402
from tools.control_plane.server import ControlPlane  # noqa: E402
from tools.control_plane.tokens import Authenticator  # noqa: E402
from tools.results import needs  # noqa: E402
from tools.terraform import plugin_mirror  # noqa: E402


def pytest_configure() -> None:
    """A terminated test run stops the processes that it has started, like an interrupted one."""
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    arrange(config, items)


@pytest.fixture(scope="session")
def programs() -> Binaries:
    """The programs of the control plane. If they cannot be built, no test can run, and every test reports that."""
    needs("kubectl")
    return binaries()


@pytest.fixture(scope="session")
def session_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="session")
def plane(programs: Binaries, session_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane without nodeless, for tests of definitions and of the responses of the API server."""
    with Authenticator(CLUSTER, SECRET) as authenticator:
        with ControlPlane(programs, tmp_path_factory.mktemp("control-plane"), session_logs, authenticator, nodes=False) as running:
            yield running


@pytest.fixture(scope="session")
def nodeless() -> Path:
    """The `nodeless` command."""
    return artifacts.command()


@pytest.fixture(scope="session")
def inputs(programs: Binaries, nodeless: Path, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    mirror = plugin_mirror()
    return Inputs(programs, nodeless, artifacts.function_zips(tmp_path_factory.mktemp("zips")), mirror)


@pytest.fixture(scope="session")
def deployment_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deployment-logs")


@pytest.fixture(scope="session")
def deployment(inputs: Inputs, deployment_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """nodeless, applied. Applying takes longer than any scenario, so all scenarios share it, and each removes its objects."""
    with Deployment(inputs, tmp_path_factory.mktemp("deployment"), deployment_logs) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Prints the log directories and the ends of the logs when a test fails."""
    report = yield
    if report.failed:
        for fixture in ("session_logs", "deployment_logs"):
            directory = getattr(item, "funcargs", {}).get(fixture)
            if directory is not None:
                report.sections.append(("logs", f"kept in {directory}"))
                for log in sorted(directory.glob("*.log")):
                    report.sections.append((log.name, log.read_text(errors="replace")[-3000:]))
    return report
