"""The archives of `make release`, without building anything: the same contents give the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import re
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import release  # noqa: E402

import pages  # noqa: E402
import repository_links  # noqa: E402
import sbom  # noqa: E402

TIME = 1_700_000_000
FILES = {"b.tf": (b"module", False), "a/nodeless": (b"\x7fELF", True)}


def test_an_archive_depends_on_contents_and_commit_time_alone() -> None:
    archived = release.archive(FILES, TIME)
    assert archived == release.archive(dict(reversed(FILES.items())), TIME)
    assert archived != release.archive(FILES, TIME + 1)
    with tarfile.open(fileobj=io.BytesIO(archived)) as tar:
        entries = [(e.name, e.mode, e.mtime, e.uid, e.uname) for e in tar]
        assert entries == [("a/nodeless", 0o755, TIME, 0, ""), ("b.tf", 0o644, TIME, 0, "")]
        assert tar.extractfile("a/nodeless").read() == b"\x7fELF"


def test_a_deployment_package_holds_an_executable_bootstrap() -> None:
    package = release.function_zip(b"\x7fELF")
    assert package == release.function_zip(b"\x7fELF")
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        (entry,) = archive.infolist()
        assert (entry.filename, entry.external_attr >> 16, entry.date_time) == ("bootstrap", 0o755, (1980, 1, 1, 0, 0, 0))


def test_the_released_command_can_read_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The documentation uses `catalog export`, `decisions --cluster` and `report --cluster` of a released binary."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(release, "run", lambda *command, **_variables: commands.append(command) or "")
    for name in release.FUNCTIONS:
        (tmp_path / "lambda" / name).mkdir(parents=True)
        (tmp_path / "lambda" / name / "bootstrap").write_bytes(b"function")
    (tmp_path / "release").mkdir()
    (tmp_path / "release/nodeless").write_bytes(b"command")
    assert release.build(tmp_path, TIME)[1] == b"command"
    (built,) = [command for command in commands if command[:2] == ("cargo", "build")]
    assert "--release" in built
    assert built[built.index("--package") + 1] == "nodeless"
    assert built[built.index("--features") + 1] == "aws"


def test_users_of_the_module_find_zips_and_module_in_one_folder() -> None:
    repository = release.tracked(release.PUBLISHED)
    files = release.module_files("nodeless-1", dict.fromkeys(release.FUNCTIONS, b"zip"), repository)
    for name in ("terraform/variables.tf", "infra/crds/karpenter.sh_nodepools.yaml", "LICENSE", "lambda/planner/bootstrap.zip", "lambda/checksums.json"):
        assert f"nodeless-1/{name}" in files
    assert not [name for name in files if "/.terraform/" in name or name.endswith((".tfstate", ".zip")) and "/lambda/" not in name]


def test_no_relative_link_in_an_archive_is_broken() -> None:
    files = release.with_whole_links(release.tracked(release.PUBLISHED), "0123abcd")
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    broken, elsewhere = [], set()
    for name in (name for name in files if name.endswith(".md")):
        for _, target in pages.links(files[name][0].decode()):
            if re.match(r"[a-z]+:", target):
                elsewhere |= {target} if "/0123abcd/" in target else set()
                continue
            path = target.partition("#")[0]
            place = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            broken += [f"{name}: {target}"] if place not in files.keys() | folders else []
    assert not broken
    assert f"{repository_links.repository()}/blob/0123abcd/ARCHITECTURE.md" in elsewhere, elsewhere


def test_checksums_are_what_sha256sum_reads() -> None:
    lines = release.checksums({"b": b"2", "a": b"1"}).splitlines()
    assert lines == [f"{hashlib.sha256(b'1').hexdigest()}  a", f"{hashlib.sha256(b'2').hexdigest()}  b"]


def package(name: str, source: str | None = "registry+https://example.com/index", licence: str = "MIT/Apache-2.0") -> dict[str, object]:
    return {"name": name, "version": "1.0.0", "id": f"{source or 'path+file:///here'}#{name}", "source": source, "license": licence}


def test_the_bill_of_materials_has_what_is_built_and_not_what_only_tests_need() -> None:
    program, linked, built, tested, other = package("program", None), package("linked"), package("built"), package("tested"), package("other")
    deps = [{"pkg": one["id"], "dep_kinds": [{"kind": kind}]} for one, kind in ((linked, None), (built, "build"), (tested, "dev"))]
    metadata = {
        "workspace_root": "/here", "workspace_members": [program["id"]], "packages": [program, linked, built, tested, other],
        "resolve": {"nodes": [{"id": program["id"], "deps": deps}, *({"id": one["id"], "deps": []} for one in (linked, built, tested, other))]},
    }  # fmt: skip
    lock = "".join(f'[[package]]\nname = "{name}"\nversion = "1.0.0"\nchecksum = "{name}sum"\n' for name in ("linked", "built", "tested", "other"))
    written = sbom.bill("archive", "1.0.0", metadata, lock, ["program"])
    bill = json.loads(written)
    assert bill["bomFormat"] == "CycloneDX" and [one["name"] for one in bill["components"]] == ["program", "built", "linked"]
    assert bill["components"][2] == {
        "type": "library", "bom-ref": linked["id"], "name": "linked", "version": "1.0.0", "purl": "pkg:cargo/linked@1.0.0",
        "hashes": [{"alg": "SHA-256", "content": "linkedsum"}], "licenses": [{"expression": "MIT OR Apache-2.0"}],
    }  # fmt: skip
    assert len(bill["dependencies"][0]["dependsOn"]) == 2
    assert b"/here" not in written and written == sbom.bill("archive", "1.0.0", metadata, lock, ["program"])


def test_the_functions_have_a_bill_of_materials() -> None:
    found = release.bills(("functions", "command"), "1.0.0", "x86_64-unknown-linux-gnu")
    functions, command = (json.loads(found[f"{name}.cdx.json"]) for name in ("functions", "command"))
    names = {one["name"] for one in functions["components"]}
    assert set(release.FUNCTIONS) | {"aws-sdk-ec2", "kube-client"} <= names and "nodeless" in {one["name"] for one in command["components"]}
    assert all("hashes" in one for one in functions["components"] if "purl" in one)
