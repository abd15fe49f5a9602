"""The CustomResourceDefinitions of nodeless in a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import yaml

from tools.control_plane.server import PATHS, ControlPlane
from tools.processes import wait_for
from tools.terraform import ROOT

FILES = ROOT / "infra/crds"
ALL: list[str] = [yaml.safe_load(file.read_text())["metadata"]["name"] for file in sorted(FILES.glob("*.yaml"))]


def established(plane: ControlPlane, names: Iterable[str] = ALL) -> None:
    """Waits until the API server has established these definitions and serves their kinds."""
    for name in names:
        wait_for(f"{name} to be established", lambda n=name: is_established(plane, n), 60)
        # The API server serves a definition shortly after it is established.
        wait_for(f"{name} to be served", lambda n=name: served(plane, n), 60)


def is_established(plane: ControlPlane, name: str) -> bool:
    conditions = plane.get("customresourcedefinitions", name).get("status", {}).get("conditions", [])
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def served(plane: ControlPlane, name: str) -> bool:
    return plane.client.call("GET", path(name)).status == 200


def path(name: str) -> str:
    """The API path of the objects of a definition."""
    plural = name.partition(".")[0]
    return f"{PATHS[plural]}/{plural}"


def remove_all(plane: ControlPlane) -> None:
    """Deletes the definitions and all their objects. No controller runs, so finalizers are removed first."""
    present = {item["metadata"]["name"] for item in plane.items("customresourcedefinitions")}
    for name in (name for name in ALL if name in present):
        for item in plane.items(name.partition(".")[0]):
            if item["metadata"].get("finalizers"):
                patch = json.dumps({"metadata": {"finalizers": None}})
                plane.kubectl("patch", name, item["metadata"]["name"], "--type=merge", "-p", patch)
        plane.kubectl("delete", "customresourcedefinition", name, "--timeout=60s")
