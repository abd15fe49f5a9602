"""The two autoscalers, each in a control plane of its own. `Side` is all that the comparison knows of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import catalog
from tools import artifacts
from tools.control_plane.binaries import Binaries, build, pinned
from tools.control_plane.deployment import CLUSTER, SECRET, Deployment, Inputs
from tools.control_plane.nodes import Joining
from tools.control_plane.server import ControlPlane
from tools.control_plane.tokens import Authenticator
from tools.processes import Process, free_port, wait_for
from tools.terraform import ROOT, plugin_mirror

Json = dict[str, Any]

KARPENTER = ROOT / "tests/compare/karpenter"
MODULE = "sigs.k8s.io/karpenter"
# The seconds from a launch until the Node is created. Instances of `nodeless local` take this time to start and to join.
BOOT_SECONDS = 25
POOL = "default"


@dataclass(frozen=True)
class Setting:
    """What the sides are started with."""

    types: list[Json]
    capacity_types: list[str]
    # Variables of the module of nodeless.
    variables: dict[str, str]
    # The options of run.py that change what is measured.
    options: Json


@dataclass(frozen=True)
class Side:
    """A running autoscaler."""

    name: str
    version: str
    plane: ControlPlane
    # The processes whose processor time and memory are those of the autoscaler.
    pids: Callable[[], Iterable[int]]


def node_pool(reference: Json, requirements: Iterable[Json], capacity_types: Iterable[str]) -> Json:
    """The same NodePool for both sides, with Karpenter's defaults for disruption."""
    common = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": [catalog.ARCHITECTURE]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(capacity_types)},
    ]
    template = {"spec": {"nodeClassRef": reference, "requirements": [*common, *requirements]}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL}, "spec": {"template": template}}


def condition(item: Json, kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in item.get("status", {}).get("conditions", []))


def ready_pool(plane: ControlPlane, pool: Json) -> None:
    plane.apply(pool)
    wait_for("the NodePool to be ready", lambda: condition(plane.get("nodepools", POOL), "Ready"), 180)


# Karpenter


def karpenter_binary() -> Path:
    """Karpenter with its kwok provider. Its go.mod names a version of Go, which the module proxy has."""
    return build(KARPENTER, {"karpenter-kwok": f"{MODULE}/kwok"}, toolchain="auto")["karpenter-kwok"]


def definitions() -> list[Path]:
    """Karpenter's CustomResourceDefinitions, from the module."""
    command = ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", MODULE]
    environment = os.environ | {"GOTOOLCHAIN": "auto"}
    folder = Path(subprocess.run(command, cwd=KARPENTER, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
    return sorted([*(folder / "pkg/apis/crds").glob("*.yaml"), *(folder / "kwok/apis/crds").glob("*.yaml")])


@contextmanager
def karpenter(binaries: Binaries, setting: Setting, directory: Path, logs: Path) -> Iterator[Side]:
    program = karpenter_binary()
    file = directory / "instance-types.json"
    file.write_text(json.dumps(catalog.kwok_types(setting.types)))
    with ExitStack() as started:
        authenticator = started.enter_context(Authenticator(CLUSTER, SECRET))
        plane = started.enter_context(ControlPlane(binaries, directory, logs, authenticator))
        for definition in definitions():
            plane.kubectl("apply", "--server-side", "-f", str(definition))
        # The API of a definition is served a moment after it is created.
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinitions", "--all")
        environment = os.environ | {
            "KUBECONFIG": str(plane.user_kubeconfig("karpenter", "karpenter", ("system:masters",))),
            "INSTANCE_TYPES_FILE_PATH": str(file),
            "METRICS_PORT": str(free_port()),
            "HEALTH_PROBE_PORT": str(free_port()),
            "SYSTEM_NAMESPACE": "kube-system",
            "DISABLE_LEADER_ELECTION": "true",
        }
        process = started.enter_context(Process("karpenter", [program], logs, environment))
        name = {"name": "default"}
        plane.apply({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": name, "spec": {"nodeRegistrationDelay": f"{BOOT_SECONDS}s"}})
        reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", **name}
        ready_pool(plane, node_pool(reference, [], setting.capacity_types))
        yield Side("karpenter", pinned(KARPENTER / "go.mod", MODULE), plane, process.pids)


# nodeless


class SameTypes(Joining):
    """Lets instances join with the allocatable resources of the catalog, as kwok's nodes do. Those of `nodeless local` have a little less
    memory than the catalog estimates, as on EC2."""

    def __init__(self, running: Deployment, types: list[Json]) -> None:
        super().__init__(running.world, running.plane)
        self._allocatable = {kind["name"]: kind["allocatable"] for kind in types}

    def registration(self, node: Json) -> Json:
        made = super().registration(node)
        made["status"]["allocatable"] |= self._allocatable[made["metadata"]["labels"]["node.kubernetes.io/instance-type"]]
        return made


class Compared(Deployment):
    """nodeless, applied, with the nodes of the comparison."""

    def __init__(self, inputs: Inputs, types: list[Json], directory: Path, logs: Path) -> None:
        super().__init__(inputs, directory, logs)
        self._types = types

    def joining(self) -> Joining:
        return SameTypes(self, self._types)


@contextmanager
def nodeless(binaries: Binaries, setting: Setting, directory: Path, logs: Path) -> Iterator[Side]:
    """The real functions in ministack."""
    inputs = Inputs(binaries, artifacts.command(), artifacts.function_zips(directory / "zips"), plugin_mirror(), setting.variables)
    with Compared(inputs, setting.types, directory, logs) as running:
        # Tests evaluate the rights of the functions. Here that would make each launch a third of a second longer.
        running.proxy.records = False
        if setting.variables.get("expected_pods", "off") != "off":
            running.plane.kubectl("apply", "-f", str(ROOT / "infra/rbac/optional/expected-pods.yaml"))
        discovery = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
        spec = {
            "role": str(running.outputs["node_role_name"]),
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": discovery,
            "securityGroupSelectorTerms": discovery,
        }
        name = {"name": "default"}
        running.plane.apply({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": name, "spec": spec})
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", **name}
        ready_pool(running.plane, node_pool(reference, catalog.REQUIREMENTS, setting.capacity_types))
        yield Side("nodeless", revision(), running.plane, running.ministack.function_pids)


def revision() -> str:
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


SIDES = {"karpenter": karpenter, "nodeless": nodeless}
