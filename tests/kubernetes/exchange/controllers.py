"""Requests of kube-scheduler, kubelets and controllers: bindings, statuses, evictions, and server-side apply."""

from __future__ import annotations

from typing import Any

from .objects import APPS, IN, POLICY, binding, budget, config_map, deployment, eviction, unscheduled
from .request import APPLY, MERGE, STRATEGIC, Request, has

PODS, MAPS = f"{IN}/pods", f"{IN}/configmaps"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
ORDER = [{"type": "Ready"}, {"type": "ContainersReady"}]


def ready(status: str) -> dict[str, Any]:
    """The status patch of a kubelet."""
    conditions = [{"type": kind["type"], "status": status, "lastTransitionTime": "2026-11-01T10:00:00Z"} for kind in ORDER]
    return {"status": {"$setElementOrder/conditions": ORDER, "conditions": conditions, "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}}


def of_uid(patch: dict[str, Any], uid: str) -> dict[str, Any]:
    return patch | {"metadata": {"uid": uid}}


def pods_of(app: str, name: str) -> list[Request]:
    """A pod that is created, bound and ready."""
    return [
        Request(f"pod {name} is created for a budget", "POST", PODS, unscheduled(name, app)),
        Request(f"pod {name} is bound for a budget", "POST", f"{PODS}/{name}/binding", binding(name, "elsewhere")),
        Request(f"pod {name} is ready for a budget", "PATCH", f"{PODS}/{name}/status", ready("True"), STRATEGIC),
    ]


SCHEDULING = [
    Request("a pod of another scheduler", "POST", PODS, unscheduled("s", "scheduled"), saves={"uid": "metadata.uid", "created": "metadata.resourceVersion"}),
    Request("a pod cannot be scheduled", "PATCH", f"{PODS}/s/status", {"status": {"conditions": [UNSCHEDULABLE], "nominatedNodeName": "one"}}, STRATEGIC),
    Request("a status of another pod", "PATCH", f"{PODS}/s/status", of_uid({"status": {"phase": "Pending"}}, "other"), STRATEGIC),
    Request("a status of this pod", "PATCH", f"{PODS}/s/status", of_uid({"status": {"phase": "Pending"}}, "{uid}"), STRATEGIC),
    Request("a status from an old revision", "PATCH", f"{PODS}/s/status", {"metadata": {"resourceVersion": "{created}"}, "status": {"phase": "Failed"}}, MERGE),
    Request("a condition is removed", "PATCH", f"{PODS}/s/status", {"status": {"conditions": [{"type": "PodScheduled", "$patch": "delete"}]}}, STRATEGIC),
    Request("a binding without a node", "POST", f"{PODS}/s/binding", binding("s")),
    Request("a binding to another kind", "POST", f"{PODS}/s/binding", binding("s", "one", kind="Pod")),
    Request("a binding of another name", "POST", f"{PODS}/s/binding", binding("other", "one")),
    Request("a binding of a missing pod", "POST", f"{PODS}/none/binding", binding("none", "one")),
    Request("a binding of another uid", "POST", f"{PODS}/s/binding", binding("s", "elsewhere") | {"metadata": {"name": "s", "uid": "other"}}),
    Request("a binding with an annotation", "POST", f"{PODS}/s/binding", binding("s", "elsewhere") | {"metadata": {"name": "s", "annotations": {"a": "b"}}}),
    Request("the pod after its binding", "GET", f"{PODS}/s"),
    Request("a pod with a scheduling gate", "POST", PODS, unscheduled("gated", "scheduled", schedulingGates=[{"name": "example.com/gate"}])),
    Request("a binding of a pod with a gate", "POST", f"{PODS}/gated/binding", binding("gated", "elsewhere")),
    Request("a pod is ready", "PATCH", f"{PODS}/s/status", ready("True"), STRATEGIC),
    Request("a status of a pod is applied", "PATCH", f"{PODS}/s/status?fieldManager=k&force=true", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "s"}, "status": {"phase": "Failed"}}, APPLY),
    Request("a label with the status", "PATCH", f"{PODS}/s/status", {"metadata": {"labels": {"a": "b"}}, "status": {"reason": "Evicted"}}, MERGE),
    Request("a bound pod is deleted", "DELETE", f"{PODS}/s"),
    Request("a deletion of another pod", "DELETE", f"{PODS}/s", {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "other"}}),
    Request("a kubelet ends a pod", "DELETE", f"{PODS}/s", {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "{uid}"}}),
    Request("the pod is gone", "GET", f"{PODS}/s"),
]  # fmt: skip

EVICTIONS = [
    *pods_of("guarded", "g1"),
    *pods_of("guarded", "g2"),
    Request("a budget of two pods", "POST", f"{POLICY}/poddisruptionbudgets", budget("guarded", "guarded", minAvailable=2)),
    Request("the budget blocks", "GET", f"{POLICY}/poddisruptionbudgets/guarded", until=has("status.currentHealthy", 2)),
    Request("an eviction that the budget refuses", "POST", f"{PODS}/g1/eviction", eviction("g1")),
    Request("a dry run of it", "POST", f"{PODS}/g1/eviction?dryRun=All", eviction("g1")),
    Request("the budget allows one", "PATCH", f"{POLICY}/poddisruptionbudgets/guarded", {"spec": {"minAvailable": 1}}, MERGE),
    Request("the budget has counted", "GET", f"{POLICY}/poddisruptionbudgets/guarded", until=has("status.disruptionsAllowed", 1)),
    Request("an eviction without a name", "POST", f"{PODS}/g1/eviction", {"apiVersion": "policy/v1", "kind": "Eviction"}),
    Request("an eviction of another name", "POST", f"{PODS}/g1/eviction", eviction("g2")),
    Request("a dry run of an eviction", "POST", f"{PODS}/g1/eviction?dryRun=All", eviction("g1")),
    Request("an eviction that the budget allows", "POST", f"{PODS}/g1/eviction", eviction("g1")),
    Request("the evicted pod", "GET", f"{PODS}/g1"),
    Request("an eviction of a pod that is being deleted", "POST", f"{PODS}/g1/eviction", eviction("g1")),
    Request("the budget has counted again", "GET", f"{POLICY}/poddisruptionbudgets/guarded", until=has("status.currentHealthy", 1)),
    Request("a second eviction", "POST", f"{PODS}/g2/eviction", eviction("g2")),
    *pods_of("counted", "g3"),
    Request("a budget that allows one", "POST", f"{POLICY}/poddisruptionbudgets", budget("counted", "counted", minAvailable=0)),
    Request("the budget allows an eviction", "GET", f"{POLICY}/poddisruptionbudgets/counted", until=has("status.disruptionsAllowed", 1)),
    Request("an eviction of another uid", "POST", f"{PODS}/g3/eviction", eviction("g3") | {"deleteOptions": {"preconditions": {"uid": "other"}}}),
    Request("the budget has counted it", "POST", f"{PODS}/g3/eviction", eviction("g3")),
    Request("a second budget", "POST", f"{POLICY}/poddisruptionbudgets", budget("second", "guarded", maxUnavailable=1)),
    Request("an eviction with two budgets", "POST", f"{PODS}/g2/eviction", eviction("g2")),
    Request("a budget of both", "POST", f"{POLICY}/poddisruptionbudgets", budget("both", "x", maxUnavailable=1, minAvailable=1)),
]  # fmt: skip


def applied(name: str, manager: str, configuration: dict[str, Any], path: str = f"{MAPS}/m", query: str = "") -> Request:
    return Request(name, "PATCH", f"{path}?fieldManager={manager}{query}", configuration, APPLY)


WEB = f"{APPS}/deployments/applied"


def with_replicas(replicas: int) -> dict[str, Any]:
    made = deployment("applied")
    return made | {"spec": made["spec"] | {"replicas": replicas}}


def with_containers(*names: str) -> dict[str, Any]:
    made = deployment("applied")
    template = {"metadata": {"labels": {"app": "applied"}}, "spec": {"containers": [{"name": name, "image": "pause:3.7"} for name in names]}}
    return made | {"spec": {"selector": made["spec"]["selector"], "template": template}}


APPLYING = [
    applied("a map is applied", "one", config_map("m", a="1", b="1")),
    applied("a map is applied again", "one", config_map("m", a="1", b="1")),
    applied("a field of a map conflicts", "two", config_map("m", a="2")),
    applied("two fields of a map conflict", "two", config_map("m", a="2", b="2")),
    applied("the same value is shared", "two", config_map("m", a="1")),
    applied("a shared field is dropped", "one", config_map("m", b="1")),
    applied("an own field is dropped", "one", config_map("m")),
    applied("a field is taken by force", "three", config_map("m", a="3"), query="&force=true"),
    applied("a dry run of an application", "four", config_map("n", a="3"), path=f"{MAPS}/n", query="&dryRun=All"),
    applied("a map of another name", "one", config_map("other"), path=f"{MAPS}/m"),
    applied("a map of another kind", "one", config_map("m") | {"kind": "Secret"}),
    applied("a map with managed fields", "one", config_map("m") | {"metadata": {"name": "m", "managedFields": [{"manager": "x", "operation": "Apply"}]}}),
    applied("a map from an old revision", "one", config_map("m") | {"metadata": {"name": "m", "resourceVersion": "1"}}),
    applied("a map of another uid", "one", config_map("m") | {"metadata": {"name": "m", "uid": "other"}}),
    Request("a patch with force", "PATCH", f"{MAPS}/m?force=true", {"data": {"a": "4"}}, MERGE),
    Request("a patch takes a field", "PATCH", f"{MAPS}/m?fieldManager=kubectl-edit", {"data": {"a": "4"}}, MERGE),
    applied("the field of a patch conflicts", "three", config_map("m", a="5")),
    applied("a deployment is applied", "one", with_replicas(0), path=WEB),
    Request("a deployment is scaled by another", "PATCH", f"{WEB}/scale?fieldManager=scaler", {"spec": {"replicas": 1}}, MERGE),
    applied("the replicas conflict", "one", with_replicas(0), path=WEB),
    applied("the replicas are left to the other", "one", with_containers("c"), path=WEB),
    applied("a container is added by another", "two", with_containers("d"), path=WEB),
    applied("a container is there twice", "two", with_containers("d", "d"), path=WEB),
    applied("the container of one manager is dropped", "two", deployment("applied") | {"spec": {"selector": deployment("applied")["spec"]["selector"]}}, path=WEB),
]  # fmt: skip

REQUESTS = [*SCHEDULING, *EVICTIONS, *APPLYING]
