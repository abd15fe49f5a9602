"""The workloads of Karpenter's own performance suites (`test/suites/performance` of sigs.k8s.io/karpenter), as this comparison plays them.

The Deployments, requests, constraints and numbers of replicas are those of the suites, for their number of pods, and in proportion for
others. The suites wait until the cluster is quiescent before they change a Deployment; here changes have fixed times, so that both sides
get them at the same time. They are the same for each seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controllers import HOST, ZONE, Json, Workload, controller, near, pod_spec, spread

SMALL, LARGE = (900, 3100), (3500, 28 * 1024)
# Seconds between two changes: the nodes of the first have joined, and consolidation has begun.
PHASE = 180


def deployment(name: str, replicas: int, requests: tuple[int, int], **spec: Any) -> Json:
    return controller("Deployment", name, replicas, pod_spec(*requests, **spec))


def basic(name: str, pods: int) -> Workload:
    """basic_test.go: two Deployments, then three tenths fewer pods."""
    return scaled_in(name, pods, deployment("small", pods // 2, SMALL), deployment("large", pods // 2, LARGE))


def spreading(name: str, pods: int) -> Workload:
    """host_name_spreading_test.go: the same, with the small pods spread over hosts."""
    constraints = [spread(HOST, {"app": "small"})]
    return scaled_in(name, pods, deployment("small", pods // 2, SMALL, topologySpreadConstraints=constraints), deployment("large", pods // 2, LARGE))


def scaled_in(name: str, pods: int, *items: Json) -> Workload:
    made = Workload(name, 0)
    for item in items:
        made.add(0, "create", item)
        made.scale(PHASE, item, pods * 35 // 100)
    return made


def interference(name: str, pods: int) -> Workload:
    """interference_test.go: Deployments with anti-affinity over hosts, of which one grows while the other shrinks."""
    made = Workload(name, 0)
    small, large = (deployment(app, pods, requests, affinity=apart(app)) for app, requests in (("small", SMALL), ("large", LARGE)))
    made.add(0, "create", small)
    made.scale(PHASE, small, pods // 2)
    made.add(PHASE, "create", large)
    made.scale(2 * PHASE, small, pods * 4 // 5)
    made.scale(2 * PHASE, large, pods * 2 // 5)
    return made


def apart(app: str) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near(HOST, {"app": app})]}}


WIDE_CPU = (240, 450, 650, 900, 1400, 1900, 2400, 2800, 3300, 3700, 2300, 900, 1300, 2800, 1800,
            1850, 3300, 3800, 225, 450, 700, 900, 1300, 1800, 2400, 2800, 3400, 3800, 3300, 2800)  # fmt: skip
WIDE_MIB = (300, 400, 700, 1024, 2048, 4096, 8192, 4096, 16384, 10240, 65536, 30720, 32768, 32768, 30720,
            20480, 30720, 300, 500, 750, 1024, 2048, 4096, 8192, 16384, 32768, 28672, 65536, 13312, 24576)  # fmt: skip


def wide(name: str, pods: int) -> Workload:
    """wide_deployments_test.go: 30 Deployments spread over zones, three of them apart and three spread over hosts, then fewer pods."""
    made = Workload(name, 0)
    for index, requests in enumerate(zip(WIDE_CPU, WIDE_MIB, strict=True)):
        app = f"wide-{index + 1}"
        constraints = [spread(ZONE, {"app": app})] + ([spread(HOST, {"app": app})] if 3 <= index < 6 else [])
        affinity = {"affinity": apart(app)} if index < 3 else {}
        first, then = (35, 25) if index < 20 else (30, 20)
        item = deployment(app, max(1, pods * first // 1000), requests, topologySpreadConstraints=constraints, **affinity)
        made.add(0, "create", item)
        made.scale(PHASE, item, max(1, pods * then // 1000))
    return made


def churn(name: str, pods: int) -> Workload:
    """balanced_churn_heterogeneous_test.go: a Deployment that is scaled in, out and in by half."""
    made = Workload(name, 0)
    item = deployment("churn", pods, SMALL)
    made.add(0, "create", item)
    for phase, replicas in enumerate((pods // 2, pods, pods // 2), start=1):
        made.scale(PHASE * phase, item, replicas)
    return made


SUITES: dict[str, Callable[[str, int], Workload]] = {"basic": basic, "spreading": spreading, "interference": interference, "wide": wide, "churn": churn}
