"""Admission webhooks in a real API server: one of a user that rejects or delays the writes of nodeless, and that of nodeless itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import objects
from scenario import Scenario, condition, names, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment
from tools.control_plane.relay import Relay

POLICY = "policy.example.com"
NODES = {"apiGroups": [""], "resources": ["nodes"], "operations": ["UPDATE"]}
EVICTIONS = {"apiGroups": [""], "resources": ["pods/eviction"], "operations": ["CREATE"]}
EVENTS = {"apiGroups": [""], "resources": ["events"], "operations": ["CREATE", "UPDATE"]}
STATUSES = {
    "apiGroups": ["karpenter.sh", "karpenter.k8s.aws"],
    "resources": ["nodeclaims/status", "nodepools/status", "ec2nodeclasses/status"],
    "operations": ["UPDATE"],
}
# What nodeless reports about a rejection, and about a webhook that does not answer in its timeout.
REJECTED, UNANSWERED = "has to let it through", "does not answer in time"


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


@pytest.mark.parametrize("fault", ["rejects", "does-not-answer"])
def test_a_node_whose_changes_a_webhook_refuses_joins_when_it_allows_them(deployment: Deployment, fault: str) -> None:
    refuses, words = {"rejects": ({"reject": True}, REJECTED), "does-not-answer": ({"delay": 3, "timeout": 1}, UNANSWERED)}[fault]
    name = f"nodes-{fault}"
    with Scenario(deployment, name) as scenario:
        deployment.ministack.problems.expect(words)
        with users_webhook(deployment, NODES, **refuses):
            scenario.apply(objects.deployment(name, 1))
            scenario.wait("the reason in the log of lifecycle", lambda: reported(deployment, name, words))
            assert not any(condition(claim, "Registered") for claim in scenario.claims())
        scenario.all_run(1)
        scenario.initialized(1)
        assert len(scenario.instances()) == 1, "the launch was repeated"


def test_a_pod_whose_eviction_a_webhook_rejects_stays_until_it_allows_it(deployment: Deployment) -> None:
    with Scenario(deployment, "evictions") as scenario:
        scenario.apply(objects.deployment("evictions", 1))
        scenario.all_run(1)
        (claim,) = scenario.initialized(1)
        (pod,) = scenario.pods()
        with users_webhook(deployment, EVICTIONS, reject=True):
            scenario.plane.kubectl("delete", "nodeclaim", claim["metadata"]["name"], "--wait=false")
            scenario.wait("an event about the node", lambda: failed_to_drain(scenario, claim["status"]["nodeName"]))
            (event, *_) = failed_to_drain(scenario, claim["status"]["nodeName"])
            assert REJECTED in event["message"], event["message"]
            assert pod["metadata"]["uid"] in [p["metadata"]["uid"] for p in scenario.running_pods()]
        scenario.wait("the NodeClaim to be gone", lambda: claim["metadata"]["name"] not in names(scenario.claims()))
        scenario.all_run(1)


@pytest.mark.parametrize("rule", [EVENTS, STATUSES], ids=["events", "statuses"])
def test_pods_get_nodes_while_a_webhook_rejects_reports(deployment: Deployment, rule: dict[str, Any]) -> None:
    name = f"no-{rule['resources'][0].partition('/')[0]}"
    with Scenario(deployment, name) as scenario:
        deployment.ministack.problems.expect(REJECTED)
        with users_webhook(deployment, rule, reject=True) as webhook:
            scenario.apply(objects.deployment(name, 2))
            scenario.all_run(2)
            assert webhook.calls, "no report was rejected, so the test has no effect"
        scenario.initialized()
        scenario.wait("the NodePool to be ready", lambda: condition(scenario.plane.get("nodepools", name), "Ready"))


def test_nodes_come_and_go_while_a_webhook_is_slow(deployment: Deployment) -> None:
    with Scenario(deployment, "slow-writes") as scenario, users_webhook(deployment, NODES, EVICTIONS, EVENTS, STATUSES, delay=2, timeout=10) as webhook:
        scenario.apply(objects.deployment("slow-writes", 2))
        scenario.all_run(2)
        earlier = set(names(scenario.initialized()))
        for claim in earlier:
            scenario.plane.kubectl("delete", "nodeclaim", claim, "--wait=false")
        scenario.wait("other NodeClaims", lambda: scenario.claims() and not earlier & set(names(scenario.claims())))
        scenario.all_run(2)
        scenario.initialized()
        delayed = {reviewed.review["request"]["resource"]["resource"] for reviewed in webhook.calls}
        assert {"nodes", "pods", "events", "nodeclaims"} <= delayed, delayed


def test_wake_is_called_for_new_generations_of_an_ec2nodeclass_only(deployment: Deployment) -> None:
    plane, before, name = deployment.plane, len(deployment.relay.calls), "called"
    plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(objects.node_class(name, str(deployment.outputs["node_role_name"]))))
    plane.apply(objects.node_class(name, str(deployment.outputs["node_role_name"])))
    # Catalog and lifecycle write annotations, a finalizer and the status.
    deployment.wait("the EC2NodeClass to be ready", lambda: condition(plane.get("ec2nodeclasses", name), "Ready"), 300)
    plane.kubectl("label", "ec2nodeclass", name, "team=search")
    plane.kubectl("patch", "ec2nodeclass", name, "--type=merge", "--dry-run=server", "-p", '{"spec": {"tags": {"a": "c"}}}')
    plane.kubectl("patch", "ec2nodeclass", name, "--type=merge", "-p", '{"spec": {"tags": {"a": "b"}}}')
    deployment.wait("the EC2NodeClass to be ready", lambda: condition(plane.get("ec2nodeclasses", name), "Ready"), 300)
    plane.kubectl("delete", "ec2nodeclass", name, "--wait=false")
    deployment.wait("the EC2NodeClass to be gone", lambda: not plane.get("ec2nodeclasses", name), 300)
    reviews = called(deployment, before, "ec2nodeclasses", name)
    assert operations(reviews) == ["CREATE", "UPDATE", "DELETE"]
    updates = [review for review in reviews if review["operation"] == "UPDATE"]
    assert all(review["object"]["spec"]["tags"] == {"a": "b"} != review["oldObject"]["spec"].get("tags") for review in updates)


def test_wake_is_called_for_deletions_that_others_request_only(deployment: Deployment) -> None:
    plane, before = deployment.plane, len(deployment.relay.calls)
    plane.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "of-no-pool"}})
    with Scenario(deployment, "deletions") as scenario:
        scenario.apply(objects.deployment("deletions", 2, affinity=objects.apart("deletions")))
        scenario.all_run(2)
        first, second = scenario.initialized(2)
        claim, node = first["metadata"]["name"], second["status"]["nodeName"]
        budget = objects.budget("deletions", minAvailable=2)
        scenario.apply(budget)
        plane.kubectl("delete", "nodeclaim", claim, "--wait=false", "--dry-run=server")
        for _ in range(2):
            plane.kubectl("delete", "nodeclaim", claim, "--wait=false")
        plane.kubectl("delete", "node", "of-no-pool")
        plane.kubectl("delete", "node", node, "--wait=false")
        plane.kubectl("delete", "poddisruptionbudget", "deletions")
        gone = {claim, second["metadata"]["name"]}
        scenario.wait("other NodeClaims", lambda: scenario.claims() and not gone & set(names(scenario.claims())))
        scenario.all_run(2)
        plane.kubectl("delete", "nodepool", "deletions", "--wait=false")
        scenario.wait("no nodes", lambda: not scenario.claims() and not scenario.nodes())
    for resource, name in (("nodeclaims", claim), ("nodes", node), ("nodepools", "deletions")):
        reviews = called(deployment, before, resource, name)
        assert operations(reviews) == ["DELETE"], resource
        assert not [review for review in reviews if "deletionTimestamp" in review["oldObject"]["metadata"]], "it was being deleted already"
    assert not called(deployment, before, "nodes", "of-no-pool")
    assert not called(deployment, before, "nodeclaims", second["metadata"]["name"]), "lifecycle deletes the NodeClaim of the Node"


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


@contextmanager
def users_webhook(running: Deployment, *rules: dict[str, Any], reject: bool = False, delay: float = 0, timeout: int = 10) -> Iterator[Relay]:
    """A webhook of a user that the API server calls for writes of nodeless."""

    def answer(_: str, review: dict[str, Any]) -> tuple[int, bytes]:
        response = {"uid": review["request"]["uid"], "allowed": not reject, "status": {"message": "not now"}}
        return 200, json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()

    authority = running.plane.authority
    with Relay(authority.server("users-webhook"), answer, delay=delay) as relay:
        webhook = {
            "name": POLICY,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": timeout,
            "clientConfig": {"url": relay.url, "caBundle": authority.pair.certificate_data()},
            "rules": [{**rule, "apiVersions": ["*"]} for rule in rules],
            "matchConditions": [{"name": "by-nodeless", "expression": 'request.userInfo.groups.exists(group, group.startsWith("nodeless:"))'}],
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": POLICY}}
        running.plane.apply(kind | {"webhooks": [webhook]})
        try:
            yield relay
        finally:
            running.plane.kubectl("delete", "validatingwebhookconfiguration", POLICY)


def reported(running: Deployment, pool: str, words: str) -> list[dict[str, Any]]:
    """The log lines about claims of a NodePool that name the webhook of the user and what to do about it."""
    waiting = [line for line in running.logged("lifecycle", "claim-waits") if line["claim"].startswith(f"{pool}-")]
    return [line for line in waiting if POLICY in line["why"] and words in line["why"]]


def failed_to_drain(scenario: Scenario, node: str) -> list[dict[str, Any]]:
    """Events that the webhook of the user rejects an eviction of a pod on a node."""
    found = [e for e in scenario.plane.items("events") if e["reason"] == "FailedDraining" and e["involvedObject"]["name"] == node]
    return [e for e in found if POLICY in e["message"]]


def called(running: Deployment, before: int, resource: str, name: str) -> list[dict[str, Any]]:
    """The requests on an object for which the API server has called wake. None is only tried."""
    reviews = [call.review["request"] for call in running.relay.calls[before:]]
    found = [review for review in reviews if review["resource"]["resource"] == resource and review["name"] == name]
    assert not [review for review in found if review.get("dryRun")]
    return found


def operations(reviews: list[dict[str, Any]]) -> list[str]:
    """The operations, each once: after a conflict, the API server calls the webhook again for the same request."""
    return list(dict.fromkeys(review["operation"] for review in reviews))
