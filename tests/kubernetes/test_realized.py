"""The real kube-scheduler binds pods to the nodes that were launched for them, so what runs costs what was planned.

The pods exist before their NodePool, so that one plan has all of them. Each mix prints the figures of docs/scheduling.md:
`pytest tests/kubernetes/test_realized.py -s`, with `NODELESS_REALIZED_PODS` for another number of pods than 100.
"""

from __future__ import annotations

import json
import os
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from objects import IMAGE
from scenario import TIMEOUT, answered, nothing_is_left, ready_class
from tools import artifacts
from tools.control_plane.deployment import CLUSTER, Deployment
from tools.control_plane.server import path_of
from tools.processes import wait_for

# What the compressed records of claims refer to (shared/state/src/items.rs).
DICTIONARY = Path(__file__).parents[2] / "shared/state/src/claim.dictionary"
PODS = int(os.environ.get("NODELESS_REALIZED_PODS", "100"))


@pytest.fixture(scope="module")
def export() -> Path:
    return artifacts.example("nodeless-workloads", "export")


@pytest.mark.parametrize("mix", ["plain", "stateful", "enterprise"])
def test_what_runs_costs_what_was_planned(deployment: Deployment, export: Path, mix: str) -> None:
    ready_class(deployment)
    with workload(deployment, export, mix) as pods:
        bound = wait_for(f"the pods of {mix} to be bound", answered(lambda: all_bound(deployment, pods)), 2 * TIMEOUT, every=1)
        claims = recorded(deployment)
    first = min(claim["created"] for claim in claims)
    planned = [claim for claim in claims if claim["created"] == first]
    node_of = {pod: claim["status"].get("nodeName") for claim in planned for pod in claim["spec"]["nominatedPods"]}
    right = sum(bound[pod] == node_of.get(pod, "") for pod in pods) / len(pods)
    ratio = price(claims) / price(planned)
    print(
        f"\n{mix}, {len(pods)} pods, Kubernetes {deployment.plane.binaries.minor}: planned {price(planned):.2f} $/h, {len(planned)} nodes;"
        f" became {price(claims):.2f} $/h, {len(claims)} nodes; ratio {ratio:.3f}; where planned {right:.2f}"
    )
    # Without nominations, the kube-scheduler spreads the pods, and at most a third of them are where they were planned.
    assert right > 0.5, f"{right} of the pods run where they were planned"
    assert ratio <= 1.1, f"{len(claims)} nodes cost {ratio} times the {len(planned)} that were planned"


@contextmanager
def workload(deployment: Deployment, export: Path, mix: str) -> Iterator[set[str]]:
    """The pods of a mix, by namespace and name, and then its NodePool. At the end everything is removed."""
    text = subprocess.run([export, mix, str(PODS)], stdout=subprocess.PIPE, text=True, check=True).stdout
    items = [created(item) for item in json.loads(text)["items"] if item["kind"] != "EC2NodeClass"]
    first, pods, pools = parts(items)
    try:
        for item in [*first, *pods]:
            deployment.plane.create(item)
        for pool in pools:
            deployment.plane.apply(pool)
        yield {key(pod) for pod in pods}
    finally:
        everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        deployment.plane.kubectl("delete", "-f", "-", "--ignore-not-found", "--wait=false", stdin=everything)
        nothing_is_left(deployment)
        # A namespace that is terminating refuses the objects of the next mix.
        wait_for("the namespaces to be removed", answered(lambda: not any(exists(deployment, item) for item in first)), TIMEOUT)


def parts(items: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """The objects that pods need, namespaces first, the pods, and the NodePools."""
    kinds = [item["kind"] for item in items]
    first = sorted((i for i, k in zip(items, kinds, strict=True) if k not in ("Pod", "NodePool")), key=lambda item: item["kind"] != "Namespace")
    return first, [i for i in items if i["kind"] == "Pod"], [on_demand(i) for i in items if i["kind"] == "NodePool"]


def created(item: dict[str, Any]) -> dict[str, Any]:
    """An exported object in the form in which a user creates it."""
    item["metadata"] = {k: v for k, v in item["metadata"].items() if k not in ("uid", "creationTimestamp", "ownerReferences")}
    item.pop("status", None)
    for spec in (item["spec"], item["spec"].get("template", {}).get("spec", {})) if "spec" in item else ():
        for container in spec.get("containers", ()):
            container["image"] = IMAGE
    return item


def on_demand(pool: dict[str, Any]) -> dict[str, Any]:
    """The NodePool without spot, limits and consolidation."""
    spec = pool["spec"]
    spec.pop("limits", None)
    spec["disruption"] = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    requirements = [r for r in spec["template"]["spec"]["requirements"] if r["key"] != "karpenter.sh/capacity-type"]
    requirements.append({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]})
    spec["template"]["spec"]["requirements"] = requirements
    return pool


def all_bound(deployment: Deployment, pods: set[str]) -> dict[str, str]:
    """The node of each of these pods, once all have one."""
    nodes = {key(pod): node for pod in deployment.plane.items("pods") if (node := pod["spec"].get("nodeName")) and key(pod) in pods}
    return nodes if len(nodes) == len(pods) else {}


def recorded(deployment: Deployment) -> list[dict[str, Any]]:
    """The records of all NodeClaims that were launched."""
    client = deployment.ministack.client("dynamodb")
    (table,) = client.list_tables()["TableNames"]
    pages = client.get_paginator("scan").paginate(TableName=table)
    items = [item for page in pages for item in page["Items"] if item["sk"]["S"].startswith("nodeclaim#") and item["pk"]["S"].startswith(f"{CLUSTER}#")]
    records = [json.loads(zlib.decompressobj(-zlib.MAX_WBITS, zdict=DICTIONARY.read_bytes()).decompress(item["record"]["B"])) for item in items]
    return [record for record in records if record["status"].get("instance")]


def price(claims: list[dict[str, Any]]) -> float:
    return sum(claim["status"]["instance"]["price"] for claim in claims)


def key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def exists(deployment: Deployment, item: dict[str, Any]) -> bool:
    return deployment.plane.client.call("GET", f"{path_of(item)}/{item['metadata']['name']}").status == 200
