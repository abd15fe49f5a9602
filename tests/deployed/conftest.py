"""What the deployed tests share. Logs stay under pytest's base directory, which is printed when a test fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.ministack import Ministack  # noqa: E402
from tools.terraform import Unavailable, plugin_mirror  # noqa: E402


@pytest.fixture(scope="session")
def mirror() -> Path:
    """Where the AWS provider is; without it nothing here can run, and every test reports it."""
    try:
        return plugin_mirror()
    except Unavailable as reason:
        pytest.skip(f"SKIPPED, not passed: {reason}")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Where processes and Terraform log."""
    directory = tmp_path / "logs"
    directory.mkdir()
    return directory


@pytest.fixture
def ministack(mirror: Path, logs: Path) -> Iterator[Ministack]:  # noqa: ARG001 mirror is asked for so that we skip before starting anything
    """A ministack of the test's own."""
    with Ministack(logs) as running:
        yield running


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
