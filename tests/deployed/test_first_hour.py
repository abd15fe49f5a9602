"""The first hour of tests/aws, on the emulators: the same code that runs in an account, so that it works when it counts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from aws import report
from aws.emulated import Emulated
from aws.first_hour import check_names, run
from aws.remains import remains
from tools import artifacts

CLUSTER = "first-hour"


@pytest.fixture
def place(mirror: Path, tmp_path: Path, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:  # noqa: ARG001 whose directory the emulators log to
    if shutil.which("kubectl") is None:
        pytest.skip("SKIPPED, not passed: there is no `kubectl` on PATH")
    zips = artifacts.function_zips(tmp_path_factory.mktemp("zips"))
    with Emulated(tmp_path, CLUSTER, "us-east-1", artifacts.command(), zips, mirror) as running:
        yield running


def test_every_step_is_done_and_nothing_is_left(place: Emulated, logs: Path) -> None:
    check_names(place)
    hour = run(place)
    file = logs / "report.md"
    report.write(hour, file)
    text = file.read_text()
    assert not hour.failed, text
    assert {step.outcome for step in hour.steps} == {"done"}, text
    assert not hour.left and not remains(place)[0]
    # What was seen is about AWS's own assumptions, each of which docs/aws.md has.
    assert set(hour.observations) <= set(report.assumptions())
    assert "| confirmed |" not in text, "an emulator confirms nothing about AWS"
    assert "| `events-spot-warning` | not tried | emulators prove nothing about AWS; here: " in text
    # What the simulated EC2 and ministack are known to do, so that a probe which asks for something else is found.
    held = {name for name, seen in hour.observations.items() if all(o.holds for o in seen)}
    assert held >= {"ec2-dry-run", "ec2-unknown-instance", "ec2-template-name-unique", "sqs-fifo-group-in-flight", "ddb-client-token"}, text
    assert len(hour.ran) >= 3 and "no price was to be had" not in text, text
