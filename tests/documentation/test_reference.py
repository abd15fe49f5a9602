"""The pages of docs/reference agree with the code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pages
import pytest
import reference
from tools import artifacts


def test_every_generated_page_is_as_the_code_is() -> None:
    generated = reference.generated()
    assert len(generated) == 5
    stale = [path.name for path, content in generated.items() if not path.is_file() or path.read_text() != content]
    assert not stale, f"{stale} are out of date: run make docs-update"


def test_a_comment_becomes_a_cell() -> None:
    assert reference.prose("    /// See [`step()`](x) of A | B;\n    /// it is: see `a::b`.\n") == "See `step()` of A \\| B; it is: see `a::b`."
    assert reference.first_sentence("One. Two.") == "One."
    assert reference.camel("launch_group_id") == "launchGroupId"


def test_each_metric_of_ours_is_in_the_table_beside_karpenters() -> None:
    text = (pages.DOCS / "reference/karpenter-metrics.md").read_text()
    ours = {row[0].strip("`") for row in reference.metric_rows()}
    missing = {name for name in ours if f"`{name}`" not in text}
    assert not missing
    assert f"[{len(ours)} metrics]" in text
    lines = {name for pair in re.findall(r"log lines? `([\w-]+)`(?: and `([a-z-]+)`)?", text) for name in pair if name}
    known = {row[0].strip("`") for row in reference.log_rows()}
    assert lines and lines <= known, lines - known


@pytest.fixture(scope="session")
def nodeless() -> Path:
    return artifacts.command()


def ended(binary: Path, *arguments: str, stdin: str = "") -> int:
    return subprocess.run([binary, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=60).returncode


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}]}\n"


def test_exit_codes_are_those_of_the_page(nodeless: Path) -> None:
    unschedulable = ended(nodeless, "plan", "--cluster", "-", stdin=POD)
    assert (unschedulable, ended(nodeless, "plan", "--no-such-flag"), ended(nodeless, "plan", "--cluster", "/no/such/file")) == (2, 1, 1)
    assert (ended(nodeless, "crds"), ended(nodeless, "crds", "--no-such-flag"), ended(nodeless, "decisions", "/no/such/file")) == (0, 2, 1)
    done = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
    assert ended(nodeless, "plan", "--cluster", "-", stdin=done) == 0
