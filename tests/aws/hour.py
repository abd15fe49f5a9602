"""The record of a first hour: its steps, what was seen of AWS, and the instances that ran."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar

from tools.processes import wait_for
from tools.terraform import FUNCTIONS

from .place import Place

T = TypeVar("T")
EXCERPT_LINES = 30


@dataclass
class Step:
    """A step and its outcome: done, failed, interrupted, or left out."""

    name: str
    outcome: str = "not reached"
    seconds: float = 0
    seen: list[str] = field(default_factory=list)
    # The ends of the functions' logs, where it failed.
    logs: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """An observation of an assumption of docs/reference/aws.csv; `holds` is None where it could not be tried."""

    holds: bool | None
    seen: str


@dataclass
class Ran:
    """An instance, for as long as it was seen."""

    instance_type: str
    zone: str
    spot: bool
    launched: datetime
    last_seen: datetime


class Hour:
    """A first hour in one place, from the apply to the destroy."""

    def __init__(self, place: Place, report: Callable[[str], None] = print) -> None:
        self.place = place
        self.report = report
        self.begun = datetime.now(timezone.utc)
        self.steps: list[Step] = []
        self.observations: dict[str, list[Observation]] = {}
        self.ran: dict[str, Ran] = {}
        self.versions: dict[str, str] = {}
        self.left: dict[str, list[str]] = {}
        self.unasked: list[str] = []
        self.experiment_minutes = 0
        # Whether the account had the service-linked role of spot instances at the start.
        self.spot_role_before: bool | None = None
        # The time of the control plane, from the request for it.
        self.cluster_begun: datetime | None = None
        self.cluster_ended: datetime | None = None

    @property
    def failed(self) -> bool:
        """Whether a step did not do what it should."""
        return any(step.outcome not in ("done", "left out") for step in self.steps)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """A step. A failure is recorded, with the functions' logs, and the next step may follow; Ctrl-C is raised again."""
        step = Step(name)
        self.steps.append(step)
        self.report(f"--- {name}")
        begun = time.monotonic()
        try:
            yield step
            step.outcome = "done"
        except Exception as failure:  # whatever it is, what was made has to be destroyed, and the report to be written
            step.outcome = "failed"
            step.seen.append(f"{type(failure).__name__}: {failure}")
            step.logs = self._excerpts()
        except BaseException:
            step.outcome = "interrupted"
            raise
        finally:
            step.seconds = time.monotonic() - begun
            self.report(f"    {step.outcome} after {step.seconds:.0f} s" + "".join(f"\n    {line}" for line in step.seen))

    def leave_out(self, name: str, why: str) -> None:
        """Notes a step that is not tried."""
        self.steps.append(Step(name, "left out", seen=[why]))
        self.report(f"--- {name}\n    left out: {why}")

    def observe(self, assumption: str, holds: bool | None, seen: str) -> None:
        """Notes what was seen of an assumption."""
        self.observations.setdefault(assumption, []).append(Observation(holds, seen))

    def wait(self, what: str, condition: Callable[[], T], minutes: float) -> T:
        """The first true value of `condition`, looking at the instances each time so that their hours can be counted."""

        def look() -> T:
            self.look()
            return condition()

        return wait_for(what, look, minutes * 60, every=self.place.poll)

    def look(self) -> list[dict[str, Any]]:
        """The instances now; they are noted."""
        instances = self.place.instances()
        now = datetime.now(timezone.utc)
        for instance in instances:
            ran = self.ran.setdefault(
                instance["InstanceId"],
                Ran(instance["InstanceType"], instance["Placement"]["AvailabilityZone"], instance.get("InstanceLifecycle") == "spot", instance["LaunchTime"], now),
            )
            ran.last_seen = now
        return instances

    def _excerpts(self) -> dict[str, list[str]]:
        """The last lines of each function's log; empty if they cannot be read."""
        excerpts = {}
        for function in FUNCTIONS:
            try:
                lines = [event["message"].rstrip() for event in self.place.log_events(function)]
            except Exception as failure:  # noqa: BLE001 the step's own failure must not be hidden by this one
                lines = [f"the log cannot be read: {failure}"]
            # The lines that Lambda writes for every invocation are left out.
            excerpt = [line for line in lines if not line.startswith(("START ", "END ", "REPORT ", "INIT_START "))]
            if excerpt:
                excerpts[function] = excerpt[-EXCERPT_LINES:]
        return excerpts
