"""One page about runs: for each workload a table with the figures of both sides and their ratio, and a chart of dollars an hour.

    python tests/compare/page.py target/compare > compare.html

Reads the `figures.json` and `run.json` of each run; a run that did not reach its end is marked as partial.
"""

from __future__ import annotations

import html
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

BASE, OTHER = "karpenter", "nodeless"
COLOURS = {BASE: "#b45309", OTHER: "#1d4ed8", "bound": "#6b7280"}
WIDTH, HEIGHT, MARGIN = 720, 220, 40


@dataclass(frozen=True)
class Row:
    """A line of the tables: what is measured, how it is read from the figures, and the ratio that is aimed at."""

    title: str
    read: Callable[[Json], float | None]
    digits: int
    aim: float | None = None


def writes(figures: Json) -> float:
    return sum(count for verb, count in figures["requests"].items() if verb not in ("get", "list", "watch"))


ROWS = (
    Row("dollars", lambda f: f["dollars"], 3, 0.75),
    Row("dollars, of the lower bound", lambda f: f["dollars"] / f["bound"] if f["bound"] else None, 2),
    Row("dollars an hour at the end", lambda f: f["dollars_per_hour_at_end"], 2),
    Row("nodes at the end", lambda f: f["nodes_at_end"], 0),
    Row("most nodes", lambda f: f["most_nodes"], 0),
    Row("launches", lambda f: f["launches"], 0, 0.7),
    Row("evictions", lambda f: f["evictions"], 0, 0.5),
    Row("evicted again", lambda f: f["evicted_again"], 0),
    Row("seconds pending, median", lambda f: f["pending_seconds"]["p50"], 1),
    Row("seconds pending, p95", lambda f: f["pending_seconds"]["p95"], 1),
    Row("seconds pending, p99", lambda f: f["pending_seconds"]["p99"], 1, 1.0),
    Row("seconds pending, most", lambda f: f["pending_seconds"]["most"], 1),
    Row("seconds from a launch to its Node, median", lambda f: f["boot_seconds"], 1),
    Row("pods that never ran", lambda f: f["never_bound"], 0),
    Row("seconds until the last change", lambda f: f["last_change"], 0),
    Row("requests to the API server", lambda f: sum(f["requests"].values()), 0, 0.5),
    Row("of these, writes", writes, 0),
    Row("processor seconds", lambda f: f["processor_seconds"], 1, 0.1),
    Row("memory, MiB at most", lambda f: f["memory_mib"], 0),
)


def runs(directory: Path) -> dict[str, dict[str, list[tuple[Json, Json]]]]:
    """The figures and descriptions of all runs, by workload and side."""
    found: dict[str, dict[str, list[tuple[Json, Json]]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted(directory.glob("*/*/figures.json")):
        about = json.loads((file.parent / "run.json").read_text())
        found[about["workload"]][about["side"]].append((json.loads(file.read_text()), about))
    return found


def mean(row: Row, side: list[tuple[Json, Json]]) -> float | None:
    values = [value for figures, _ in side if (value := row.read(figures)) is not None]
    return statistics.fmean(values) if values else None


def table(sides: dict[str, list[tuple[Json, Json]]]) -> list[tuple[str, str, str, str, str]]:
    """Title, Karpenter, nodeless, ratio, and whether the aim is reached."""
    written = []
    for row in ROWS:
        base, other = mean(row, sides.get(BASE, [])), mean(row, sides.get(OTHER, []))
        ratio = other / base if base and other is not None else None
        reached = "" if row.aim is None or ratio is None else f"{'≤' if ratio <= row.aim else '>'} {row.aim}"
        written.append((row.title, number(base, row.digits), number(other, row.digits), number(ratio, 2), reached))
    return written


def number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def markdown(found: dict[str, dict[str, list[tuple[Json, Json]]]]) -> str:
    """The tables for the documentation."""
    parts = []
    for name, sides in found.items():
        rows = [f"| {' | '.join(cells)} |" for cells in table(sides)]
        parts.append("\n".join([f"### {name}", "", "| | Karpenter | nodeless | ratio | aim |", "|---|--:|--:|--:|--:|", *rows, ""]))
    return "\n".join(parts)


def page(found: dict[str, dict[str, list[tuple[Json, Json]]]]) -> str:
    body = [section(name, sides) for name, sides in found.items()]
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>nodeless and Karpenter, side by side</title><style>{STYLE}</style>
<h1>nodeless and Karpenter, side by side</h1><p>{html.escape(versions(found))}</p>{"".join(body)}</html>
"""


STYLE = """body{font:15px/1.4 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
table{border-collapse:collapse}td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #8884}td:first-child{text-align:left}
svg{max-width:100%;height:auto}.partial{color:#b91c1c}"""


def versions(found: dict[str, dict[str, list[tuple[Json, Json]]]]) -> str:
    seen = {f"{about['side']} {about['version']}, Kubernetes {about['kubernetes']}, {about['processors']} processors" for sides in found.values() for side in sides.values() for _, about in side}
    return "; ".join(sorted(seen))


def section(name: str, sides: dict[str, list[tuple[Json, Json]]]) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>" for cells in table(sides))
    notes = [f"{side}, seed {about['seed']}: {problem}" for side, entries in sides.items() for figures, about in entries for problem in figures["problems"]]
    partial = "".join(f'<p class="partial">partial: {html.escape(note)}</p>' for note in notes[:10])
    head = "<tr><th></th><th>Karpenter</th><th>nodeless</th><th>ratio</th><th>aim</th></tr>"
    return f"<h2>{html.escape(name)}</h2>{partial}<table>{head}{rows}</table>{chart(sides)}"


def chart(sides: dict[str, list[tuple[Json, Json]]]) -> str:
    """Dollars an hour over time of the first seed of each side, and the lower bound."""
    series = {side: entries[0][0]["series"] for side, entries in sides.items() if entries}
    drawn = {side: (one["seconds"], one["dollars_per_hour"]) for side, one in series.items()}
    if series:
        first = next(iter(series.values()))
        drawn["bound"] = (first["seconds"], first["bound"])
    most = max((value for _, values in drawn.values() for value in values), default=0) or 1
    end = max((seconds[-1] for seconds, _ in drawn.values()), default=0) or 1
    lines = "".join(line(side, *points, most, end) for side, points in drawn.items())
    legend = "".join(f'<text x="{MARGIN + 110 * index}" y="14" fill="{COLOURS[side]}">{side}</text>' for index, side in enumerate(drawn))
    axes = f'<text x="0" y="{MARGIN}" fill="currentColor">${most:.1f}/h</text><text x="{WIDTH - 60}" y="{HEIGHT - 4}" fill="currentColor">{end} s</text>'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12" role="img" aria-label="dollars an hour">{legend}{axes}{lines}</svg>'


def line(side: str, seconds: list[float], values: list[float], most: float, end: float) -> str:
    def place(at: float, value: float) -> str:
        return f"{MARGIN + at / end * (WIDTH - MARGIN):.1f},{HEIGHT - 20 - value / most * (HEIGHT - 60):.1f}"

    points = " ".join(place(at, value) for at, value in zip(seconds, values, strict=True))
    return f'<polyline fill="none" stroke="{COLOURS[side]}" stroke-width="1.5" points="{points}"/>'


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    print(markdown(runs(directory)) if sys.argv[2:] == ["--markdown"] else page(runs(directory)))
