"""What API servers and other people's configuration do to nodeless, in a real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

import pytest

import objects
from scenario import Scenario, names, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment

FLOW = "nodeless-tests-starved"
HOLD = "example.com/hold"


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


def test_the_api_server_restarts_while_nodes_are_launched(deployment: Deployment) -> None:
    with Scenario(deployment, "restart") as scenario:
        scenario.apply(objects.deployment("restart", 3))
        scenario.wait("a NodeClaim", scenario.claims)
        deployment.plane.restart_server()
        scenario.all_run(3)
        scenario.initialized()


def test_a_watch_is_resumed_after_its_revision_is_compacted(deployment: Deployment) -> None:
    """The planner keeps its view of the cluster and the revision that it has read. Compaction and a restart remove that revision from
    etcd and from the API server's memory, so the watch ends with 410 and the view has to be read anew."""
    with Scenario(deployment, "compaction") as scenario:
        scenario.apply(objects.deployment("compaction", 1))
        scenario.all_run(1)
        deployment.plane.compact()
        deployment.plane.restart_server()
        scenario.plane.kubectl("scale", "deployment/compaction", "--replicas=4")
        scenario.all_run(4)
        scenario.initialized()


def test_an_api_server_that_rejects_calls_is_asked_again(deployment: Deployment) -> None:
    with Scenario(deployment, "starved") as scenario:
        with starved(deployment):
            scenario.apply(objects.deployment("starved", 2))
            scenario.wait("rejected calls", lambda: answered(deployment, 429) > 0)
            assert not scenario.claims() and not scenario.instances()
        scenario.all_run(2)


def test_a_webhook_of_the_user_that_rejects_nodeclaims_is_outlasted(deployment: Deployment) -> None:
    """An instance without a NodeClaim object is still launched, kept track of, and shown once the webhook allows it."""
    with Scenario(deployment, "rejected") as scenario:
        with rejecting(deployment, "karpenter.sh", "nodeclaims", "CREATE"):
            scenario.apply(objects.deployment("rejected", 1))
            scenario.wait("a refused NodeClaim", lambda: refused(deployment, "nodeclaims"))
            assert not scenario.claims()
        scenario.all_run(1)
        scenario.initialized(1)
        assert len(scenario.instances()) == 1, "the launch was not repeated"


def test_a_slow_webhook_delays_no_event_for_longer_than_its_timeout(deployment: Deployment) -> None:
    """The API server waits two seconds for wake and then stores the event all the same."""
    with Scenario(deployment, "slow") as scenario:
        deployment.relay.delay = 5
        try:
            scenario.apply(objects.deployment("slow", 1))
            scenario.wait("the event", lambda: failed_scheduling(deployment, "slow"))
            scenario.all_run(1)
        finally:
            deployment.relay.delay = 0


def test_a_token_that_is_no_longer_valid_is_renewed(deployment: Deployment) -> None:
    with Scenario(deployment, "token") as scenario:
        scenario.apply(objects.deployment("token", 1))
        scenario.all_run(1)
        deployment.authenticator.not_before = datetime.now(timezone.utc)
        scenario.plane.kubectl("scale", "deployment/token", "--replicas=4")
        scenario.all_run(4)
        assert any("expired" in why for why in deployment.authenticator.refused), "no token was refused, so this proves nothing"


@pytest.mark.parametrize("kind", ["nodes", "nodeclaims"])
def test_a_finalizer_of_others_keeps_the_object_and_not_the_instance(deployment: Deployment, kind: str) -> None:
    with Scenario(deployment, f"finalizer-{kind}") as scenario:
        scenario.apply(objects.deployment(f"finalizer-{kind}", 1))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        name = claim["status"]["nodeName"] if kind == "nodes" else claim["metadata"]["name"]
        finalizers = scenario.plane.get(kind, name)["metadata"].get("finalizers", [])
        scenario.patch(kind, name, {"metadata": {"finalizers": [*finalizers, HOLD]}})
        scenario.plane.kubectl("delete", "deployment", scenario.name)
        scenario.plane.kubectl("delete", "nodeclaim", claim["metadata"]["name"], "--wait=false")
        scenario.wait("the instance to be terminated", lambda: not scenario.instances())
        scenario.wait("only the other finalizer", lambda: scenario.plane.get(kind, name).get("metadata", {}).get("finalizers") in ([HOLD], None))
        scenario.patch(kind, name, {"metadata": {"finalizers": None}})
        scenario.wait("the NodeClaim to be gone", lambda: claim["metadata"]["name"] not in names(scenario.claims()))


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


# What is done to the cluster


@contextmanager
def starved(running: Deployment) -> Iterator[None]:
    """Priority and fairness reject every call of the functions with 429."""
    level = {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}
    subject = {"kind": "Group", "group": {"name": "nodeless:controllers"}}
    everything = [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]},
    ]
    schema = {
        "priorityLevelConfiguration": {"name": FLOW},
        "matchingPrecedence": 100,
        "rules": [{"subjects": [subject], "resourceRules": everything}],
    }
    for kind, spec in (("PriorityLevelConfiguration", level), ("FlowSchema", schema)):
        running.plane.apply({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, "metadata": {"name": FLOW}, "spec": spec})
    try:
        yield
    finally:
        running.plane.kubectl("delete", "flowschema,prioritylevelconfiguration", FLOW)


@contextmanager
def rejecting(running: Deployment, group: str, resource: str, operation: str) -> Iterator[None]:
    """A policy of the user's admits no object of this kind."""
    name = "nodeless-tests-reject"
    rule = {"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": [operation]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "rejected by a policy of the user"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    running.plane.apply(policy, binding)
    try:
        yield
    finally:
        running.plane.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)


# What the API server answered


def answered(running: Deployment, code: int) -> int:
    """How many calls of the functions the API server answered with this code."""
    return sum(call.code == code and "nodeless:controllers" in call.groups for call in running.plane.audit.calls())


def refused(running: Deployment, resource: str) -> bool:
    """Whether a write of nodeless to a resource was refused by admission."""
    return any(
        call.code in (403, 422) and call.right is not None and call.right.resource == resource and "nodeless:controllers" in call.groups
        for call in running.plane.audit.calls()
    )


def failed_scheduling(running: Deployment, app: str) -> list[dict[str, Any]]:
    return [
        event
        for event in running.plane.items("events")
        if event["reason"] == "FailedScheduling" and event["involvedObject"]["name"].startswith(f"{app}-")
        and event.get("reportingComponent", event.get("source", {}).get("component")) == "default-scheduler"
    ]
