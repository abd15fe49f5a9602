"""Random clusters for the comparison of schedulers: nodes, Services, and pods in the order in which they are created."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

SEEDS = range(12)
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
APPS = ("web", "db", "batch")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
MEBIBYTE = 1 << 20
# No kubelet reports that the nodes are ready, so controllers add these taints.
TOLERATED = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists"} for key in ("not-ready", "unreachable", "network-unavailable")]

Json = dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    objects: list[Json]
    pods: list[Json]


def random_cluster(seed: int) -> Cluster:
    random = Random(seed)
    first, second = f"scheduler-{seed}-a", f"scheduler-{seed}-b"
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"test": "scheduler", "team": name[-1]}}} for name in (first, second)]
    services = [service(first, app) for app in APPS if random.random() < 0.5]
    nodes = [node(random, f"n{index:02}") for index in range(random.randint(4, 14))]
    # The first pod needs the last node, so the scheduler knows of all nodes afterwards.
    field = {"key": "metadata.name", "operator": "In", "values": [nodes[-1]["metadata"]["name"]]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}}
    probe = pod(first, "probe", "probe", {"affinity": required, "tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "pause"}]})
    names = (f"p{index:02}" for index in range(random.randint(15, 30)))
    pods = [random_pod(random, first if random.random() < 0.8 else second, name) for name in names]
    return Cluster([*spaces, *services, *nodes], [probe, *pods])


def service(namespace: str, app: str) -> Json:
    spec = {"selector": {"app": app}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": app, "namespace": namespace}, "spec": spec}


def node(random: Random, name: str) -> Json:
    labels = {HOST: name, "size": random.choice(("small", "large"))}
    if random.random() < 0.9:
        labels[ZONE] = random.choice(ZONES)
    effects = [effect for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule") if random.random() < 0.15]
    taints = [{"key": f"taint-{index}", "value": random.choice("xy"), "effect": effect} for index, effect in enumerate(effects)]
    resources = {"cpu": f"{random.randint(10, 80) * 100}m", "memory": f"{random.randint(8, 64) * 256}Mi", "pods": str(random.choice((4, 30, 110)))}
    images = [{"names": [f"{app}:v1", f"{app}@sha256:{'0' * 64}"], "sizeBytes": size * MEBIBYTE} for app, size in (("web", 300), ("db", 900)) if random.random() < 0.4]
    status = {"capacity": resources, "allocatable": resources, "images": images}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status}


def pod(namespace: str, name: str, app: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": app, "version": "1" if name < "p10" else "2"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"automountServiceAccountToken": False} | spec}


def random_pod(random: Random, namespace: str, name: str) -> Json:
    app = random.choice(APPS)
    spec: Json = {"containers": [container(random, app, f"c{index}") for index in range(random.choice((1, 1, 2)))]}
    if random.random() < 0.2:
        spec["initContainers"] = [container(random, app, "init")]
    tolerations = [{"key": f"taint-{index}", "operator": "Exists"} | random.choice(({}, {"effect": "PreferNoSchedule"})) for index in range(3) if random.random() < 0.3]
    spec["tolerations"] = TOLERATED + tolerations
    affinity: Json = {}
    if random.random() < 0.3:
        preferences = [{"weight": random.randint(1, 100), "preference": {"matchExpressions": [expression(random)]}} for _ in range(random.randint(1, 2))]
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferences}
    for kind in ("podAffinity", "podAntiAffinity"):
        if random.random() < 0.3:
            terms = [{"weight": random.randint(1, 100), "podAffinityTerm": term(random)} for _ in range(random.randint(1, 2))]
            affinity[kind] = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
        if random.random() < 0.1:
            affinity.setdefault(kind, {})["requiredDuringSchedulingIgnoredDuringExecution"] = [term(random)]
    if random.random() < 0.4:
        spec["topologySpreadConstraints"] = [spread(random, key) for key in (HOST, ZONE, "size") if random.random() < 0.5]
    return pod(namespace, name, app, spec | {"affinity": affinity})


def container(random: Random, app: str, name: str) -> Json:
    image = random.choice((f"{app}:v1", app, f"{app}@sha256:{'0' * 64}"))
    quantities = {"cpu": f"{random.randint(1, 90) * 10}m", "memory": f"{random.randint(16, 1024)}Mi"}
    requests = {resource: quantity for resource, quantity in quantities.items() if random.random() < 0.75}
    return {"name": name, "image": image, "resources": {"requests": requests}}


def expression(random: Random) -> Json:
    return random.choice((
        {"key": ZONE, "operator": "In", "values": [random.choice(ZONES)]},
        {"key": ZONE, "operator": "NotIn", "values": [random.choice(ZONES)]},
        {"key": "size", "operator": "In", "values": ["large"]},
        {"key": ZONE, "operator": "DoesNotExist"},
    ))  # fmt: skip


def selector(random: Random) -> Json:
    app = random.choice(APPS)
    return random.choice(({"matchLabels": {"app": app}}, {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]}, {}))


def term(random: Random) -> Json:
    spaces = random.choice(({}, {}, {"namespaceSelector": {}}, {"namespaceSelector": {"matchLabels": {"team": "b"}}}))
    keys = random.choice(({}, {}, {"matchLabelKeys": ["version"]}, {"mismatchLabelKeys": ["version"]}))
    return {"topologyKey": random.choice((HOST, ZONE, "size")), "labelSelector": selector(random)} | spaces | keys


def spread(random: Random, key: str) -> Json:
    action = random.choice(("ScheduleAnyway", "ScheduleAnyway", "DoNotSchedule"))
    policies = {policy: random.choice(("Honor", "Ignore")) for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy") if random.random() < 0.3}
    keys = {"matchLabelKeys": ["version"]} if random.random() < 0.2 else {}
    return {"topologyKey": key, "maxSkew": random.randint(1, 4), "whenUnsatisfiable": action, "labelSelector": selector(random)} | policies | keys
