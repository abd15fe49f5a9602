#!/usr/bin/env python3
"""Records what the picture of the dashboard shows: docs/operate/dashboard.example.json.

    python3 scripts/docs/dashboard_recording.py     # takes minutes, because it builds the simulator; then run dashboard.py --write

The log lines and metrics are those of a simulated run of docs/operate/dashboard.scenario.yaml, as the functions write them to CloudWatch
Logs. Metrics are aggregated as CloudWatch does, with the statistic that the dashboard has for each, for periods of five minutes. The log
group of a line is that of the first function that docs/reference/logs.md lists for its event, because all functions of the simulator
write to one log. The simulator has no Lambda service, so there are no values of its metrics.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import dashboard  # noqa: E402
from pages import DOCS, ROOT  # noqa: E402

SCENARIO = DOCS / "operate/dashboard.scenario.yaml"
SEED = 7
PERIOD = 5 * 60 * 1000
# The dashboard shows the last three hours.
PERIODS = 36
# The longest list of a widget.
LINES = 50
# Lines of the simulator itself.
OWN = {"operation-failed"}

Record = dict[str, Any]


def log() -> list[Record]:
    """The lines of the run."""
    command = ["cargo", "run", "--release", "--quiet", "--package", "nodeless-driver", "--example", "log", "--", str(SCENARIO), str(SEED)]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def milliseconds(line: Record) -> int:
    """When it was written."""
    if "_aws" in line:
        return line["_aws"]["Timestamp"]
    return parsed(line["timestamp"])


def parsed(timestamp: str) -> int:
    """Milliseconds of a time in RFC 3339 with any number of decimal places, in UTC."""
    whole, _, fraction = timestamp.removesuffix("Z").partition(".")
    return round(datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp() * 1000) + int(f"{fraction}000"[:3])


def statistics() -> dict[str, str]:
    """The statistic of each metric of the dashboard."""
    metrics = [metric for widget in dashboard.widgets(dashboard.values()) for metric in widget["properties"].get("metrics", [])]
    return {metric[1]: metric[4]["stat"] for metric in metrics if metric[0] == "nodeless"}


def aggregated(values: list[float], statistic: str) -> float | None:
    """One value for a period; none if there are no values, except of a sum."""
    if statistic == "Sum":
        return sum(values)
    if not values:
        return None
    if statistic == "Maximum":
        return max(values)
    percentile = re.fullmatch(r"p(\d+)", statistic)
    if not percentile:
        raise SystemExit(f"this statistic is not known here: {statistic}")
    return sorted(values)[math.ceil(len(values) * int(percentile[1]) / 100) - 1]


def series(documents: list[Record], end: int) -> dict[str, list[float | None]]:
    """The values of each metric, from the oldest period to the newest."""
    found: dict[str, list[float | None]] = {}
    for name, statistic in statistics().items():
        periods: list[list[float]] = [[] for _ in range(PERIODS)]
        for document in documents:
            period = PERIODS - 1 - (end - 1 - milliseconds(document)) // PERIOD
            if name in document and 0 <= period < PERIODS:
                value = document[name]
                periods[period] += value if isinstance(value, list) else [value]
        values = [aggregated(period, statistic) for period in periods]
        found[name] = [None if value is None else round(value, 4) for value in values]
    return found


def functions() -> dict[str, str]:
    """The first function of each event."""
    rows = re.findall(r"^\| `([\w-]+)` \| \w+ \| (\w+)", (DOCS / "reference/logs.md").read_text(), re.M)
    return dict(rows)


def as_queried(line: Record, by_event: dict[str, str]) -> Record:
    """The line as Logs Insights returns it."""
    fields = {name: value for name, value in line.items() if name != "timestamp" and value is not None}
    return {"@timestamp": milliseconds(line), "@log": f"/aws/lambda/nodeless-example-{by_event[line['event']]}", **fields}


def recording() -> Record:
    lines = log()
    documents = [line for line in lines if "_aws" in line]
    events = [line for line in lines if "_aws" not in line and line["event"] not in OWN]
    # A run ends when the cluster is quiescent; the dashboard is looked at when the load of the scenario ends.
    begin, hours = re.search(r"^start: (\S+)\nhours: (\d+)$", SCENARIO.read_text(), re.M).groups()
    end = parsed(begin) + int(hours) * 3600 * 1000
    before = [line for line in events if milliseconds(line) < end]
    by_event = functions()
    costs = [line for line in before if line["event"] == "costs-recorded" and milliseconds(line) >= end - 3600 * 1000]
    bad = [line for line in before if line["level"] in ("WARN", "ERROR")]
    kept = sorted([*costs, *bad[-LINES:]], key=milliseconds)
    return {
        "recorded": {"scenario": SCENARIO.name, "seed": SEED, "periodSeconds": PERIOD // 1000},
        "now": end,
        "metrics": series(documents, end),
        "lines": [as_queried(line, by_event) for line in kept],
    }


def main() -> None:
    found = recording()
    metrics = ",\n".join(f"    {json.dumps(name)}: {json.dumps(values)}" for name, values in found["metrics"].items())
    lines = ",\n".join(f"    {json.dumps(line)}" for line in found["lines"])
    text = f'{{\n  "recorded": {json.dumps(found["recorded"])},\n  "now": {found["now"]},\n  "metrics": {{\n{metrics}\n  }},\n  "lines": [\n{lines}\n  ]\n}}\n'
    dashboard.EXAMPLE.write_text(text)


if __name__ == "__main__":
    main()
