"""The permissions of the functions that no test needs, for tests that compare them with the policies."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

from .terraform import FUNCTIONS, ROOT

FOLDER = ROOT / "docs/reference"


def listed(file: str, functions: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The rows of a list of docs/reference: each function that it names, and the rights, which commas and a space separate."""
    with (FOLDER / file).open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert rows, f"docs/reference/{file} is empty"
    for row in rows:
        assert row["why"] and row["rights"], f"docs/reference/{file}: a row needs functions, rights and a reason: {row}"
        for name in row["function"].split(", "):
            assert name in functions, f"docs/reference/{file}: there is no function {name!r}"
            yield name, row["rights"].split(", ")


def documented_as_unused() -> dict[str, set[str]]:
    """Actions by function that a deployed test may leave unused."""
    actions: dict[str, set[str]] = {name: set() for name in FUNCTIONS}
    for name, rights in listed("unused-aws.csv", FUNCTIONS):
        actions[name] |= set(rights)
    return actions
