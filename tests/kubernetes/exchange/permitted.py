"""The differences between the responses of the real and of the simulated API server that stay, each with its reason."""

from __future__ import annotations

import re

NODES = r"a node (is|gets) .*|a node's .*|a finalizer (is added|keeps a node)|the last finalizer .*"
PODS = r"a pod .*|a dry run stores nothing|pods .*|pages|pod g\d .*|a status .*|a condition .*|a label with the status|the pod after .*|a bound pod .*|the evicted pod"
WORKLOAD = r"a deployment .*|the replicas .*|a container is added .*|the container of one manager .*"

# Requests by name (a pattern), paths in the response (a pattern), and why these may differ.
MAY_DIFFER = (
    (".*", r".*\.managedFields.*", "the simulated server records the fields that each manager set, not the maps around them, and defaults as fields of the manager that left them out"),
    # What controllers and kubelets do, at other times than the simulated ones.
    (NODES, r"\.status\.(nodeInfo|daemonEndpoints)", "facts of a kubelet that no kubelet in this test has reported"),
    (NODES, r"\.metadata\.annotations", "controllers annotate nodes"),
    (NODES, r"\.spec\.taints.*", "admission and controllers add taints at different times, in a different order"),
    ("pods by label|pages|a pod runs", r".*\.status\.conditions.*", "the schedulers explain differently why a pod is pending, and a controller evicts it from the tainted node"),
    (".* (deployment|budget) is created|a deployment is applied|a budget .*|a second budget", r"\.status", "empty until its controller has run, or missing"),
    (WORKLOAD, r"\.(status|metadata\.annotations).*", "the controller of Deployments has run, or has not run yet"),
    ("the evicted pod|the budget .*", r"\.status\.disruptedPods.*", "the controller of budgets removes pods that are being deleted at another time"),
    ("the definition .*", r"\.(spec|status|metadata)(\..*)?", "the controllers of definitions complete them later"),
    ("the definition is deleted", r"\..*", "a real API server deletes the objects of a definition first, and returns the definition until then"),
    ("a pod is bound twice", r"\.message", "a controller evicts the pod from the tainted node"),
    ("pods by label|pages|a pod runs", r".*\.metadata\.deletion(Timestamp|GracePeriodSeconds)", "a controller evicts the pod from the tainted node"),
    ("the evicted pod", r"\.status\.conditions.*", "the simulated server adds no condition DisruptionTarget"),
    (".*changes .*|.*watch.*|no initial events", r"\[\d+\]\.object(\.rows\[0\]\.object)?\.metadata\.deletion(Timestamp|GracePeriodSeconds)", "the simulated server marks an object as deleted before it removes it"),
    # Fields that no client of the simulation reads.
    (PODS, r".*\.metadata\.generation", "the simulated server does not count the generations of Pods"),
    (PODS, r".*\.spec\.(enableServiceLinks|serviceAccount)", "a default and an alias that no client of the simulation reads"),
    (PODS, r".*\.status\.conditions\[\d+\]\.(lastProbeTime|lastTransitionTime|observedGeneration)", "null or missing, and counted for Pods"),
    ("an event .*", r"\.(eventTime|firstTimestamp|lastTimestamp)", "null or missing"),
    ("a deployment is scaled", r"\.spec\.replicas", "zero or missing"),
    ("a condition is removed", r"\.status\.conditions", "empty or missing"),
    (".*table.*", r".*\.columnDefinitions\[\d+\]\.description", "explanations for people"),
    (".*bookmarks.*|.*initial events.*", r"(\.bookmarks)?\[\d+\]\.object\.(spec|status)", "an empty object of its kind is the object of a bookmark"),
    (".*, as a table", r"(\[2\]|\.bookmarks\[0\])\.object\.(columnDefinitions|metadata\.annotations|rows)", "the real server makes a row of a bookmark"),
    # Texts of errors, and what they are about.
    ("a test of a JSON patch fails", r"\.(message|details\.(kind|name))", "the simulated server states which operation fails"),
    ("a pod's request cannot be changed", r"(\.details\.causes\[0\])?\.message", "the real server prints the specification as a structure of Go"),
    ("a budget of both", r"(\.details\.causes\[0\])?\.message", "the real server prints the specification as a structure of Go"),
    (".* selector( that is)? invalid|a label selector that is invalid|a watch with an invalid selector", r"\.message", "the parser's text"),
    ("a continue token that is no token", r"\.message", "the decoder's text"),
    ("a body .*", r"\.(message|details)", "the decoder's text"),
    ("a NodePool of an invalid weight|another such object is refused|.*the refused object, invalid|the field that is refused", r"\.(message|details\.causes\[0\]\.(message|reason))", "the simulated server names the field once, prints its value in place of its type, and has one reason for both"),
    ("a label that is invalid|a finalizer cannot be added while it goes|a status of another pod|a map of another uid", r"\.(details\.causes|message)", "a real server validates metadata more than once, and repeats the causes"),
    ("the same field is applied by another", r"\.details\.causes\[\d\]\.message", "conflicts with managers of one second have no order"),
    ("a NodePool is scaled", r"\.details\.causes", "a cause that clients do not use"),
    ("an unknown field is dropped", r"\.headers\.Warning", "the simulated server warns of nothing"),
    ("a version that is not served|a group that is missing|a version of a group that is missing|a document that is missing", r"|\.headers\.Content-Type", "text or a Status; both are 404"),
    # Discovery.
    ("the groups|aggregated discovery of the groups", r"\.(groups|items)\[metrics\.k8s\.io\]", "the simulated cluster has the API of metrics-server, which is not installed here"),
    ("the groups|aggregated discovery of the groups", r"\.(groups|items)\[scheduling\.k8s\.io\]\.versions\[v1alpha2\]", "PodGroups are an alpha API, which is not enabled here"),
    ("the documents of OpenAPI", r"\.paths\.apis/scheduling\.k8s\.io/v1alpha2", "PodGroups are an alpha API, which is not enabled here"),
    ("the core versions", r"\.serverAddressByClientCIDRs.*", "the address of the server"),
    ("the version", r"\.(gitVersion|gitCommit|gitTreeState|buildDate|goVersion|compiler|platform|(emulation)?[mM]ajor|(emulation|minCompatibility)?[mM]inor)", "the simulated server is of no release"),
    ("the documents of OpenAPI", r"\.paths\..*\.serverRelativeURL|\.headers\.Content-Type", "the real server has a hash of the document in its address, by which kubectl caches it"),
    ("the document of .*", r"\.info\..*|\.components\..*|\.paths\..*", "generated from the types of the simulation and from definitions: kubectl explain reads it, and no server validates by it"),
)  # fmt: skip


def explained(request: str, difference: str) -> bool:
    """Whether a difference of the responses to a request is one of those that stay."""
    path = difference.partition(": ")[0]
    return any(re.fullmatch(name, request) and re.fullmatch(where, path) for name, where, _ in MAY_DIFFER)


def unused(found: list[tuple[str, str]]) -> list[str]:
    """The reasons for which no response differs, of all differences by request."""

    def is_used(name: str, where: str) -> bool:
        return any(re.fullmatch(name, request) and re.fullmatch(where, line.partition(": ")[0]) for request, line in found)

    return [f"{name}: {where}: {reason}" for name, where, reason in MAY_DIFFER if not is_used(name, where)]
