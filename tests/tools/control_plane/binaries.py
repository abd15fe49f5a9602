"""Builds kube-apiserver, kube-controller-manager, kube-scheduler, etcd, kwok and other programs from Go modules, and caches them.

A build is stored in the user's cache folder, with a key from its go.mod and go.sum and the version of Go, so a second run takes no time
and a changed version is built again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..results import Unavailable, needs
from ..terraform import ROOT

MODULES = ROOT / "tests/kubernetes"
VERSIONS = MODULES / "versions"
# The packages of the programs in each module, by the name of the program.
KUBERNETES = {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")}
ETCD = {"etcd": "go.etcd.io/etcd/server/v3"}
KWOK = {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}


@dataclass(frozen=True)
class Binaries:
    """The programs of a control plane."""

    version: str
    programs: Mapping[str, Path]

    @property
    def minor(self) -> str:
        """The minor version in the format of EKS, such as `1.36`."""
        return minor_of(self.version)


def minor_of(version: str) -> str:
    return ".".join(version.removeprefix("v").split(".")[:2])


def offered() -> list[str]:
    """The minor versions that are pinned, oldest first."""
    found = [folder.name.removeprefix("v") for folder in VERSIONS.glob("v*")]
    return sorted(found, key=lambda minor: tuple(map(int, minor.split("."))))


def selected() -> str:
    """The minor version in KUBERNETES, or the newest that is pinned."""
    named = os.environ.get("KUBERNETES")
    if named and named not in offered():
        raise SystemExit(f"KUBERNETES is {named}, and tests/kubernetes/versions has {', '.join(offered())}")
    return named or offered()[-1]


def binaries() -> Binaries:
    """Builds the programs that are not cached. The first run takes about 15 minutes on two cores."""
    folder = VERSIONS / f"v{selected()}"
    version = pinned(folder / "go.mod", "k8s.io/kubernetes")
    major, minor = version.removeprefix("v").split(".")[:2]
    package = "k8s.io/component-base/version"
    stamp = f"-X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} -X {package}.gitTreeState=clean"
    return Binaries(version, build(folder, KUBERNETES, stamp) | build(MODULES / "etcd", ETCD) | build(MODULES / "kwok", KWOK))


def pinned(file: Path, module: str) -> str:
    """The version at which a go.mod requires a module."""
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", file.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{file} does not require {module}")
    return found.group(1)


def build(folder: Path, packages: Mapping[str, str], stamp: str = "", toolchain: str = "local") -> dict[str, Path]:
    """The programs of a module, by name. Only one process builds; others wait for it. With the toolchain `auto`, Go fetches the version that
    the go.mod names from the module proxy if it is newer than the installed one."""
    needs("go")
    place = cache() / f"{folder.name}-{key(folder)}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, package in packages.items():
            if not (place / name).is_file():
                compile_one(folder, package, place / name, stamp, toolchain)
    return {name: place / name for name in packages}


def compile_one(folder: Path, package: str, program: Path, stamp: str, toolchain: str) -> None:
    program.parent.mkdir(exist_ok=True)
    unfinished = program.parent / f"{program.name}.unfinished"
    command = ["nice", "-n", "10", "go", "build", "-trimpath", "-ldflags", f"-s -w {stamp}".strip(), "-o", unfinished, package]
    print(f"building {package} of {folder.name}; this takes minutes the first time", flush=True)
    done = subprocess.run(command, cwd=folder, env=go_environment(toolchain), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable("go", f"go could not build {package} (the module proxy may be out of reach):\n{done.stdout[-3000:]}")
    unfinished.rename(program)


def go_environment(toolchain: str) -> dict[str, str]:
    # `local` uses the installed Go instead of downloading another version; no C compiler is needed.
    return os.environ | {"GOTOOLCHAIN": toolchain, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodeless-tests/kubernetes"


def key(folder: Path) -> str:
    """The key of a build: a short hash of everything that it depends on."""
    digest = hashlib.sha256(subprocess.run(["go", "env", "GOVERSION", "GOOS", "GOARCH"], stdout=subprocess.PIPE, check=True).stdout)
    for name in ("go.mod", "go.sum"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:16]
