"""What workloads are made of: objects of controllers, and the times at which they are created, changed and deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
IMAGE = "public.ecr.aws/eks-distro/kubernetes/pause:3.7"
NAMESPACE = "work"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
# Seconds without events at the end of a run, in which the cluster comes to rest: consolidation goes on for minutes after the last pod is
# bound, and both validate their commands, Karpenter for 15 seconds each.
QUIET = 600


@dataclass
class Workload:
    name: str
    seed: int
    events: list[Json] = field(default_factory=list)
    quiet: float = QUIET

    def add(self, at: float, do: str, item: Json) -> None:
        self.events.append({"at": round(at, 3), "do": do, "object": item})

    def scale(self, at: float, item: Json, replicas: int) -> None:
        self.add(at, "patch", reference(item) | {"spec": {"replicas": replicas}})

    def written(self) -> Json:
        events = sorted(self.events, key=lambda event: event["at"])
        end = (events[-1]["at"] if events else 0) + self.quiet
        return {"name": self.name, "seed": self.seed, "seconds": end, "events": events}


# Objects


def reference(item: Json) -> Json:
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": {"name": item["metadata"]["name"], "namespace": NAMESPACE}}


def pod_spec(cpu: int, memory: int, **spec: Any) -> Json:
    """A pod of one container with these requests in millicores and MiB."""
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}}
    return {"containers": [container], "terminationGracePeriodSeconds": 5, "automountServiceAccountToken": False} | spec


def controller(kind: str, name: str, replicas: int | None, spec: Json, labels: Json | None = None) -> Json:
    labels = {"app": name} | (labels or {})
    body: Json = {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": labels}, "spec": spec}}
    if replicas is not None:
        body["replicas"] = replicas
    if kind == "StatefulSet":
        body |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": body}


def budget(name: str, **spec: Any) -> Json:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": {"selector": {"matchLabels": {"app": name}}} | spec}


def spread(key: str, labels: Json, hard: bool = True) -> Json:
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": {"matchLabels": labels}}


def near(key: str, labels: Json) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
