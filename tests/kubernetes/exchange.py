"""The requests that are sent to the real and to the simulated API server, and the permitted differences of the responses."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.control_plane.client import Answer, decoded

MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    f"application/{kind}" for kind in ("merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml")
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NAMESPACE = "exchange"
IN = f"/api/v1/namespaces/{NAMESPACE}"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
POLICY = f"/apis/policy/v1/namespaces/{NAMESPACE}"
POOLS = "/apis/karpenter.sh/v1/nodepools"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SHELVES = "/apis/example.com/v1/shelves"

Call = Callable[..., Answer]


@dataclass(frozen=True)
class Request:
    """One request. A name in `{}` is replaced by a value of earlier responses: `{revision}` is the last resourceVersion."""

    name: str
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    # The status of the response when the API server uses a definition that was just changed; until then the request is repeated.
    final_status: int | None = None


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

REQUESTS = [
    Request("a namespace is created", "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    # Nodes, as written by kubelets, nodeless and kubectl.
    Request("a node is created", "POST", "/api/v1/nodes", node("one")),
    Request("a node is created twice", "POST", "/api/v1/nodes", node("one")),
    Request("a node is tainted", "PATCH", "/api/v1/nodes/one", {"spec": {"taints": [TAINT]}}, MERGE),
    Request("a node gets another taint", "PATCH", "/api/v1/nodes/one", {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, STRATEGIC),
    Request("a node is cordoned", "PATCH", "/api/v1/nodes/one", {"spec": {"unschedulable": True}}, STRATEGIC),
    Request("a node's status is changed", "PATCH", "/api/v1/nodes/one/status", {"status": {"phase": "Running"}}, MERGE),
    Request("a finalizer is added", "PATCH", "/api/v1/nodes/one", {"metadata": {"finalizers": ["karpenter.sh/termination"]}}, MERGE),
    Request("a test of a JSON patch fails", "PATCH", "/api/v1/nodes/one", [{"op": "test", "path": "/metadata/name", "value": "x"}], JSON_PATCH),
    Request("an old revision is refused", "PATCH", "/api/v1/nodes/one", {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}, MERGE),
    Request("a node that is missing", "GET", "/api/v1/nodes/two"),
    Request("a label that is invalid", "PATCH", "/api/v1/nodes/one", {"metadata": {"labels": {"a b": "c"}}}, MERGE),
    # Pods, as written by users, the scheduler and nodeless.
    Request("a pod is created", "POST", f"{IN}/pods", pod("a", nodeSelector={"never": "there"})),
    Request("a pod without containers", "POST", f"{IN}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}),
    Request("a pod with an unknown field", "POST", f"{IN}/pods?fieldValidation=Strict", pod("x", unknown=1)),
    Request("a pod's request cannot be changed", "PATCH", f"{IN}/pods/a", {"spec": {"nodeName": "one"}}, MERGE),
    Request("pods by label", "GET", f"{IN}/pods?labelSelector=app%3Dexchange"),
    Request("pods by node", "GET", f"{IN}/pods?fieldSelector=spec.nodeName%3Done"),
    Request("pods by a field that is no selector", "GET", f"{IN}/pods?fieldSelector=spec.hostname%3Done"),
    Request("a label selector that is invalid", "GET", f"{IN}/pods?labelSelector=a%3D%3D%3D"),
    Request("pods as a table", "GET", f"{IN}/pods", accept=TABLE),
    Request("a dry run stores nothing", "POST", f"{IN}/pods?dryRun=All", pod("dry")),
    Request("what a dry run did not store", "GET", f"{IN}/pods/dry"),
    Request("a pod is bound", "POST", f"{IN}/pods/a/binding", BINDING),
    Request("a pod is bound twice", "POST", f"{IN}/pods/a/binding", BINDING),
    Request("a pod runs", "PATCH", f"{IN}/pods/a/status", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}, STRATEGIC),
    Request("pages", "GET", f"{IN}/pods?limit=1"),
    Request("a continue token that is no token", "GET", f"{IN}/pods?limit=1&continue=x"),
    Request("a pod is evicted that is missing", "POST", f"{IN}/pods/none/eviction", eviction("none")),
    Request("a pod is evicted", "POST", f"{IN}/pods/a/eviction", eviction("a")),
    # Other kinds.
    Request("an event is created", "POST", f"{IN}/events", EVENT),
    Request("an event is counted", "PATCH", f"{IN}/events/e", {"count": 2}, MERGE),
    Request("a deployment is created", "POST", f"{APPS}/deployments", deployment("web")),
    Request("a deployment is scaled", "PATCH", f"{APPS}/deployments/web/scale", {"spec": {"replicas": 0}}, MERGE),
    Request("a budget is created", "POST", f"{POLICY}/poddisruptionbudgets", BUDGET),
    Request("a selector that does not match its template", "POST", f"{APPS}/deployments", deployment("bad") | {"spec": deployment("bad")["spec"] | {"selector": {"matchLabels": {"app": "x"}}}}),
    # Custom resources.
    Request("a NodePool gets its defaults", "POST", POOLS, pool("p")),
    Request("a NodePool of an invalid weight", "POST", POOLS, pool("w", weight=1000)),
    Request("a NodePool with an unknown field", "POST", f"{POOLS}?fieldValidation=Strict", pool("x", unknown=1)),
    Request("an unknown field is dropped", "POST", f"{POOLS}?dryRun=All", pool("x", unknown=1)),
    Request("the status is not written with the rest", "PATCH", f"{POOLS}/p", {"status": {"nodes": 5}}, MERGE),
    Request("the status is written", "PATCH", f"{POOLS}/p/status", {"status": {"nodes": 5}}, MERGE),
    Request("the spec is not written with the status", "PATCH", f"{POOLS}/p/status", {"spec": {"weight": 9}}, MERGE),
    Request("the generation counts changes of the spec", "PATCH", f"{POOLS}/p", {"spec": {"weight": 7}}, MERGE),
    Request("a strategic patch of a custom resource", "PATCH", f"{POOLS}/p", {"spec": {"weight": 8}}, STRATEGIC),
    Request("a field is applied", "PATCH", f"{POOLS}/p?fieldManager=one", pool("p", weight=7), APPLY),
    Request("the same field is applied by another", "PATCH", f"{POOLS}/p?fieldManager=two", pool("p", weight=3), APPLY),
    Request("the same field is taken by force", "PATCH", f"{POOLS}/p?fieldManager=two&force=true", pool("p", weight=3), APPLY),
    Request("an application without a manager", "PATCH", f"{POOLS}/p", pool("p"), APPLY),
    Request("a NodePool is scaled", "GET", f"{POOLS}/p/scale"),
    Request("a version that is not served", "GET", "/apis/karpenter.sh/v1alpha5/nodepools"),
    Request("a resource that is not served", "GET", "/api/v1/nothing"),
    Request("a method that is not served", "PUT", "/api/v1/nodes", node("one")),
    Request("a body that is no JSON", "POST", POOLS, "text"),
    Request("a body of another kind", "POST", POOLS, node("x")),
    # An object that was stored under an earlier definition, and that today's refuses.
    Request("the definition accepts everything", "POST", DEFINITIONS, definition(shelves(ANYTHING))),
    Request("an object is stored", "POST", SHELVES, shelf("a", weight="heavy"), final_status=201),
    Request("the definition is stricter now", "PATCH", f"{DEFINITIONS}/shelves.example.com", STRICTER, JSON_PATCH),
    Request("another such object is refused", "POST", f"{SHELVES}?dryRun=All", shelf("b", weight="heavy"), final_status=422),
    Request("a list has the object that is refused today", "GET", SHELVES),
    Request("the status of the refused object", "PATCH", f"{SHELVES}/a/status", {"status": {"books": 3}}, MERGE),
    Request("a finalizer of the refused object", "PATCH", f"{SHELVES}/a", {"metadata": {"finalizers": ["example.com/hold"]}}, MERGE),
    Request("another field of the refused object", "PATCH", f"{SHELVES}/a", {"spec": {"color": "red"}}, MERGE),
    Request("another field of the refused object, invalid", "PATCH", f"{SHELVES}/a", {"spec": {"color": 5}}, MERGE),
    Request("the field that is refused", "PATCH", f"{SHELVES}/a", {"spec": {"weight": "heavier"}}, MERGE),
    Request("the field that is refused, corrected", "PATCH", f"{SHELVES}/a", {"metadata": {"finalizers": None}, "spec": {"weight": 5}}, MERGE),
    Request("the definition is deleted", "DELETE", f"{DEFINITIONS}/shelves.example.com"),
    # Deletion.
    Request("a deletion of another revision", "DELETE", f"{POOLS}/p", {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}}),
    Request("a NodePool is deleted", "DELETE", f"{POOLS}/p"),
    Request("a NodePool is deleted twice", "DELETE", f"{POOLS}/p"),
    Request("a finalizer keeps a node", "DELETE", "/api/v1/nodes/one"),
    Request("a finalizer cannot be added while it goes", "PATCH", "/api/v1/nodes/one", {"metadata": {"finalizers": ["karpenter.sh/termination", "x.io/y"]}}, MERGE),
    Request("the last finalizer is removed", "PATCH", "/api/v1/nodes/one", {"metadata": {"finalizers": None}}, MERGE),
    Request("the node is gone", "GET", "/api/v1/nodes/one"),
]  # fmt: skip

# Fields that may differ in every response: identities, times, and fields that only one of the servers stores.
ANYWHERE = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp", "lastTransitionTime", "startTime", "continue", "rowHash"}


def simulated(url: str) -> Call:
    """Calls the API server of `nodeless local`, which accepts every caller."""

    def call(method: str, path: str, body: Any = None, content_type: str = "application/json", accept: str = "application/json") -> Answer:
        headers = {"Content-Type": content_type, "Accept": accept}
        request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(), headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, dict(answer.headers), decoded(answer.read()))
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, dict(refused.headers), decoded(refused.read()))

    return call


def play(call: Call) -> dict[str, Answer]:
    return {request.name: answer(call, request) for request in REQUESTS}


def answer(call: Call, request: Request) -> Answer:
    deadline = time.monotonic() + 30
    while True:
        answered = call(request.method, request.path, request.body, request.content_type, request.accept)
        if request.final_status in (None, answered.status) or time.monotonic() > deadline:
            return answered
        time.sleep(0.2)


def differences(real: Answer, other: Answer) -> list[str]:
    """The paths of the differences of two responses. Only the presence of messages is compared, because their texts differ."""
    if real.status != other.status:
        return [f"status: {real.status} and {other.status}"]
    return compare(real.body, other.body, "")


def compare(real: Any, other: Any, path: str) -> list[str]:
    if isinstance(real, dict) and isinstance(other, dict):
        found = []
        for key in sorted((real.keys() | other.keys()) - ANYWHERE):
            below = f"{path}.{key}"
            if key == "message" and isinstance(real.get(key), str) and isinstance(other.get(key), str):
                continue
            if key not in other or key not in real:
                found.append(f"{below}: {'only real' if key in real else 'only simulated'}")
            else:
                found += compare(real[key], other[key], below)
        return found
    if isinstance(real, list) and isinstance(other, list) and len(real) == len(other):
        return [d for i, (a, b) in enumerate(zip(real, other, strict=True)) for d in compare(a, b, f"{path}[{i}]")]
    return [] if real == other else [f"{path}: {json.dumps(real)[:80]} and {json.dumps(other)[:80]}"]
