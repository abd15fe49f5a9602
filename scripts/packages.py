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

sys.path.insert(0, str(ROOT / "scripts"))

import archives  # noqa: E402

TEMPLATES = ("homebrew/nodeless.rb", "krew/nodeless.yaml", "container/Containerfile")


def filled(template: str, version: str, checksums: Mapping[str, str]) -> str:
    """A template with its values: `@VERSION@`, `@REPOSITORY@`, and for a system `@URL SYSTEM@` and `@SHA256 SYSTEM@`."""
    repository = repository_links.repository()

    def value(found: re.Match[str]) -> str:
        name, system = found[1], found[2]
        values = {"VERSION": version, "REPOSITORY": repository}
        if system:
            address = f"{repository}/releases/download/v{version}/{archives.archive_name(version, system)}"
            values = {"URL": address, "SHA256": checksums[system]}
        return values[name]

    return re.sub(r"@([A-Z0-9]+)(?: ([a-z0-9-]+))?@", value, template)


def written(version: str, contents_of: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files for package managers by their names, for the archives of these systems."""
    checksums = {system: hashlib.sha256(contents).hexdigest() for system, contents in contents_of.items()}
    paths = [ROOT / "packaging" / name for name in TEMPLATES]
    return {path.name: filled(path.read_text(), version, checksums).encode() for path in paths}
