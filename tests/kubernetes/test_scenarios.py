"""The real functions in a cluster with a real control plane: real FailedScheduling events, real admission, real evictions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

import pytest

import objects
from scenario import Scenario, Step, condition, instance_of, interrupt, names, nothing, nothing_is_left, ready_class, zone
from tools.control_plane.deployment import WEBHOOK, Deployment
from tools.control_plane.volumes import Provisioner

WINDOWS = "nodeless.sh/maintenance-windows"


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


def test_pending_pods_get_nodes_by_the_webhook(deployment: Deployment) -> None:
    before = len(deployment.relay.calls)
    with Scenario(deployment, "scale-up") as scenario:
        scenario.apply(objects.deployment("scale-up", 5))
        scenario.all_run(5)
        check_joined(scenario)
        check_webhook(deployment, before)


def test_pending_pods_get_nodes_without_the_webhook(deployment: Deployment) -> None:
    with without_webhook(deployment), Scenario(deployment, "heartbeat") as scenario:
        before = len(deployment.relay.calls)
        scenario.apply(objects.deployment("heartbeat", 2))
        scenario.all_run(2)
        check_joined(scenario)
        assert len(deployment.relay.calls) == before


def test_nodes_go_when_their_pods_are_gone(deployment: Deployment) -> None:
    with Scenario(deployment, "scale-down", disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5s"}) as scenario:
        scenario.apply(objects.deployment("scale-down", 6))
        scenario.all_run(6)
        instances = len(scenario.instances())
        scenario.plane.kubectl("scale", "deployment/scale-down", "--replicas=1")
        scenario.wait("fewer or smaller nodes", lambda: len(scenario.instances()) < instances)
        scenario.all_run(1)
        scenario.plane.kubectl("scale", "deployment/scale-down", "--replicas=0")
        scenario.wait("no nodes", lambda: not scenario.nodes() and not scenario.claims() and not scenario.instances())


def test_a_node_is_replaced_by_a_cheaper_one_before_its_pods_leave(deployment: Deployment, name: str = "cheaper", between: Step = nothing) -> None:
    with Scenario(deployment, name, disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5s"}) as scenario:
        # Two pods that share a node by their affinity: one that needs a large node, and one that is left.
        large = f"{name}-large"
        term = {"topologyKey": objects.HOST_LABEL, "labelSelector": {"matchLabels": {"app": name}}}
        together = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        scenario.apply(objects.deployment(name, 1, "500m"))
        scenario.apply(objects.workload("Deployment", large, objects.pod_spec(name, "2500m", affinity=together), replicas=1))
        scenario.all_run(1)
        scenario.all_run(1, large)
        (claim,) = scenario.initialized(1)
        (node,) = scenario.nodes()
        scenario.plane.kubectl("scale", f"deployment/{large}", "--replicas=0")
        scenario.wait("another NodeClaim", lambda: len(scenario.claims()) > 1)
        between(scenario)
        scenario.wait("another NodeClaim alone", lambda: len(found := scenario.claims()) == 1 and claim["metadata"]["name"] not in names(found))
        scenario.all_run(1)
        scenario.initialized(1)
        (cheaper,) = scenario.nodes()
        assert int(cheaper["status"]["capacity"]["cpu"]) < int(node["status"]["capacity"]["cpu"])
        check_joined_before_evictions(deployment, cheaper["metadata"]["name"], name)


def test_nodes_that_drifted_are_replaced(deployment: Deployment) -> None:
    with Scenario(deployment, "drift") as scenario:
        scenario.apply(objects.deployment("drift", 2))
        scenario.all_run(2)
        earlier = set(names(scenario.initialized()))
        scenario.patch("nodepool", "drift", {"spec": {"template": {"metadata": {"labels": {"team": "search"}}}}})
        scenario.wait("new NodeClaims in place of all earlier ones", lambda: scenario.claims() and not earlier & set(names(scenario.claims())))
        scenario.all_run(2)
        assert {n["metadata"]["labels"].get("team") for n in scenario.nodes()} == {"search"}


def test_drifted_nodes_wait_for_a_maintenance_window(deployment: Deployment) -> None:
    with maintenance_windows(deployment, f"0 0 1 {(datetime.now(timezone.utc).month + 5) % 12 + 1} * for 1h"), Scenario(deployment, "window") as scenario:
        scenario.apply(objects.deployment("window", 1))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        scenario.patch("nodepool", "window", {"spec": {"template": {"metadata": {"labels": {"team": "search"}}}}})
        scenario.wait("the reason in an event", lambda: blocked(scenario, claim, "No maintenance window is open"))
        assert names(scenario.claims()) == names([claim])
        deployment.plane.kubectl("annotate", "namespace", "kube-system", "--overwrite", f"{WINDOWS}=* * * * * for 1h")
        scenario.wait("another NodeClaim", lambda: scenario.claims() and claim["metadata"]["name"] not in names(scenario.claims()))
        scenario.all_run(1)


def test_a_spot_warning_replaces_the_node(deployment: Deployment) -> None:
    with Scenario(deployment, "interruption") as scenario:
        scenario.apply(objects.deployment("interruption", 1))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        interrupt(deployment, instance_of(claim))
        scenario.wait("another NodeClaim", lambda: scenario.claims() and claim["metadata"]["name"] not in names(scenario.claims()))
        scenario.all_run(1)


@pytest.mark.parametrize("kind", ["node", "nodeclaim"])
def test_deleting_a_node_or_its_claim_terminates_the_instance(deployment: Deployment, kind: str) -> None:
    with Scenario(deployment, f"delete-{kind}") as scenario:
        scenario.apply(objects.deployment(f"delete-{kind}", 1))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        instance = instance_of(claim)
        name = claim["status"]["nodeName"] if kind == "node" else claim["metadata"]["name"]
        scenario.plane.kubectl("delete", kind, name, "--wait=false")
        scenario.wait("the instance to be terminated", lambda: instance not in scenario.instances())
        scenario.wait("the NodeClaim to be gone", lambda: claim["metadata"]["name"] not in names(scenario.claims()))
        scenario.all_run(1)


def test_deleting_a_nodepool_removes_its_nodes_and_an_ec2nodeclass_waits_for_them(
    deployment: Deployment, name: str = "delete-all", between: Step = nothing
) -> None:
    plane = deployment.plane
    plane.apply(objects.node_class(name, str(deployment.outputs["node_role_name"])))
    with Scenario(deployment, name) as scenario:
        scenario.apply(objects.node_pool(name, name))
        scenario.apply(objects.deployment(name, 1))
        scenario.all_run(1)
        scenario.initialized(1)
        plane.kubectl("delete", "ec2nodeclass", name, "--wait=false")
        between(scenario)
        plane.kubectl("delete", "nodepool", name, "--wait=false")
        between(scenario)
        scenario.wait("no NodePool, NodeClaim, Node or instance", lambda: not (scenario.claims() or scenario.nodes() or scenario.instances()))
        scenario.wait("no EC2NodeClass", lambda: name not in names(plane.items("ec2nodeclasses")))


def test_a_disruption_budget_holds_up_the_drain(deployment: Deployment, name: str = "budget", between: Step = nothing) -> None:
    with Scenario(deployment, name) as scenario:
        scenario.apply(objects.deployment(name, 1), objects.budget(name, minAvailable=1))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        (pod,) = scenario.pods()
        scenario.plane.kubectl("delete", "nodeclaim", claim["metadata"]["name"], "--wait=false")
        scenario.wait("a taint on the node", lambda: tainted(scenario, claim["status"]["nodeName"]))
        scenario.wait("a refused eviction in the audit log", lambda: evictions(deployment, name, 429))
        between(scenario)
        assert pod["metadata"]["uid"] in [p["metadata"]["uid"] for p in scenario.running_pods()], "the budget allows no eviction"
        scenario.patch("poddisruptionbudget", name, {"spec": {"minAvailable": 0}})
        scenario.wait("the NodeClaim to be gone", lambda: claim["metadata"]["name"] not in names(scenario.claims()))
        scenario.all_run(1)


def test_a_stateful_set_returns_to_the_zones_of_its_volumes(deployment: Deployment, name: str = "stateful", between: Step = nothing) -> None:
    with Scenario(deployment, name) as scenario:
        scenario.apply(objects.storage_class(), objects.stateful_set(name, 2))
        with Provisioner(scenario.plane):
            scenario.all_run(2)
            zones = zones_by_pod(scenario)
            earlier = set(names(scenario.initialized()))
            for claim in earlier:
                scenario.plane.kubectl("delete", "nodeclaim", claim, "--wait=false")
            between(scenario)
            scenario.wait("other NodeClaims", lambda: scenario.claims() and not earlier & set(names(scenario.claims())))
            scenario.all_run(2)
        assert zones_by_pod(scenario) == zones


def test_a_daemon_set_is_counted_and_keeps_no_node(deployment: Deployment, name: str = "daemons", between: Step = nothing) -> None:
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5s"}
    with Scenario(deployment, name, disruption=disruption) as scenario:
        agent = f"{name}-agent"
        scenario.apply(objects.workload("DaemonSet", agent, objects.pod_spec(name, "500m")))
        scenario.apply(objects.deployment(name, 2, "1500m"))
        scenario.wait("a NodeClaim", scenario.claims)
        between(scenario)
        scenario.all_run(2)
        scenario.wait("an agent on each node", lambda: len(scenario.running_pods(agent)) == len(scenario.nodes()))
        for claim in scenario.initialized():
            assert claim["spec"]["resources"]["requests"]["cpu"] in ("2", "3500m"), "a pod of the DaemonSet and one or two others"
        scenario.plane.kubectl("scale", f"deployment/{name}", "--replicas=0")
        scenario.wait("a NodeClaim that is being deleted", lambda: any("deletionTimestamp" in c["metadata"] for c in scenario.claims()) or not scenario.claims())
        between(scenario)
        scenario.wait("no nodes", lambda: not scenario.nodes() and not scenario.instances())


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


# Parts of scenarios


def check_joined(scenario: Scenario) -> None:
    """Each instance has one NodeClaim and one Node, and nodeless has removed its taints from the Nodes."""
    claims, nodes = scenario.initialized(), scenario.nodes()
    assert {n["spec"]["providerID"].rsplit("/", 1)[-1] for n in nodes} == scenario.instances()
    assert {c["status"]["nodeName"] for c in claims} == set(names(nodes))
    assert not [t for n in nodes for t in n["spec"].get("taints", ()) if t["key"].startswith("karpenter.sh/")]
    scenario.wait("the NodePool to be ready", lambda: condition(scenario.plane.get("nodepools", scenario.name), "Ready"))


def check_joined_before_evictions(running: Deployment, node: str, app: str) -> None:
    """By the audit log, a Node was registered before the first pod of a Deployment was evicted."""
    calls = [call for call in running.plane.audit.calls() if call.right is not None]
    joined = next(i for i, call in enumerate(calls) if call.right.resource == "nodes" and call.right.verb == "create" and call.name == node)
    evicted = next(i for i, call in enumerate(calls) if call.right.resource == "pods/eviction" and call.name.startswith(f"{app}-"))
    assert joined < evicted, "a pod was evicted before there was another node"


def check_webhook(running: Deployment, before: int) -> None:
    """The API server called wake for FailedScheduling events of the scheduler and for no other event."""
    reviews = [call.review["request"] for call in running.relay.calls[before:]]
    called = [r for r in reviews if r["resource"]["resource"] == "events"]
    assert called, "the API server called wake for no event"
    assert {r["object"]["reason"] for r in called} == {"FailedScheduling"}
    assert {r["userInfo"]["username"] for r in called} == {"system:kube-scheduler"}
    others = {e["reason"] for e in running.plane.items("events")} - {"FailedScheduling"}
    assert others, "there were no events with other reasons, so the conditions were not tested"
    delays = sorted(milliseconds(call) for call in running.relay.calls[before:] if call.review["request"]["operation"] == "CREATE")
    print(f"\nwake was called {len(called)} times, {delays[0]:.0f} to {delays[-1]:.0f} ms after the event")


def milliseconds(call: Any) -> float:
    """The time from the scheduler's event to the call of the webhook."""
    at = call.review["request"]["object"].get("eventTime") or call.review["request"]["object"]["firstTimestamp"]
    return (call.at - datetime.fromisoformat(at.replace("Z", "+00:00")).astimezone(timezone.utc)).total_seconds() * 1000


@contextmanager
def maintenance_windows(running: Deployment, windows: str) -> Iterator[None]:
    """Nodes of the cluster are disrupted voluntarily only within these windows."""
    running.plane.kubectl("annotate", "namespace", "kube-system", "--overwrite", f"{WINDOWS}={windows}")
    try:
        yield
    finally:
        running.plane.kubectl("annotate", "namespace", "kube-system", f"{WINDOWS}-")


def blocked(scenario: Scenario, claim: dict[str, Any], reason: str) -> list[dict[str, Any]]:
    """Events that a NodeClaim or its Node is not disrupted for this reason."""
    about = (claim["metadata"]["name"], claim["status"]["nodeName"])
    events = [e for e in scenario.plane.items("events") if e["reason"] == "DisruptionBlocked" and e["involvedObject"]["name"] in about]
    return [event for event in events if reason in event["message"]]


@contextmanager
def without_webhook(running: Deployment) -> Iterator[None]:
    """Removes the webhook's configuration temporarily, as if the function's URL could not be reached."""
    kept = json.loads(running.plane.kubectl("get", "validatingwebhookconfiguration", WEBHOOK, "-o", "json"))
    running.plane.kubectl("delete", "validatingwebhookconfiguration", WEBHOOK)
    try:
        yield
    finally:
        kept["metadata"] = {key: kept["metadata"][key] for key in ("name", "labels")}
        running.plane.kubectl("create", "-f", "-", stdin=json.dumps(kept))


def tainted(scenario: Scenario, node: str) -> bool:
    return any(t["key"] == "karpenter.sh/disrupted" for t in scenario.plane.get("nodes", node).get("spec", {}).get("taints", ()))


def evictions(running: Deployment, app: str, code: int) -> int:
    """The number of evictions of pods of a Deployment with this status code."""
    calls = [call for call in running.plane.audit.calls() if call.right is not None and call.right.resource == "pods/eviction"]
    return sum(call.name.startswith(f"{app}-") and call.code == code for call in calls)


def zones_by_pod(scenario: Scenario) -> dict[str, str]:
    zones = {node["metadata"]["name"]: zone(node) for node in scenario.nodes()}
    return {pod["metadata"]["name"]: zones[pod["spec"]["nodeName"]] for pod in scenario.running_pods()}
