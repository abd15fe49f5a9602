"""The pages of the documentation: their headings, anchors, links and blocks of code, as mdBook and GitHub read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# The target of [text](target) and ![text](target). A text may contain brackets in backticks.
LINK = re.compile(r"!?\[(?:[^\]\[`]|`[^`]*`|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()\s]*\))?)\)")
# The end of a link whose text begins on the line before.
CONTINUED = re.compile(r"^(?:[^\]\[`]|`[^`]*`)*\]\(([^()\s]+)\)")


@dataclass(frozen=True)
class Code:
    """A block of code between fences."""

    line: int
    language: str
    text: str


def pages() -> list[Path]:
    """Every page of docs/, sorted."""
    return sorted(DOCS.rglob("*.md"))


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside of fenced code, with their numbers from 1."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        marker = re.match(r" {0,3}(```+|~~~+)", line)
        if marker and (fence is None or line.strip().startswith(fence)):
            fence = marker[1] if fence is None else None
        elif fence is None:
            yield number, line
    assert fence is None, "a fence of a code block is not closed"


def code(text: str) -> list[Code]:
    """The fenced blocks of code."""
    found, start, language, lines = [], None, "", []
    for number, line in enumerate(text.splitlines(), 1):
        marker = re.match(r" {0,3}```(.*)$", line)
        if marker and start is None:
            start, language, lines = number, marker[1].strip(), []
        elif marker:
            found.append(Code(start, language, "".join(f"{each}\n" for each in lines)))
            start = None
        elif start is not None:
            lines.append(line)
    return found


def links(text: str) -> Iterator[tuple[int, str]]:
    """The targets of all links and images outside of code, with the numbers of their lines."""
    for number, line in prose(text):
        if not line.startswith("    "):
            for target in CONTINUED.findall(line) + LINK.findall(line):
                yield number, target


def anchor(heading: str) -> str:
    """The anchor of a heading, the same on GitHub and in mdBook."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    kept = "".join(letter for letter in plain.strip().lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def anchors(text: str) -> list[str]:
    """The anchors of a page, those of repeated headings with a number."""
    seen: dict[str, int] = {}
    found = []
    for _, line in prose(text):
        heading = re.match(r"#{1,6} +(.+?) *#*$", line)
        if heading:
            plain = anchor(heading[1])
            found.append(plain if plain not in seen else f"{plain}-{seen[plain]}")
            seen[plain] = seen.get(plain, 0) + 1
    return found
