"""Provisions volumes as the EBS CSI driver: in the zone of the node that the scheduler selected for the first pod."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

from .server import ControlPlane

DRIVER = "ebs.csi.aws.com"
SELECTED = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"


class Provisioner:
    """Provisions volumes until it is exited. Use as a context manager."""

    def __init__(self, plane: ControlPlane, every: float = 0.5) -> None:
        self._plane, self._every = plane, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Provisioner:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self._look()
            except AssertionError as problem:
                logging.getLogger(__name__).warning("trying again: %s", problem)

    def _look(self) -> None:
        present = {volume["metadata"]["name"] for volume in self._plane.items("persistentvolumes")}
        for claim in self._plane.items("persistentvolumeclaims"):
            selected = claim["metadata"].get("annotations", {}).get(SELECTED)
            if selected and f"pvc-{claim['metadata']['uid']}" not in present:
                node = json.loads(self._plane.kubectl("get", "node", selected, "-o", "json"))
                self._plane.kubectl("create", "-f", "-", stdin=json.dumps(volume(claim, node["metadata"]["labels"][ZONE])))


def volume(claim: dict[str, Any], zone: str) -> dict[str, Any]:
    """A volume in this zone for this claim."""
    metadata = claim["metadata"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{metadata['uid']}", "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "claimRef": reference,
            "csi": {"driver": DRIVER, "volumeHandle": f"vol-{metadata['uid'][:8]}", "fsType": "ext4"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            # No controller in these tests deletes volumes.
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
