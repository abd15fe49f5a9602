"""Measures one run from its files alone: it does not know which autoscaler ran.

Files of a run: `run.json` (the workload, start and end, what was known of prices and types), `objects.jsonl` (record.py), `audit.jsonl` (the
API server) and `usage.jsonl` (record.py). Every figure can be checked in them.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import catalog
from bound import lower_bound
from tools.control_plane.audit import Audit, Audited

Json = dict[str, Any]

# Users of the API server that are not the autoscaler: the control plane, kwok, and the comparison itself.
OTHERS = ("system:", "tests", "kwok")
POOL_LABEL = "karpenter.sh/nodepool"
# Seconds between the points of the charts and of the bound.
STEP = 5


@dataclass
class Life:
    """A node of the autoscaler, from the launch of its instance to its end."""

    claim: str
    offering: str
    launched: float
    ended: float
    # When its Node was created.
    joined: float | None = None


@dataclass
class Pod:
    """A pod of the workload."""

    name: str
    owner: str
    requests: dict[str, float]
    created: float
    bound: float | None = None
    ended: float | None = None


@dataclass
class Run:
    """What happened, from the files of a run."""

    start: float
    end: float
    prices: dict[str, float]
    types: dict[str, dict[str, float]]
    nodes: list[Life] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    calls: list[Audited] = field(default_factory=list)
    # The requests of a pod of each DaemonSet.
    daemons: dict[str, dict[str, float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read(directory: Path) -> Run:
    """The run in a directory."""
    about = json.loads((directory / "run.json").read_text())
    run = Run(about["start"], about["end"], about["prices"], about["types"], problems=list(about["problems"]))
    events = lines(directory / "objects.jsonl")
    pods: dict[str, Pod] = {}
    claims: dict[str, Life] = {}
    checked: set[str] = set()
    for event in events:
        at, item = event["t"], event["object"]
        deleted = event["type"] == "DELETED"
        if event["kind"] == "Pod":
            note_pod(run, pods, at, item, deleted)
        elif event["kind"] == "NodeClaim":
            note_claim(run, claims, at, item, deleted)
        elif POOL_LABEL in item["metadata"].get("labels", {}):
            kind = item["metadata"]["labels"].get("node.kubernetes.io/instance-type")
            if kind and kind not in checked and "cpu" in item["status"].get("allocatable", {}):
                checked.add(kind)
                run.problems += catalog.differences(item, run.types)
            note_node(claims, at, item, deleted)
    run.nodes, run.pods = list(claims.values()), list(pods.values())
    run.calls = [call for call in Audit(directory / "audit.jsonl").calls() if run.start <= moment(call.at) <= run.end and not call.user.startswith(OTHERS)]
    return run


def lines(file: Path) -> Iterator[Json]:
    """The objects of a file of JSON lines."""
    with file.open() as content:
        for line in content:
            yield json.loads(line)


def moment(text: str) -> float:
    """A time of the API server as seconds since 1970."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def note_pod(run: Run, pods: dict[str, Pod], at: float, item: Json, deleted: bool) -> None:
    metadata = item["metadata"]
    owners = [owner for owner in metadata.get("ownerReferences", ()) if owner.get("controller")]
    if metadata["namespace"] != "work" or not owners:
        return
    if owners[0]["kind"] == "DaemonSet":
        run.daemons[owners[0]["name"]] = requests(item)
        return
    pod = pods.setdefault(metadata["uid"], Pod(metadata["name"], f"{owners[0]['kind']}/{owners[0]['name']}", requests(item), at))
    if pod.bound is None and item["spec"].get("nodeName"):
        pod.bound = at
    if pod.ended is None and (deleted or "deletionTimestamp" in metadata or item["status"].get("phase") in ("Succeeded", "Failed")):
        pod.ended = at


def requests(item: Json) -> dict[str, float]:
    total = {"cpu": 0.0, "memory": 0.0, "pods": 1.0}
    for container in item["spec"]["containers"]:
        for name, value in container.get("resources", {}).get("requests", {}).items():
            total[name] = total.get(name, 0.0) + float(catalog.quantity(value))
    return total


def note_claim(run: Run, claims: dict[str, Life], at: float, item: Json, deleted: bool) -> None:
    """An instance runs from the condition Launched until its Node or its NodeClaim is deleted, whichever is first."""
    name, labels = item["metadata"]["name"], item["metadata"].get("labels", {})
    launched = any(c["type"] == "Launched" and c["status"] == "True" for c in item.get("status", {}).get("conditions", ()))
    parts = [labels.get(key) for key in ("node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "karpenter.sh/capacity-type")]
    if launched and all(parts) and name not in claims:
        claims[name] = Life(name, " ".join(map(str, parts)), at, run.end)
    if deleted and name in claims:
        claims[name].ended = min(claims[name].ended, at)


def note_node(claims: dict[str, Life], at: float, node: Json, deleted: bool) -> None:
    """The Node of a NodeClaim, which owns it a moment after it was created."""
    created = moment(node["metadata"]["creationTimestamp"])
    for owner in node["metadata"].get("ownerReferences", ()):
        if owner["kind"] == "NodeClaim" and owner["name"] in claims:
            life = claims[owner["name"]]
            life.joined = life.joined or created
            if deleted:
                life.ended = min(life.ended, at)


# Figures


def figures(run: Run, usage: Path) -> Json:
    """All figures of a run."""
    points = [run.start + STEP * index for index in range(int((run.end - run.start) / STEP) + 1)]
    price = [sum(run.prices[node.offering] for node in run.nodes if node.launched <= at < node.ended) for at in points]
    least = bounds(run, points)
    waits = sorted(pod.bound - pod.created for pod in run.pods if pod.bound is not None)
    never = [pod.name for pod in run.pods if pod.bound is None and pod.ended is None]
    removed, again = evictions(run)
    changes = [node.launched for node in run.nodes] + [node.ended for node in run.nodes if node.ended < run.end] + [at for _, at in removed]
    last = max(changes, default=run.start)
    used = list(lines(usage))
    return {
        "dollars": round(sum(run.prices[node.offering] * (node.ended - node.launched) for node in run.nodes) / 3600, 5),
        "bound": round(sum(least) * STEP / 3600, 5),
        "dollars_per_hour_at_end": round(price[-1], 4),
        "bound_per_hour_at_end": round(least[-1], 4),
        "most_nodes": max((sum(node.launched <= at < node.ended for node in run.nodes) for at in points), default=0),
        "nodes_at_end": sum(node.ended >= run.end for node in run.nodes),
        "launches": len(run.nodes),
        "boot_seconds": part(sorted(node.joined - node.launched for node in run.nodes if node.joined), 0.5),
        "pods": len(run.pods),
        "pending_seconds": {"p50": part(waits, 0.5), "p95": part(waits, 0.95), "p99": part(waits, 0.99), "most": part(waits, 1)},
        "never_bound": len(never),
        "evictions": len(removed),
        "evicted_again": again,
        "last_change": round(last - run.start, 1),
        "at_rest": run.end - last >= 60,
        "requests": dict(sorted(Counter(verb(call) for call in run.calls).items())),
        "processor_seconds": used[-1]["processor_seconds"] if used else None,
        "memory_mib": round(max((line["memory"] for line in used), default=0) / 2**20),
        "problems": run.problems,
        "series": {"seconds": [round(at - run.start) for at in points], "dollars_per_hour": [round(p, 4) for p in price], "bound": [round(p, 4) for p in least]},
    }


def verb(call: Audited) -> str:
    return call.right.verb if call.right else "other"


def part(ordered: list[float], share: float) -> float | None:
    """The value that this share of the values does not exceed (nearest rank)."""
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(len(ordered) * share) - 1)], 2)


def evictions(run: Run) -> tuple[list[tuple[str, float]], int]:
    """The pods that the autoscaler evicted or deleted, and how many of them had themselves replaced a pod of the same ReplicaSet or
    StatefulSet that was evicted before. A pod of a StatefulSet has the name of the one that it replaces."""
    named: dict[str, list[Pod]] = defaultdict(list)
    for pod in run.pods:
        named[pod.name].append(pod)
    removed: dict[int, tuple[Pod, float]] = {}
    for call in run.calls:
        evicts = call.right is not None and str(call.right) in ("create pods/eviction", "delete pods")
        if evicts and call.code in (200, 201) and call.name in named:
            at = moment(call.at)
            pod = max((pod for pod in named[call.name] if pod.created <= at), key=lambda pod: pod.created, default=named[call.name][0])
            removed.setdefault(id(pod), (pod, at))
    ordered = sorted(removed.values(), key=lambda entry: entry[1])
    first: dict[str, float] = {}
    again = 0
    for pod, at in ordered:
        again += pod.owner in first and pod.created >= first[pod.owner]
        first.setdefault(pod.owner, at)
    return [(pod.name, at) for pod, at in ordered], again


def bounds(run: Run, points: Iterable[float]) -> list[float]:
    """The lower bound of the price of nodes for what was requested at each of these times."""
    known: dict[tuple[float, ...], float] = {}
    cheapest = cheapest_offerings(run)
    cpu, memory, pods = (sum(daemon[name] for daemon in run.daemons.values()) for name in ("cpu", "memory", "pods"))
    found = []
    for at in points:
        total: dict[str, float] = defaultdict(float)
        for pod in run.pods:
            if pod.created <= at < (pod.ended or run.end + 1):
                for name, value in pod.requests.items():
                    total[name] += value
        key = (total["cpu"], total["memory"], total["pods"])
        if key not in known:
            known[key] = lower_bound(key, cheapest, (cpu, memory, pods))
        found.append(known[key])
    return found


def cheapest_offerings(run: Run) -> list[tuple[tuple[float, float, float], float]]:
    """Of each type what is allocatable, and its lowest price in any zone and allowed capacity type."""
    price: dict[str, float] = {}
    for offering, dollars in run.prices.items():
        kind = offering.split(" ")[0]
        price[kind] = min(dollars, price.get(kind, dollars))
    return [((kind["cpu"], kind["memory"], kind["pods"]), price[name]) for name, kind in run.types.items() if name in price]
