"""The pictures of docs/concepts show the phases that the code has."""

from __future__ import annotations

import re

import pages
import pytest


def variants(source: str, name: str) -> list[str]:
    """The variants of an enum, or the names that it has for users."""
    text = (pages.ROOT / source).read_text()
    body = re.search(rf"pub enum {name} {{\n(.*?)\n}}", text, re.S)
    assert body, f"{source} has no enum {name}"
    return re.findall(r'=> "(\w+)",$', text, re.M) or re.findall(r"^    (\w+),$", body[1], re.M)


@pytest.mark.parametrize(
    ("picture", "source", "enum", "more"),
    [
        ("nodeclaim", "shared/core/model/src/nodes/claim/phase.rs", "Phase", set()),
        ("disruption-command", "shared/core/disruption/src/command/mod.rs", "CommandPhase", {"ended", "dropped"}),
    ],
)
def test_a_picture_shows_every_phase(picture: str, source: str, enum: str, more: set[str]) -> None:
    text = (pages.DOCS / f"concepts/{picture}.svg").read_text()
    # The names of boxes have no class.
    shown = set(re.findall(r'<text x="[\d.]+" y="[\d.]+">([^<]+)</text>', text))
    phases = variants(source, enum)
    assert len(phases) > 5 and shown == set(phases) | more
