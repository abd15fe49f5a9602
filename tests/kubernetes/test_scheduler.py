"""The simulated kube-scheduler gives the node that the real one chooses the highest score, or one as high.

Pods of random clusters are created one at a time. The real scheduler binds each; then the simulated one scores the nodes for the same pods
one after another, with each earlier pod on the node that the real one chose.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import SEEDS, Cluster, random_cluster
from tools import artifacts
from tools.control_plane.server import ControlPlane, path_of
from tools.processes import wait_for

# The simulated scheduler has the scores of this version; NodeResourcesBalancedAllocation of 1.33 has another formula.
VERSION = "1.36"


@pytest.fixture(scope="session")
def node_scores() -> Path:
    return artifacts.example("nodeless-fake-kubernetes", "node_scores")


@pytest.fixture
def empty(plane: ControlPlane) -> Iterator[ControlPlane]:
    yield plane
    for namespace in namespaces(plane):
        # No kubelet ends them.
        plane.kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=0", "--force")
    plane.kubectl("delete", "namespaces", "-l", "test=scheduler")
    plane.kubectl("delete", "nodes", "--all")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_choices_of_the_real_scheduler_have_the_highest_score(empty: ControlPlane, node_scores: Path, seed: int) -> None:
    if empty.binaries.minor != VERSION:
        pytest.skip(f"the simulated scheduler scores as {VERSION}")
    cluster = random_cluster(seed)
    steps = play(empty, cluster)
    recording = {"objects": cluster.objects, "steps": steps}
    done = subprocess.run([node_scores], input=json.dumps(recording), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert len(scores) == len(steps)
    wrong = [line for step, of in zip(steps, scores, strict=True) if (line := disagreement(step, of))]
    assert not wrong, f"{len(wrong)} of {len(steps)} pods of seed {seed}:\n" + "\n".join(wrong)
    # A comparison in which all feasible nodes are equal proves nothing.
    choices = [of for of in scores if len(of) > 1]
    assert len([of for of in choices if len(best(of)) < len(of)]) > len(choices) / 2


def test_a_node_with_a_lower_score_and_a_node_that_is_not_feasible_are_found() -> None:
    step = {"pod": {"metadata": {"name": "p"}}, "node": "a"}
    assert disagreement(step, {"a": 5, "b": 5, "c": 4}) == ""
    assert "b" in disagreement(step, {"a": 4, "b": 5})
    assert "not feasible" in disagreement(step, {"b": 5})
    assert disagreement(step | {"node": None}, {}) == ""
    assert "feasible" in disagreement(step | {"node": None}, {"b": 5})


def best(scores: dict[str, int]) -> list[str]:
    return [node for node, score in scores.items() if score == max(scores.values())]


def disagreement(step: dict[str, Any], scores: dict[str, int]) -> str:
    """How the simulated scheduler's scores differ from the real one's choice; empty if they agree."""
    chosen, name = step["node"], step["pod"]["metadata"]["name"]
    if chosen is None:
        return f"{name}: the real scheduler finds no feasible node, the simulated one {sorted(scores)}" if scores else ""
    if chosen not in scores:
        return f"{name}: {chosen} is not feasible in the simulation, where {sorted(scores)} are"
    if chosen not in best(scores):
        return f"{name}: {chosen} with the score {scores[chosen]}, and the best are {best(scores)} with {max(scores.values())}"
    return ""


def namespaces(plane: ControlPlane) -> list[str]:
    return [item["metadata"]["name"] for item in plane.items("namespaces", "test=scheduler")]


def play(plane: ControlPlane, cluster: Cluster) -> list[dict[str, Any]]:
    """Creates the objects and then the pods, each after the scheduler has decided about the one before."""
    for item in cluster.objects:
        plane.create(item)
    for namespace in namespaces(plane):
        # Pods are refused until it exists.
        wait_for(f"the service account of {namespace}", lambda namespace=namespace: exists(plane, f"/api/v1/namespaces/{namespace}/serviceaccounts/default"), 60)
    return [decided(plane, pod) for pod in cluster.pods]


def exists(plane: ControlPlane, path: str) -> bool:
    return plane.client.call("GET", path).status == 200


def decided(plane: ControlPlane, pod: dict[str, Any]) -> dict[str, Any]:
    """A pod and the node to which the scheduler binds it. A pod without a feasible node is deleted again."""
    path = f"{path_of(pod)}/{plane.create(pod)['metadata']['name']}"

    def decision() -> dict[str, Any] | None:
        found = plane.client.call("GET", path).body
        refused = any(c["type"] == "PodScheduled" and c["status"] == "False" for c in found.get("status", {}).get("conditions", []))
        return found if found["spec"].get("nodeName") or refused else None

    found = wait_for(f"a decision about {path}", decision, 60, 0.05)
    node = found["spec"].get("nodeName")
    if node is None:
        plane.client.call("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
    return {"pod": pod, "node": node}
