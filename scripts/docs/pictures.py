#!/usr/bin/env python3
"""Draws the pictures of docs/concepts: each `NAME.picture` becomes `NAME.svg`, and the same text always the same bytes.

    python3 scripts/docs/pictures.py --write     # without --write: fails if a picture is out of date

A picture is a grid of boxes with arrows between them. A line of its text is one of these:

    title The life of a pod
    actor nodeless                        # the key of the colours: kubernetes, nodeless, aws
    box KEY COLUMN ROW ACTOR "first line" "second line"
    arrow KEY KEY "label"                 # straight, or with one corner: first vertical, then horizontal
    arrow KEY KEY "label" across          # first horizontal, then vertical

The tools that were considered need a program of their own (Graphviz, D2), a browser (Mermaid), or have a licence that does not
fit (the package of Pikchr); three pictures of boxes do not need that, and this needs Python alone.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import generated_files  # noqa: E402
from pages import DOCS, ROOT  # noqa: E402

COLUMN, ROW, WIDTH, HEIGHT, MARGIN, HEAD = 252, 106, 172, 58, 24, 64
COLOURS = {"kubernetes": ("#dbe7fb", "#2f6fde"), "nodeless": ("#d9f2e3", "#1c8a4c"), "aws": ("#fdebd0", "#c77700")}
NAMES = {"kubernetes": "Kubernetes", "nodeless": "nodeless", "aws": "EC2"}


@dataclass(frozen=True)
class Box:
    column: float
    row: float
    actor: str
    lines: list[str]

    @property
    def centre(self) -> tuple[float, float]:
        return MARGIN + (self.column - 1) * COLUMN + WIDTH / 2, HEAD + (self.row - 1) * ROW + HEIGHT / 2


@dataclass(frozen=True)
class Arrow:
    start: str
    end: str
    label: str
    across: bool


@dataclass
class Picture:
    title: str = ""
    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)


def read(text: str, name: str) -> Picture:
    """The picture that a text describes. Whatever it does not understand is an error."""
    picture = Picture()
    for number, line in enumerate(text.splitlines(), 1):
        words = shlex.split(line, comments=True)
        try:
            match words:
                case []:
                    pass
                case ["title", *rest]:
                    picture.title = " ".join(rest)
                case ["box", key, column, row, actor, *lines] if actor in COLOURS and lines and key not in picture.boxes:
                    picture.boxes[key] = Box(float(column), float(row), actor, lines)
                case ["arrow", start, end, *rest] if {start, end} <= picture.boxes.keys() and len(rest) <= 2:
                    picture.arrows.append(Arrow(start, end, rest[0] if rest else "", rest[1:] == ["across"]))
                case _:
                    raise ValueError("this is no line of a picture, or it names a box that does not exist")
        except ValueError as error:
            raise SystemExit(f"{name}:{number}: {line.strip()}: {error}") from error
    return picture


def route(start: Box, end: Box, across: bool) -> list[tuple[float, float]]:
    """The corners of an arrow, from the edge of one box to the edge of another."""
    (ax, ay), (bx, by) = start.centre, end.centre
    right, down = (1 if bx > ax else -1), (1 if by > ay else -1)
    if ay == by:
        return [(ax + right * WIDTH / 2, ay), (bx - right * WIDTH / 2, by)]
    if ax == bx:
        return [(ax, ay + down * HEIGHT / 2), (bx, by - down * HEIGHT / 2)]
    if across:
        return [(ax + right * WIDTH / 2, ay), (bx, ay), (bx, by - down * HEIGHT / 2)]
    return [(ax, ay + down * HEIGHT / 2), (ax, by), (bx - right * WIDTH / 2, by)]


def longest(points: list[tuple[float, float]]) -> tuple[tuple[float, float], tuple[float, float]]:
    def length(pair: tuple[tuple[float, float], tuple[float, float]]) -> float:
        return abs(pair[0][0] - pair[1][0]) + abs(pair[0][1] - pair[1][1])

    return max(zip(points, points[1:], strict=False), key=length)


def text(x: float, y: float, value: str, rest: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{rest}>{escape(value)}</text>'


def draw_arrow(arrow: Arrow, boxes: dict[str, Box]) -> list[str]:
    points = route(boxes[arrow.start], boxes[arrow.end], arrow.across)
    path = " ".join(f"{'M' if i == 0 else 'L'}{x:g} {y:g}" for i, (x, y) in enumerate(points))
    drawn = [f'<path d="{path}" class="arrow" marker-end="url(#head)"/>']
    (ax, ay), (bx, by) = longest(points)
    lines = arrow.label.split(" / ") if arrow.label else []
    level = ay == by
    for i, line in enumerate(lines):
        if level:
            drawn.append(text((ax + bx) / 2, ay - 7 - 14 * (len(lines) - 1 - i), line, ' class="label"'))
        else:
            drawn.append(text(ax + 7, (ay + by) / 2 + 4 + 14 * (i - (len(lines) - 1) / 2), line, ' class="label side"'))
    return drawn


def draw_box(box: Box) -> list[str]:
    fill, edge = COLOURS[box.actor]
    x, y = box.centre
    drawn = [f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}" rx="7" fill="{fill}" stroke="{edge}"/>']
    for i, line in enumerate(box.lines):
        kind = "" if i == 0 else ' class="small"'
        drawn.append(text(x, y + 5 + 16 * (i - (len(box.lines) - 1) / 2), line, kind))
    return drawn


def key(actors: list[str]) -> list[str]:
    """The key of the colours, beside the title."""
    drawn = []
    for i, actor in enumerate(actors):
        fill, edge = COLOURS[actor]
        x = MARGIN + i * 120
        drawn.append(f'<rect x="{x}" y="34" width="14" height="14" rx="3" fill="{fill}" stroke="{edge}"/>')
        drawn.append(text(x + 20, 46, NAMES[actor], ' class="key"'))
    return drawn


STYLE = (
    "text{font:14px system-ui,sans-serif;text-anchor:middle;fill:#17202b}.small{font-size:12px}"
    ".label{font-size:12px;fill:#3b4653;paint-order:stroke;stroke:#fbfcfd;stroke-width:4px}.side{text-anchor:start}"
    ".title{font-weight:600;text-anchor:start}.key{font-size:12px;text-anchor:start}"
    ".arrow{fill:none;stroke:#5b6775;stroke-width:1.4}rect{stroke-width:1.2}"
)


def side_labels(picture: Picture) -> list[float]:
    """Where the labels beside vertical arrows end, by the usual width of a letter."""
    ends = []
    for arrow in picture.arrows:
        (ax, ay), (_, by) = longest(route(picture.boxes[arrow.start], picture.boxes[arrow.end], arrow.across))
        if ay != by:
            ends.append(ax + 7 + 6.6 * max(len(line) for line in arrow.label.split(" / ")))
    return ends


def draw(picture: Picture) -> str:
    """The picture as SVG."""
    width = max([box.centre[0] + WIDTH / 2 for box in picture.boxes.values()] + side_labels(picture)) + MARGIN
    height = max(box.centre[1] for box in picture.boxes.values()) + HEIGHT / 2 + MARGIN
    actors = [actor for actor in COLOURS if any(box.actor == actor for box in picture.boxes.values())]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" aria-labelledby="t">',
        f'<title id="t">{escape(picture.title)}</title>',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6775"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" rx="10" fill="#fbfcfd" stroke="#d5dbe2"/>',
        text(MARGIN, 24, picture.title, ' class="title"'),
        *key(actors),
    ]
    for box in picture.boxes.values():
        parts += draw_box(box)
    for arrow in picture.arrows:
        parts += draw_arrow(arrow, picture.boxes)
    return "\n".join([*parts, "</svg>", ""])


def drawn() -> dict[Path, str]:
    """The pictures by the path of the file in which they belong."""
    sources = sorted(DOCS.rglob("*.picture"))
    return {path.with_suffix(".svg"): draw(read(path.read_text(), path.name)) for path in sources}


if __name__ == "__main__":
    generated_files.main(drawn())
