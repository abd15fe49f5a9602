"""The workflows of GitHub pin what they use, and a job that can write runs no code of the repository or of its dependencies."""

from __future__ import annotations

import re
from typing import Any

import pages
import pytest
import yaml

WORKFLOWS = sorted((pages.ROOT / ".github/workflows").glob("*.yml"))
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def jobs(path: str) -> dict[str, Any]:
    workflow = yaml.safe_load((pages.ROOT / ".github/workflows" / path).read_text())
    return {name: {**job, "permissions": job.get("permissions", workflow["permissions"])} for name, job in workflow["jobs"].items()}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Any) -> None:
    used = re.findall(r"^ +(?:- )?uses: (.+)$", path.read_text(), re.M)
    assert used
    for use in used:
        assert re.fullmatch(r"\./\.github/workflows/\w+\.yml|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use), use


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_only_the_job_that_publishes_can_write(path: Any) -> None:
    for name, job in jobs(path.name).items():
        if (path.name, name) != ("release.yml", "publish"):
            assert job["permissions"] == {"contents": "read"}, name


def test_the_job_that_publishes_runs_nothing_of_the_repository() -> None:
    publish = jobs("release.yml")["publish"]
    assert publish["permissions"] == {"contents": "write", "id-token": "write", "attestations": "write"}
    used = {step["uses"].partition("@")[0] for step in publish["steps"] if "uses" in step}
    assert used == {"actions/download-artifact", "actions/attest-build-provenance", "actions/attest-sbom"}
    for step in publish["steps"]:
        assert not re.search(r"\b(make|cargo|pip|python3?)\b", step.get("run", "")), step


def test_a_release_waits_for_ci() -> None:
    release = jobs("release.yml")
    assert release["ci"]["uses"] == "./.github/workflows/ci.yml" and release["build"]["needs"] == "ci" and (release["packages"]["needs"], release["publish"]["needs"]) == ("build", "packages")
    assert "workflow_call" in yaml.safe_load((pages.ROOT / ".github/workflows/ci.yml").read_text())[True]


def test_advisories_are_checked_without_a_commit() -> None:
    text = (pages.ROOT / ".github/workflows/advisories.yml").read_text()
    assert "schedule" in yaml.safe_load(text)[True] and "command: check advisories" in text


def test_a_release_installs_only_what_has_a_hash() -> None:
    lines = [line for line in (pages.ROOT / "scripts/release-requirements.txt").read_text().splitlines() if not line.startswith("#")]
    named = dict(re.fullmatch(r'([\w-]+)==([\d.]+) ; sys_platform == "linux" \\', line).groups() for line in lines if not line.startswith(" "))  # type: ignore[union-attr]
    assert set(named) == {"cargo-lambda", "cargo-zigbuild", "ziglang"} and all(HASH.fullmatch(line) for line in lines if line.startswith(" "))
    tests = dict(re.findall(r"^([\w-]+)==([\d.]+)", (pages.ROOT / "tests/requirements.txt").read_text(), re.M))
    assert named == {name: tests[name] for name in named}, "the versions of the release are those that the tests use"
    assert "--require-hashes" in (pages.ROOT / "Makefile").read_text()
