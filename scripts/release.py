"""Makes what a release consists of, the same bytes for the same commit:

    nodeless-VERSION-terraform.tar.gz   the module; the zips of the functions; CustomResourceDefinitions, RBAC and NodePool examples
    nodeless-VERSION-OS-ARCH.tar.gz     the `nodeless` command with its completion scripts and manual pages, for the system that runs this
    ARCHIVE.cdx.json                    what the programs of each archive are built from, in CycloneDX
    nodeless.rb, nodeless.yaml,         the Homebrew formula, the manifest of krew and the definition of a container image, from packaging/
    Containerfile
    SHA256SUMS

A user of the module unpacks the first archive and needs no Rust: `artifacts_directory` is its folder `lambda`, or `artifacts_s3` where
that was uploaded.
Files are archived in the order of their names, with the time of the commit, without owner.

Each part is made by itself. `functions` and `command` need a compiler; the command is built on a system of its own kind, because a
compiler for macOS needs the SDK of macOS. `packages` needs the archives of all systems in the folder.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts/docs"))

import repository_links  # noqa: E402

sys.path.insert(0, str(ROOT / "scripts"))

import packages  # noqa: E402
import sbom  # noqa: E402
from archives import CHECKSUMS, MODULE, SYSTEMS, archive_name  # noqa: E402

FUNCTIONS = ("planner", "lifecycle", "interruption", "catalog", "wake", "installer")
ARM64 = "aarch64-unknown-linux-gnu"
# The oldest C library of a Linux that runs the command: the oldest that Rust supports. A compiler links the library of its own system,
# ubuntu-24.04 has 2.39, and Amazon Linux 2023 has 2.34. Zig has the symbols of each version. A static binary with musl would need no
# library at all, but would not read /etc/nsswitch.conf.
GLIBC = "2.17"
# The oldest macOS that Rust supports on both processors; C code of dependencies is compiled for it too.
MACOS = "11.0"
# The file names of the completion scripts, as shells and package managers expect them.
COMPLETIONS = {"bash": "nodeless.bash", "elvish": "nodeless.elv", "fish": "nodeless.fish", "powershell": "_nodeless.ps1", "zsh": "_nodeless"}
# The parts of the repository that are published with the functions; paths of git, so that files outside git are not published.
PUBLISHED = ("terraform", "infra", "LICENSE", "CHANGELOG.md", "docs")
# Zip entries carry no time before 1980; Lambda looks at none.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def function_zip(executable: bytes) -> bytes:
    """A Lambda deployment package with this bootstrap."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        entry = zipfile.ZipInfo("bootstrap", ZIP_TIME)
        entry.create_system = 3  # Unix, so that the permissions count
        entry.external_attr = 0o755 << 16
        archive.writestr(entry, executable, zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()


def archive(files: Mapping[str, tuple[bytes, bool]], time: int) -> bytes:
    """A compressed tar of these files: contents and whether they are executable, by name."""
    buffer = io.BytesIO()
    # Compressed apart, since tarfile writes the time of day into the header of gzip.
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=time) as compressed, tarfile.open(mode="w", fileobj=compressed, format=tarfile.PAX_FORMAT) as tar:
        for name, (contents, executable) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(contents), time, 0o755 if executable else 0o644
            tar.addfile(entry, io.BytesIO(contents))
    return buffer.getvalue()


def with_whole_links(files: Mapping[str, tuple[bytes, bool]], commit: str) -> dict[str, tuple[bytes, bool]]:
    """The files, where links of pages to files that are not among them lead to the repository at this commit."""
    present = {str(parent) for name in files for parent in (PurePosixPath(name), *PurePosixPath(name).parents)}

    def address(page: str, target: str) -> str | None:
        if re.match(r"[a-z]+:|#", target):
            return None
        path, _, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        return None if place in present else repository_links.in_repository(place, anchor, commit)

    def whole(name: str, contents: bytes) -> bytes:
        return repository_links.rewritten(name, contents.decode(), address).encode() if name.endswith(".md") else contents

    return {name: (whole(name, contents), executable) for name, (contents, executable) in files.items()}


def module_files(folder: str, zips: Mapping[str, bytes], repository: Mapping[str, tuple[bytes, bool]]) -> dict[str, tuple[bytes, bool]]:
    """The files of the archive for users of Terraform."""
    files = {f"{folder}/{name}": file for name, file in repository.items()}
    files |= {f"{folder}/lambda/{name}/bootstrap.zip": (contents, False) for name, contents in zips.items()}
    # The checksums that the module reads where the zips are in S3 (artifacts_s3), in the form in which Lambda reports them.
    hashes = {name: base64.b64encode(hashlib.sha256(contents).digest()).decode() for name, contents in zips.items()}
    files[f"{folder}/lambda/checksums.json"] = (json.dumps(hashes, indent=2, sort_keys=True).encode() + b"\n", False)
    return files


def checksums(archives: Mapping[str, bytes]) -> str:
    """In the form that `sha256sum --check` reads."""
    return "".join(f"{hashlib.sha256(contents).hexdigest()}  {name}\n" for name, contents in sorted(archives.items()))


def tracked(paths: Iterable[str]) -> dict[str, tuple[bytes, bool]]:
    """The files of the commit below these paths."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], cwd=ROOT, check=True, capture_output=True).stdout
    names = [name.decode() for name in listed.split(b"\0") if name]
    return {name: ((ROOT / name).read_bytes(), os.access(ROOT / name, os.X_OK)) for name in names}


def run(*command: str, **variables: str) -> str:
    """Runs a command at the root of the repository; its messages are shown, its output is returned."""
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"`{' '.join(command)}` failed with exit code {done.returncode}; no release was made")
    return done.stdout


def bill(archive: str, version: str, programs: Iterable[str], target: str) -> bytes:
    """The bill of materials of an archive with these programs for this target."""
    command = ("cargo", "metadata", "--locked", "--format-version", "1", "--all-features", "--filter-platform", target)
    return sbom.bill(archive, version, json.loads(run(*command)), (ROOT / "Cargo.lock").read_text(), programs)


def variables(target: Path, time: int) -> dict[str, str]:
    """The environment of a compiler. Paths of this machine are replaced, so that two give the same bytes."""
    cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    sysroot = run("rustc", "--print", "sysroot").strip()
    paths = {str(ROOT): "nodeless", str(cargo_home): "cargo", sysroot: "rust", str(target): "target"}
    return {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in paths.items()),
        "CARGO_INCREMENTAL": "0",
        "CARGO_TARGET_DIR": str(target),
        "MACOSX_DEPLOYMENT_TARGET": MACOS,
        "SOURCE_DATE_EPOCH": str(time),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def build_functions(target: Path, environment: Mapping[str, str]) -> dict[str, bytes]:
    """The functions for arm64."""
    packages_of = [argument for name in FUNCTIONS for argument in ("--package", name)]
    run("cargo", "lambda", "build", "--locked", "--release", "--arm64", *packages_of, **environment)
    return {name: (target / "lambda" / name / "bootstrap").read_bytes() for name in FUNCTIONS}


def built_with(host: str) -> tuple[str, str]:
    """The command of cargo that builds for this system, and its target."""
    return ("zigbuild", f"{host}.{GLIBC}") if "linux" in host else ("build", host)


def build_command(target: Path, host: str, environment: Mapping[str, str]) -> Path:
    """The command for this system."""
    build, with_library = built_with(host)
    run("cargo", build, "--locked", "--release", "--package", "nodeless", "--features", "aws", "--target", with_library, **environment)
    return target / host / "release/nodeless"


def command_files(folder: str, executable: Path) -> dict[str, tuple[bytes, bool]]:
    """The files of an archive of the command. The scripts and pages are those that the command writes."""
    files = {f"{folder}/{name}": file for name, file in tracked(["LICENSE"]).items()}
    files[f"{folder}/nodeless"] = (executable.read_bytes(), True)
    for shell, name in COMPLETIONS.items():
        files[f"{folder}/completions/{name}"] = (run(str(executable), "completions", shell).encode(), False)
    with tempfile.TemporaryDirectory() as pages:
        run(str(executable), "man", "--write", pages)
        files |= {f"{folder}/man/man1/{page.name}": (page.read_bytes(), False) for page in Path(pages).iterdir()}
    return files


def make_functions(version: str, time: int, target: Path) -> dict[str, bytes]:
    """The archive for users of Terraform, and its bill of materials."""
    folder, commit = f"nodeless-{version}", run("git", "rev-parse", "HEAD").strip()
    zips = {name: function_zip(executable) for name, executable in build_functions(target, variables(target, time)).items()}
    name = archive_name(version, MODULE)
    files = module_files(folder, zips, with_whole_links(tracked(PUBLISHED), commit))
    return {name: archive(files, time), f"{name}.cdx.json": bill(name, version, FUNCTIONS, ARM64)}


def make_command(version: str, time: int, target: Path) -> dict[str, bytes]:
    """The archive of the command for this system, and its bill of materials."""
    host = next(line.split()[1] for line in run("rustc", "-vV").splitlines() if line.startswith("host:"))
    if host not in SYSTEMS:
        sys.exit(f"There are no releases for {host}, but for {', '.join(SYSTEMS)}.")
    name = archive_name(version, SYSTEMS[host])
    files = command_files(f"nodeless-{version}", build_command(target, host, variables(target, time)))
    return {name: archive(files, time), f"{name}.cdx.json": bill(name, version, ("nodeless",), host)}


def make_packages(version: str, output: Path) -> dict[str, bytes]:
    """What package managers read, of the archives in the folder."""
    names = {system: archive_name(version, system) for system in SYSTEMS.values()}
    missing = [name for name in names.values() if not (output / name).is_file()]
    if missing:
        sys.exit(f"{output} does not contain {', '.join(missing)}. Build each on a system of its kind with `{Path(__file__).name} command`.")
    return packages.written(version, {system: (output / name).read_bytes() for system, name in names.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("functions", "command", "packages"), help="what to make (default: functions and command)")
    parser.add_argument("--output", type=Path, default=ROOT / "target/release-archives", help="folder for the archives (default: %(default)s)")
    arguments = parser.parse_args()
    part, output = arguments.part, arguments.output
    if run("git", "status", "--porcelain", "--untracked-files=no"):
        sys.exit("Files differ from the commit. Commit or stash the changes: a release is made of what a commit holds.")
    metadata = json.loads(run("cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"))
    version = next(package["version"] for package in metadata["packages"] if package["name"] == "nodeless")
    time, target = int(run("git", "log", "-1", "--format=%ct")), ROOT / "target/release-build"
    made: dict[str, bytes] = {}
    if part in (None, "functions"):
        made |= make_functions(version, time, target)
    if part in (None, "command"):
        made |= make_command(version, time, target)
    if part == "packages":
        made |= {path.name: path.read_bytes() for path in output.glob("nodeless-*")} | make_packages(version, output)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for name, contents in made.items():
        (output / name).write_bytes(contents)
    (output / CHECKSUMS).write_text(checksums(made))
    print(f"{checksums(made)}written to {output}")


if __name__ == "__main__":
    main()
