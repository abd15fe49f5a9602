"""Faults of the API server, and configuration of users that affects nodeless, in a real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from typing import Any

import pytest

import objects
from scenario import Scenario, instance_of, interrupt, names, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment
from tools.control_plane.rights import FUNCTIONS, of_nodeless
from tools.processes import wait_for

FLOW = "nodeless-tests-starved"
HOLD = "example.com/hold"
GATED = "gated"
# Up to 250 objects of a kind are listed for each plan.
MORE_THAN_ARE_LISTED = 260


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)
    # The API server does not answer, or rejects calls, in most of these tests.
    deployment.ministack.problems.allow_any()


def test_the_api_server_restarts_while_nodes_are_launched(deployment: Deployment) -> None:
    with Scenario(deployment, "restart") as scenario:
        scenario.apply(objects.deployment("restart", 3))
        scenario.wait("a NodeClaim", scenario.claims)
        deployment.plane.restart_server()
        scenario.all_run(3)
        scenario.initialized()


def test_the_api_server_restarts_while_nodes_are_replaced_and_removed(deployment: Deployment) -> None:
    """The API server restarts when each scenario has begun and usually has not ended."""
    empty = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5s"}
    with ExitStack() as entered:
        drift, spot, deletion = (entered.enter_context(Scenario(deployment, f"restart-{name}")) for name in ("drift", "spot", "deletion"))
        emptied = entered.enter_context(Scenario(deployment, "restart-emptied", disruption=empty))
        static = entered.enter_context(Scenario(deployment, "restart-static", replicas=1))
        launched = (drift, spot, deletion, emptied)
        for scenario in launched:
            scenario.apply(objects.deployment(scenario.name, 1))
        before = {}
        for scenario in (*launched, static):
            (claim,) = scenario.initialized(1)
            before[scenario.name] = claim

        def begin_drift() -> None:
            drift.patch("nodepool", drift.name, {"spec": {"template": {"metadata": {"labels": {"team": "search"}}}}})

        begin = {
            drift: begin_drift,
            spot: lambda: interrupt(deployment, instance_of(before[spot.name])),
            deletion: lambda: deletion.plane.kubectl("delete", "nodeclaim", before[deletion.name]["metadata"]["name"], "--wait=false"),
            emptied: lambda: emptied.plane.kubectl("scale", f"deployment/{emptied.name}", "--replicas=0"),
            static: lambda: static.plane.kubectl("scale", f"nodepool/{static.name}", "--replicas=2"),
        }
        for scenario, action in begin.items():
            action()
            scenario.wait("the NodeClaims to change", lambda s=scenario: changed(s, before[s.name]))
            deployment.plane.restart_server()
        for scenario in (drift, spot, deletion):
            scenario.wait("another NodeClaim", lambda s=scenario: before[s.name]["metadata"]["name"] not in names(s.claims()) and s.claims())
            scenario.all_run(1)
            scenario.initialized(1)
        emptied.wait("no nodes", lambda: not emptied.claims() and not emptied.nodes() and not emptied.instances())
        static.initialized(2)
        assert before[static.name]["metadata"]["name"] in names(static.claims())


def test_a_view_is_listed_again_after_the_revision_of_its_watch_is_gone(deployment: Deployment) -> None:
    """The planner caches more pods than it lists for each plan, and the revision at which its watch ended. Compaction and a restart remove
    that revision from etcd and from the API server's memory, so the next watch ends with 410 and the pods are listed."""
    with many_pods(deployment), Scenario(deployment, "compaction") as scenario:
        scenario.apply(objects.deployment("compaction", 1))
        scenario.all_run(1)
        scenario.initialized(1)
        scenario.wait("a watch of pods", lambda: watches_of_pods(deployment))
        assert not not_resumed(deployment), "a watch that can be resumed proves that the view is current"
        # A plan that finds no API server lists the pods next. None begins within a minute after one that has ended, because no pod waits.
        before = plans(deployment)
        scenario.wait("the end of a plan", lambda: plans(deployment) > before)
        deployment.plane.compact()
        deployment.plane.restart_server()
        scenario.plane.kubectl("scale", "deployment/compaction", "--replicas=4")
        scenario.wait("the revision to be refused", lambda: any("has expired" in why for why in not_resumed(deployment)))
        scenario.all_run(4)
        used = {pod["spec"]["nodeName"] for pod in scenario.pods()}
        assert {claim["status"]["nodeName"] for claim in scenario.initialized()} == used, "a node was launched for pods that had one"


def test_an_api_server_that_rejects_calls_is_asked_again(deployment: Deployment) -> None:
    with Scenario(deployment, "starved") as scenario:
        with starved(deployment):
            scenario.apply(objects.deployment("starved", 2))
            scenario.wait("rejected calls", lambda: answered(deployment, 429) > 0)
            assert not scenario.claims() and not scenario.instances()
        scenario.all_run(2)


def test_a_webhook_of_the_user_that_rejects_nodeclaims_is_outlasted(deployment: Deployment) -> None:
    """An instance is launched and tracked without a NodeClaim object, which is created when the webhook allows it."""
    with Scenario(deployment, "rejected") as scenario:
        with rejecting(deployment, "karpenter.sh", "nodeclaims", "CREATE"):
            scenario.apply(objects.deployment("rejected", 1))
            scenario.wait("a refused NodeClaim", lambda: refused(deployment, "nodeclaims"))
            assert not scenario.claims()
        scenario.all_run(1)
        scenario.initialized(1)
        assert len(scenario.instances()) == 1, "the launch was repeated"


def test_a_slow_webhook_delays_no_event_for_longer_than_its_timeout(deployment: Deployment) -> None:
    """The API server waits two seconds for wake, and then stores the event."""
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
        assert any("expired" in why for why in deployment.authenticator.refused), "no token was rejected, so the test has no effect"


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


# Changes of the cluster


@contextmanager
def starved(running: Deployment) -> Iterator[None]:
    """Priority and fairness reject every call of the functions with 429."""
    level = {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}
    subjects = [{"kind": "Group", "group": {"name": f"nodeless:{name}"}} for name in FUNCTIONS]
    everything = [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]},
    ]
    schema = {
        "priorityLevelConfiguration": {"name": FLOW},
        "matchingPrecedence": 100,
        "rules": [{"subjects": subjects, "resourceRules": everything}],
    }
    for kind, spec in (("PriorityLevelConfiguration", level), ("FlowSchema", schema)):
        running.plane.apply({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, "metadata": {"name": FLOW}, "spec": spec})
    try:
        yield
    finally:
        running.plane.kubectl("delete", "flowschema,prioritylevelconfiguration", FLOW)


@contextmanager
def many_pods(running: Deployment) -> Iterator[None]:
    """More pods than are listed for each plan. Their scheduling gates keep them from being scheduled, and from nodes being launched for them."""
    pods = f"/api/v1/namespaces/{GATED}/pods"

    def create(number: int) -> int:
        spec = objects.pod_spec("none", schedulingGates=[{"name": "example.com/never"}])
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"gated-{number:03}", "namespace": GATED}, "spec": spec}
        return running.plane.client.call("POST", pods, pod).status

    running.plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GATED}})
    wait_for("the service account", lambda: running.plane.client.call("GET", f"/api/v1/namespaces/{GATED}/serviceaccounts/default").status == 200, 60)
    with ThreadPoolExecutor(4) as pool:
        statuses = set(pool.map(create, range(MORE_THAN_ARE_LISTED)))
    try:
        assert statuses == {201}, statuses
        yield
    finally:
        running.plane.kubectl("delete", "namespace", GATED)


@contextmanager
def rejecting(running: Deployment, group: str, resource: str, operation: str) -> Iterator[None]:
    """A policy of the user rejects all objects of this kind."""
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


def changed(scenario: Scenario, before: dict[str, Any]) -> bool:
    """Whether the single NodeClaim is being deleted, or there are others."""
    found = {claim["metadata"]["name"]: claim for claim in scenario.claims()}
    earlier = found.get(before["metadata"]["name"])
    return earlier is None or len(found) > 1 or "deletionTimestamp" in earlier["metadata"]


# Responses of the API server


def answered(running: Deployment, code: int) -> int:
    """The number of calls of the functions with this status code."""
    return sum(call.code == code and of_nodeless(call) for call in running.plane.audit.calls())


def watches_of_pods(running: Deployment) -> int:
    """The number of watches of pods by the planner."""
    planner = running.functions()["planner"]
    return sum(str(call.right) == "watch pods" and call.user.endswith(f"/{planner}") for call in running.plane.audit.calls())


def plans(running: Deployment) -> int:
    """The number of plans that have ended."""
    return len(running.logged("planner", "plan-made"))


def not_resumed(running: Deployment) -> list[str]:
    """Why the planner listed pods instead of resuming their watch."""
    return [line["why"] for line in running.logged("planner", "watch-not-resumed") if line["kind"] == "Pod"]


def refused(running: Deployment, resource: str) -> bool:
    """Whether admission rejected a write of nodeless to a resource."""
    return any(
        call.code in (403, 422) and call.right is not None and call.right.resource == resource and of_nodeless(call)
        for call in running.plane.audit.calls()
    )


def failed_scheduling(running: Deployment, app: str) -> list[dict[str, Any]]:
    return [
        event
        for event in running.plane.items("events")
        if event["reason"] == "FailedScheduling" and event["involvedObject"]["name"].startswith(f"{app}-")
        and event.get("reportingComponent", event.get("source", {}).get("component")) == "default-scheduler"
    ]
