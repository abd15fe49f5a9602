"""Checks names and numbers that Terraform shares with other parts, without Terraform: metrics, environment variables, RBAC groups, the
conditions of the webhook, sample events, the number of attempts for a message, and the resources that stay after a migration back to
Karpenter.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import celpy
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.control_plane.rights import FUNCTIONS, documented_as_unused, granted  # noqa: E402
from tools.terraform import ROOT  # noqa: E402


def documents(directory: str) -> Iterator[dict[str, Any]]:
    for file in sorted((ROOT / directory).glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text())


def check_rbac() -> None:
    """Every group of an access entry is bound to a role that exists, and no role allows everything."""
    roles = {d["metadata"]["name"]: d for d in documents("infra/rbac") if d["kind"] == "ClusterRole"}
    bindings = [d for d in documents("infra/rbac") if d["kind"] == "ClusterRoleBinding"]
    bound = {subject["name"]: b["roleRef"]["name"] for b in bindings for subject in b["subjects"]}
    expected = set(re.findall(r'"(nodeless:\w+)"', (ROOT / "terraform/access.tf").read_text()))
    assert "nodeless:planner" in expected, "terraform/access.tf no longer contains its groups"
    assert set(bound) == expected, f"infra/rbac binds {sorted(bound)}, access entries have {sorted(expected)}"
    assert set(bound.values()) <= set(roles), "a binding has a role that infra/rbac does not contain"
    for name, role in roles.items():
        for rule in role["rules"]:
            granted = rule["apiGroups"] + rule["resources"] + rule["verbs"]
            assert "*" not in granted, f"ClusterRole {name} has a wildcard in {rule}"
            assert not {"secrets", "configmaps"} & set(rule["resources"]), f"ClusterRole {name} has an unnecessary rule: {rule}"


def check_documented_rights() -> None:
    """docs/reference/unused-kubernetes.csv explains only rights that the roles grant."""
    may = granted({name: [f"nodeless:{name}"] for name in FUNCTIONS})
    for name, rights in documented_as_unused().items():
        stale = rights - {str(right) for right in may[name]}
        assert not stale, f"docs/reference/unused-kubernetes.csv explains rights of {name} that infra/rbac does not grant: {sorted(stale)}"


def admits(webhook: dict[str, Any], request: dict[str, Any]) -> bool:
    """Whether the API server would call a webhook: all its matchConditions are true."""
    environment = celpy.Environment()
    context = {name: celpy.json_to_cel(request.get(name)) for name in ("object", "oldObject")}
    context["request"] = celpy.json_to_cel({k: v for k, v in request.items() if k not in context})
    return all(bool(environment.program(environment.compile(c["expression"])).evaluate(context)) for c in webhook["matchConditions"])


def check_webhook() -> None:
    """No webhook can reject or delay a request, and dry runs have no effect."""
    (configuration,) = documents("infra/webhook")
    events, classes, claims, deletions = configuration["webhooks"]
    for webhook in (events, classes, claims, deletions):
        assert webhook["clientConfig"] == {"url": "WAKE_URL"} and webhook["failurePolicy"] == "Ignore" and webhook["timeoutSeconds"] <= 2
        assert webhook["sideEffects"] == "None"
    check_events(events)
    check_node_classes(classes)
    check_node_claims(claims)
    check_deletions(deletions)


def check_events(webhook: dict[str, Any]) -> None:
    """The first webhook matches only Events of the scheduler about pods, in both forms of Event."""
    groups = {group for rule in webhook["rules"] for group in rule["apiGroups"]}
    assert groups == {"", "events.k8s.io"} and all(rule["resources"] == ["events"] for rule in webhook["rules"])
    sample = json.loads((ROOT / "events/wake.failed-scheduling.json").read_text())
    request = json.loads(sample["body"])["request"]
    new = request["object"]
    old = {
        "apiVersion": "v1", "kind": "Event", "reason": "FailedScheduling", "involvedObject": {"kind": "Pod", "name": "p"},
        "source": {"component": "default-scheduler"}, "reportingComponent": "default-scheduler",
    }  # fmt: skip
    cases = [
        (True, "the scheduler's Event of events.k8s.io", new),
        (True, "the same in core/v1", old),
        (False, "another reason", {**new, "reason": "Scheduled"}),
        (False, "no reason at all", {k: v for k, v in new.items() if k != "reason"}),
        (False, "an Event about a claim", {**new, "regarding": {"kind": "PersistentVolumeClaim"}}),
        (False, "an Event about nothing", {k: v for k, v in new.items() if k != "regarding"}),
        (False, "our own Event", {**old, "source": {"component": "nodeless"}, "reportingComponent": "nodeless"}),
        (False, "our own Event, as events.k8s.io shows it", {**new, "reportingController": "nodeless"}),
        (False, "Karpenter's Event", {**old, "source": {"component": "karpenter"}, "reportingComponent": ""}),
    ]
    for expected, what, event in cases:
        assert admits(webhook, {**request, "object": event}) == expected, f"wake should {'' if expected else 'not '}be called for {what}"
    assert not admits(webhook, {**request, "dryRun": True}), "a dry run must have no effect"


def check_node_classes(webhook: dict[str, Any]) -> None:
    """The second webhook matches EC2NodeClasses that are created, changed or deleted, and no writes of nodeless."""
    (rule,) = webhook["rules"]
    assert rule["apiGroups"] == ["karpenter.k8s.aws"] and rule["resources"] == ["ec2nodeclasses"], "not the status, which nodeless writes"
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
    request = json.loads(json.loads((ROOT / "events/wake.node-class.json").read_text())["body"])["request"]
    new, old = request["object"], request["oldObject"]
    assert request["operation"] == "UPDATE"
    annotated = {**old, "metadata": {**old["metadata"], "annotations": {"a": "b"}, "finalizers": ["karpenter.k8s.aws/termination"]}}
    cases = [
        (True, "a spec that changed", request),
        (True, "a new one", {**request, "operation": "CREATE", "object": {**new, "metadata": {"name": "default", "generation": 1}}, "oldObject": None}),
        (True, "one that is deleted", {**request, "operation": "DELETE", "object": None}),
        (False, "an annotation and a finalizer", {**request, "object": annotated}),
        (False, "a change that is only tried", {**request, "dryRun": True}),
    ]
    for expected, what, review in cases:
        assert admits(webhook, review) == expected, f"wake should {'' if expected else 'not '}be called for {what}"


# The class of NodePools and NodeClaims of nodeless, and that of EKS Auto Mode.
OURS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
AUTO_MODE = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}


def check_node_claims(webhook: dict[str, Any]) -> None:
    """The third matches new NodeClaims without a NodePool, which nodeless never creates."""
    (rule,) = webhook["rules"]
    assert (rule["apiGroups"], rule["resources"], rule["operations"]) == (["karpenter.sh"], ["nodeclaims"], ["CREATE"])

    def request(metadata: dict[str, Any], node_class: dict[str, str] = OURS) -> dict[str, Any]:
        claim = {"metadata": {"name": "a", **metadata}, "spec": {"nodeClassRef": node_class}}
        return {"operation": "CREATE", "object": claim, "oldObject": None, "dryRun": False}

    cases = [
        (True, "one without labels", request({})),
        (True, "one with another label", request({"labels": {"team": "a"}})),
        (False, "one of another controller", request({}, AUTO_MODE)),
        (False, "one of a NodePool", request({"labels": {"karpenter.sh/nodepool": "default"}})),
        (False, "one that is only tried", {**request({}), "dryRun": True}),
    ]
    for expected, what, review in cases:
        assert admits(webhook, review) == expected, f"wake should {'' if expected else 'not '}be called for {what}"


def check_deletions(webhook: dict[str, Any]) -> None:
    """The fourth lets through the first request to delete a Node of a NodePool, a NodeClaim or a NodePool, unless nodeless makes it."""
    covered = {(group, resource) for rule in webhook["rules"] for group in rule["apiGroups"] for resource in rule["resources"]}
    assert covered == {("", "nodes"), ("karpenter.sh", "nodeclaims"), ("karpenter.sh", "nodepools")}
    assert all(rule["operations"] == ["DELETE"] for rule in webhook["rules"])

    def request(resource: str, metadata: dict[str, Any], groups: list[str], node_class: dict[str, str] = OURS) -> dict[str, Any]:
        own = {"nodeClassRef": node_class}
        spec = {"nodes": {}, "nodeclaims": own, "nodepools": {"template": {"spec": own}}}[resource]
        return {
            "operation": "DELETE", "resource": {"group": "", "version": "v1", "resource": resource}, "object": None, "dryRun": False,
            "oldObject": {"metadata": {"name": "a", **metadata}, "spec": spec}, "userInfo": {"username": "someone", "groups": groups},
        }  # fmt: skip

    people, ours = ["system:authenticated"], ["nodeless:lifecycle", "system:authenticated"]
    of_pool = {"labels": {"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default"}}
    being_deleted = {**of_pool, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    cases = [
        (True, "a Node of a NodePool", request("nodes", of_pool, people)),
        (True, "a Node without a NodePool", request("nodes", {"labels": {"karpenter.k8s.aws/ec2nodeclass": "default"}}, people)),
        (True, "a NodeClaim", request("nodeclaims", {}, people)),
        (True, "a NodePool", request("nodepools", {}, people)),
        (True, "a user without groups", {**request("nodepools", {}, people), "userInfo": {"username": "someone"}}),
        (False, "a Node of another controller", request("nodes", {"labels": {"karpenter.sh/nodepool": "general-purpose"}}, people)),
        (False, "a NodeClaim of another controller", request("nodeclaims", {}, people, AUTO_MODE)),
        (False, "a NodePool of another controller", request("nodepools", {}, people, AUTO_MODE)),
        (False, "a Node of others", request("nodes", {"labels": {"a": "b"}}, people)),
        (False, "a Node without labels", request("nodes", {}, people)),
        (False, "a Node that nodeless deletes", request("nodes", of_pool, ours)),
        (False, "a NodeClaim that is being deleted", request("nodeclaims", being_deleted, people)),
        (False, "a deletion that is only tried", {**request("nodeclaims", {}, people), "dryRun": True}),
    ]
    for expected, what, review in cases:
        assert admits(webhook, review) == expected, f"wake should {'' if expected else 'not '}be called for {what}"


def check_samples() -> None:
    """Every sample is JSON and has a description, and every description has a sample."""
    described = (ROOT / "events/README.md").read_text()
    names = sorted(f.name for f in (ROOT / "events").glob("*.json"))
    for name in names:
        event = json.loads((ROOT / "events" / name).read_text())
        covered = name in described or (name.startswith("interruption.") and "interruption.*.json" in described)
        assert covered, f"events/README.md does not describe {name}"
        for record in event.get("Records", []):
            assert record["eventSource"] == "aws:sqs", f"{name}: {record['eventSource']}"
            fifo = record["eventSourceARN"].endswith(".fifo")
            assert fifo == ("MessageGroupId" in record["attributes"]), f"{name}: only messages of a FIFO queue have a group"
    for name in re.findall(r"`([a-z.-]+\.json)`", described):
        assert name in names, f"events/README.md describes {name}, which does not exist"


def check_metrics() -> None:
    """The dashboard shows exactly the metrics that the functions publish."""
    block = re.search(r"^metrics! \{\n(.*?)^\}", (ROOT / "shared/adapters/telemetry/src/metric.rs").read_text(), re.S | re.M)
    assert block, "shared/adapters/telemetry/src/metric.rs no longer lists its metrics in metrics! { }"
    published = set(re.findall(r"^ +([A-Z]\w+): \w+, \w+;", block[1], re.M))
    assert published, "no metric was found in shared/adapters/telemetry/src/metric.rs"
    dashboard = re.search(r"^  metrics = \{\n(.*?)^  \}", (ROOT / "terraform/observability.tf").read_text(), re.S | re.M)
    assert dashboard, "terraform/observability.tf no longer lists its metrics in local.metrics"
    shown = set(re.findall(r"^      (\w+) += ", dashboard[1], re.M))
    assert published == shown, f"published and not shown: {sorted(published - shown)}; shown and not published: {sorted(shown - published)}"
    assert len(published) <= 40, f"{len(published)} metrics; CloudWatch charges for each, and the maximum is 40"


def check_environment() -> None:
    """Every variable that a function reads is set by the module."""
    given = set(re.findall(r"\b(NODELESS_[A-Z_]+|CLUSTER_NAME|RUST_LOG)\b", (ROOT / "terraform/locals.tf").read_text()))
    sources = [file for folder in ("functions", "shared/runtime/src") for file in (ROOT / folder).rglob("*.rs")]
    read = {name for file in sources for name in re.findall(r'"(NODELESS_[A-Z_]+)"', file.read_text())}
    assert read, "no environment variable was found in the functions"
    assert read <= given, f"the functions read {sorted(read - given)}, which terraform/locals.tf does not set"


def check_moving_back() -> None:
    """The command in docs/moving.md removes exactly the resources that running nodes need from the Terraform state."""
    command = re.search(r"terraform state list \| grep -E '(.+?)'", (ROOT / "docs/moving.md").read_text())
    assert command, "docs/moving.md no longer lists the resources that are removed from the state before `terraform destroy`"
    forgotten = re.compile(command[1])
    files = sorted((ROOT / "terraform").glob("*.tf"))
    resources = [found for file in files for found in re.findall(r'^resource "(\w+)" "(\w+)"', file.read_text(), re.M)]
    needed = {(kind, name) for kind, name in resources if name in {"node", "windows_node"}}
    assert {kind for kind, _ in needed} >= {"aws_iam_role", "aws_iam_instance_profile", "aws_eks_access_entry"}, sorted(needed)
    for kind, name in resources:
        for instance in ("", "[0]", '["arn:aws:iam::111122223333:role/windows"]'):
            address = f"module.nodeless.{kind}.{name}{instance}"
            should = (kind, name) in needed
            assert bool(forgotten.search(address)) == should, f"docs/moving.md should {'' if should else 'not '}remove {address} from the state"


def check_attempts() -> None:
    """The last attempt of the interruption function is before SQS moves the message to the dead-letter queue, and while a spot instance may
    still run."""
    attempts = re.search(r"^const ATTEMPTS: u32 = (\d+);", (ROOT / "functions/interruption/src/main.rs").read_text(), re.M)
    queues = (ROOT / "terraform/queues.tf").read_text()
    queue = re.search(r'^resource "aws_sqs_queue" "interruption" \{\n(.*?)^\}', queues, re.S | re.M)
    timeout = re.search(r"interruption = optional\(.*?timeout += optional\(number, (\d+)\)", (ROOT / "terraform/variables.tf").read_text(), re.S)
    assert attempts and queue and timeout, "this check no longer finds the interruption function, its queue or its timeout"
    receives = re.search(r"maxReceiveCount += (\d+)", queue[1])
    above = re.search(r"visibility_timeout_seconds = local\.timeouts\.interruption \+ (\d+)", queue[1])
    retention = re.search(r"message_retention_seconds = (\d+)", queue[1])
    assert receives and above and retention, "terraform/queues.tf no longer sets how often and for how long the interruption queue delivers a message"
    assert attempts[1] == receives[1], f"interruption handles a message {attempts[1]} times, and SQS moves it to the dead-letter queue after {receives[1]}"
    visibility = int(timeout[1]) + int(above[1])
    assert (int(attempts[1]) - 1) * visibility <= 120, f"the last attempt is {(int(attempts[1]) - 1) * visibility} s after the first, and a spot instance ends after 120 s"
    assert int(attempts[1]) * visibility <= int(retention[1]), "SQS deletes interruption messages before the last attempt"


def check_all() -> None:
    check_moving_back()
    check_attempts()
    check_metrics()
    check_environment()
    check_rbac()
    check_documented_rights()
    check_webhook()
    check_samples()


if __name__ == "__main__":
    check_all()
