"""Workloads: objects and the times at which they are created, changed and deleted.

A workload is a JSON file, made from a name and a seed, so that the same name and seed are the same bytes:

    {"name": "cold-enterprise-300", "seed": 1, "seconds": 420, "events": [{"at": 0.0, "do": "create", "object": {...}}, ...]}

`at` is seconds from the start; events are in this order. `do` is `create`, `delete`, or `patch`, whose `object` is a merge patch with the
kind and name of what it changes. `seconds` is when the run ends; what happens after the last event shows whether the cluster comes to rest.

    python tests/compare/workload.py cold-enterprise-300 1 > workload.json
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from random import Random

from controllers import HOST, QUIET, ZONE, Json, Workload, budget, controller, near, pod_spec, reference, spread
from upstream import SUITES


def log_normal(random: Random, median: float, sigma: float, least: int, most: int) -> int:
    return round(min(max(median * math.exp(random.gauss(0, sigma)), least), most))


# Mixes: controllers with this number of pods in total


def web(random: Random, pods: int, prefix: str = "web") -> Iterator[Json]:
    """Deployments of 2 to 20 pods with log-normal requests and no constraints."""
    for index, replicas in enumerate(parts(random, pods, 2, 20)):
        cpu, memory = log_normal(random, 250, 0.8, 50, 4000), log_normal(random, 512, 0.9, 64, 16384)
        yield controller("Deployment", f"{prefix}-{index:03}", replicas, pod_spec(cpu, memory))


def soft(random: Random, pods: int) -> Iterator[Json]:
    """As charts have it: Deployments with soft spread over zones and hosts."""
    for item in web(random, pods, "chart"):
        labels = {"app": item["metadata"]["name"]}
        item["spec"]["template"]["spec"]["topologySpreadConstraints"] = [spread(ZONE, labels, hard=False), spread(HOST, labels, hard=False)]
        yield item


def stateful(random: Random, pods: int) -> Iterator[Json]:
    """StatefulSets of 3 to 9 pods: hard spread over zones, anti-affinity over hosts."""
    for index, replicas in enumerate(parts(random, pods, 3, 9)):
        name = f"db-{index:03}"
        labels = {"app": name}
        cpu, memory = random.choice((500, 1000, 2000)), random.choice((2048, 4096, 8192))
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near(HOST, labels)]}}
        yield controller("StatefulSet", name, replicas, pod_spec(cpu, memory, affinity=apart, topologySpreadConstraints=[spread(ZONE, labels)]))


def enterprise(random: Random, pods: int) -> Iterator[Json]:
    """Deployments of 2 to 20 pods: three fifths with soft spread, a fifth with hard spread over zones, a tenth apart, the others plain."""
    for index, replicas in enumerate(parts(random, pods, 2, 20)):
        name, kind = f"svc-{index:03}", random.random()
        labels = {"app": name}
        spec = pod_spec(log_normal(random, 250, 1.0, 10, 8000), log_normal(random, 512, 1.1, 16, 32768))
        if kind < 0.6:
            spec["topologySpreadConstraints"] = [spread(ZONE, labels, hard=False)]
            terms = [{"weight": 100, "podAffinityTerm": near(HOST, labels)}]
            spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
        elif kind < 0.8:
            spec["topologySpreadConstraints"] = [spread(ZONE, labels)]
        elif kind < 0.9:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near(HOST, labels)]}}
        yield controller("Deployment", name, replicas, spec)


def diverse(random: Random, pods: int) -> Iterator[Json]:
    """The pods of Karpenter's scheduling benchmark (scheduling_benchmark_test.go, makeDiversePods), each a Deployment of its own: a fifth
    each plain, spread over zones, spread over hosts, with affinity to each other in a zone, and with anti-affinity over hosts."""
    values = "abcdefg"
    for index in range(pods):
        cpu, memory = random.choice((100, 250, 500, 1000, 1500)), random.choice((100, 256, 512, 1024, 2048, 4096))
        spec, own, other = pod_spec(cpu, memory), {"my-label": random.choice(values)}, {"my-label": random.choice(values)}
        kind = index * 5 // pods
        if kind in (1, 2):
            spec["topologySpreadConstraints"] = [spread((ZONE, HOST)[kind - 1], other)]
        elif kind == 3:
            own = {"my-affinity": own["my-label"]}
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near(ZONE, own)]}}
        elif kind == 4:
            own = {"group": "lonely"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near(HOST, own)]}}
        yield controller("Deployment", f"pod-{kind}-{index:04}", 1, spec, own)


MIXES: dict[str, Callable[[Random, int], Iterator[Json]]] = {"web": web, "soft": soft, "stateful": stateful, "enterprise": enterprise, "diverse": diverse}


def parts(random: Random, total: int, least: int, most: int) -> Iterator[int]:
    """Numbers between `least` and `most` with this sum; the last one may be smaller."""
    while total > 0:
        part = min(random.randint(least, most), total)
        total -= part
        yield part


# Workloads


def cold(name: str, seed: int, mix: str, pods: str) -> Workload:
    """All pods at once, in a cluster without nodes."""
    made = Workload(name, seed)
    for item in MIXES[mix](Random(seed), int(pods)):
        made.add(0, "create", item)
    return made


def half(name: str, seed: int, mix: str, pods: str) -> Workload:
    """A cluster that shrinks by half: each Deployment to half of its replicas, within a minute."""
    random, made = Random(seed), Workload(name, seed, quiet=QUIET)
    for item in MIXES[mix](random, int(pods)):
        made.add(0, "create", item)
        made.scale(150 + random.uniform(0, 60), item, item["spec"]["replicas"] // 2)
    return made


def waste(name: str, seed: int, mix: str, pods: str) -> Workload:
    """A third of the Deployments is deleted; PodDisruptionBudgets of the others allow one unavailable pod at a time."""
    random, made = Random(seed), Workload(name, seed, quiet=QUIET)
    for item in MIXES[mix](random, int(pods)):
        made.add(0, "create", item)
        if random.random() < 0.33:
            made.add(150 + random.uniform(0, 30), "delete", reference(item))
        else:
            made.add(0, "create", budget(item["metadata"]["name"], maxUnavailable=1))
    return made


def batch(name: str, seed: int, mix: str, pods: str) -> Workload:
    """Web pods that stay, and four waves of batch pods of 1 to 4 CPUs that run for 90 seconds."""
    random, made = Random(seed), Workload(name, seed)
    for item in MIXES[mix](random, int(pods) // 2):
        made.add(0, "create", item)
    for wave in range(4):
        at = 60 + 180 * wave
        for index in range(6):
            spec = pod_spec(random.choice((1000, 2000, 4000)), random.choice((1024, 2048, 8192)))
            item = controller("Deployment", f"batch-{wave}-{index}", int(pods) // 24, spec)
            made.add(at + random.uniform(0, 5), "create", item)
            made.add(at + 90 + random.uniform(0, 20), "delete", reference(item))
    return made


def day(name: str, seed: int, mix: str, pods: str) -> Workload:
    """A day of a shop in half an hour: replicas follow the time of day, from a third at night to all in the evening; six rollouts."""
    random, made, minutes = Random(seed), Workload(name, seed), 30
    items = list(MIXES[mix](random, int(pods)))
    for item in items:
        most, shift = item["spec"]["replicas"], random.uniform(-1.5, 1.5)
        item["spec"]["replicas"] = last = load(most, 0, minutes, shift)
        made.add(0, "create", item)
        for minute in range(1, minutes):
            replicas = load(most, minute, minutes, shift)
            if replicas != last:
                made.scale(60 * minute + random.uniform(0, 60), item, replicas)
                last = replicas
    for item in random.sample(items, min(6, len(items))):
        change = {"spec": {"template": {"metadata": {"annotations": {"release": "2"}}}}}
        made.add(60 * random.uniform(5, minutes - 5), "patch", reference(item) | change)
    return made


def load(most: int, minute: float, minutes: int, shift: float) -> int:
    """The replicas at a minute of the day, of `most` in the evening."""
    share = 0.66 - 0.33 * math.cos(2 * math.pi * (minute + shift) / minutes)
    return max(1, round(most * share))


KINDS: dict[str, Callable[[str, int, str, str], Workload]] = {"cold": cold, "half": half, "waste": waste, "batch": batch, "day": day}


class UnknownWorkload(ValueError):
    def __init__(self, name: str) -> None:
        known = f"a kind of {', '.join(KINDS)} and a mix of {', '.join(MIXES)}, or suite and one of {', '.join(SUITES)}"
        super().__init__(f"no workload {name}: write KIND-MIX-PODS with {known}")


def workload(name: str, seed: int) -> Json:
    """The workload with this name, such as `cold-web-300`."""
    words = name.split("-")
    if len(words) != 3 or not words[2].isdecimal() or int(words[2]) == 0:
        raise UnknownWorkload(name)
    kind, mix, pods = words
    if kind == "suite" and mix in SUITES:
        return SUITES[mix](name, int(pods)).written()
    if kind not in KINDS or mix not in MIXES:
        raise UnknownWorkload(name)
    return KINDS[kind](name, seed, mix, pods).written()


if __name__ == "__main__":
    json.dump(workload(sys.argv[1], int(sys.argv[2])), sys.stdout, indent=1)
