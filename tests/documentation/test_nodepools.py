"""The examples of docs/nodepools, docs/spot.md and docs/surge.md: the API server of the local world accepts them, and the plans are those
of the pages."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pages
import plans
import pytest
import yaml
from tools import artifacts
from tools.results import needs


@pytest.fixture(scope="session")
def nodeless() -> Path:
    needs("kubectl")
    return artifacts.command()


def default_manifests() -> str:
    return (pages.ROOT / "infra/nodepools/default.yaml").read_text().replace("CLUSTER", "local")


def items(kubeconfig: Path, kind: str) -> list[dict[str, Any]]:
    return json.loads(plans.kubectl(kubeconfig, "get", kind, "-o", "json"))["items"]


def test_every_page_but_the_overview_has_a_plan() -> None:
    written = {path.name for path in (pages.DOCS / "nodepools").glob("*.md")} - {"README.md"}
    assert {path.name for path in plans.examples()} == written | {"spot.md"} and len(written) == 9


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


def scheduled_off(manifest: str, hours_from_now: int) -> str:
    """The manifest with a schedule of eleven hours that begins so many hours from now, because the tests run at any time of day."""
    begin = datetime.now(timezone.utc) + timedelta(hours=hours_from_now)
    changed, number = re.subn(r"nodeless\.sh/sleep: .*", f"nodeless.sh/sleep: {begin.minute} {begin.hour} * * * for 11h", manifest)
    assert number == 1
    return changed


@pytest.mark.parametrize("path", plans.examples(), ids=lambda path: path.stem)
def test_nodeless_launches_the_nodes_in_the_local_world(path: Path, nodeless: Path, tmp_path: Path) -> None:
    """Each pod gets a node of the page's NodePool, of one of the capacity types of its table."""
    text = path.read_text()
    manifest = plans.manifests(text)
    if path.stem == "night":
        manifest = scheduled_off(manifest, 12)
    node_class = default_manifests().split("---")[0]
    rows = [row for row in re.findall(r"^\| (\d+) \| ([\w-]+) \| \S+ \| ([\w-]+) \|", text, re.M)]
    expected = plans.pods(manifest)
    with plans.world(nodeless, tmp_path, "--speed", "30") as kubeconfig:

        def placed() -> list[str]:
            pods = items(kubeconfig, "pods")
            return [pod["spec"]["nodeName"] for pod in pods if pod.get("status", {}).get("phase") in ("Running", "Succeeded")]

        def nodes() -> dict[str, tuple[str, str]]:
            labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in items(kubeconfig, "nodes")}
            return {name: (of["karpenter.sh/nodepool"], of["karpenter.sh/capacity-type"]) for name, of in labels.items()}

        plans.kubectl(kubeconfig, "apply", "-f", "-", stdin=f"{node_class}---\n{manifest}")
        plans.wait_for(f"{expected} pods on nodes", lambda: len(placed()) >= expected)
        # Without pods, the nodes are what there is to wait for.
        plans.wait_for("nodes", lambda: expected > 0 or len(nodes()) == sum(int(number) for number, _, _ in rows))
        assert set(nodes().values()) <= {(pool, capacity) for _, pool, capacity in rows}
        if path.name == "spot.md":
            assert Counter(capacity for _, capacity in nodes().values())["on-demand"] == 2, "the minimum that its NodePool states"


def test_the_nodes_of_the_night_page_are_removed_and_launched_again(nodeless: Path, tmp_path: Path) -> None:
    manifest = plans.manifests((pages.DOCS / "nodepools/night.md").read_text())
    node_class = default_manifests().split("---")[0]
    with plans.world(nodeless, tmp_path, "--speed", "30") as kubeconfig:

        def running() -> int:
            return sum(pod.get("status", {}).get("phase") == "Running" for pod in items(kubeconfig, "pods"))

        def apply(hours_from_now: int) -> None:
            plans.kubectl(kubeconfig, "apply", "-f", "-", stdin=f"{node_class}---\n{scheduled_off(manifest, hours_from_now)}")

        apply(12)
        plans.wait_for("pods by day", lambda: running() == 2)
        apply(-1)
        plans.wait_for("removal of the nodes", lambda: not items(kubeconfig, "nodes"))
        plans.wait_for("event until when the pods wait", lambda: any("scheduled off until" in event.get("message", "") for event in items(kubeconfig, "events")))
        assert running() == 0
        apply(12)
        plans.wait_for("pods by day again", lambda: running() == 2)


def test_the_deployment_of_the_surge_page_has_a_successor_before_its_node_goes(nodeless: Path, tmp_path: Path) -> None:
    deployment = plans.manifests((pages.DOCS / "surge.md").read_text())
    with plans.world(nodeless, tmp_path, "--speed", "30") as kubeconfig:

        def ready() -> set[str]:
            pods = [pod for pod in items(kubeconfig, "pods") if "deletionTimestamp" not in pod["metadata"]]
            conditions = {pod["metadata"]["name"]: pod.get("status", {}).get("conditions", []) for pod in pods}
            return {name for name, all in conditions.items() if any(each["type"] == "Ready" and each["status"] == "True" for each in all)}

        def moved() -> bool:
            now = ready()
            assert now, "the service has no ready pod"
            return not now & first

        plans.kubectl(kubeconfig, "apply", "-f", "-", stdin=f"{default_manifests()}---\n{deployment}")
        plans.wait_for("ready pod", lambda: len(ready()) == 1)
        first = ready()
        plans.kubectl(kubeconfig, "delete", "nodeclaims", "--all", "--wait=false")
        plans.wait_for("successor", moved)
        reasons = {event["reason"] for event in items(kubeconfig, "events")}
        assert "SurgeStarted" in reasons and not reasons & {"Evicted", "SurgeRefused", "SurgeTimedOut"}


def test_every_node_pool_has_a_limit() -> None:
    for path in plans.examples():
        objects = yaml.safe_load_all(plans.manifests(path.read_text()))
        (pool,) = [each for each in objects if each["kind"] == "NodePool"]
        assert pool["spec"]["limits"], path


def test_the_plan_of_the_readme_is_what_the_command_prints(nodeless: Path) -> None:
    (shown,) = [block.text for block in pages.code((pages.ROOT / "README.md").read_text()) if block.text.startswith("$ cargo nodeless plan")]
    command, _, expected = shown.partition("\n")
    done = subprocess.run([nodeless, *command.split()[3:]], cwd=pages.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(expected), done.stdout
