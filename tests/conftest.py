"""Shared by all suites: the modules of this folder, tests that are skipped without a program, and the results for the summary of
`make test`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tools.results import Unavailable, record  # noqa: E402


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    yield from skipped_if_unavailable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    yield from skipped_if_unavailable()


def skipped_if_unavailable() -> Iterator[None]:
    """Skips the test whose fixtures or body raise Unavailable, or fails it if what is missing is required."""
    try:
        yield
    except Unavailable as missing:
        if missing.required:
            pytest.fail(f"NODELESS_REQUIRE_TOOLS contains {missing.program}: {missing}", pytrace=False)
        pytest.skip(str(missing))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # With pytest-xdist, the process that collects the reports records them, not its workers.
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    if report.failed:
        record("failed", report.nodeid)
    elif report.skipped and isinstance(report.longrepr, tuple):
        record("skipped", report.nodeid, report.longrepr[2].removeprefix("Skipped: "))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        record("failed", report.nodeid)
