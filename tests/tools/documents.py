"""Runs the commands of documents: extracts them from the text unchanged, and executes them with bash."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .terraform import ROOT, environment

# Lines that begin like this are commands; an indented block with other lines is not a block of commands.
COMMANDS = ("make ", "cargo ", "cd ", "terraform ", "aws ", "kubectl ", "sed ")


@dataclass(frozen=True)
class Block:
    """A block of commands."""

    file: str
    heading: str
    text: str


def blocks(file: str) -> list[Block]:
    """The blocks of commands of a document: fenced with ```sh, or indented by four spaces."""
    found: list[Block] = []
    heading, lines, fence = "", [], None

    def close() -> None:
        text = "\n".join(lines).strip("\n")
        if text and text.lstrip().startswith(COMMANDS):
            found.append(Block(file, heading, text + "\n"))
        lines.clear()

    for line in (ROOT / file).read_text().splitlines():
        marker = re.match(r"( *)```(\w*)$", line)
        if fence is not None:
            if marker:
                if fence[1] == "sh":
                    close()
                lines.clear()
                fence = None
            else:
                lines.append(line.removeprefix(fence[0]))
        elif marker:
            close()
            fence = (marker[1], marker[2])
        elif line.startswith("    "):
            lines.append(line.removeprefix("    "))
        elif not line.strip() and lines:
            lines.append("")
        else:
            close()
            if line.startswith("#"):
                heading = line.lstrip("#").strip()
    close()
    return found


class Reader:
    """A shell in which the commands of a document run. Some commands are replaced:

    - `terraform` uses the provider on this machine, and runs without confirmation;
    - `make zips` and `cargo lambda build` copy functions that have already been built for this machine;
    - `nodeless` and `cargo run -p nodeless` run the command that has already been built;
    - `aws` is implemented with boto3, and `aws eks update-kubeconfig` writes the kubeconfig of the local world.
    """

    def __init__(self, directory: Path, mirror: Path, log: Path) -> None:
        self.checkout = directory / "checkout"
        self.log = log
        self.environment = environment(
            PATH=f"{directory / 'bin'}:{os.environ['PATH']}",
            KUBECONFIG=str(directory / "users-kubeconfig"),
            READER_MIRROR=str(mirror),
            READER_CHECKOUT=str(self.checkout),
        )
        commands = Path(__file__).with_name("reader_commands.py")
        (directory / "bin").mkdir()
        for name in ("nodeless", "terraform", "make", "cargo", "aws"):
            command = directory / "bin" / name
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{commands}" {name} "$@"\n')
            command.chmod(command.stat().st_mode | stat.S_IXUSR)
        self.environment["READER_TERRAFORM"] = str(shutil.which("terraform"))
        for part in ("terraform", "infra"):
            ignored = shutil.ignore_patterns(".terraform*", "*.tfstate*", "artifacts")
            shutil.copytree(ROOT / part, self.checkout / part, ignore=ignored)

    def provide(self, **variables: str | Path | dict[str, str]) -> None:
        """Sets the values that the commands need, as READER_NAME."""
        for name, value in variables.items():
            self.environment[f"READER_{name.upper()}"] = json.dumps(value) if isinstance(value, dict) else str(value)

    def run(self, block: Block, directory: str = ".", seconds: float = 900) -> str:
        """Runs a block and returns its output."""
        return self.shell(block.text, directory, seconds)

    def shell(self, text: str, directory: str = ".", seconds: float = 900) -> str:
        """Runs commands and returns their output; raises AssertionError with the output if they fail."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.checkout / directory,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
        with self.log.open("a") as file:
            file.write(f"$ {text}{done.stdout}\n")
        assert done.returncode == 0, f"these commands ended with {done.returncode}:\n{text}\n{done.stdout[-6000:]}"
        return done.stdout
