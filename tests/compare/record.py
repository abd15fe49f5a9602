"""Records what the API server shows while a workload runs: every change of pods, Nodes, NodeClaims, and the processes of the autoscaler.

The lines of `objects.jsonl` are events of watches with the time at which they arrived, and without the fields that nothing measures. The
recorder does not know which autoscaler runs.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tools.control_plane.server import ControlPlane

Json = dict[str, Any]

WATCHED = {"Pod": "/api/v1/pods", "Node": "/api/v1/nodes", "NodeClaim": "/apis/karpenter.sh/v1/nodeclaims"}
KEPT = {
    "metadata": ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "labels", "ownerReferences"),
    "spec": ("nodeName", "containers", "providerID", "taints"),
    "status": ("phase", "conditions", "allocatable", "providerID", "nodeName", "nominatedNodeName"),
}
# The API server ends each watch after this time, and the next one continues where it ended.
WATCH_SECONDS = 10
SAMPLE_SECONDS = 0.5
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def kept(item: Json) -> Json:
    """The fields of an object that are measured."""
    return {part: {key: item[part][key] for key in keys if key in item.get(part, {})} for part, keys in KEPT.items()}


class Watches:
    """Watches of all kinds, until the end of the context. `broken` has what interrupted one, which makes the run incomplete."""

    def __init__(self, plane: ControlPlane, file: Path) -> None:
        self._plane, self._file = plane, file
        self._lock, self._stop = threading.Lock(), threading.Event()
        self.broken: list[str] = []

    def __enter__(self) -> Watches:
        self._out = self._file.open("w")
        self._threads = [threading.Thread(target=self._keep, args=watched, daemon=True) for watched in WATCHED.items()]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * WATCH_SECONDS)
        self._out.close()

    def _keep(self, kind: str, path: str) -> None:
        version = ""
        while not self._stop.is_set():
            try:
                version = self._watch(kind, path, version)
            except (OSError, http.client.HTTPException, ValueError) as problem:
                if not self._stop.is_set():
                    self.broken.append(f"the watch of {path} ended: {problem}")
                    self._stop.wait(1)

    def _watch(self, kind: str, path: str, version: str) -> str:
        """One watch. Returns the version from which the next one continues."""
        query = f"{path}?allowWatchBookmarks=true&resourceVersion={version}"
        for event in self._plane.client.stream(query, WATCH_SECONDS):
            item = event["object"]
            if event["type"] == "ERROR":
                raise ValueError(item.get("message", "an error without a message"))
            version = item["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._write({"t": time.time(), "kind": kind, "type": event["type"], "object": kept(item)})
        return version

    def _write(self, line: Json) -> None:
        with self._lock:
            self._out.write(json.dumps(line) + "\n")


class Usage:
    """Samples the processor time and memory of the processes of an autoscaler, which may start and end."""

    def __init__(self, pids: Callable[[], Iterable[int]], file: Path) -> None:
        self._pids, self._file = pids, file
        self._stop = threading.Event()
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}

    def __enter__(self) -> Usage:
        self._out = self._file.open("w")
        # Processor time before the start is not that of the workload.
        self._first = {pid: used[0] for pid in self._pids() if (used := usage(pid))}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._out.close()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            memory = 0
            for pid in self._pids():
                if used := usage(pid):
                    self._last[pid] = used[0] - self._first.get(pid, 0.0)
                    memory += used[1]
            line = {"t": time.time(), "processor_seconds": round(sum(self._last.values()), 2), "memory": memory}
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()


def usage(pid: int) -> tuple[float, int] | None:
    """Seconds of processor time and bytes of resident memory of a process, from proc(5); None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * PAGE
