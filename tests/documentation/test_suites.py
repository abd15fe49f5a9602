"""The summary of `make test`: every suite runs, and the end lists what failed and what was skipped, and why."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pages
import pytest

TESTS = """
import pytest
from tools.results import Unavailable, needs

@pytest.fixture(scope="module")
def program():
    needs("nodeless-no-such-program")

def test_first(program): pass
def test_second(program): pass
def test_body(): raise Unavailable("half", "half of it is missing\\nand more")
def test_passes(): pass
def test_fails(): raise AssertionError
"""
MAKEFILE = """
wrong:
\t@echo 'test driver::seeds ... FAILED'
\t@exit 101
skips:
\t@{python} {results} half skips 'half of it is missing'
passes:
\t@echo passes
"""


def environment(results: Path | None = None, required: str = "") -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NODELESS_", "PYTEST_", "MAKE"))}
    recorded = {} if results is None else {"NODELESS_RESULTS": str(results)}
    return kept | recorded | {"NODELESS_REQUIRE_TOOLS": required, "PYTHONPATH": str(pages.ROOT / "tests")}


def recorded(folder: Path, required: str, *arguments: str) -> list[dict[str, str]]:
    """The results that pytest records of TESTS."""
    (folder / "test_them.py").write_text(TESTS)
    results = folder / "results"
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "--rootdir", folder, folder, *arguments]
    subprocess.run(command, cwd=folder, env=environment(results, required), capture_output=True, check=False)
    return sorted((json.loads(line) for line in results.read_text().splitlines()), key=lambda line: line["test"])


@pytest.mark.parametrize("arguments", [[], ["--numprocesses", "2"]], ids=["alone", "several-at-once"])
def test_pytest_records_what_is_skipped_and_fails(tmp_path: Path, arguments: list[str]) -> None:
    missing = "there is no `nodeless-no-such-program` in PATH"
    assert recorded(tmp_path, "", *arguments) == [
        {"result": "skipped", "test": "test_them.py::test_body", "reason": "half of it is missing\nand more"},
        {"result": "failed", "test": "test_them.py::test_fails", "reason": ""},
        {"result": "skipped", "test": "test_them.py::test_first", "reason": missing},
        {"result": "skipped", "test": "test_them.py::test_second", "reason": missing},
    ]


def test_pytest_fails_without_a_program_that_is_required(tmp_path: Path) -> None:
    results = {line["test"]: line["result"] for line in recorded(tmp_path, "go nodeless-no-such-program")}
    assert results == {
        "test_them.py::test_body": "skipped",
        "test_them.py::test_fails": "failed",
        "test_them.py::test_first": "failed",
        "test_them.py::test_second": "failed",
    }


def suites(folder: Path, *arguments: str, required: str = "") -> tuple[int, str, str]:
    """The exit code, output and summary of suites of MAKEFILE."""
    (folder / "Makefile").write_text(MAKEFILE.format(python=sys.executable, results=pages.ROOT / "tests/tools/results.py"))
    command = [sys.executable, pages.ROOT / "scripts/suites.py", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(required=required), capture_output=True, text=True, check=False)
    output, _, summary = done.stdout.partition("--- Summary\n")
    return done.returncode, output, summary


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_suite_that_fails_keeps_no_other_from_running(tmp_path: Path, jobs: str) -> None:
    code, output, summary = suites(tmp_path, "--jobs", jobs, "wrong", "no-such-target", "skips", "passes")
    assert code == 1 and "passes\n" in output
    assert summary == (
        "SKIPPED 1 of skips, because half of it is missing\n    skips\n"
        "FAILED wrong\n    driver::seeds\n"
        "FAILED no-such-target, and no test of it: see its output above\n"
        "Passed: skips, passes\n"
    )


def test_that_nothing_is_skipped_is_reported_too(tmp_path: Path) -> None:
    assert suites(tmp_path, "passes")[2] == "SKIPPED nothing\nPassed: passes\n"


NAMES = re.compile(r"The names are (.*?)\.", re.DOTALL)


def test_the_workflows_require_what_they_install() -> None:
    """A name that no test knows would require nothing, and without the provider of Terraform most tests of the module are skipped."""
    (names,) = NAMES.findall((pages.ROOT / "CONTRIBUTING.md").read_text())
    known = set(re.findall(r"`([\w-]+)`", names))
    for workflow in ("ci", "nightly"):
        text = (pages.ROOT / f".github/workflows/{workflow}.yml").read_text()
        (required,) = re.findall(r"NODELESS_REQUIRE_TOOLS: (.*)", text)
        tools = set(re.findall(r"[a-z][\w-]+", re.sub(r"runner\.arch == 'X64'", "", required)))
        assert tools <= known, f"{workflow}.yml requires {sorted(tools - known)}, and CONTRIBUTING.md has no such name"
        assert "terraform-provider" in tools and "make terraform-provider" in text, workflow


def test_a_skipped_check_succeeds_unless_it_is_required(tmp_path: Path) -> None:
    assert suites(tmp_path, "skips")[0] == 0
    code, _, summary = suites(tmp_path, "skips", required="half")
    assert code == 1 and "FAILED skips" in summary
