#!/usr/bin/env python3
"""Draws docs/operate/dashboard.svg: the CloudWatch dashboard of the Terraform module with the data of a simulated run.

    python3 scripts/docs/dashboard.py --write     # without --write: fails if the picture is out of date

The widgets are those of terraform/dashboard.json.tftpl. Their metrics and log lines are in docs/operate/dashboard.example.json, which
dashboard_recording.py records. The queries of the log widgets are evaluated here as CloudWatch Logs Insights does, as far as the dashboard
uses its language. Anything else in a query or a widget is an error, so that the picture shows what the module creates.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import generated_files  # noqa: E402
from pages import DOCS, ROOT  # noqa: E402

TEMPLATE = ROOT / "terraform/dashboard.json.tftpl"
EXAMPLE = DOCS / "operate/dashboard.example.json"
PICTURE = DOCS / "operate/dashboard.svg"

UNIT, GAP, HEAD = 44, 6, 22
COLOURS = ("#1f77b4", "#d95f02", "#2a9d55", "#8a4fbf", "#b8860b", "#c2364b")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#17202b}.title{font-weight:600}.heading{font-size:16px;font-weight:600}"
    ".small{font-size:10px;fill:#3b4653}.number{text-anchor:end}.head{font-size:11px;fill:#3b4653}"
    ".widget{fill:#ffffff;stroke:#d5dbe2}.axis{stroke:#d5dbe2}.line{fill:none;stroke-width:1.5}"
)

Row = dict[str, Any]


def values(name: str = "example") -> dict[str, str]:
    """The values that Terraform inserts for a cluster with its own functions."""
    functions = ["catalog", "interruption", "lifecycle", "planner", "wake"]
    pairs = [["AWS/Lambda", metric, "FunctionName", f"nodeless-{name}-{function}"] for function in functions for metric in ("Errors", "Throttles")]
    return {
        "region": "us-east-1",
        "cluster": name,
        "of_cluster": "",
        "planner_log": f"SOURCE '/aws/lambda/nodeless-{name}-planner'",
        "all_logs": " | ".join(f"SOURCE '/aws/lambda/nodeless-{name}-{function}'" for function in functions),
        "function_metrics": json.dumps(pairs),
    }


def widgets(given: dict[str, str]) -> list[dict[str, Any]]:
    """The widgets of the dashboard, with these values."""
    body = re.sub(r"\$\{(\w+)\}", lambda found: given[found[1]], TEMPLATE.read_text())
    return json.loads(body)["widgets"]


# Queries ----------------------------------------------------------------------------------------------------------------------------

CONDITION = re.compile(
    r"(?P<field>@?\w+) = '(?P<equal>[^']*)'"
    r"|(?P<listed>@?\w+) in \[(?P<list>[^\]]*)\]"
    r"|toMillis\(@timestamp\) >= now\(\) \* 1000 - (?P<age>\d+)"
)
AGGREGATE = re.compile(r"(?P<how>latest|sum)\((?P<field>\w+)\) as (?P<name>\w+)")


def condition(text: str, now: int) -> Callable[[Row], bool]:
    found = CONDITION.fullmatch(text)
    if not found:
        raise SystemExit(f"this condition of a query is not known here: {text}")
    if found["age"]:
        return lambda row: row["@timestamp"] >= now - int(found["age"])
    if found["listed"]:
        allowed = re.findall(r"'([^']*)'", found["list"])
        return lambda row: row.get(found["listed"]) in allowed
    return lambda row: row.get(found["field"]) == found["equal"]


def stats(text: str, rows: list[Row]) -> list[Row]:
    """One row for each value of the field after `by`; the last value by time, or the sum."""
    listed, _, by = text.partition(" by ")
    parts = [(AGGREGATE.fullmatch(part.strip()), part) for part in listed.split(",")]
    groups: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.get("@timestamp", 0)):
        groups.setdefault(row.get(by) if by else None, []).append(row)
    result = []
    for group, members in groups.items():
        row: Row = {by: group} if by else {}
        for found, part in parts:
            if not found:
                raise SystemExit(f"this function of a query is not known here: {part}")
            present = [member[found["field"]] for member in members if found["field"] in member]
            if not present:
                raise SystemExit(f"no line has the field {found['field']}")
            row[found["name"]] = present[-1] if found["how"] == "latest" else sum(present)
        result.append(row)
    return result


def query(text: str, lines: list[Row], now: int) -> list[Row]:
    """The rows of a Logs Insights query over log lines; `now` is in milliseconds."""
    rows = None
    sources: list[str] = []
    counted = 0
    for command in text.split(" | "):
        word, _, rest = command.partition(" ")
        if word == "SOURCE" and rows is None:
            sources.append(rest.strip("'"))
            continue
        if rows is None:
            rows = [line for line in lines if line["@log"] in sources]
        match word:
            case "filter":
                conditions = [condition(part, now) for part in rest.split(" and ")]
                rows = [row for row in rows if all(holds(row) for holds in conditions)]
            case "stats" if counted < 2:
                # Logs Insights allows two of them, and no sort or limit between them.
                counted += 1
                rows = stats(rest, rows)
            case "fields":
                rows = [{name: row.get(name, "") for name in rest.split(", ")} for row in rows]
            case "sort":
                name, _, order = rest.partition(" ")
                rows = sorted(rows, key=lambda row: row[name], reverse=order == "desc")
            case "limit":
                rows = rows[: int(rest)]
            case _:
                raise SystemExit(f"this command of a query is not known here: {command}")
    return rows or []


# Drawing ----------------------------------------------------------------------------------------------------------------------------


def text(x: float, y: float, value: str, kind: str = "") -> str:
    rest = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{rest}>{escape(value)}</text>'


def number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def clock(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def place(widget: dict[str, Any]) -> tuple[float, float, float, float]:
    return widget["x"] * UNIT + GAP, widget["y"] * UNIT + GAP, widget["width"] * UNIT - GAP, widget["height"] * UNIT - GAP


def draw_table(rows: list[Row], box: tuple[float, float, float, float]) -> list[str]:
    x, y, width, height = box
    if not rows:
        return [text(x + 10, y + HEAD + 18, "No data", "small")]
    rows = [{name: clock(value) if name == "@timestamp" else value for name, value in row.items()} for row in rows]
    names = list(rows[0])
    longest = [max(len(name), *(len(number(row[name])) for row in rows)) for name in names]
    scale = min(1.0, (width - 20) / sum(6.6 * size + 14 for size in longest))
    drawn, left = [], x + 10
    fit = int((height - HEAD - 24) // 17)
    for name, size in zip(names, longest, strict=True):
        column = (6.6 * size + 14) * scale
        letters = max(3, int(column / 6.4))
        numbers = all(isinstance(row[name], int | float) for row in rows)
        edge, kind = (left + column - 12, " number") if numbers else (left, "")
        drawn.append(text(edge, y + HEAD + 14, name[:letters], "head" + kind))
        for index, row in enumerate(rows[:fit]):
            drawn.append(text(edge, y + HEAD + 33 + 17 * index, number(row[name])[:letters], kind.strip()))
        left += column
    return drawn


def draw_bars(rows: list[Row], box: tuple[float, float, float, float]) -> list[str]:
    x, y, width, height = box
    label, amount = list(rows[0])
    most = max(row[amount] for row in rows) or 1
    step = min(34, (height - HEAD - 10) / len(rows))
    drawn = []
    for index, row in enumerate(rows):
        top = y + HEAD + 8 + step * index
        drawn.append(text(x + 10, top + step / 2 + 2, str(row[label])))
        drawn.append(f'<rect x="{x + 110:g}" y="{top:g}" width="{(width - 190) * row[amount] / most:.1f}" height="{step - 8:g}" fill="{COLOURS[0]}"/>')
        drawn.append(text(x + width - 12, top + step / 2 + 2, number(row[amount]), "number"))
    return drawn


def draw_lines(widget: dict[str, Any], series: dict[str, list[float | None]], box: tuple[float, float, float, float]) -> list[str]:
    x, y, width, height = box
    names = list(dict.fromkeys(metric[1] for metric in widget["properties"]["metrics"]))
    if all(metric[0] == "AWS/Lambda" for metric in widget["properties"]["metrics"]):
        return [text(x + 10, y + HEAD + 18, "No data: the simulator has no Lambda service", "small")]
    unknown = [name for name in names if name not in series]
    if unknown:
        raise SystemExit(f"{EXAMPLE.name} has no values of {unknown}")
    most = max((value for name in names for value in series[name] if value is not None), default=0) or 1
    if len(names) > len(COLOURS):
        raise SystemExit(f"{widget['properties']['title']}: more lines than colours")
    left, right, top, bottom = x + 44, x + width - 10, y + HEAD + 10, y + height - 38
    drawn = [text(left - 6, top + 4, number(float(most)), "small number"), text(left - 6, bottom + 3, "0", "small number")]
    drawn += [f'<path d="M{left:g} {level:g}H{right:g}" class="axis"/>' for level in (top, bottom)]
    for colour, name in zip(COLOURS, names, strict=False):
        points = series[name]
        step = (right - left) / (len(points) - 1)
        path, pen = [], "M"
        for spot, value in enumerate(points):
            # CloudWatch connects the values on both sides of a period without values.
            if value is not None:
                path.append(f"{pen}{left + step * spot:.1f} {bottom - (bottom - top) * value / most:.1f}")
                pen = "L"
        if len(path) == 1:
            # A line of one point is as wide as it is thick.
            path.append("h1")
        drawn.append(f'<path d="{" ".join(path)}" class="line" stroke="{colour}"/>')
    return drawn + legend(names, (left, right, bottom + 16))


def legend(names: list[str], space: tuple[float, float, float]) -> list[str]:
    """The names beside their colours, in as many lines as they need."""
    left, right, y = space
    drawn, x = [], left
    for colour, name in zip(COLOURS, names, strict=False):
        width = 24 + 5.6 * len(name)
        if x + width > right + 20:
            x, y = left, y + 14
        drawn.append(f'<rect x="{x:g}" y="{y - 8:g}" width="9" height="9" fill="{colour}"/>')
        drawn.append(text(x + 13, y, name, "small"))
        x += width
    return drawn


def draw_widget(widget: dict[str, Any], example: dict[str, Any]) -> list[str]:
    x, y, width, height = box = place(widget)
    properties = widget["properties"]
    if widget["type"] == "text":
        return [text(x + 4, y + 26, properties["markdown"].removeprefix("## "), "heading")]
    drawn = [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="widget"/>',
        text(x + 10, y + 18, properties["title"], "title"),
    ]
    if widget["type"] == "metric" and properties["view"] == "timeSeries":
        return drawn + draw_lines(widget, example["metrics"], box)
    if widget["type"] != "log":
        raise SystemExit(f"this kind of widget is not known here: {widget['type']}")
    lines = [{**line, "@message": json.dumps({name: value for name, value in line.items() if not name.startswith("@")})} for line in example["lines"]]
    rows = query(properties["query"], lines, example["now"])
    draw = {"table": draw_table, "bar": draw_bars}[properties["view"]]
    return drawn + draw(rows, box)


def draw() -> str:
    """The dashboard as SVG."""
    example = json.loads(EXAMPLE.read_text())
    shown = widgets(values())
    width = 24 * UNIT + GAP
    height = max(widget["y"] + widget["height"] for widget in shown) * UNIT + GAP
    title = "The CloudWatch dashboard of nodeless, with data of a simulated run"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="t">',
        f'<title id="t">{title}</title>',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#f2f4f7"/>',
    ]
    for widget in shown:
        parts += draw_widget(widget, example)
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    generated_files.main({PICTURE: draw()})
