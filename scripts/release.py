"""Makes what a release consists of, the same bytes for the same commit:

    nodeless-VERSION-terraform.tar.gz   the module; the zips of the functions; CustomResourceDefinitions, RBAC and NodePool examples
    nodeless-VERSION-HOST.tar.gz        the `nodeless` command for the machine that runs this
    ARCHIVE.cdx.json                    what the programs of each archive are built from, in CycloneDX
    SHA256SUMS

A user of the module unpacks the first archive and needs no Rust: `artifacts_directory` is its folder `lambda`, or `artifacts_s3` where
that was uploaded.
Files are archived in the order of their names, with the time of the commit, without owner.
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
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts/docs"))

import repository_links  # noqa: E402

sys.path.insert(0, str(ROOT / "scripts"))

import sbom  # noqa: E402

FUNCTIONS = ("planner", "lifecycle", "interruption", "catalog", "wake", "installer")
ARM64 = "aarch64-unknown-linux-gnu"
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


def bills(names: tuple[str, str], version: str, host: str) -> dict[str, bytes]:
    """The bills of materials of both archives by the names of their files."""
    lock = (ROOT / "Cargo.lock").read_text()
    found = {}
    for name, packages, platform in zip(names, (FUNCTIONS, ("nodeless",)), (ARM64, host), strict=True):
        metadata = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", "--all-features", "--filter-platform", platform))
        found[f"{name}.cdx.json"] = sbom.bill(name, version, metadata, lock, packages)
    return found


def build(target: Path, time: int) -> tuple[dict[str, bytes], bytes]:
    """The functions for arm64 and the command for this machine. Paths of this machine are replaced, so that two give the same bytes."""
    cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    sysroot = run("rustc", "--print", "sysroot").strip()
    paths = {str(ROOT): "nodeless", str(cargo_home): "cargo", sysroot: "rust", str(target): "target"}
    flags = "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in paths.items())
    variables = {
        "CARGO_ENCODED_RUSTFLAGS": flags,
        "CARGO_INCREMENTAL": "0",
        "CARGO_TARGET_DIR": str(target),
        "SOURCE_DATE_EPOCH": str(time),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    packages = [argument for name in FUNCTIONS for argument in ("--package", name)]
    run("cargo", "lambda", "build", "--locked", "--release", "--arm64", *packages, **variables)
    run("cargo", "build", "--locked", "--release", "--package", "nodeless", "--features", "aws", **variables)
    functions = {name: (target / "lambda" / name / "bootstrap").read_bytes() for name in FUNCTIONS}
    return functions, (target / "release/nodeless").read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "target/release-archives", help="folder for the archives (default: %(default)s)")
    output: Path = parser.parse_args().output
    if run("git", "status", "--porcelain", "--untracked-files=no"):
        sys.exit("Files differ from the commit. Commit or stash the changes: a release is made of what a commit holds.")
    metadata = json.loads(run("cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"))
    version = next(package["version"] for package in metadata["packages"] if package["name"] == "nodeless")
    commit = run("git", "rev-parse", "HEAD").strip()
    time = int(run("git", "log", "-1", "--format=%ct"))
    host = next(line.split()[1] for line in run("rustc", "-vV").splitlines() if line.startswith("host:"))
    functions, command = build(ROOT / "target/release-build", time)
    zips = {name: function_zip(executable) for name, executable in functions.items()}
    folder = f"nodeless-{version}"
    archives = {
        f"{folder}-terraform.tar.gz": archive(module_files(folder, zips, with_whole_links(tracked(PUBLISHED), commit)), time),
        f"{folder}-{host}.tar.gz": archive({f"{folder}/nodeless": (command, True), **{f"{folder}/{k}": v for k, v in tracked(["LICENSE"]).items()}}, time),
    }
    module, command_line = archives
    archives |= bills((module, command_line), version, host)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for name, contents in archives.items():
        (output / name).write_bytes(contents)
    (output / "SHA256SUMS").write_text(checksums(archives))
    print(f"{checksums(archives)}written to {output}")


if __name__ == "__main__":
    main()
