"""The audit log of kube-apiserver: the calls, their users, and whether they were allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Right:
    """A verb on a resource, as in an RBAC rule."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}"


@dataclass(frozen=True)
class Audited:
    """A call."""

    user: str
    groups: tuple[str, ...]
    right: Right | None
    name: str
    code: int
    decision: str
    uri: str
    user_agent: str
    at: str


class Audit:
    """The log of one kube-apiserver."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def calls(self) -> Iterator[Audited]:
        """The calls that were answered, oldest first. A watch is logged when it begins and when it ends, and is one call."""
        if not self.path.exists():
            return
        # The last line may be incomplete.
        for line in self.path.read_text().split("\n")[:-1]:
            event = json.loads(line)
            started = event["stage"] == "ResponseStarted"
            if event["verb"] == "watch" and not started and event.get("responseStatus", {}).get("code") == 200:
                continue
            if event["verb"] != "watch" and started:
                continue
            yield audited(event)


def audited(event: dict) -> Audited:
    named = event.get("objectRef", {})
    resource = named.get("resource", "")
    if named.get("subresource"):
        resource += "/" + named["subresource"]
    right = Right(named.get("apiGroup", ""), resource, event["verb"]) if resource else None
    return Audited(
        event["user"].get("username", ""),
        tuple(event["user"].get("groups", ())),
        right,
        named.get("name", ""),
        event.get("responseStatus", {}).get("code", 0),
        event.get("annotations", {}).get("authorization.k8s.io/decision", ""),
        event["requestURI"],
        event.get("userAgent", ""),
        event["requestReceivedTimestamp"],
    )
