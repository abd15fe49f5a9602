"""The comparison's own parts, without a control plane: workloads, the types of both sides, and what is measured in the files of a run."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import catalog  # noqa: E402
import measure  # noqa: E402
import document  # noqa: E402
import page  # noqa: E402
import run  # noqa: E402
from bound import lower_bound  # noqa: E402
from sides import Side  # noqa: E402
from tools.control_plane.audit import Audited, Right  # noqa: E402
from tools.control_plane.client import Answer  # noqa: E402
from upstream import SUITES  # noqa: E402
from workload import KINDS, MIXES, UnknownWorkload, workload  # noqa: E402

START = 1_800_000_000.0
GIB = float(2**30)
TYPES = {"small": {"cpu": 2.0, "memory": 4 * GIB, "pods": 10.0}, "large": {"cpu": 8.0, "memory": 16 * GIB, "pods": 40.0}}
PRICES = {"small a on-demand": 0.10, "small b on-demand": 0.12, "large a on-demand": 0.30}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mix", MIXES)
def test_a_workload_is_the_same_for_a_seed_and_its_pods_come_back(kind: str, mix: str) -> None:
    name = f"{kind}-{mix}-48"
    made = workload(name, 3)
    assert json.dumps(made) == json.dumps(workload(name, 3))
    assert json.dumps(made) != json.dumps(workload(name, 4))
    times = [event["at"] for event in made["events"]]
    assert times == sorted(times) and made["seconds"] > times[-1]
    created = [event["object"] for event in made["events"] if event["do"] == "create"]
    kinds = {item["kind"] for item in created} - {"PodDisruptionBudget"}
    assert kinds and kinds <= {"Deployment", "StatefulSet"}, "no pod without a controller, which would not come back after an eviction"
    if kind == "cold":
        assert sum(item["spec"]["replicas"] for item in created) == 48


def replicas(made: dict[str, Any]) -> list[int]:
    """The pods that are asked for, after each time at which something changes."""
    present: dict[str, int] = {}
    after: dict[float, int] = {}
    for event in made["events"]:
        present[event["object"]["metadata"]["name"]] = event["object"]["spec"]["replicas"]
        after[event["at"]] = sum(present.values())
    return list(after.values())


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("suite-basic-1000", [1000, 700]),
        ("suite-spreading-1000", [1000, 700]),
        ("suite-interference-500", [500, 750, 600]),
        ("suite-wide-1000", [1000, 700]),
        ("suite-churn-400", [400, 200, 400, 200]),
    ],
)
def test_the_suites_of_karpenter_have_its_numbers_of_pods(name: str, pods: list[int]) -> None:
    assert replicas(workload(name, 1)) == pods
    assert name.split("-")[1] in SUITES


@pytest.mark.parametrize("name", ["suite-web-10", "cold-basic-10", "cold-web", "cold-web-0", "cold-web-x", "warm-web-10", "cold-wen-10"])
def test_an_unknown_workload_is_refused(name: str) -> None:
    with pytest.raises(UnknownWorkload, match="KIND-MIX-PODS"):
        workload(name, 1)


def test_the_kwok_provider_gets_the_same_allocatable_resources_and_prices() -> None:
    offering = {"zone": "a", "capacityType": "spot", "pricePerHour": 0.05}
    shown = {"cpu": "1930m", "memory": "3000Mi", "pods": "29", "ephemeral-storage": "17Gi"}
    kind = {"name": "m5.large", "labels": {}, "allocatable": shown, "offerings": [offering]}
    (made,) = catalog.kwok_types([kind])
    # newInstanceType of the kwok provider subtracts 100m and 10Mi.
    assert made["resources"] == {"cpu": "2030m", "memory": str(3010 * 2**20), "pods": "29", "ephemeral-storage": str(17 * 2**30)}
    assert made["offerings"][0]["Price"] == 0.05
    assert catalog.prices([kind]) == {"m5.large a spot": 0.05}
    known = catalog.allocatable([kind])
    labels = {"node.kubernetes.io/instance-type": "m5.large"}
    assert catalog.differences({"metadata": {"labels": labels}, "status": {"allocatable": shown}}, known) == []
    assert catalog.differences({"metadata": {"labels": labels}, "status": {"allocatable": shown}}, {}) == ["m5.large is none of the types that were given"]
    other = {"metadata": {"labels": labels}, "status": {"allocatable": shown | {"cpu": "1"}}}
    assert catalog.differences(other, known) == ["m5.large: cpu is 1.0, not 1.93"]


def test_only_types_that_both_sides_may_launch_are_kept() -> None:
    def labels(category: str, generation: str, architecture: str = "amd64") -> dict[str, str]:
        return {"kubernetes.io/arch": architecture, f"{catalog.LABELS}/instance-category": category, f"{catalog.LABELS}/instance-generation": generation}

    assert catalog.allowed(labels("m", "5"))
    assert not catalog.allowed(labels("m", "2")), "the NodePool requires a generation greater than 2"
    assert not catalog.allowed(labels("t", "3"))
    assert not catalog.allowed(labels("m", "7", "arm64"))


def test_the_bound_is_that_of_the_linear_program() -> None:
    types = [((2.0, 4 * GIB, 10.0), 0.10), ((8.0, 16 * GIB, 40.0), 0.30)]
    assert lower_bound((0.0, 0.0, 0.0), types, (0.0, 0.0, 0.0)) == 0.0
    # 16 CPUs are two large nodes, at the price of 0.0375 for a CPU.
    assert lower_bound((16.0, 8 * GIB, 4.0), types, (0.0, 0.0, 0.0)) == pytest.approx(0.60)
    # A CPU of each node is for DaemonSets.
    assert lower_bound((14.0, 8 * GIB, 4.0), types, (1.0, 0.0, 2.0)) == pytest.approx(0.60)


def test_a_run_is_measured_from_its_files(tmp_path: Path) -> None:
    record(tmp_path)
    found = measure.figures(measure.read(tmp_path), tmp_path / "usage.jsonl")
    assert found["launches"] == 2 and found["nodes_at_end"] == 1 and found["most_nodes"] == 2
    # The large node from second 10 to 110 of 200, whose Node is deleted before its NodeClaim; the small one from 60 on.
    assert found["dollars"] == pytest.approx((0.30 * 100 + 0.10 * 140) / 3600, abs=1e-5)
    assert found["pending_seconds"] == {"p50": 20.0, "p95": 30.0, "p99": 30.0, "most": 30.0}
    assert found["evictions"] == 2 and found["evicted_again"] == 1 and found["never_bound"] == 0
    assert found["requests"] == {"create": 3, "list": 1}, "requests of others and from before the start do not count"
    assert found["boot_seconds"] == 10.0
    assert found["last_change"] == 120.0 and found["at_rest"]
    assert found["processor_seconds"] == 2.5 and found["memory_mib"] == 100
    assert found["problems"] == []
    assert found["bound"] > 0 and all(bound <= price or not price for bound, price in zip(found["series"]["bound"][5:], found["series"]["dollars_per_hour"][5:], strict=True))


def test_a_pod_of_a_stateful_set_that_is_evicted_twice_counts_twice() -> None:
    pods = [measure.Pod("db-0", "StatefulSet/db", {}, START + created) for created in (0, 60)]
    calls = [measured(at) for at in (50, 51, 120)]
    found = measure.Run(START, START + 200, PRICES, TYPES, pods=pods, calls=calls)
    # The second call is about the same pod as the first one.
    assert measure.evictions(found) == ([("db-0", START + 50), ("db-0", START + 120)], 1)


def measured(at: float) -> Audited:
    return Audited("someone", (), Right("", "pods/eviction", "create"), "db-0", 201, "", "/", "", written(at))


def test_the_bound_has_the_requests_of_all_daemon_sets() -> None:
    daemon = {"cpu": 0.5, "memory": 0.0, "pods": 1.0}
    pods = [measure.Pod("web", "ReplicaSet/web", {"cpu": 6.0, "memory": GIB, "pods": 1.0}, START)]
    dollars = [
        measure.bounds(measure.Run(START, START + 10, PRICES, TYPES, pods=pods, daemons=daemons), [START])[0]
        for daemons in ({}, {"a": daemon}, {"a": daemon, "b": daemon})
    ]
    # A CPU of the large type at the price of 8, 7.5 and 7 of them.
    assert dollars == pytest.approx([6 * 0.30 / cpus for cpus in (8, 7.5, 7)])


def test_a_run_with_other_types_than_were_given_is_partial(tmp_path: Path) -> None:
    record(tmp_path, cpu="7")
    assert measure.read(tmp_path).problems == ["large: cpu is 7.0, not 8.0"]


def test_the_page_shows_both_sides_and_what_is_partial(tmp_path: Path) -> None:
    for side, problems in (("karpenter", []), ("nodeless", ["the watch of /api/v1/pods ended"])):
        folder = tmp_path / "cold-web-2-1" / side
        folder.mkdir(parents=True)
        record(folder, side=side)
        figures = measure.figures(measure.read(folder), folder / "usage.jsonl")
        (folder / "figures.json").write_text(json.dumps(figures | {"problems": problems}))
    found = page.runs(tmp_path)
    text = page.page(found)
    assert "nodeless, seed 1: the watch of /api/v1/pods ended" in text
    assert "<polyline" in text
    assert "| launches | 2 | 2 | 1.00 | > 0.7 |" in page.markdown(found)


def test_the_documentation_has_the_recorded_figures() -> None:
    recorded = json.loads(document.FIGURES.read_text())
    text = document.DOCUMENT.read_text()
    assert document.document(text, recorded) == text, "run python tests/compare/document.py"
    assert document.details(recorded) == document.DETAILED.read_text(), "run python tests/compare/document.py"


def test_a_run_replaces_an_earlier_one_and_partial_runs_are_left_out(tmp_path: Path) -> None:
    for side, seed, problems in (("karpenter", 1, []), ("nodeless", 1, []), ("nodeless", 2, ["the watch ended"])):
        folder = tmp_path / f"cold-web-2-{seed}" / side
        folder.mkdir(parents=True)
        record(folder, side=side)
        about = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(about | {"seed": seed}))
        figures = measure.figures(measure.read(folder), folder / "usage.jsonl")
        (folder / "figures.json").write_text(json.dumps(figures | {"problems": problems}))
    new = document.entries(tmp_path)
    assert [(run["side"], run["seed"]) for run in new] == [("karpenter", 1), ("nodeless", 1)]
    for side in ("karpenter", "nodeless"):
        about = json.loads((tmp_path / "cold-web-2-1" / side / "run.json").read_text())
        (tmp_path / "cold-web-2-1" / side / "run.json").write_text(json.dumps(about | {"options": {"rest": 180}}))
    assert document.entries(tmp_path) == [], "runs with other options are not recorded"
    earlier = [{**new[1], "figures": {**new[1]["figures"], "launches": 7}}]
    both = document.merged(earlier, new)
    assert "| 2 / 2 (1.00) |" in document.overview(both)
    assert "cold-web-2,1,MiB at most," in document.details(both)


def test_a_machine_that_is_too_small_is_refused() -> None:
    assert run.pods(workload("cold-web-48", 1)) == 48
    run.enough_memory(0)
    with pytest.raises(run.TooSmall, match="choose a smaller workload"):
        run.enough_memory(10**9)


def test_options_that_change_what_is_measured_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def options(*given: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["run.py", *given])
        return run.parsed().changed

    assert options("--seed", "2", "--out", "x", "--capacity-type", "on-demand") == {}
    assert options("--nodeless-variables", "a=b", "c=d=e", "--rest", "9") == {"nodeless_variables": [["a", "b"], ["c", "d=e"]], "rest": 9}
    assert options("--capacity-type", "spot") == {"capacity_type": ["spot"]}
    with pytest.raises(SystemExit):
        options("--nodeless-variables", "a")


def test_a_run_ends_some_time_after_the_last_change() -> None:
    played = workload("day-web-48", 1)
    assert run.ended(played, None) == played
    assert run.ended(played, 60)["seconds"] == played["events"][-1]["at"] + 60


class Answering:
    """A control plane whose API server answers some changes and then closes the connection."""

    def __init__(self, answers: int) -> None:
        self.client, self._left = self, answers

    def call(self, *_: object) -> Answer:
        self._left -= 1
        if self._left < 0:
            raise ConnectionRefusedError("connection refused")
        return Answer(201, {}, {})

    def stream(self, *_: object) -> list[dict[str, Any]]:
        return []


@pytest.mark.parametrize(("answers", "problems"), [(100, []), (1, ["the run ended early: connection refused"])])
def test_a_run_whose_control_plane_ends_is_partial(tmp_path: Path, answers: int, problems: list[str]) -> None:
    played = workload("cold-web-48", 1) | {"seconds": 0}
    about: dict[str, Any] = {"problems": []}
    run.play_recorded(Side("x", "1", Answering(answers), lambda: []), played, about, tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["problems"] == problems


# The files of a run of 200 seconds: a pod of ReplicaSet/web is evicted, its successor is evicted again.


def record(folder: Path, side: str = "nodeless", cpu: str = "8") -> None:
    about = {"side": side, "version": "1", "kubernetes": "v1.36.3", "processors": 2, "workload": "cold-web-2", "seed": 1, "seconds": 200,
             "start": START, "end": START + 200, "prices": PRICES, "types": TYPES, "options": {}, "problems": []}  # fmt: skip
    (folder / "run.json").write_text(json.dumps(about))
    events = [
        *pod("web-1", created=0, bound=20, ended=50),
        *pod("web-2", created=50, bound=80, ended=120),
        *pod("web-3", created=120, bound=130),
        *claim("large-1", "large", launched=10, ended=115),
        node_deleted("large-1", "large", 110, cpu),
        *claim("small-1", "small", launched=60),
    ]
    (folder / "objects.jsonl").write_text("".join(json.dumps(event) + "\n" for event in sorted(events, key=lambda event: event["t"])))
    calls = [
        call(-5, "create", "nodeclaims", ""),
        call(9, "create", "nodeclaims", ""),
        call(30, "list", "pods", ""),
        call(30, "list", "pods", "", user="system:kube-scheduler"),
        call(50, "create", "pods", "web-1", "eviction"),
        call(120, "create", "pods", "web-2", "eviction"),
    ]
    (folder / "audit.jsonl").write_text("".join(json.dumps(one) + "\n" for one in calls))
    samples = [{"t": START + 1, "processor_seconds": 0.5, "memory": 50 * 2**20}, {"t": START + 199, "processor_seconds": 2.5, "memory": 100 * 2**20}]
    (folder / "usage.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))


def seen(at: float, kind: str, action: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"t": START + at, "kind": kind, "type": action, "object": item}


def pod(name: str, created: float, bound: float, ended: float | None = None) -> list[dict[str, Any]]:
    owner = {"kind": "ReplicaSet", "name": "web", "controller": True}
    metadata = {"name": name, "namespace": "work", "uid": name, "ownerReferences": [owner]}
    spec = {"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}
    pending = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    running = {"metadata": metadata, "spec": spec | {"nodeName": "n"}, "status": {"phase": "Running"}}
    events = [seen(created, "Pod", "ADDED", pending), seen(bound, "Pod", "MODIFIED", running)]
    return events if ended is None else [*events, seen(ended, "Pod", "MODIFIED", running | {"metadata": metadata | {"deletionTimestamp": "t"}})]


def claim(name: str, kind: str, launched: float, ended: float | None = None) -> list[dict[str, Any]]:
    labels = {"node.kubernetes.io/instance-type": kind, "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand"}
    item = {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"conditions": [{"type": "Launched", "status": "True"}]}}
    created = {"metadata": {"name": name, "labels": {}}, "spec": {}, "status": {}}
    events = [seen(launched - 1, "NodeClaim", "ADDED", created), seen(launched, "NodeClaim", "MODIFIED", item)]
    return events if ended is None else [*events, seen(ended, "NodeClaim", "DELETED", item)]


def node_deleted(claim: str, kind: str, at: float, cpu: str) -> dict[str, Any]:
    labels = {"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": kind}
    owners = [{"kind": "NodeClaim", "name": claim}]
    metadata = {"name": f"node-{claim}", "labels": labels, "ownerReferences": owners, "creationTimestamp": written(20)}
    allocatable = {"cpu": cpu, "memory": str(16 * 2**30), "pods": "40"}
    return seen(at, "Node", "DELETED", {"metadata": metadata, "spec": {}, "status": {"allocatable": allocatable}})


def call(at: float, verb: str, resource: str, name: str, subresource: str = "", user: str = "someone") -> dict[str, Any]:
    return {
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource, "subresource": subresource, "name": name},
        "responseStatus": {"code": 201 if verb == "create" else 200},
        "requestURI": "/",
        "requestReceivedTimestamp": written(at),
    }


def written(at: float) -> str:
    return datetime.fromtimestamp(START + at, timezone.utc).isoformat().replace("+00:00", "Z")
