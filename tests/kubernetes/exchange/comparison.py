"""The comparison of two responses: all of the status, the body and three headers, with one form for what is different in each cluster."""

from __future__ import annotations

import json
import re
from typing import Any

from tools.control_plane.client import Answer

from .request import Request

INITIAL_END = "k8s.io/initial-events-end"
HEADERS = ("Content-Type", "Retry-After", "Warning")
# Values that every cluster makes itself, by their form. A value of another form is compared as it is.
FORMS = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"), "<time in microseconds>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"^\d+(ms|s|m|m\d+s)$"), "<age>"),
    (re.compile(r"(?<=, current: )\d+|(?<=too old resource version: )\d+ \(\d+\)"), "<revision>"),
)
# Fields that every cluster fills with numbers or tokens of its own.
OWN = {"resourceVersion": "<revision>", "continue": "<token>"}


def differences(request: Request, real: Answer, other: Answer) -> list[str]:
    """The paths of the differences of two responses."""
    if real.status != other.status:
        return [f"status: {real.status} and {other.status}"]
    headers = compare(sent(real), sent(other), ".headers", subset=False)
    theirs, ours = normal(real.body), normal(other.body)
    if not (request.is_watch and isinstance(theirs, list) and isinstance(ours, list)):
        return headers + compare(theirs, ours, "", request.subset)
    # A server sends bookmarks when it has time, so their number is not compared; only the end of initial events has its place.
    (changes, marks), (our_changes, our_marks) = split(theirs), split(ours)
    return headers + compare(changes, our_changes, "", subset=False) + compare(marks[-1:] if our_marks else [], our_marks[-1:] if marks else [], ".bookmarks", subset=False)


def split(events: list[Any]) -> tuple[list[Any], list[Any]]:
    """The events of a watch, and its bookmarks that are not the end of initial events."""
    marks = [event for event in events if event["type"] == "BOOKMARK" and INITIAL_END not in json.dumps(event)]
    return [event for event in events if event not in marks], marks


def sent(answer: Answer) -> dict[str, str]:
    """The compared headers, whose names have any case."""
    return {name: value for name, value in ((name.title(), value) for name, value in answer.headers.items()) if name in HEADERS}


def compared(path: str, real: Any, other: Any) -> str:
    return "" if real == other else f"{path}: {shown(real)} and {shown(other)}"


def shown(value: Any) -> str:
    return json.dumps(value)[:160]


def normal(value: Any, key: str = "") -> Any:
    """A value with the forms in place of what is different in each cluster."""
    if isinstance(value, dict):
        return {name: normal(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [normal(item) for item in value]
    if not isinstance(value, str):
        return value
    if key in OWN and value:
        return OWN[key]
    for form, name in FORMS:
        value = form.sub(name, value)
    return value


def compare(real: Any, other: Any, path: str, subset: bool) -> list[str]:
    """The differences of two values; of a subset, only those of what the other has."""
    if isinstance(real, dict) and isinstance(other, dict):
        lines = []
        for key in sorted(real.keys() | other.keys()):
            below = f"{path}.{key}"
            if key not in other:
                lines += [] if subset else [f"{below}: only real: {shown(real[key])}"]
            elif key not in real:
                lines.append(f"{below}: only simulated: {shown(other[key])}")
            else:
                lines += compare(real[key], other[key], below, subset)
        return lines
    if isinstance(real, list) and isinstance(other, list):
        return compare_lists(real, other, path, subset)
    line = compared(path, real, other)
    return [line] if line else []


def compare_lists(real: list[Any], other: list[Any], path: str, subset: bool) -> list[str]:
    if subset and (name := identity(real + other)):
        named = {json.dumps(name(item)): item for item in real}
        lines = []
        for item in other:
            below = f"{path}[{json.loads(json.dumps(name(item)))}]"
            lines += compare(named[json.dumps(name(item))], item, below, subset) if json.dumps(name(item)) in named else [f"{below}: only simulated"]
        return lines
    if len(real) != len(other):
        return [f"{path}: {len(real)} and {len(other)} elements: {shown(real)} and {shown(other)}"]
    return [line for index, (a, b) in enumerate(zip(real, other, strict=True)) for line in compare(a, b, f"{path}[{index}]", subset)]


def identity(items: list[Any]) -> Any:
    """How the elements of a list of discovery or OpenAPI are distinguished; `None` if their order is what counts."""
    if items and all(isinstance(item, str) for item in items):
        return lambda item: item
    for key in ("name", "resource", "subresource", "version", "groupVersion"):
        if items and all(isinstance(item, dict) and key in item for item in items):
            return lambda item, key=key: item[key]
    if items and all(isinstance(item, dict) and "metadata" in item for item in items):
        return lambda item: item["metadata"].get("name", "")
    return None
