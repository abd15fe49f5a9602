"""The software bill of materials of an archive of a release, in CycloneDX: every crate that its programs are built from.

Made from `cargo metadata`, which resolves the features of all packages together, so that it may list crates that one program does not link;
it leaves none out. The same commit gives the same bytes: no time and no random serial number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

REGISTRY = "registry+"


def checksums(lock: str) -> dict[tuple[str, str], str]:
    """The SHA-256 of each package of a registry, from Cargo.lock."""
    found = {}
    for block in lock.split("[[package]]")[1:]:
        fields = dict(re.findall(r'^(name|version|checksum) = "(.+)"$', block, re.M))
        if "checksum" in fields:
            found[fields["name"], fields["version"]] = fields["checksum"]
    return found


def linked(metadata: Mapping[str, Any], roots: Iterable[str]) -> dict[str, list[str]]:
    """The ids of the packages that these packages of the workspace are built from, with their dependencies; none that only tests need."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    members = {package["name"]: package["id"] for package in metadata["packages"] if package["id"] in metadata["workspace_members"]}
    found: dict[str, list[str]] = {}
    left = [members[name] for name in roots]
    while left:
        package = left.pop()
        if package in found:
            continue
        needed = [dep["pkg"] for dep in nodes[package]["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
        found[package] = sorted(set(needed))
        left += needed
    return found


def component(package: Mapping[str, Any], hashes: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """A package as CycloneDX describes a component."""
    name, version = package["name"], package["version"]
    found: dict[str, Any] = {"type": "library", "bom-ref": package["id"], "name": name, "version": version}
    if (package["source"] or "").startswith(REGISTRY):
        found |= {"purl": f"pkg:cargo/{name}@{version}", "hashes": [{"alg": "SHA-256", "content": hashes[name, version]}]}
    if package["license"]:
        # Older packages separate alternatives by a slash, which SPDX does not know.
        found["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    return found


def bill(archive: str, version: str, metadata: Mapping[str, Any], lock: str, roots: Iterable[str]) -> bytes:
    """The bill of materials of an archive that contains the programs of these packages. Paths of this machine are left out."""
    packages = {package["id"]: package for package in metadata["packages"]}
    needed, hashes = linked(metadata, roots), checksums(lock)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": archive, "name": archive, "version": version}},
        "components": [component(packages[id], hashes) for id in sorted(needed)],
        "dependencies": [{"ref": id, "dependsOn": needed[id]} for id in sorted(needed)],
    }
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    return text.replace(f"path+file://{metadata['workspace_root']}", "path+file:///nodeless").encode()
