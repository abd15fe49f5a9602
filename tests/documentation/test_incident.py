"""The page about an incident: each cause is made in a local cluster, and the commands of the page name it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pages
import pytest
from plans import wait_for
from tools import artifacts

TEXT = (pages.DOCS / "incident.md").read_text()
INTRODUCTION, *SECTIONS = TEXT.split("\n## ")
SPEED = "60"
SECONDS = 120


@dataclass
class Cause:
    name: str
    makes: list[str]
    # What is expected, by the command that prints it.
    shown: dict[str, list[str]]


def cause(section: str) -> Cause:
    blocks = list(pages.code(section))
    (makes,) = [block.text for block in blocks if block.language == "sh"]
    (text,) = [block.text for block in blocks if block.language == "text"]
    shown: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("$ "):
            lines = shown.setdefault(line.removeprefix("$ "), [])
        else:
            lines.append(line)
    return Cause(section.partition("\n")[0], makes.splitlines(), shown)


CAUSES = [cause(section) for section in SECTIONS]
COMMANDS, START = [block.text.splitlines() for block in pages.code(INTRODUCTION) if block.language == "sh"]


@pytest.fixture(scope="module")
def nodeless() -> Path:
    return artifacts.command()


def contains(output: str, expected: str) -> bool:
    """Whether a command printed a line, however it is broken; … stands for anything."""
    pattern = ".*?".join(re.escape(" ".join(part.split())) for part in expected.split("…"))
    return re.search(pattern, " ".join(output.split())) is not None


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_the_commands_name_the_cause(cause: Cause, nodeless: Path, tmp_path: Path) -> None:
    kubeconfig, log = tmp_path / "nodeless.kubeconfig", tmp_path / "log"
    environment = os.environ | {"KUBECONFIG": str(kubeconfig)}

    def run(command: str) -> str:
        command = command.replace("nodeless ", f"{nodeless} ", 1) if command.startswith("nodeless ") else command
        done = subprocess.run(command, shell=True, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 3), done.stderr
        return done.stdout

    def printed(name: str) -> str:
        (command,) = [each for each in COMMANDS if each.startswith(name)]
        return log.read_text() if name == "aws logs tail" else run(command)

    def missing() -> list[str]:
        return [line for name, lines in cause.shown.items() for line in lines if not contains(printed(name), line)]

    with log.open("w") as file:
        local = [nodeless, "local", "--speed", SPEED, "--with-nodepool", "--kubeconfig", kubeconfig]
        process = subprocess.Popen(local, stdout=subprocess.DEVNULL, stderr=file, cwd=tmp_path)
        try:
            wait_for("kubeconfig of the local cluster", lambda: kubeconfig.is_file() or process.poll() is not None)
            wait_for("EC2NodeClass", lambda: "True" in run("kubectl get ec2nodeclass default"))
            create, request = START[1:]
            run(create.replace("--replicas=3", "--replicas=0"))
            run(request)
            drained = "kubectl delete node" in "".join(cause.makes)
            if drained:
                run("kubectl scale deployment web --replicas=3")
                wait_for("three pods", lambda: run("kubectl get pods -o name").count("pod/") == 3)
            for command in cause.makes:
                run(command)
            if not drained:
                run("kubectl scale deployment web --replicas=3")
            end = time.monotonic() + SECONDS
            while (left := missing()) and time.monotonic() < end:
                time.sleep(1)
            assert not left, f"{left} in {printed(next(iter(cause.shown)))}"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(SECONDS)


def test_the_page_has_each_cause_and_stays_short() -> None:
    rows = re.findall(r"^\| \[([^\]]+)\]\(#([^)]+)\)", INTRODUCTION, re.M)
    assert [cause.name.lower() for cause in CAUSES] == [name.lower().replace("ec2", "ec2") for name, _ in rows]
    assert len(CAUSES) == 10 and len(COMMANDS) == 3 and len(TEXT.split()) < 800


def test_a_line_is_found_however_it_is_broken() -> None:
    assert contains("a b\n   c d", "b c") and contains("x y\nz", "x … z") and not contains("a b", "b a")
