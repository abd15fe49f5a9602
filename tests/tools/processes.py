"""Child processes of tests: free ports, logs in files, and reliable termination."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def free_port() -> int:
    """A free port. Another process may use it first; starting then fails with an error."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what: str, condition: Callable[[], T], seconds: float, every: float = 0.25) -> T:
    """The first true value of `condition`; raises AssertionError with `what` and the last value after the timeout."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out after {seconds:.0f} s waiting for: {what}; last value: {value!r}")
        time.sleep(every)


def sessions() -> Iterator[tuple[int, int]]:
    """The processes of this machine, each with its session, from proc(5)."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            yield int(entry.name), int(fields[3])


def executable(pid: int) -> str:
    """The path of the program of a process; empty if it has ended."""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


class Process:
    """A child in its own process group, with its output in a file. Use as a context manager."""

    def __init__(self, name: str, command: Sequence[str | Path], logs: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = [str(c) for c in command]
        self.log = logs / f"{name}.log"
        self.environment = dict(os.environ if environment is None else environment)
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Process:
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is None:
            return
        # The whole group: ministack's children are the functions.
        for signum, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            try:
                os.killpg(self._child.pid, signum)
            except ProcessLookupError:
                break
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        self._child.wait()

    def ended(self) -> int | None:
        """The exit code, once it has ended."""
        return None if self._child is None else self._child.poll()

    def pids(self) -> list[int]:
        """The child and its descendants, which are in its session."""
        return [] if self._child is None else [pid for pid, session in sessions() if session == self._child.pid]

    def wait_until_answers(self, url: str, seconds: float = 30) -> None:
        """Waits until an HTTP server of the child responds with any status."""

        def answers() -> bool:
            if self.ended() is not None:
                raise AssertionError(f"{self.name} ended with {self.ended()} before it answered; its log:\n{self.tail()}")
            try:
                urllib.request.urlopen(url, timeout=2).close()
            except urllib.error.HTTPError:
                return True
            except OSError:
                return False
            return True

        wait_for(f"{self.name} to answer at {url}", answers, seconds)

    def tail(self, characters: int = 4000) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-characters:]
