"""Lets instances join the cluster: each Node that `nodeless local` creates from an instance's user data is registered with the real API server.

`nodeless local` reads the user data as nodeadm does and starts a kubelet, which registers with its own API server: providerID, labels,
taints, capacity. The same Node is created here, and then kwok is its kubelet. When the instance is terminated, the Node is deleted, as by
the cloud controller manager.
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from typing import Any

from ..world import World
from .server import ControlPlane

# The fields that a kubelet sends when it registers; the API server and the controllers set the others.
CLOUD_PROVIDER = {"node.cloudprovider.kubernetes.io/shutdown"}


class Joining:
    """Registers instances as Nodes, without kubectl, whose start takes longer than the request. Use as a context manager."""

    def __init__(self, world: World, plane: ControlPlane, every: float = 0.5) -> None:
        self._world, self._plane, self._every = world, plane, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        # The names of registered Nodes, with their instances.
        self.joined: dict[str, str] = {}
        self._deleted: set[str] = set()

    def __enter__(self) -> Joining:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self._look()
            except Exception as problem:  # noqa: BLE001 the API server may be restarting; the next round repeats
                logging.getLogger(__name__).warning("trying again: %s", problem)

    def _look(self) -> None:
        running = {i["InstanceId"] for i in self._world.instances()}
        for node in self._simulated():
            name, instance = node["metadata"]["name"], node["spec"]["providerID"].rsplit("/", 1)[-1]
            if name not in self.joined and instance in running:
                self._plane.create(self.registration(node))
                self.joined[name] = instance
        for name, instance in self.joined.items():
            if instance not in running and name not in self._deleted:
                answer = self._plane.client.call("DELETE", f"/api/v1/nodes/{name}")
                if answer.status not in (200, 202, 404):
                    raise RuntimeError(f"DELETE of Node {name}: {answer.status} {answer.body}")
                self._deleted.add(name)

    def registration(self, node: dict[str, Any]) -> dict[str, Any]:
        """The Node to create."""
        return registration(node)

    def _simulated(self) -> list[dict[str, Any]]:
        """The Nodes of `nodeless local`."""
        with urllib.request.urlopen(f"{self._world.kubernetes_url}/api/v1/nodes", timeout=10) as answer:
            return json.load(answer)["items"]


def registration(node: dict[str, Any]) -> dict[str, Any]:
    """The Node as a kubelet creates it, without what others added."""
    taints = [t for t in node["spec"].get("taints", ()) if not t["key"].startswith("node.kubernetes.io/") and t["key"] not in CLOUD_PROVIDER]
    status = {k: v for k, v in node["status"].items() if k in ("capacity", "allocatable", "nodeInfo", "addresses")}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node["metadata"]["name"], "labels": node["metadata"]["labels"]},
        "spec": {"providerID": node["spec"]["providerID"], "taints": taints},
        "status": status,
    }
