"""Compares the figures of `cargo bench -p nodeless-workloads --bench pipeline` with the last ones.

    cargo bench -p nodeless-workloads --bench pipeline | python3 tests/bench/compare.py tests/bench/last.md
    cargo bench -p nodeless-workloads --bench pipeline > tests/bench/last.md     # when a change is intended

Numbers of launches, of pods that are left and of removed nodes do not depend on the machine: a difference is an error. Times and memory
do, so they are an error from WORSE times the last figure on, if it is not so small that it is noise."""

from __future__ import annotations

import re
import sys
from pathlib import Path

WORSE = 1.5
# The columns of times and memory, and the figures below which they are not compared.
MEASURED = {"seconds": 0.1, "plan": 0.1, "disruption": 0.1, "peak MiB": 50.0}
COUNTED = ("launches", "left", "removed nodes")

Table = dict[str, dict[str, str]]


def table(text: str) -> Table:
    """The cells of a table in Markdown, by the first cell of the row and by column."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    if len(rows) < 3:
        sys.exit("there is no table to compare")
    columns = rows[0]
    return {row[0]: dict(zip(columns, row, strict=True)) for row in rows[2:]}


def number(cell: str) -> float | None:
    """The number at the start of a cell."""
    found = re.match(r"[\d,]+(\.\d+)?", cell)
    return float(found[0].replace(",", "")) if found else None


def differences(last: Table, now: Table) -> list[str]:
    """What is worse, or differs where it must not."""
    found = [f"{case}: has no figures now" for case in last.keys() - now.keys()]
    for case, cells in now.items():
        if case not in last:
            found.append(f"{case}: has no earlier figures")
            continue
        for column in COUNTED:
            if cells[column] != last[case][column]:
                found.append(f"{case}: {column}: {cells[column]}, before {last[case][column]}")
        for column, noise in MEASURED.items():
            is_now, was = number(cells[column]), number(last[case][column])
            if (is_now is None) != (was is None) or (is_now is not None and was is not None and is_now > max(WORSE * was, noise)):
                found.append(f"{case}: {column}: {cells[column]}, before {last[case][column]}")
    return sorted(found)


def main() -> None:
    now = sys.stdin.read()
    print(now)
    found = differences(table(Path(sys.argv[1]).read_text()), table(now))
    print("\n".join(found) or "no figure is worse than the last one")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
