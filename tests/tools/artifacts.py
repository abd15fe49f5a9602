"""The project's own binaries for this machine: the `nodeless` command, and the functions as zips."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import zipfile
from pathlib import Path

from .results import Unavailable
from .terraform import FUNCTIONS, ROOT


def profile() -> str:
    """The cargo profile to build with."""
    return os.environ.get("NODELESS_PROFILE", "dev")


def build(*packages: str) -> dict[str, Path]:
    """Builds these packages with cargo and returns their executables by name. NODELESS_BINARIES is a folder with existing
    executables: after the Rust tests that is target/debug, and a separate build would compile the AWS SDK again."""
    given = os.environ.get("NODELESS_BINARIES")
    if given:
        executables = {package: Path(given).resolve() / package for package in packages}
        missing = [name for name, path in executables.items() if not path.is_file()]
        if missing:
            raise RuntimeError(f"NODELESS_BINARIES={given} does not contain {', '.join(missing)}")
        return executables
    command = ["cargo", "build", "--locked", "--profile", profile(), "--message-format=json-render-diagnostics"]
    for package in packages:
        command += ["--package", package]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed; its messages are above")
    executables: dict[str, Path] = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message.get("executable") and "bin" in message["target"]["kind"]:
            executables[message["target"]["name"]] = Path(message["executable"])
    missing = [p for p in packages if p not in executables]
    if missing:
        raise RuntimeError(f"cargo built no executable called {', '.join(missing)}")
    return executables


def command() -> Path:
    """The `nodeless` command; NODELESS_BINARY is the path of an existing one."""
    given = os.environ.get("NODELESS_BINARY")
    return Path(given) if given else build("nodeless")["nodeless"]


def example(package: str, name: str) -> Path:
    """An example of a package, which cargo builds; from NODELESS_BINARIES if that is set, where the Rust tests leave it too."""
    given = os.environ.get("NODELESS_BINARIES")
    if given:
        path = Path(given).resolve() / "examples" / name
        if not path.is_file():
            raise RuntimeError(f"NODELESS_BINARIES={given} does not contain examples/{name}")
        return path
    command = ["cargo", "build", "--locked", "--profile", profile(), "--message-format=json-render-diagnostics", "--package", package, "--example", name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed; its messages are above")
    built = (json.loads(line) for line in done.stdout.splitlines())
    return next(Path(m["executable"]) for m in built if m.get("executable") and m["target"]["name"] == name)


def function_zips(destination: Path) -> Path:
    """A directory with NAME/bootstrap.zip for each function; NODELESS_ARTIFACTS is the path of an existing one."""
    given = os.environ.get("NODELESS_ARTIFACTS")
    if given:
        return Path(given).resolve()
    if platform.machine() != "x86_64":
        reason = "functions are built for this machine and ministack is started for x86_64; set NODELESS_ARTIFACTS elsewhere"
        raise Unavailable("x86_64", reason)
    for name, executable in build(*FUNCTIONS).items():
        (destination / name).mkdir(parents=True, exist_ok=True)
        # Without symbols, as in a release: they are two thirds of the size.
        stripped = destination / name / "stripped"
        subprocess.run(["strip", "-o", stripped, executable], check=True)
        with zipfile.ZipFile(destination / name / "bootstrap.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            entry = zipfile.ZipInfo("bootstrap")
            entry.external_attr = 0o755 << 16
            archive.writestr(entry, stripped.read_bytes(), zipfile.ZIP_DEFLATED)
        stripped.unlink()
    return destination
