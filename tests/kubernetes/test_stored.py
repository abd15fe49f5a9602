"""Objects that the API server stored under an earlier definition, and that today's definition refuses.

A real API server returns such an object as it is, in lists too, and lets its status and metadata be changed: it checks changed fields only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import objects
from scenario import TIMEOUT, Scenario, answered, condition, instance_of, names, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment
from tools.control_plane.server import PATHS, ControlPlane
from tools.processes import wait_for

SCHEMA = "/spec/versions/0/schema/openAPIV3Schema"
# The schema that replaces that of Karpenter's definitions in these tests, too: everything is accepted.
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITIONS = {"nodepools": "nodepools.karpenter.sh", "ec2nodeclasses": "ec2nodeclasses.karpenter.k8s.aws"}


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)
    # The objects that cannot be decoded, and the definitions that are replaced.
    deployment.ministack.problems.allow("stored", "cannot be decoded", "storage is (re)initializing")


def test_a_nodepool_that_cannot_be_decoded_is_left_out_and_keeps_its_nodes(deployment: Deployment) -> None:
    plane = deployment.plane
    with Scenario(deployment, "stored") as good, Scenario(deployment, "stored-bad") as bad:
        bad.apply(objects.deployment("stored-bad", 1))
        bad.all_run(1)
        (claim,) = bad.initialized(1)
        with loosened(plane, "nodepools"):
            bad.patch("nodepool", "stored-bad", {"spec": {"disruption": {"budgets": "none"}}})
        assert plane.get("nodepools", "stored-bad")["spec"]["disruption"]["budgets"] == "none"

        good.apply(objects.deployment("stored", 2))
        good.all_run(2)
        good.initialized()
        good.wait("a log line", lambda: skipped(deployment, "planner", "NodePool", "stored-bad"))
        assert {line["name"] for line in deployment.logged("planner", "object-skipped")} == {"stored-bad"}, "only this object is left out"
        assert names(bad.claims()) == [claim["metadata"]["name"]]
        assert bad.instances() == {instance_of(claim)}, "the node of a NodePool that cannot be decoded was terminated"

        bad.patch("nodepool", "stored-bad", {"spec": {"disruption": {"budgets": [{"nodes": "10%"}]}}})
        plane.kubectl("scale", "deployment/stored-bad", "--replicas=4")
        bad.all_run(4)


def test_a_nodepool_that_violates_a_rule_is_not_ready_and_reports_why(deployment: Deployment) -> None:
    plane = deployment.plane
    with loosened(plane, "nodepools"):
        plane.apply(objects.node_pool("stored-rule", weight=1000))
    try:
        # The status is written though the object violates its definition.
        explained = answered(lambda: "weight" in why_not_ready(plane, "nodepools", "stored-rule"))
        wait_for("the reason in its conditions", explained, TIMEOUT)
        assert plane.get("nodepools", "stored-rule")["spec"]["weight"] == 1000
    finally:
        plane.kubectl("delete", "nodepool", "stored-rule", "--wait=false")


def test_an_ec2nodeclass_that_cannot_be_decoded_makes_its_nodepool_not_ready(deployment: Deployment) -> None:
    plane = deployment.plane
    role = str(deployment.outputs["node_role_name"])
    with loosened(plane, "ec2nodeclasses"):
        plane.apply(objects.node_class("stored", role, tags="none"))
    try:
        with Scenario(deployment, "stored-class") as scenario:
            scenario.apply(objects.node_pool("stored-class", "stored"))
            scenario.wait("the reason in its conditions", lambda: "cannot be decoded" in why_not_ready(plane, "nodepools", "stored-class"))
            # Another class is resolved beside it.
            plane.apply(objects.node_class("beside", role))
            scenario.wait("the other class to be ready", lambda: condition(plane.get("ec2nodeclasses", "beside"), "Ready"))
            scenario.wait("a log line", lambda: skipped(deployment, "catalog", "EC2NodeClass", "stored"))
            assert condition(plane.get("ec2nodeclasses", "default"), "Ready")
            plane.kubectl("patch", "ec2nodeclass", "stored", "--type=merge", "-p", json.dumps({"spec": {"tags": {"team": "search"}}}))
            scenario.apply(objects.deployment("stored-class", 1))
            scenario.all_run(1)
    finally:
        plane.kubectl("delete", "ec2nodeclass", "stored", "beside", "--ignore-not-found", "--wait=false")


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


@contextmanager
def loosened(plane: ControlPlane, resource: str) -> Iterator[None]:
    """The definition of this kind accepts everything, and afterwards what it accepts today."""
    name = DEFINITIONS[resource]
    strict = plane.get("customresourcedefinitions", name)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    replace_schema(plane, name, ANYTHING)
    try:
        wait_for("the definition without rules", answered(lambda: accepts_anything(plane, resource)), TIMEOUT)
        yield
    finally:
        replace_schema(plane, name, strict)
        wait_for("the definition with its rules", answered(lambda: not accepts_anything(plane, resource)), TIMEOUT)


def replace_schema(plane: ControlPlane, name: str, schema: dict[str, Any]) -> None:
    change = [{"op": "replace", "path": SCHEMA, "value": schema}]
    plane.kubectl("patch", "customresourcedefinition", name, "--type=json", "-p", json.dumps(change))


def accepts_anything(plane: ControlPlane, resource: str) -> bool:
    """Whether the API server would create an object without a single valid field. A changed definition is used shortly after it is written."""
    kind = {"nodepools": "NodePool", "ec2nodeclasses": "EC2NodeClass"}[resource]
    probe = {"apiVersion": PATHS[resource].removeprefix("/apis/"), "kind": kind, "metadata": {"name": "probe"}, "spec": {}}
    return plane.client.call("POST", f"{PATHS[resource]}/{resource}?dryRun=All", probe).status == 201


def skipped(running: Deployment, function: str, kind: str, name: str) -> list[dict[str, Any]]:
    """The log lines that an object is left out."""
    return [line for line in running.logged(function, "object-skipped") if (line["kind"], line["name"]) == (kind, name)]


def why_not_ready(plane: ControlPlane, resource: str, name: str) -> str:
    """The messages of the conditions that are false."""
    conditions = plane.get(resource, name).get("status", {}).get("conditions", [])
    return " ".join(c["message"] for c in conditions if c["status"] == "False")
