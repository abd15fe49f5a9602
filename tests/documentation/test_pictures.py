"""The pictures are up to date, and name the phases that the code has."""

from __future__ import annotations

import re

import pages
import pictures
import pytest


def test_every_picture_is_as_its_text_describes() -> None:
    drawn = pictures.drawn()
    assert drawn
    stale = [path.name for path, content in drawn.items() if not path.is_file() or path.read_text() != content]
    assert not stale, f"{stale} are out of date: run make docs-update"


def variants(source: str, name: str) -> list[str]:
    """The variants of an enum."""
    body = re.search(rf"pub enum {name} {{\n(.*?)\n}}", (pages.ROOT / source).read_text(), re.S)
    assert body, f"{source} has no enum {name}"
    return re.findall(r"^    (\w+),$", body[1], re.M)


@pytest.mark.parametrize(
    ("picture", "source", "enum", "more"),
    [
        ("nodeclaim", "shared/core/model/src/claim.rs", "Phase", set()),
        ("disruption-command", "shared/core/disruption/src/command/mod.rs", "CommandPhase", {"ended", "dropped"}),
    ],
)
def test_a_picture_shows_every_phase(picture: str, source: str, enum: str, more: set[str]) -> None:
    text = (pages.DOCS / f"concepts/{picture}.picture").read_text()
    shown = {box.lines[0] for box in pictures.read(text, picture).boxes.values()}
    phases = variants(source, enum)
    assert len(phases) > 5 and shown == set(phases) | more


def test_a_line_that_is_not_understood_is_an_error() -> None:
    for text in ("circle a 1 1", 'box a 1 1 nobody "A"', 'box a 1 1 aws "A"\narrow a b'):
        with pytest.raises(SystemExit):
            pictures.read(text, "x")
