#!/usr/bin/env python3
"""Writes the tables of docs/benchmarks/scheduling.md from the measurements beside it.

    python3 scripts/docs/benchmarks.py --write     # without --write: fails if a table is out of date

A new measurement replaces rows of a .csv file, with the commit at which it was made. The page summarizes them, so it never has other
figures than the files.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import generated_files  # noqa: E402
from pages import DOCS  # noqa: E402

FOLDER = DOCS / "benchmarks"
PAGE = FOLDER / "scheduling.md"
Rows = list[dict[str, str]]


def rows(name: str) -> Rows:
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def table(head: list[str], lines: list[list[str]]) -> str:
    aligned = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join(["| " + " | ".join(head) + " |", aligned, *("| " + " | ".join(line) + " |" for line in lines)])


def by_mix(found: Rows) -> dict[str, Rows]:
    mixes: dict[str, Rows] = {}
    for each in found:
        mixes.setdefault(each["mix"], []).append(each)
    return mixes


def span(found: Rows, column: str) -> str:
    """The smallest and the largest value of a column, with its digits."""
    values = sorted((each[column] for each in found), key=float)
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def prices() -> str:
    lines = []
    for mix, found in by_mix(rows("prices")).items():
        capacity = [[each for each in found if each["capacity"] == name] for name in ("on-demand", "with spot")]
        ours = [span(each, "ours / better") for each in capacity]
        lines.append([mix, *ours, span(found, "baseline / plain"), max((each["seconds"] for each in found), key=float)])
    return table(["mix", "on demand ÷ bound", "with spot ÷ bound", "first-fit-decreasing ÷ plain bound", "most seconds"], lines)


def realized() -> str:
    lines = []
    for mix, found in by_mix(rows("realized")).items():
        lines.append([mix, *(span(found, column) for column in ("without nominations", "with nominations", "pods where planned"))])
    return table(["mix", "÷ planned, without nominations", "÷ planned, with nominations", "part of pods that run where planned"], lines)


def consolidated() -> str:
    lines = []
    for mix, found in by_mix(rows("realized-consolidated")).items():
        sides = [[f"ratio {side} nominations", f"launches a node {side}", f"evictions a pod {side}"] for side in ("without", "with")]
        lines.append([mix, *("; ".join(span(found, column) for column in side) for side in sides)])
    return table(["mix", "without nominations: ÷ planned; launches a node; evictions a pod", "with nominations: the same"], lines)


def kubernetes() -> str:
    mixes = by_mix(rows("realized-kubernetes"))
    lines = [[mix, span(found, "ratio"), span(found, "pods where planned")] for mix, found in mixes.items()]
    return table(["mix", "÷ planned", "part of pods that run where planned"], lines)


def listed(name: str, columns: list[str]) -> str:
    """The rows of a file, or those with a target where some have one."""
    found = rows(name)
    aimed = [each for each in found if each.get("target")]
    return table(columns, [[each[column] for column in columns] for each in aimed or found])


TABLES: dict[str, Callable[[], str]] = {
    "prices": prices,
    "realized": realized,
    "realized-kubernetes": kubernetes,
    "realized-consolidated": consolidated,
    "durations": lambda: listed("durations", ["case", "seconds", "peak MiB", "target"]),
}


def written(page: str) -> str:
    """The page with each table after the comment that names its file."""
    for name, made in TABLES.items():
        marker = f"<!-- Generated from {name}.csv by scripts/docs/benchmarks.py. -->\n"
        assert page.count(marker) == 1, f"{PAGE.name} has no place for {name}.csv"
        page = re.sub(re.escape(marker) + r"\n(?:\|.*\n)*\n?", lambda _, at=marker, text=made(): f"{at}\n{text}\n\n", page)  # type: ignore[misc]
    return page


def generated() -> dict[Path, str]:
    return {PAGE: written(PAGE.read_text())}


if __name__ == "__main__":
    generated_files.main(generated())
