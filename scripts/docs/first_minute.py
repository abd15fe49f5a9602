#!/usr/bin/env python3
"""Records the first minute with a local cluster as docs/first-minute.cast (asciinema's format, version 2), and draws what `nodeless view`
shows in it as docs/view.svg.

    python3 scripts/docs/first_minute.py --write     # without --write: fails if a run shows something else

The commands run in a local cluster. How long each takes, ages, ports and generated names differ in each run: the recording has times of
its own, and the comparison leaves the others out. It needs kubectl, and the command `nodeless` as scripts/docs/plans.py.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from html import escape
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "tests")]

from pages import DOCS  # noqa: E402
from plans import wait_for  # noqa: E402
from tools import artifacts  # noqa: E402

CAST, PICTURE = DOCS / "first-minute.cast", DOCS / "view.svg"
WIDTH, HEIGHT = 150, 40
# Seconds for a character, before a command runs, and after its output.
TYPED, RUN, READ = 0.03, 0.5, 2.5
SECONDS = 60
CREATE = "kubectl create deployment inflate --image=registry.k8s.io/pause --replicas=0"
REQUEST = "kubectl set resources deployment inflate --requests=cpu=1,memory=1Gi"
SCALE = "kubectl scale deployment inflate --replicas=5"
OBJECTS = "kubectl get nodepools,nodeclaims,nodes,pods"
VIEW = "nodeless view --once"
DECISIONS = "nodeless decisions --cluster local"


class Local:
    """A local cluster, and commands in it."""

    def __init__(self, nodeless: Path, folder: Path) -> None:
        self.folder, self.nodeless = folder, nodeless.resolve()
        (folder / "bin").mkdir()
        (folder / "bin" / "nodeless").symlink_to(nodeless)
        kubeconfig = folder / "nodeless.kubeconfig"
        self.environment = os.environ | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig), "COLUMNS": str(WIDTH)}
        command = ["nodeless", "local", "--speed", "20", "--with-nodepool", "--kubeconfig", str(kubeconfig)]
        self.process = subprocess.Popen(command, cwd=folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.began = self.read_until("Press Ctrl-C")

    def read_until(self, end: str) -> str:
        assert self.process.stdout is not None
        text, deadline = "", time.monotonic() + SECONDS
        while end not in text:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            read = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not read:
                raise RuntimeError(f"nodeless local printed no {end!r}: {text}")
            text += read.decode()
        return text

    def run(self, command: str) -> str:
        done = subprocess.run(command.split(), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stderr}")
        return self.shown(done.stdout)

    def shown(self, text: str) -> str:
        """What a command printed, without this folder and these ports."""
        text = text.replace(str(self.nodeless), "nodeless").replace(f"{self.folder}/", "")
        return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)

    def running(self) -> int:
        return self.run("kubectl get pods --field-selector=status.phase=Running -o name").count("pod/")

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(SECONDS)


def recorded(nodeless: Path) -> list[tuple[str, str]]:
    """The commands with what they print."""
    with tempfile.TemporaryDirectory(prefix="nodeless-docs-") as scratch:
        local = Local(nodeless, Path(scratch).resolve())
        try:
            shown = [("cargo local --speed 20 --with-nodepool", local.shown(local.began)), ("export KUBECONFIG=nodeless.kubeconfig", "")]
            ready: dict[str, Callable[[], bool]] = {SCALE: lambda: local.running() == 5}
            for command in (CREATE, REQUEST, SCALE, OBJECTS, VIEW, DECISIONS):
                shown.append((command, local.run(command)))
                if command in ready:
                    wait_for("five running pods", ready[command])
            return shown
        finally:
            local.end()


def cast(shown: list[tuple[str, str]]) -> str:
    """The recording, as if somebody typed."""
    at, lines = 0.5, [json.dumps({"version": 2, "width": WIDTH, "height": HEIGHT, "title": "The first minute with nodeless"})]

    def add(text: str, then: float) -> None:
        nonlocal at
        lines.append(json.dumps([round(at, 2), "o", text], ensure_ascii=False))
        at += then

    for command, output in shown:
        add("$ ", RUN)
        for character in command:
            add(character, TYPED)
        add("\r\n", RUN)
        if output:
            add(output.rstrip("\n").replace("\n", "\r\n") + "\r\n", READ)
    return "\n".join(lines) + "\n"


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a recording with what they print."""
    header, *events = [json.loads(line) for line in text.splitlines()]
    assert header["version"] == 2, header
    times = [event[0] for event in events]
    assert times == sorted(times) and {event[1] for event in events} == {"o"}
    screen = "".join(event[2] for event in events).replace("\r\n", "\n")
    found = [part.partition("\n") for part in screen.removeprefix("$ ").split("\n$ ")]
    return [(command, output.rstrip("\n")) for command, _, output in found]


def normalized(text: str) -> list[str]:
    """The lines without what differs in each run: numbers, ages, generated names, bars and columns."""
    text = re.sub(r"\b(inflate-)[a-z0-9]+-[a-z0-9]{5}\b", r"\1POD", text)
    text = re.sub(r"\b(default-)[a-z0-9]{5}\b", r"\1CLAIM", text)
    text = re.sub(r"[▏▎▍▌▋▊▉█·]+", "|", text)
    text = re.sub(r"\d+", "0", text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def picture(text: str) -> str:
    """The text of a terminal as a picture."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    width, height = max(map(len, lines)) * 7.3 + 32, len(lines) * 18 + 28
    rows = []
    for place, line in enumerate(lines):
        kind = ' class="heading"' if not line.startswith(" ") else ""
        rows.append(f'<text x="16" y="{30 + place * 18}" xml:space="preserve"{kind}>{escape(line)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" aria-label="nodeless view of a local cluster">',
            "<style>text { font: 12px ui-monospace, monospace; fill: #d7dee8; white-space: pre } .heading { fill: #7cc7ff; font-weight: 600 }</style>",
            f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#16202c"/>',
            *rows,
            "</svg>",
            "",
        ]
    )


def differences(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> list[str]:
    """The commands that print something else than before."""
    if [command for command, _ in old] != [command for command, _ in new]:
        return ["the commands"]
    return [command for (command, before), (_, now) in zip(old, new, strict=True) if normalized(before) != normalized(now)]


def main() -> None:
    if shutil.which("kubectl") is None:
        sys.exit("kubectl is not installed")
    shown = recorded(artifacts.command())
    if "--write" in sys.argv:
        CAST.write_text(cast(shown))
        PICTURE.write_text(picture(dict(shown)[VIEW]))
        return
    changed = differences(commands(CAST.read_text()), shown)
    if changed:
        sys.exit(f"out of date: {', '.join(changed)}; run python3 scripts/docs/first_minute.py --write")


if __name__ == "__main__":
    main()
