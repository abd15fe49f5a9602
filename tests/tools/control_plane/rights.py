"""The permissions of the functions in Kubernetes, from the roles in infra/rbac and the groups of their access entries, and their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import yaml

from ..security import listed
from ..terraform import ROOT
from .audit import Audit, Audited, Right

# The installer is cluster-admin while it works, and has no role of its own.
FUNCTIONS = ("planner", "lifecycle", "catalog", "interruption")


def of_nodeless(call: Audited) -> bool:
    """Whether a function made the call."""
    return any(group.startswith("nodeless:") for group in call.groups)


def optional() -> set[Right]:
    """The rights that the installer does not grant. A function reports a call that lacks one of them, and goes on without it."""
    documents = (item for file in (ROOT / "infra/rbac/optional").glob("*.yaml") for item in yaml.safe_load_all(file.read_text()))
    return {right for item in documents if item["kind"] == "ClusterRole" for rule in item["rules"] for right in rights_of(rule)}


def granted(groups: Mapping[str, Iterable[str]]) -> dict[str, set[Right]]:
    """The permissions of each function, from its groups."""
    roles: dict[str, set[Right]] = {}
    bound: dict[str, set[str]] = {}
    for file in sorted((ROOT / "infra/rbac").glob("*.yaml")):
        for item in yaml.safe_load_all(file.read_text()):
            if item["kind"] == "ClusterRole":
                roles[item["metadata"]["name"]] = {right for rule in item["rules"] for right in rights_of(rule)}
            else:
                for subject in item["subjects"]:
                    bound.setdefault(subject["name"], set()).add(item["roleRef"]["name"])
    return {name: {right for group in of for role in bound.get(group, ()) for right in roles[role]} for name, of in groups.items()}


def rights_of(rule: Mapping[str, list[str]]) -> Iterable[Right]:
    return (Right(group, resource, verb) for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"])


def used(audit: Audit, names: Mapping[str, str]) -> dict[str, set[Right]]:
    """The allowed calls of each function. `names` are the functions by the names of their deployment."""
    found: dict[str, set[Right]] = {name: set() for name in names.values()}
    for call in audit.calls():
        function = names.get(call.user.rsplit("/", 1)[-1])
        if function and call.right and call.decision == "allow":
            found[function].add(call.right)
    return found


def forbidden(audit: Audit, names: Mapping[str, str]) -> dict[str, set[Right]]:
    """The rejected calls of each function."""
    found: dict[str, set[Right]] = {name: set() for name in names.values()}
    for call in audit.calls():
        function = names.get(call.user.rsplit("/", 1)[-1])
        if function and call.right and call.decision == "forbid":
            found[function].add(call.right)
    return found


def documented_as_unused() -> dict[str, set[str]]:
    """Permissions by function that no scenario needs, in the form of `str(Right)`. In the list, `get,list pods,nodes` means four."""
    rights: dict[str, set[str]] = {name: set() for name in FUNCTIONS}
    for name, several in listed("unused-kubernetes.csv", FUNCTIONS):
        rights[name] |= {right for text in several for right in spelled_out(text)}
    return rights


def spelled_out(text: str) -> list[str]:
    verbs, resources = text.split(" ")
    return [f"{verb} {resource}" for verb in verbs.split(",") for resource in resources.split(",")]
