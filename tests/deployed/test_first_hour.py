"""The first hour of tests/aws, on the emulators: the same code that runs in an account, so that it works when it counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aws import report
from aws.emulated import Emulated
from aws.first_hour import check_names, run
from aws.hour import Hour
from aws.remains import remains
from terraform import assumptions
from tools import artifacts
from tools.results import needs
from tools.terraform import ROOT

CLUSTER = "first-hour"
# The assumptions about AWS that the simulated EC2 and ministack enforce, whatever the timing of a run: a probe that asks for something else
# fails.
ENFORCED = {
    "ddb-batch-25", "ddb-cancellation-reasons", "ddb-client-token", "ddb-consistent-read", "ddb-item-400-kb", "ddb-query-1-mb", "ddb-transaction-100-items",
    "ddb-transaction-4-mb", "ddb-ttl", "ec2-dry-run", "ec2-eventual-two-minutes", "ec2-filter-200", "ec2-fleet-id-tag", "ec2-fleet-instance-tags", "ec2-fleet-instant",
    "ec2-fleet-missing-template", "ec2-fleet-pools", "ec2-fleet-token", "ec2-fleet-token-64", "ec2-fleet-token-answer", "ec2-fleet-token-mismatch", "ec2-private-dns",
    "ec2-spot-price-now", "ec2-start-kubelet", "ec2-status-running", "ec2-tag-limit", "ec2-template-latest", "ec2-template-name-unique", "ec2-template-visible", "ec2-terminate-idempotent",
    "ec2-unknown-instance", "ec2-user-data-16k", "iam-profile-one-role", "pricing-linux", "sqs-batch-10", "sqs-dead-letters-in-order", "sqs-fifo-deduplication",
    "sqs-fifo-group-in-flight", "sqs-fifo-no-delay",
}  # fmt: skip


@pytest.fixture
def place(mirror: Path, tmp_path: Path, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:  # noqa: ARG001 whose directory the emulators log to
    needs("kubectl")
    zips = artifacts.function_zips(tmp_path_factory.mktemp("zips"))
    with Emulated(tmp_path, CLUSTER, "us-east-1", artifacts.command(), zips, mirror) as running:
        yield running


def observed(hour: Hour, names: set[str]) -> str:
    """The observations of these assumptions."""
    return "\n".join(f"{name}: {hour.observations.get(name, 'not observed')}" for name in sorted(names))


@pytest.mark.nightly
def test_every_step_is_done_and_nothing_is_left(place: Emulated, logs: Path) -> None:
    check_names(place)
    hour = run(place)
    file = logs / "report.md"
    report.write(hour, file)
    text = file.read_text()
    # The messages are short, so that the end of a long output shows them: the logs of the test have the report.
    unfinished = [(step.name, step.outcome, step.seen[-3:]) for step in hour.steps if step.outcome != "done"]
    assert not hour.failed and not unfinished, f"steps that are not done: {unfinished}"
    assert not hour.left and not remains(place)[0]
    # Every observation is of an assumption about AWS in docs/reference/aws.csv.
    assert set(hour.observations) <= set(report.assumptions())
    assert "| confirmed |" not in text, "an emulator confirms nothing about AWS"
    assert "| `events-spot-warning` | not tried | emulators prove nothing about AWS; here: " in text
    # docs/reference/aws.csv has what the simulation does differently from AWS, and a probe has seen what it enforces.
    simulation = {row.name: row.simulation for row in assumptions.rows((ROOT / assumptions.TABLE).read_text())}
    other = {name for name, seen in hour.observations.items() if any(o.holds is False for o in seen)}
    assert not {name for name in other if "more generous" not in simulation[name] and "absent" not in simulation[name]}, observed(hour, other)
    held = {name for name, seen in hour.observations.items() if all(o.holds for o in seen)}
    assert held >= ENFORCED, observed(hour, ENFORCED - held)
    assert len(hour.ran) >= 3 and "no price was to be had" not in text, hour.ran
