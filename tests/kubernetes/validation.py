"""Objects that Karpenter 1.14 accepts or rejects: the cases of its validation tests, each with the result.

Each file of `verdicts/` has a kind, a base object, and cases: a JSON merge patch of the base, and whether a real API server with Karpenter's
definition accepts the result. A case with `from` is an update from the base with that patch.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "verdicts"
KINDS = ("NodePool", "NodeClaim", "EC2NodeClass")


@dataclass(frozen=True)
class Case:
    """One object, and whether Karpenter accepts it."""

    kind: str
    number: int
    patch: dict[str, Any]
    base: dict[str, Any]
    accepted: bool
    earlier: dict[str, Any] | None

    @property
    def id(self) -> str:
        text = json.dumps(self.patch.get("spec", self.patch), separators=(",", ":"))
        return f"{self.kind}-{self.number}-{text[:60]}"

    def object(self) -> dict[str, Any]:
        return self._named(self.patch)

    def before(self) -> dict[str, Any] | None:
        """The stored object that the case updates."""
        return None if self.earlier is None else self._named(self.earlier)

    def _named(self, patch: dict[str, Any]) -> dict[str, Any]:
        merged = merge(self.base, patch)
        # A case about the name keeps its name.
        if "name" not in patch.get("metadata", {}):
            merged["metadata"]["name"] = f"case-{self.number}"
        return merged


def cases(kind: str) -> Iterator[Case]:
    """All cases of a kind."""
    table = json.loads((FOLDER / f"{kind.lower()}.json").read_text())
    for number, row in enumerate(table["cases"]):
        yield Case(kind, number, row["patch"], table["base"], row["accepted"], row.get("from"))


def merge(base: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = copy.deepcopy(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def resource(kind: str) -> str:
    """The plural under which the API server serves a kind."""
    return "ec2nodeclasses" if kind == "EC2NodeClass" else kind.lower() + "s"
