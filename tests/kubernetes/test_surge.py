"""Successors before drains, with the Deployment controller of a real control plane (docs/surge.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import objects
from scenario import Scenario, Step, names, nothing, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment
from tools.terraform import ROOT

RIGHT = ROOT / "infra/rbac/optional/surge.yaml"
ANNOTATION = "nodeless.sh/surge-before-drain"
RAISED = "nodeless.sh/surge"


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


def test_without_the_right_it_is_reported_and_the_drain_continues(deployment: Deployment) -> None:
    with Scenario(deployment, "surge-denied") as scenario:
        scenario.apply(surged("surge-denied", "restart"))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        (pod,) = scenario.pods()
        scenario.plane.kubectl("delete", "nodeclaim", claim["metadata"]["name"], "--wait=false")
        # The right is missing.
        deployment.ministack.problems.allow("infra/rbac/optional/surge.yaml")
        scenario.wait("an event that the surge is refused", lambda: events(scenario, pod, "SurgeRefused"))
        scenario.wait("the NodeClaim to be gone", lambda: claim["metadata"]["name"] not in names(scenario.claims()))
        scenario.all_run(1)
        assert evicted(deployment, pod), "the pod was not evicted"
        (refused,) = events(scenario, pod, "SurgeRefused")
        assert "infra/rbac/optional/surge.yaml" in refused["message"], refused["message"]
        assert "restartedAt" not in str(scenario.plane.get("deployments", "surge-denied")["spec"]["template"])


@pytest.mark.parametrize("mode", ["restart", "scale"])
def test_the_last_ready_pod_gets_its_successor_first(deployment: Deployment, mode: str, between: Step = nothing) -> None:
    name = f"surge-{mode}" if between is nothing else f"surge-{mode}-disturbed"
    with right_to_surge(deployment), Scenario(deployment, name) as scenario:
        # The budget allows no eviction, so the drain ends only if the Deployment deletes the pod itself.
        scenario.apply(surged(name, mode), objects.budget(name, minAvailable=1))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        (pod,) = scenario.pods()
        scenario.plane.kubectl("delete", "nodeclaim", claim["metadata"]["name"], "--wait=false")
        scenario.wait("the successor to be created", lambda: len(scenario.pods()) > 1)
        between(scenario)
        scenario.wait("the NodeClaim to be gone", lambda: claim["metadata"]["name"] not in names(scenario.claims()))
        scenario.all_run(1)
        (successor,) = scenario.running_pods()
        # A function that ends before it publishes its Events does not publish them later.
        assert events(scenario, pod, "SurgeStarted") or between is not nothing
        assert not evicted(deployment, pod)
        check_ready_before_deleted(deployment, successor, pod)
        left = scenario.plane.get("deployments", name)
        assert left["spec"]["replicas"] == 1
        assert RAISED not in left["metadata"].get("annotations", {})
        assert ("restartedAt" in str(left["spec"]["template"])) == (mode == "restart")


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


def surged(name: str, mode: str) -> dict[str, Any]:
    manifest = objects.deployment(name, 1)
    manifest["spec"]["template"]["metadata"]["annotations"] = {ANNOTATION: mode}
    return manifest


@contextmanager
def right_to_surge(running: Deployment) -> Iterator[None]:
    """The optional role, as an administrator applies it."""
    running.plane.kubectl("apply", "-f", str(RIGHT))
    try:
        yield
    finally:
        running.plane.kubectl("delete", "-f", str(RIGHT))


def events(scenario: Scenario, pod: dict[str, Any], reason: str) -> list[dict[str, Any]]:
    found = scenario.plane.items("events")
    return [e for e in found if e["reason"] == reason and e["involvedObject"].get("uid") == pod["metadata"]["uid"]]


def evicted(running: Deployment, pod: dict[str, Any]) -> bool:
    """Whether an eviction of the pod was allowed, by the audit log."""
    return any(
        call.right is not None and call.right.resource == "pods/eviction" and call.name == pod["metadata"]["name"] and call.code in (200, 201)
        for call in running.plane.audit.calls()
    )


def check_ready_before_deleted(running: Deployment, successor: dict[str, Any], pod: dict[str, Any]) -> None:
    """By the audit log, kwok reported the successor as running before a controller deleted the pod."""
    calls = [call for call in running.plane.audit.calls() if call.right is not None]
    ran = next(
        i for i, call in enumerate(calls)
        if call.name == successor["metadata"]["name"] and call.right.resource == "pods/status" and call.user == "kwok"
    )  # fmt: skip
    deleted = next(
        i for i, call in enumerate(calls)
        if call.name == pod["metadata"]["name"] and call.right.resource == "pods" and call.right.verb == "delete" and call.user != "kwok"
    )  # fmt: skip
    assert calls[deleted].user.endswith("replicaset-controller"), f"{calls[deleted].user} deleted the pod"
    assert ran < deleted, "the pod was deleted before its successor ran"
