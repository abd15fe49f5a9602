"""One request, and the response that is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.control_plane.client import Answer

MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    f"application/{kind}" for kind in ("merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml")
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
# The method of a request that only removes the history of both servers.
COMPACT = "COMPACT"


@dataclass(frozen=True)
class Request:
    """One request. `{NAME}` in the path, and in strings of the body, is replaced by what an earlier request saved under that name."""

    name: str
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    # Values of the response for later requests: the name, and the path in the response, such as `metadata.resourceVersion`.
    saves: Mapping[str, str] = field(default_factory=dict)
    # The request is repeated until this holds: controllers and the servers themselves do some work after their response.
    until: Callable[[Answer], bool] | None = None
    # Only the parts of the response that the simulated server has are compared: it serves fewer kinds and states less about each.
    subset: bool = False

    @property
    def is_watch(self) -> bool:
        return "watch=1" in self.path


def answered(status: int) -> Callable[[Answer], bool]:
    """Whether a response has this status."""
    return lambda answer: answer.status == status


def found(body: Any, path: str) -> Any:
    """The value at a path; `None` if there is none."""
    for part in path.split("."):
        if not isinstance(body, dict):
            return None
        body = body.get(part)
    return body


def has(path: str, value: Any) -> Callable[[Answer], bool]:
    """Whether a response has this value at a path."""
    return lambda answer: found(answer.body, path) == value
