"""What package managers read about a release: templates of packaging/ with the addresses and checksums of its archives."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts/docs"))

import repository_links  # noqa: E402

TEMPLATES = ("homebrew/nodeless.rb", "krew/nodeless.yaml", "container/Containerfile")


def archive_name(version: str, system: str) -> str:
    """The file name of the archive of the command for a system, such as linux-amd64."""
    return f"nodeless-{version}-{system}.tar.gz"


def filled(template: str, version: str, checksums: Mapping[str, str]) -> str:
    """A template with its values: `@VERSION@`, `@REPOSITORY@`, and for a system `@URL SYSTEM@` and `@SHA256 SYSTEM@`."""
    repository = repository_links.repository()

    def value(found: re.Match[str]) -> str:
        name, system = found[1], found[2]
        values = {"VERSION": version, "REPOSITORY": repository}
        if system:
            address = f"{repository}/releases/download/v{version}/{archive_name(version, system)}"
            values = {"URL": address, "SHA256": checksums[system]}
        return values[name]

    return re.sub(r"@([A-Z0-9]+)(?: ([a-z0-9-]+))?@", value, template)


def written(version: str, archives: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files for package managers by their names, for the archives of these systems."""
    checksums = {system: hashlib.sha256(contents).hexdigest() for system, contents in archives.items()}
    paths = [ROOT / "packaging" / name for name in TEMPLATES]
    return {path.name: filled(path.read_text(), version, checksums).encode() for path in paths}
