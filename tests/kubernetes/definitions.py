"""The CustomResourceDefinitions of nodeless, and those of Karpenter's last minor versions without schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tools.control_plane.server import PATHS, ControlPlane
from tools.processes import wait_for
from tools.terraform import ROOT

FILES = ROOT / "infra/crds"


@dataclass(frozen=True)
class Definition:
    """The properties that determine whether a definition can replace another: names, scope, versions and subresources. Karpenter's schemas
    are not included; Karpenter's schema accepts the objects that the tests store (validation.py)."""

    group: str
    kind: str
    version: str = "v1"
    scope: str = "Cluster"
    short_names: tuple[str, ...] = ()
    category: str = "karpenter"
    scale: bool = False

    @property
    def plural(self) -> str:
        return "ec2nodeclasses" if self.kind == "EC2NodeClass" else self.kind.lower() + "s"

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    def manifest(self) -> dict[str, Any]:
        subresources: dict[str, Any] = {"status": {}}
        if self.scale:
            subresources["scale"] = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
        version = {"name": self.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": subresources}
        names = {"kind": self.kind, "listKind": f"{self.kind}List", "plural": self.plural, "singular": self.kind.lower()}
        names |= {"shortNames": list(self.short_names), "categories": [self.category]}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name, "annotations": {"controller-gen.kubebuilder.io/version": "v0.20.1"}},
            "spec": {"group": self.group, "names": names, "scope": self.scope, "versions": [version]},
        }


NODE_POOL = Definition("karpenter.sh", "NodePool", scale=True)
NODE_CLAIM = Definition("karpenter.sh", "NodeClaim")
NODE_CLASS = Definition("karpenter.k8s.aws", "EC2NodeClass", short_names=("ec2nc", "ec2ncs"))
NODE_OVERLAY = Definition("karpenter.sh", "NodeOverlay", "v1alpha1", short_names=("overlays",))
BUFFER = Definition("autoscaling.x-k8s.io", "CapacityBuffer", "v1beta1", "Namespaced", ("cb",), "autoscaling")
REQUEST = Definition("autoscaling.x-k8s.io", "ProvisioningRequest", "v1", "Namespaced", ("provreq", "provreqs"), "autoscaling")

# The definitions in the charts of karpenter-provider-aws, by release: the last three minor versions.
KARPENTER = {
    "1.12.2": (NODE_POOL, NODE_CLAIM, NODE_CLASS, NODE_OVERLAY),
    "1.13.1": (NODE_POOL, NODE_CLAIM, NODE_CLASS, NODE_OVERLAY),
    "1.14.1": (NODE_POOL, NODE_CLAIM, NODE_CLASS, NODE_OVERLAY, BUFFER),
}
# With the one of Cluster Autoscaler.
ALL = (*KARPENTER["1.14.1"], REQUEST)


def established(plane: ControlPlane, definitions: Iterable[Definition] = ALL) -> None:
    """Waits until the API server serves them."""
    names = [f"customresourcedefinition/{definition.name}" for definition in definitions]
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    for definition in definitions:
        # The API server serves a definition shortly after it is established.
        wait_for(f"{definition.name} to be served", lambda d=definition: served(plane, d), 30)


def served(plane: ControlPlane, definition: Definition) -> bool:
    return plane.client.call("GET", f"{PATHS[definition.plural]}/{definition.plural}").status == 200


def remove_all(plane: ControlPlane) -> None:
    """Deletes the definitions and all their objects. No controller runs, so finalizers are removed first."""
    present = {item["metadata"]["name"] for item in plane.items("customresourcedefinitions")}
    for definition in (d for d in ALL if d.name in present):
        for item in plane.items(definition.plural):
            if item["metadata"].get("finalizers"):
                patch = json.dumps({"metadata": {"finalizers": None}})
                plane.kubectl("patch", definition.name, item["metadata"]["name"], "--type=merge", "-p", patch)
        plane.kubectl("delete", "customresourcedefinition", definition.name, "--timeout=60s")
