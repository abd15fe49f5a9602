"""The archives of `make release`, without building anything: the same contents give the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import archives  # noqa: E402
import release  # noqa: E402

import pages  # noqa: E402
import repository_links  # noqa: E402
import sbom  # noqa: E402

from tools.results import needs  # noqa: E402

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
    assert release.build_command(tmp_path, "aarch64-apple-darwin", {}) == tmp_path / "aarch64-apple-darwin/release/nodeless"
    (built,) = commands
    assert built[:2] == ("cargo", "build") and "--release" in built
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
    functions = json.loads(release.bill("functions", "1.0.0", release.FUNCTIONS, release.ARM64))
    command = json.loads(release.bill("command", "1.0.0", ("nodeless",), "x86_64-apple-darwin"))
    names = {one["name"] for one in functions["components"]}
    assert set(release.FUNCTIONS) | {"aws-sdk-ec2", "kube-client"} <= names and "nodeless" in {one["name"] for one in command["components"]}
    assert all("hashes" in one for one in functions["components"] if "purl" in one)


def test_each_system_of_a_release_has_a_runner() -> None:
    workflow = yaml.safe_load((release.ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    runners = {"ubuntu-24.04": "linux-amd64", "ubuntu-24.04-arm": "linux-arm64", "macos-15-intel": "darwin-amd64", "macos-15": "darwin-arm64"}
    built = workflow["build"]["strategy"]["matrix"]["include"]
    assert {runners[one["runner"]] for one in built} == set(release.SYSTEMS.values())
    assert [one["runner"] for one in built if not one["part"]] == ["ubuntu-24.04"], "one of them also builds the functions"
    text = json.dumps(workflow["publish"])
    for kind in ("terraform", *release.SYSTEMS.values()):
        assert f"-{kind}.tar.gz.cdx.json" in text, "the bill of materials of each archive is attested"


def test_all_archives_of_a_release_are_in_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the list has and what is made, published and documented is the same."""
    monkeypatch.setattr(release, "bill", lambda *_: b"{}")
    monkeypatch.setattr(release, "variables", lambda *_: {})
    monkeypatch.setattr(release, "build_functions", lambda *_: {})
    monkeypatch.setattr(release, "command_files", lambda *_: FILES)
    monkeypatch.setattr(release, "build_command", lambda *_: tmp_path)
    made = release.make_functions("VERSION", TIME, tmp_path)
    for target in archives.SYSTEMS:
        monkeypatch.setattr(release, "run", lambda *_, host=target, **__: f"host: {host}")
        made |= release.make_command("VERSION", TIME, tmp_path)
    names = archives.archive_names("VERSION")
    assert sorted(made) == sorted([*names, *(f"{name}.cdx.json" for name in names)])
    for path in ("docs/install/command.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"nodeless-VERSION-[\w-]+\.tar\.gz", (release.ROOT / path).read_text())) - {"nodeless-VERSION-SYSTEM.tar.gz"}
        assert named == {archives.archive_name("VERSION", system) for system in archives.SYSTEMS.values()}, path
    published = (release.ROOT / ".github/workflows/release.yml").read_text()
    attested = re.findall(r"subject-path: release/(nodeless-.+\.tar\.gz)", published)
    assert [name.replace("${{ steps.version.outputs.number }}", "VERSION") for name in attested] == names
    for path in ("packaging/homebrew/nodeless.rb", "packaging/krew/nodeless.yaml"):
        assert set(re.findall(r"@URL ([\w-]+)@", (release.ROOT / path).read_text())) == set(archives.SYSTEMS.values()), path


PROGRAM = "fn main() { println!(\"{}\", std::env::args().count()) }"


def test_the_command_for_linux_runs_with_an_older_c_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is built as a release is, on a system with a newer library."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for program in ("cargo-zigbuild", "objdump"):
        needs(program)
    host = next(line.split()[1] for line in release.run("rustc", "-vV").splitlines() if line.startswith("host:"))
    build, target = release.built_with(host)
    assert (build, target) == ("zigbuild", f"{host}.{release.GLIBC}")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.rs").write_text(PROGRAM)
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "program"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n')
    environment = {**os.environ, **release.variables(tmp_path / "target", TIME)}
    environment.pop("RUSTC_WORKSPACE_WRAPPER", None)
    subprocess.run(["cargo", build, "--offline", "--target", target], cwd=tmp_path, env=environment, check=True, capture_output=True)
    program = tmp_path / f"target/{host}/debug/program"
    assert subprocess.run([program], check=True, capture_output=True, text=True).stdout == "1\n"
    symbols = subprocess.run(["objdump", "-T", program], check=True, capture_output=True, text=True).stdout
    needed = {tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", symbols)}
    assert needed and max(needed) <= tuple(map(int, release.GLIBC.split(".")))
    libraries = subprocess.run(["objdump", "-p", program], check=True, capture_output=True, text=True).stdout
    assert "libgcc_s" not in libraries, "the image of a container has the C library alone"


def test_archives_of_macos_are_built_with_the_compiler_of_macos() -> None:
    for target, system in release.SYSTEMS.items():
        if system.startswith("darwin"):
            assert release.built_with(target) == ("build", target)
