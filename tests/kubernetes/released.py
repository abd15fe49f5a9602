"""The CustomResourceDefinitions of Karpenter's last three minor versions, as its provider for AWS publishes them."""

from __future__ import annotations

import json
import subprocess
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.control_plane.binaries import MODULES, go_environment, pinned
from tools.results import Unavailable, needs

# A module for each minor version, which pins a release.
FOLDER = MODULES / "karpenter-definitions"
MODULE = "github.com/aws/karpenter-provider-aws"
# The definitions of a release, in its module.
PLACE = "pkg/apis/crds/"
MINORS = sorted((folder.name.removeprefix("v") for folder in FOLDER.glob("v*")), key=lambda minor: int(minor.partition(".")[2]))
NEWEST = MINORS[-1]


@cache
def released(minor: str) -> list[dict[str, Any]]:
    """The definitions of the pinned release of a minor version, in the order of their files."""
    folder = FOLDER / f"v{minor}"
    version = pinned(folder / "go.mod", MODULE)
    prefix = f"{MODULE}@{version}/{PLACE}"
    with zipfile.ZipFile(archive(folder, version)) as files:
        found = [yaml.safe_load(files.read(name)) for name in sorted(files.namelist()) if name.startswith(prefix) and name.endswith(".yaml")]
    assert found, f"{MODULE} {version} has no definitions in {PLACE}"
    return found


def archive(folder: Path, version: str) -> Path:
    """The archive of the module, whose checksum is in the go.sum of the folder.

    Go does not unpack a module that requires a newer Go than the installed one, and reports that as an error. The archive is complete
    nevertheless, and no other Go has to be downloaded to read it."""
    needs("go")
    command = ["go", "mod", "download", "-json", f"{MODULE}@{version}"]
    done = subprocess.run(command, cwd=folder, env=go_environment("local"), capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout) if done.stdout.strip() else {}
    if "Zip" not in answer:
        problem = answer.get("Error") or done.stderr
        raise Unavailable("go", f"go could not download {MODULE} {version} (the module proxy may be out of reach): {problem}")
    assert f"{MODULE} {version} {answer['Sum']}" in (folder / "go.sum").read_text().splitlines(), f"{MODULE} {version} has another checksum"
    return Path(answer["Zip"])


def names(definitions: list[dict[str, Any]]) -> list[str]:
    """The names of the objects, such as `nodepools.karpenter.sh`."""
    return [definition["metadata"]["name"] for definition in definitions]
