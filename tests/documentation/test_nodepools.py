"""The NodePools of docs/nodepools: the API server of the local world accepts them, and the plans are those of the pages."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pages
import plans
import pytest
import yaml
from tools import artifacts


@pytest.fixture(scope="session")
def nodeless() -> Path:
    if shutil.which("kubectl") is None:
        assert not os.environ.get("CI"), "there is no `kubectl` on PATH"
        pytest.skip("SKIPPED, not passed: there is no `kubectl` on PATH")
    return artifacts.command()


def test_every_page_but_the_overview_has_a_plan() -> None:
    written = {path.name for path in (pages.DOCS / "nodepools").glob("*.md")} - {"README.md"}
    assert {path.name for path in plans.examples()} == written and len(written) == 8


@pytest.mark.parametrize("path", plans.examples(), ids=lambda path: path.stem)
def test_the_pods_get_the_nodes_of_the_page(path: Path, nodeless: Path) -> None:
    text = path.read_text()
    assert plans.written(text, nodeless) == text, "run make docs-update and read what has changed"


@pytest.mark.parametrize("path", plans.examples(), ids=lambda path: path.stem)
def test_a_page_plans_all_pods_of_its_workload(path: Path) -> None:
    """By the tables of the page alone: every pod is on a node that is launched, or stays pending with a reason."""
    text = path.read_text()
    expected = plans.pods(plans.manifests(text))
    for found in plans.PLAN.finditer(text):
        rows = re.findall(r"^\| (\d+) \|.* (\d+) \|$", found[0], re.M)
        pending = sum(int(number) for number in re.findall(r"^(\d+) pods? stays? pending", found[0], re.M))
        assert sum(int(nodes) * int(each) for nodes, each in rows) + pending == expected
        assert rows or pending
    shown = set(re.findall(r"^nodeless plan (.+)$", "".join(block.text for block in pages.code(text) if block.language == "sh"), re.M))
    assert shown == {found[2] for found in plans.PLAN.finditer(text)}, "the commands of the page are those that are run"


def test_every_node_pool_has_a_limit() -> None:
    for path in plans.examples():
        objects = yaml.safe_load_all(plans.manifests(path.read_text()))
        (pool,) = [each for each in objects if each["kind"] == "NodePool"]
        assert pool["spec"]["limits"], path
