"""The report: one Markdown file that can be attached to a bug, without account number, keys or tokens."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from tools.terraform import ROOT

from . import cost
from .hour import Hour, Observation
from .untried import UNTRIED

TABLE = ROOT / "docs/reference/aws.csv"
# Patterns of secrets, and what replaces them.
SECRETS = [
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"), "KEY"),
    (re.compile(r"k8s-aws-v1\.[\w-]+"), "TOKEN"),
    # The path of wake's URL: 48 characters that must stay secret.
    (re.compile(r"\b[A-Za-z0-9]{48}\b"), "SECRET"),
    (re.compile(r"[a-z0-9]+\.lambda-url\.[a-z0-9-]+\.on\.aws"), "FUNCTION-URL"),
    (re.compile(r"[A-F0-9]{32}(\.\w+)?\.[a-z0-9-]+\.eks\.amazonaws\.com"), "API-SERVER"),
    (re.compile(r"(?<=:assumed-role/)[\w+=,.@/-]+"), "ROLE"),
    (re.compile(r"(?<=:user/)[\w+=,.@/-]+"), "USER"),
    (re.compile(r"(?<![\w.-])\d{12}(?![\w.-])|(?<=:)\d{12}(?=:)|(?<=/)\d{12}(?=/)"), "ACCOUNT"),
]
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def redacted(text: str, account: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """The text without confidential values."""
    for name in KEYS:
        if len(environment.get(name, "")) >= 12:
            text = text.replace(environment[name], name)
    if account:
        text = text.replace(account, "ACCOUNT")
    for pattern, instead in SECRETS:
        text = pattern.sub(instead, text)
    return text


def assumptions(table: Path = TABLE) -> dict[str, str]:
    """The assumptions of docs/reference/aws.csv: their ids, and what they state."""
    with table.open(newline="") as file:
        return {row["id"]: row["claim"] for row in csv.DictReader(file)}


def verdict(observations: list[Observation], is_aws: bool, untried: str | None = None) -> tuple[str, str]:
    """Confirmed, contradicted or not tried, and why."""
    if not observations:
        return "not tried", untried or "the step that brings it about did not come so far"
    seen = "; ".join(dict.fromkeys(o.seen for o in observations))
    if not is_aws:
        return "not tried", f"emulators prove nothing about AWS; here: {seen}"
    if any(o.holds is False for o in observations):
        return "contradicted", seen
    return ("confirmed", seen) if any(o.holds for o in observations) else ("not tried", seen)


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def write(hour: Hour, file: Path, account: str | None = None) -> None:
    """Writes the report."""
    file.write_text(redacted("\n".join(lines(hour)) + "\n", account))


def lines(hour: Hour) -> list[str]:
    place = hour.place
    failed = [step.name for step in hour.steps if step.outcome in ("failed", "interrupted")]
    text = [
        "# First hour of nodeless",
        "",
        f"On {place.name}, region {place.region}, begun {hour.begun:%Y-%m-%d %H:%M} UTC, written {datetime.now(timezone.utc):%H:%M} UTC. "
        + (f"**Failed: {', '.join(failed)}.**" if failed else "Every step did what it should."),
        "",
        "## Versions",
        "",
        "| what | version |",
        "|---|---|",
        *(f"| {name} | {cell(version)} |" for name, version in hour.versions.items()),
        "",
        "## Steps",
        "",
        "| step | outcome | seconds | seen |",
        "|---|---|---|---|",
        *(f"| {step.name} | {step.outcome} | {step.seconds:.0f} | {cell('; '.join(step.seen))[:1500]} |" for step in hour.steps),
        "",
        "## Left behind",
        "",
        *([f"- {kind}: {', '.join(names)}" for kind, names in hour.left.items()] or ["Nothing, as far as was looked."]),
        "",
        *cost_lines(hour),
        "## Assumptions about AWS",
        "",
        "Those of docs/reference/aws.csv.",
        "",
        "| assumption | verdict | seen, or why not |",
        "|---|---|---|",
    ]
    for assumption in assumptions():
        result, why = verdict(hour.observations.get(assumption, []), place.is_aws, UNTRIED.get(assumption))
        text.append(f"| `{assumption}` | {result} | {cell(why)} |")
    for step in hour.steps:
        for function, excerpt in step.logs.items():
            text += ["", f"## Log of {function} when this failed: {step.name}", "", "```", *(line[:1000] for line in excerpt), "```"]
    return text


def cost_lines(hour: Hour) -> list[str]:
    """The cost of the hour; on emulators nothing, so there the estimate only shows that it can be made."""
    estimated = cost.estimate(hour)
    total = sum(line.dollars or 0 for line in estimated)
    unknown = sum(line.dollars is None for line in estimated)
    return [
        "## Cost",
        "",
        ("" if hour.place.is_aws else "Nothing: these are emulators. In AWS it would have been:\n\n")
        + "An estimate from list prices of us-east-1 and current spot prices, not a bill: data transfer, free tier, taxes and what ran "
        + "before or after this are not in it.",
        "",
        "| what | dollars |",
        "|---|---|",
        *(f"| {line.what} | {'price unknown' if line.dollars is None else f'{line.dollars:.4f}'} |" for line in estimated),
        f"| **together** | **{total:.2f}**{f', and {unknown} lines without a price' if unknown else ''} |",
        "",
    ]
