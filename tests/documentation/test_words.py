"""The words that the project replaced by terms of Kubernetes, Karpenter and AWS do not come back."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pages

# Words and phrases that are not used, with what is written instead, for identifiers, comments, messages and pages.
INSTEAD = {
    "house": "project, crate or layer",
    "room": "free capacity, allocatable",
    "mishap": "fault",
    "chaos": "fault injection",
    "storm": "faults",
    "turmoil": "faults-all-features",
    "harbour": "stateful",
    "reckoning": "oracle, check",
    "witness": "observer",
    "lesson": "learned constraint",
    "deed": "action",
    "told": "reported",
    "tell": "report, distinguish",
    "say": "state, report",
    "said": "stated, output",
    "story": "explanation",
    "stories": "explanations",
    "mend": "fix",
    "heed": "honour",
    "settle": "converge, batch window",
    "prescribed": "static capacity and repair",
    "upkeep": "bookkeeping",
    "backlog": "not yet evaluated",
    "situation": "snapshot",
    "judge": "evaluate",
    "wanted": "desired, planned",
    "hands": "state",
    "asleep": "scheduled off",
    "unsound": "unhealthy",
    "gentle": "graceful",
}
ENDINGS = ("", "s", "d", "ed", "ing", "es")
PHRASES = {
    r"\bat rest\b": "quiescent",
    r"\bleads? nowhere\b": "is broken, is unsatisfiable",
    r"\bnobody knows what\b": "is unknown",
    r"\bstand each other\b": "have anti-affinity",
    r"[\"'`]shifts[\"'`]": "schedules",
    r"\b(?:[A-Z]+_)?(?:MOST|LEAST)(?:_[A-Z_]+)?\b": "MAX_, MIN_",
}
# Words that mean something else there.
ALLOWED = {
    ("terraform/table.tf", "at rest"),  # encryption
    ("shared/core/doctor/src/checks/table.rs", "says"),  # an Event is a claim of its writer
    ("shared/core/doctor/tests/doctor/checks.rs", "says"),
}
# The license is not ours; this file has the list.
WHOLE_FILES = {"LICENSE", "tests/documentation/test_words.py"}
# Files with checksums and compressed records, whose letters are no words.
GENERATED = re.compile(r"(\.lock|\.sum|/stored-items/[\w-]+\.json)$")
# The parts of identifiers in snake_case and CamelCase, and the words of texts.
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def found_in(text: str) -> Iterator[tuple[int, str, str]]:
    """The words of a text that are not used, each with its line and what to write instead."""
    forms = {word + ending: instead for word, instead in INSTEAD.items() for ending in ENDINGS}
    for number, line in enumerate(text.splitlines(), 1):
        for part in PART.findall(line):
            if part.lower() in forms:
                yield number, part, forms[part.lower()]
        for phrase, instead in PHRASES.items():
            for match in re.finditer(phrase, line):
                yield number, match[0], instead


def files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=pages.ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and name not in WHOLE_FILES and not GENERATED.search(name)]


def test_no_file_has_a_word_that_is_not_used() -> None:
    wrong, met = [], set()
    for name in files():
        try:
            text = (pages.ROOT / name).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        for number, word, instead in found_in(text):
            if (name, word) in ALLOWED:
                met.add((name, word))
            else:
                wrong.append(f"{name}:{number}: {word}: write {instead}")
    assert not wrong, "\n".join(wrong)
    assert met == ALLOWED, f"these are not in their files any more: {sorted(ALLOWED - met)}"


def test_words_are_found_within_identifiers_and_texts() -> None:
    found = {(line, word) for line, word, _ in found_in("let room_left = NoRoom; // it tells\nconst AT_MOST: u32 = 1; // a world at rest\n`shifts`")}
    assert found == {(1, "room"), (1, "Room"), (1, "tells"), (2, "AT_MOST"), (2, "at rest"), (3, "`shifts`")}
    assert not list(found_in("mushroom, storage, handshake, almost, at most, housekeeping, zonal shifts, essay, settlement, steadily"))
