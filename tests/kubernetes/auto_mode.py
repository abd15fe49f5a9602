"""The objects of EKS Auto Mode that its controller, which runs on AWS's side, creates in a cluster. Its definition of a class is a stub."""

from __future__ import annotations

from typing import Any

POOL, CLAIM, NODE = "general-purpose", "general-purpose-abcde", "i-0123456789abcdef0"
GROUP = "eks.amazonaws.com"
FINALIZER = "karpenter.sh/termination"
CLASS = {"group": GROUP, "kind": "NodeClass", "name": "default"}
PROVIDER_ID = f"aws:///us-east-1a/{NODE}"
TAINTS = [{"key": "example.com/auto-mode", "value": "true", "effect": "NoSchedule"}]


def definition() -> dict[str, Any]:
    names = {"plural": "nodeclasses", "singular": "nodeclass", "kind": "NodeClass", "listKind": "NodeClassList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"nodeclasses.{GROUP}"}, "spec": spec}


def node_class() -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "NodeClass", "metadata": {"name": "default"}, "spec": {"role": "auto-mode"}}


def node_pool() -> dict[str, Any]:
    requirements = [{"key": f"{GROUP}/instance-category", "operator": "In", "values": ["c", "m", "r"]}]
    template = {"spec": {"nodeClassRef": CLASS, "requirements": requirements, "taints": TAINTS, "expireAfter": "336h"}}
    disruption = {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL}, "spec": {"template": template, "disruption": disruption}}


def node_claim() -> dict[str, Any]:
    requirements = [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]
    metadata = {"name": CLAIM, "labels": {"karpenter.sh/nodepool": POOL}, "finalizers": [FINALIZER]}
    spec = {"nodeClassRef": CLASS, "requirements": requirements, "taints": TAINTS}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}


def node() -> dict[str, Any]:
    """A Node that is not ready: no kubelet runs."""
    labels = {
        "karpenter.sh/nodepool": POOL,
        "karpenter.sh/registered": "true",
        f"{GROUP}/nodeclass": "default",
        f"{GROUP}/compute-type": "auto",
        "node.kubernetes.io/instance-type": "c6a.large",
        "topology.kubernetes.io/zone": "us-east-1a",
        "karpenter.sh/capacity-type": "on-demand",
    }
    metadata = {"name": NODE, "labels": labels, "finalizers": [FINALIZER]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"providerID": PROVIDER_ID, "taints": TAINTS}}
