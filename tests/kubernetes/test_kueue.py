"""Kueue admits jobs by ProvisioningRequests that nodeless provisions (docs/provisioning-requests.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import objects
from kueue_manager import Kueue
from scenario import Scenario, condition, nothing_is_left, ready_class
from tools.control_plane.deployment import Deployment
from tools.terraform import ROOT

PAGE = ROOT / "docs/provisioning-requests.md"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
QUEUE_API = "kueue.x-k8s.io/v1beta2"
# No two pods with this request fit on a node of the scenarios' NodePools.
CPU = "3"


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


@pytest.fixture(scope="module", autouse=True)
def kueue(deployment: Deployment, deployment_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kueue]:
    with Kueue(deployment.plane, tmp_path_factory.mktemp("kueue"), deployment_logs) as running:
        yield running


def test_a_job_is_admitted_when_all_its_nodes_are_there(deployment: Deployment) -> None:
    with Scenario(deployment, "kueue-all") as scenario:
        check, config = documented()
        scenario.apply(config, check, *queue(scenario.name, check), job(scenario.name, 3))
        scenario.wait("the job to be complete", lambda: condition(the_job(scenario), "Complete"))
        (request,) = scenario.plane.items("provisioningrequests")
        assert reason(request, "Provisioned") == "CapacityIsProvisioned", request["status"]
        pods = scenario.pods()
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 3
        assert {pod["metadata"]["annotations"].get(CONSUMES) for pod in pods} == {request["metadata"]["name"]}
        provisioned = transition(request, "Provisioned")
        assert all(pod["metadata"]["creationTimestamp"] >= provisioned for pod in pods), "a pod was created before its capacity"
        # The nodes are those that the request launched: none was launched for the pods.
        assert len(scenario.claims()) == len(scenario.instances()) == 3
        assert all(claim["metadata"]["creationTimestamp"] <= provisioned for claim in scenario.claims())


def test_a_job_that_cannot_have_all_its_nodes_gets_none(deployment: Deployment) -> None:
    # Two of the three nodes would be within the limit.
    with Scenario(deployment, "kueue-none", limits={"nodes": "2"}) as scenario:
        check, config = documented()
        config["spec"] |= {"parameters": {"ValidUntilSeconds": "20"}, "retryStrategy": {"backoffLimitCount": 0}}
        scenario.apply(config, check, *queue(scenario.name, check), job(scenario.name, 3))
        scenario.wait("the request to fail", lambda: [r for r in scenario.plane.items("provisioningrequests") if condition(r, "Failed")])
        scenario.wait("Kueue to reject the job", lambda: "Rejected" in str(workload(scenario).get("status", {}).get("admissionChecks")))
        assert the_job(scenario)["spec"]["suspend"]
        assert not scenario.pods()
        assert not scenario.claims() and not scenario.instances()


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)


def documented() -> tuple[dict[str, Any], dict[str, Any]]:
    """The AdmissionCheck and the ProvisioningRequestConfig of the page."""
    (block,) = (text for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "AdmissionCheck" in text)
    check, config = yaml.safe_load_all(block)
    return check, config


def queue(name: str, check: dict[str, Any]) -> list[dict[str, Any]]:
    """A ClusterQueue with enough quota, whose jobs need the check, and its LocalQueue."""
    resources = [{"name": resource, "nominalQuota": quota} for resource, quota in (("cpu", "100"), ("memory", "100Gi"))]
    group = {"coveredResources": [resource["name"] for resource in resources], "flavors": [{"name": name, "resources": resources}]}
    checks = {"admissionChecks": [{"name": check["metadata"]["name"]}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group], "admissionChecksStrategy": checks}
    return [
        {"apiVersion": QUEUE_API, "kind": "ResourceFlavor", "metadata": {"name": name}},
        {"apiVersion": QUEUE_API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": QUEUE_API, "kind": "LocalQueue", "metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": name}},
    ]


def job(name: str, count: int) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/queue-name": name}
    template = {"metadata": {"labels": {"app": name}}, "spec": objects.pod_spec(name, CPU, restartPolicy="Never")}
    spec = {"parallelism": count, "completions": count, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}


def the_job(scenario: Scenario) -> dict[str, Any]:
    return scenario.plane.get("jobs", scenario.name)


def workload(scenario: Scenario) -> dict[str, Any]:
    """Kueue's object for the job."""
    found = [w for w in scenario.plane.items("workloads") if w["metadata"]["ownerReferences"][0]["name"] == scenario.name]
    return found[0] if found else {}


def of_type(item: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = (c for c in item["status"]["conditions"] if c["type"] == kind)
    return found


def reason(item: dict[str, Any], kind: str) -> str:
    return of_type(item, kind)["reason"]


def transition(item: dict[str, Any], kind: str) -> str:
    return of_type(item, kind)["lastTransitionTime"]
