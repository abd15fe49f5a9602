"""The objects of the requests."""

from __future__ import annotations

from typing import Any

NAMESPACE = "exchange"
IN = f"/api/v1/namespaces/{NAMESPACE}"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
POLICY = f"/apis/policy/v1/namespaces/{NAMESPACE}"
POOLS = "/apis/karpenter.sh/v1/nodepools"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SHELVES = "/apis/example.com/v1/shelves"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "pause:3.7", "resources": {"requests": {"cpu": "100m"}}}
    body = {"automountServiceAccountToken": False, "containers": [container]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "exchange"}}, "spec": body}


def node(name: str) -> dict[str, Any]:
    status = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocatable": {"cpu": "3900m", "memory": "7Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": f"aws:///us-east-1a/i-{name}"}, "status": status}


def pool(name: str, **spec: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": template} | spec}


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "pause:3.7"}]}}
    body = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}


def shelves(weight: dict[str, Any]) -> dict[str, Any]:
    """The schema of a kind whose objects have a weight."""
    spec = {"type": "object", "properties": {"weight": weight, "color": {"type": "string"}}}
    return {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {"books": {"type": "integer"}}}}}


def definition(schema: dict[str, Any]) -> dict[str, Any]:
    names = {"plural": "shelves", "singular": "shelf", "kind": "Shelf", "listKind": "ShelfList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "shelves.example.com"}, "spec": spec}


def shelf(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Shelf", "metadata": {"name": name}, "spec": spec}


def eviction(name: str) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}


TAINT = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"}}
BUDGET |= {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "exchange"}}}}
EVENT = {
    "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": NAMESPACE}, "reason": "Launched", "message": "m", "type": "Normal",
    "involvedObject": {"kind": "Pod", "name": "a", "namespace": NAMESPACE}, "source": {"component": "nodeless"},
}  # fmt: skip
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
STRICTER = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": shelves({"type": "integer"})}]
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "one"}}


def lease(name: str, holder: str = "one", **metadata: Any) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 40, "renewTime": "2026-11-01T10:00:00.000000Z"}
    described = {"name": name, "namespace": NAMESPACE, "labels": {"app": "exchange"}} | metadata
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": described, "spec": spec}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


def budget(name: str, app: str, **spec: Any) -> dict[str, Any]:
    body = {"selector": {"matchLabels": {"app": app}}} | spec
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": body}


def unscheduled(name: str, app: str, **spec: Any) -> dict[str, Any]:
    """A pod that no scheduler looks at: the requests are those of a scheduler."""
    made = pod(name, schedulerName="exchange", **spec)
    made["metadata"]["labels"] = {"app": app}
    return made


def binding(name: str, node: str = "", kind: str = "Node") -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    target = {"apiVersion": "v1", "kind": kind} | ({"name": node} if node else {})
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
