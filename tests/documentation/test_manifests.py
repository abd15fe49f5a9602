"""Every object of a Karpenter kind on a page is valid: the API server of the local world accepts it, with its rules and without unknown
fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pages
import plans
import pytest
import yaml
from tools import artifacts
from tools.results import needs

GROUPS = ("karpenter.sh/", "karpenter.k8s.aws/", "autoscaling.x-k8s.io/")
# Versions of earlier APIs, which `nodeless convert` reads.
EARLIER = ("karpenter.sh/v1alpha5", "karpenter.k8s.aws/v1alpha1", "karpenter.sh/v1beta1", "karpenter.k8s.aws/v1beta1")


def objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a page whose kind is one of Karpenter's."""
    blocks = [block.text for block in pages.code(path.read_text()) if block.language == "yaml"]
    found = [each for text in blocks for each in yaml.safe_load_all(text) if isinstance(each, dict)]
    versions = [(each, each.get("apiVersion", "")) for each in found]
    return [each for each, version in versions if version.startswith(GROUPS) and version not in EARLIER]


def documented() -> list[Path]:
    return [path for path in pages.pages() if objects(path)]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Any:
    needs("kubectl")
    with plans.world(artifacts.command(), tmp_path_factory.mktemp("world"), "--no-controllers") as kubeconfig:
        yield kubeconfig


def accepted(kubeconfig: Path, each: dict[str, Any]) -> str:
    return plans.kubectl(kubeconfig, "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(each))


def test_pages_have_objects() -> None:
    assert len(documented()) > 10


@pytest.mark.parametrize("path", documented(), ids=lambda path: path.stem)
def test_the_objects_of_a_page_are_valid(path: Path, kubeconfig: Path) -> None:
    for each in objects(path):
        accepted(kubeconfig, each)


def test_an_unknown_field_and_a_value_that_a_rule_forbids_are_found(kubeconfig: Path) -> None:
    path = pages.DOCS / "nodepools/static.md"
    (pool,) = objects(path)
    pool["spec"]["repilcas"] = 3
    with pytest.raises(RuntimeError, match="repilcas"):
        accepted(kubeconfig, pool)
    (pool,) = objects(path)
    pool["spec"]["weight"] = 5
    with pytest.raises(RuntimeError, match="weight"):
        accepted(kubeconfig, pool)
