"""The permissions of the functions in docs/reference/security.md, for tests that compare them with the policies."""

from __future__ import annotations

import re

from .terraform import FUNCTIONS, ROOT

HEADING = "## Allowed, and not used by every deployed test"


def documented_as_unused() -> dict[str, set[str]]:
    """Actions by function, from the table of docs/reference/security.md that lists those that a deployed test may leave unused."""
    _, found, rest = (ROOT / "docs/reference/security.md").read_text().partition(f"{HEADING}\n")
    assert found, f"docs/reference/security.md has no section {HEADING!r}"
    actions: dict[str, set[str]] = {name: set() for name in FUNCTIONS}
    for line in rest.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or cells[0] == "function":
            continue
        assert len(cells) == 3 and cells[2], f"docs/reference/security.md: a row needs functions, actions and a reason: {line}"
        for name in cells[0].split(", "):
            assert name in actions, f"docs/reference/security.md: there is no function {name!r}"
            actions[name] |= set(re.findall(r"`([^`]+)`", cells[1]))
    return actions
