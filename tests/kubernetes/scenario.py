"""Observations and waits of the scenarios."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from objects import POOL_LABEL, node_class, node_pool
from tools.control_plane.deployment import CLUSTER, Deployment
from tools.control_plane.server import Unanswered
from tools.processes import wait_for
from tools.terraform import ROOT

# Waits end when the condition is true. The longest waits of nodeless are the minute of its schedules and the 15 seconds before the
# validation of a command; on a busy machine both take longer.
TIMEOUT = 300
WORKLOADS = "deployments,statefulsets,daemonsets,poddisruptionbudgets,persistentvolumeclaims,persistentvolumes"


class Scenario:
    """A NodePool with its workloads. Use as a context manager.

    At the end its objects are deleted, and nodeless removes the nodes while the next scenario runs; `nothing_is_left` waits for all of them."""

    def __init__(self, running: Deployment, name: str, **pool: Any) -> None:
        self.running, self.plane, self.name = running, running.plane, name
        self.pool = node_pool(name, **pool)

    def __enter__(self) -> Scenario:
        # The plan for the first pods evaluates the NodePool too; without pods, its conditions are written only by the next scheduled plan.
        self.plane.apply(self.pool)
        return self

    def __exit__(self, *_: object) -> None:
        self.plane.kubectl("delete", WORKLOADS, "--all", "--wait=false")
        self.plane.kubectl("delete", "nodepool", self.name, "--ignore-not-found", "--wait=false")

    def wait(self, what: str, condition: Any, seconds: float = TIMEOUT) -> Any:
        try:
            return wait_for(what, answered(condition), seconds, every=0.5)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.summary()}") from late

    # Objects in the cluster

    def apply(self, *objects: dict[str, Any]) -> None:
        self.plane.apply(*objects)

    def patch(self, kind: str, name: str, change: dict[str, Any]) -> None:
        self.plane.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(change))

    def pods(self, app: str | None = None) -> list[dict[str, Any]]:
        return self.plane.items("pods", f"app={app or self.name}")

    def running_pods(self, app: str | None = None) -> list[dict[str, Any]]:
        return [pod for pod in self.pods(app) if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]]

    def all_run(self, count: int, app: str | None = None) -> None:
        self.wait(f"{count} running pods", lambda: len(self.running_pods(app)) == count == len(self.pods(app)))

    def nodes(self) -> list[dict[str, Any]]:
        return self.plane.items("nodes", f"{POOL_LABEL}={self.name}")

    def claims(self) -> list[dict[str, Any]]:
        return self.plane.items("nodeclaims", f"{POOL_LABEL}={self.name}")

    def instances(self) -> set[str]:
        """The ids of this NodePool's instances that are not terminated."""
        return {i["InstanceId"] for i in self.running.instances() if {"Key": POOL_LABEL, "Value": self.name} in i["Tags"]}

    def initialized(self, count: int | None = None) -> list[dict[str, Any]]:
        """Waits until there is this number of claims, all initialized."""

        def ready() -> list[dict[str, Any]]:
            claims = self.claims()
            return claims if claims and all(condition(c, "Initialized") for c in claims) and count in (None, len(claims)) else []

        return self.wait("initialized NodeClaims", ready)

    def summary(self) -> str:
        """The state of the cluster, for the message of a failed test."""
        parts = ["nodepools", "nodeclaims", "nodes", "pods", "poddisruptionbudgets"]
        shown = [self.plane.kubectl("get", part, "-A", "-o", "wide", check=False) for part in parts]
        events = self.plane.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp", check=False).splitlines()[-25:]
        return "\n".join([*shown, *events])


# What happens between two steps of a scenario.
Step = Callable[[Scenario], None]


def nothing(_: Scenario) -> None:
    """Nothing happens between two steps."""


def restarts(scenario: Scenario) -> None:
    """The functions and the API server end and start again."""
    scenario.running.restart()


def answered(condition: Callable[[], Any]) -> Callable[[], Any]:
    """The condition, which is false while the API server does not respond."""

    def holds() -> Any:
        try:
            return condition()
        except Unanswered:
            return None

    return holds


def ready_class(running: Deployment) -> None:
    """The EC2NodeClass of all scenarios, ready. A plan may read a new EC2NodeClass before the catalog resolves it."""
    running.ministack.problems.allow("has not been resolved yet")
    running.plane.apply(node_class("default", str(running.outputs["node_role_name"])))
    wait_for("the EC2NodeClass to be ready", answered(lambda: condition(running.plane.get("ec2nodeclasses", "default"), "Ready")), TIMEOUT, every=0.5)


def nothing_is_left(running: Deployment) -> None:
    """Waits until nodeless has removed all objects of the nodes of all scenarios, and checks that no message is in a dead-letter queue, and
    that the functions had no problem that the tests since the last call do not cause."""

    def left() -> dict[str, list[str]]:
        found = {kind: names(running.plane.items(kind)) for kind in ("nodepools", "nodeclaims", "nodes", "pods")}
        found["instances"] = [instance["InstanceId"] for instance in running.instances()]
        return {kind: rest for kind, rest in found.items() if rest}

    wait_for("all objects to be removed", answered(lambda: not (rest := left()) or Rest(rest)), 2 * TIMEOUT, every=1)
    assert not running.dead_letters(), "a message is in a dead-letter queue; the logs of the functions contain the reason"
    running.ministack.problems.check()


class Rest(dict):
    """The remaining objects: falsy, so that waiting continues, and printed after a timeout."""

    def __bool__(self) -> bool:
        return False


def interrupt(running: Deployment, instance: str) -> None:
    """The event of EventBridge before EC2 interrupts a spot instance."""
    body = json.loads(json.loads((ROOT / "events/interruption.spot-warning.json").read_text())["Records"][0]["body"])
    body["detail"]["instance-id"] = instance
    sqs = running.ministack.client("sqs")
    url = sqs.get_queue_url(QueueName=f"nodeless-{CLUSTER}-interruption")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(body))


def instance_of(claim: dict[str, Any]) -> str:
    return claim["status"]["providerID"].rsplit("/", 1)[-1]


def condition(item: dict[str, Any], kind: str) -> bool:
    """Whether an object has this condition, for its current generation."""
    generation = item.get("metadata", {}).get("generation")
    return any(
        c["type"] == kind and c["status"] == "True" and c.get("observedGeneration", generation) == generation
        for c in item.get("status", {}).get("conditions", [])
    )


def names(items: list[dict[str, Any]]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in items)


def zone(node: dict[str, Any]) -> str:
    return node["metadata"]["labels"]["topology.kubernetes.io/zone"]
