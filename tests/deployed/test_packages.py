"""What package managers read about a release, from archives that contain the command as the tests build it."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import archives  # noqa: E402
import packages  # noqa: E402
import release  # noqa: E402
import repository_links  # noqa: E402

from tools import artifacts  # noqa: E402
from tools.results import needs  # noqa: E402

VERSION = "7.8.9"
HERE = archives.system_named(platform.system(), platform.machine()) or "linux-amd64"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release: the archive of this system is real, in the others the command is a text."""
    folder = tmp_path_factory.mktemp("release")
    # Without symbols, which are most of what would be compressed.
    executable = folder / "nodeless"
    subprocess.run(["strip", "-o", executable, artifacts.command()], check=True)
    files = release.command_files(f"nodeless-{VERSION}", executable)
    executable.unlink()
    for system in release.SYSTEMS.values():
        contents = dict(files)
        if system != HERE:
            contents[f"nodeless-{VERSION}/nodeless"] = (system.encode(), True)
        (folder / archives.archive_name(VERSION, system)).write_bytes(archived(contents))
    made = release.make_packages(VERSION, folder)
    for name, contents in made.items():
        (folder / name).write_bytes(contents)
    everything = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "SHA256SUMS").write_text(release.checksums(everything))
    return folder


def archived(files: Mapping[str, tuple[bytes, bool]]) -> bytes:
    """An archive as `release.archive` makes it, but compressed less: the command of the tests is large."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, (contents, executable) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(contents), 0o755 if executable else 0o644
            tar.addfile(entry, io.BytesIO(contents))
    return buffer.getvalue()


def address(system: str) -> str:
    return f"{repository_links.repository()}/releases/download/v{VERSION}/nodeless-{VERSION}-{system}.tar.gz"


def checksum(folder: Path, system: str) -> str:
    return hashlib.sha256((folder / archives.archive_name(VERSION, system)).read_bytes()).hexdigest()


def test_an_archive_has_the_command_its_licence_scripts_and_pages(folder: Path) -> None:
    with tarfile.open(folder / archives.archive_name(VERSION, HERE)) as archive:
        names = set(archive.getnames())
        assert all(name.startswith(f"nodeless-{VERSION}/") for name in names)
        assert {entry.name for entry in archive if entry.mode & 0o111} == {f"nodeless-{VERSION}/nodeless"}
    expected = ["nodeless", "LICENSE", *(f"completions/{name}" for name in release.COMPLETIONS.values()), "man/man1/nodeless.1", "man/man1/nodeless-plan.1"]
    assert {f"nodeless-{VERSION}/{name}" for name in expected} <= names


def test_packages_need_the_archives_of_all_systems(tmp_path: Path) -> None:
    (tmp_path / archives.archive_name(VERSION, "linux-amd64")).write_bytes(b"archive")
    with pytest.raises(SystemExit, match=f"does not contain nodeless-{VERSION}-linux-arm64.tar.gz, .*darwin-arm64.tar.gz"):
        release.make_packages(VERSION, tmp_path)


def test_an_unknown_value_of_a_template_is_an_error() -> None:
    for wrong in ("@OTHER@", "@URL windows-amd64@", "@VERSION linux-amd64@"):
        with pytest.raises(KeyError):
            packages.filled(wrong, VERSION, {"linux-amd64": "0" * 64})


def test_the_formula_has_the_archive_of_each_system(folder: Path) -> None:
    formula = (folder / "nodeless.rb").read_text()
    assert f'version "{VERSION}"' in formula and "@" not in re.sub(r"@\w+@|https://", "", formula)
    found: dict[str, tuple[str, str]] = {}
    system = processor = ""
    for line in formula.splitlines():
        if opened := re.fullmatch(r"  on_(macos|linux) do", line):
            system = {"macos": "darwin", "linux": "linux"}[opened[1]]
        elif opened := re.fullmatch(r"    on_(arm|intel) do", line):
            processor = {"arm": "arm64", "intel": "amd64"}[opened[1]]
        elif given := re.fullmatch(r'      (url|sha256) "(.+)"', line):
            before = found.get(f"{system}-{processor}", ("", ""))
            found[f"{system}-{processor}"] = (given[2], before[1]) if given[1] == "url" else (before[0], given[2])
    assert found == {system: (address(system), checksum(folder, system)) for system in release.SYSTEMS.values()}


def test_the_formula_installs_what_the_archive_has(folder: Path) -> None:
    formula = (folder / "nodeless.rb").read_text()
    with tarfile.open(folder / archives.archive_name(VERSION, HERE)) as archive:
        # Homebrew installs from the only folder of an archive.
        names = {str(PurePosixPath(name).relative_to(f"nodeless-{VERSION}")) for name in archive.getnames()}
    installed = re.findall(r'^    \w+\.install (?:Dir\[)?"([^"]+)"', formula, re.M)
    assert len(installed) == 5
    for pattern in installed:
        assert any(PurePosixPath(name).match(pattern) for name in names), pattern


def test_the_formula_is_ruby(folder: Path) -> None:
    needs("ruby")
    subprocess.run(["ruby", "-c", folder / "nodeless.rb"], check=True, capture_output=True)


def test_blocks_of_the_formula_are_closed(folder: Path) -> None:
    lines = (folder / "nodeless.rb").read_text().splitlines()
    opened = [line for line in lines if re.search(r"^\s*(class|def)\b|\bdo$", line)]
    assert len(opened) == sum(line.strip() == "end" for line in lines)


def plugin(folder: Path) -> dict[str, Any]:
    return yaml.safe_load((folder / "nodeless.yaml").read_text())


def test_the_manifest_of_krew_is_one_that_krew_accepts(folder: Path) -> None:
    """The rules of krew: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest and internal/index/validation of its source."""
    manifest = plugin(folder)
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"}
    assert manifest["metadata"] == {"name": "nodeless"}, "the name of the file"
    spec = manifest["spec"]
    assert set(spec) == {"version", "homepage", "shortDescription", "description", "platforms"}
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-[\w.-]+)?", spec["version"]) and spec["version"] == f"v{VERSION}"
    assert "\n" not in spec["shortDescription"] and len(spec["shortDescription"]) <= 50 and spec["description"]
    assert len(spec["platforms"]) == len(release.SYSTEMS)
    for one in spec["platforms"]:
        assert set(one) == {"selector", "uri", "sha256", "files", "bin"}
        (labels,) = one["selector"].values()
        system = f"{labels['os']}-{labels['arch']}"
        assert set(one["selector"]) == {"matchLabels"} and set(labels) == {"os", "arch"} and system in release.SYSTEMS.values()
        assert (one["uri"], one["sha256"]) == (address(system), checksum(folder, system))
        assert re.fullmatch(r"[a-f0-9]{64}", one["sha256"])
        assert one["files"] and all(set(file) == {"from", "to"} and file["from"] and file["to"] for file in one["files"])
        with tarfile.open(folder / archives.archive_name(VERSION, system)) as archive:
            assert {file["from"] for file in one["files"]} <= set(archive.getnames())
        assert one["bin"] in {PurePosixPath(file["from"]).name for file in one["files"] if file["to"] == "."}
    assert len({str(one["selector"]) for one in spec["platforms"]}) == len(release.SYSTEMS)


def test_kubectl_runs_the_plugin_that_krew_installs(folder: Path, tmp_path: Path) -> None:
    needs("kubectl")
    (here,) = [one for one in plugin(folder)["spec"]["platforms"] if "-".join(one["selector"]["matchLabels"][key] for key in ("os", "arch")) == HERE]
    with tarfile.open(folder / archives.archive_name(VERSION, HERE)) as archive:
        archive.extractall(tmp_path / "archive", filter="data")
    store, links = tmp_path / "store", tmp_path / "bin"
    store.mkdir()
    links.mkdir()
    for file in here["files"]:
        shutil.copy(tmp_path / "archive" / file["from"], store / file["to"])
    assert (store / "LICENSE").is_file()
    (links / "kubectl-nodeless").symlink_to(store / here["bin"])
    environment = {**os.environ, "PATH": f"{links}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}

    def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["kubectl", *arguments], env=environment, capture_output=True, text=True, check=False)

    version = kubectl("nodeless", "--version")
    assert (version.returncode, re.fullmatch(r"nodeless \d+\.\d+\.\d+\n", version.stdout) is not None) == (0, True), version
    assert "Usage: kubectl nodeless view [OPTIONS]" in kubectl("nodeless", "view", "--help").stdout
    assert "nodepools.karpenter.sh" in kubectl("nodeless", "crds").stdout
    refused = kubectl("nodeless", "plan", "--no-such-flag")
    assert refused.returncode == 1 and "Usage: kubectl nodeless plan" in refused.stderr
    assert str(links / "kubectl-nodeless") in kubectl("plugin", "list").stdout


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a definition of an image, with their arguments."""
    whole = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.M))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in whole.splitlines() if line]


def test_the_image_has_the_command_of_its_processor(folder: Path) -> None:
    text = (folder / "Containerfile").read_text()
    assert text.startswith("# syntax=docker/dockerfile:1\n"), "ADD --unpack is a part of this syntax"
    stages: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for instruction, arguments in instructions(text):
        if instruction == "FROM":
            name = arguments.partition(" AS ")[2] or "last"
            stages[name] = []
        stages[name].append((instruction, arguments))
    for processor in ("amd64", "arm64"):
        system = f"linux-{processor}"
        expected = f"--unpack=true --checksum=sha256:{checksum(folder, system)} {address(system)} /"
        assert stages[f"archive-{processor}"] == [("FROM", f"scratch AS archive-{processor}"), ("ADD", expected)]
    assert stages["archive"] == [("FROM", "archive-${TARGETARCH} AS archive")]
    last = dict(stages["last"])
    assert list(stages)[-1] == "last" and "RUN" not in dict(instructions(text))
    # A tag, and one of a user without rights; never `latest`.
    assert re.fullmatch(r"gcr\.io/distroless/base-nossl-debian\d+:nonroot", last["FROM"])
    source, copied, target = re.fullmatch(r"--from=(\w+) /(\S+) (\S+)", last["COPY"]).groups()  # type: ignore[union-attr]
    with tarfile.open(folder / archives.archive_name(VERSION, HERE)) as archive:
        assert source == "archive" and archive.getmember(copied).mode & 0o111
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last["USER"])
    assert shlex.split(last["ENTRYPOINT"].strip("[]")) == [target] and target.startswith("/")
    assert f'version="{VERSION}"' in last["LABEL"]


def commands_of(page: str, heading: str) -> str:
    """The commands for a shell in a section of a page."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", (packages.ROOT / page).read_text(), re.M | re.S)
    (block,) = re.findall(r"^```sh\n(.*?)^```", section[1], re.M | re.S)  # type: ignore[index]
    return block


def test_the_commands_of_the_page_install_an_archive(folder: Path, tmp_path: Path) -> None:
    needs("curl")
    script = ["set -euo pipefail", 'PATH="$HOME/.local/bin:$PATH"']
    script += [commands_of("docs/install/command.md", heading) for heading in ("From an archive", "Completion")]
    script.append("complete -p nodeless && man -w nodeless-plan" if shutil.which("man") else "complete -p nodeless")
    text = re.sub(r"^VERSION=.*$", f"VERSION={VERSION}", "\n".join(script), flags=re.M)
    environment = {**os.environ, "HOME": str(tmp_path), "NODELESS_RELEASE": folder.as_uri()}
    environment.pop("MANPATH", None)
    done = subprocess.run(["bash", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"nodeless-{VERSION}-{HERE}.tar.gz: OK" in done.stdout and re.search(r"^nodeless \d+\.\d+\.\d+$", done.stdout, re.M), done.stdout
    assert "-F _nodeless nodeless" in done.stdout
    assert (tmp_path / ".local/share/man/man1/nodeless-view.1").is_file()
    (tmp_path / f"nodeless-{VERSION}-{HERE}.tar.gz").write_bytes(b"changed")
    changed = text.replace("curl --fail", "true curl --fail")
    refused = subprocess.run(["bash", "-c", changed], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "FAILED" in refused.stdout


def test_the_link_of_the_page_is_a_plugin_of_kubectl(folder: Path, tmp_path: Path) -> None:
    needs("kubectl")
    (tmp_path / ".local/bin").mkdir(parents=True)
    with tarfile.open(folder / archives.archive_name(VERSION, HERE)) as archive:
        (tmp_path / ".local/bin/nodeless").write_bytes(archive.extractfile(f"nodeless-{VERSION}/nodeless").read())  # type: ignore[union-attr]
    (tmp_path / ".local/bin/nodeless").chmod(0o755)
    text = commands_of("docs/install/command.md", "As a plugin of kubectl")
    done = subprocess.run(["bash", "-ec", text], env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("nodeless ")


def test_the_page_names_the_addresses_of_the_release() -> None:
    page = (packages.ROOT / "docs/install/command.md").read_text()
    assert f"{repository_links.repository()}/releases/download/v$VERSION" in page
    for system in release.SYSTEMS.values():
        assert f"`{archives.archive_name('VERSION', system)}`" in page
    assert f"glibc {release.GLIBC} or newer" in page and f"macOS {release.MACOS.partition('.')[0]} or newer" in page


def test_all_files_of_a_release_have_checksums(folder: Path) -> None:
    listed = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in folder.iterdir()} - {"SHA256SUMS"} and {"nodeless.rb", "nodeless.yaml", "Containerfile"} <= listed
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
