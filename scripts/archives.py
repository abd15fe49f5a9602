"""The archives of a release. What makes, publishes, installs or describes them takes their names from here: scripts/release.py, the files
for package managers (packages.py) and the action for pull requests. It imports nothing but Python's library."""

from __future__ import annotations

# The systems of the archives of the command, by the target of the compiler.
SYSTEMS = {
    "x86_64-unknown-linux-gnu": "linux-amd64",
    "aarch64-unknown-linux-gnu": "linux-arm64",
    "x86_64-apple-darwin": "darwin-amd64",
    "aarch64-apple-darwin": "darwin-arm64",
}
# The part of a release for users of Terraform.
MODULE = "terraform"
CHECKSUMS = "SHA256SUMS"
# The processors as `uname -m` and Python name them.
PROCESSORS = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def archive_name(version: str, part: str) -> str:
    """The file name of the archive of the command for a system, such as linux-amd64, or of the module."""
    return f"nodeless-{version}-{part}.tar.gz"


def archive_names(version: str) -> list[str]:
    """The file names of all archives of a release."""
    return [archive_name(version, part) for part in (MODULE, *SYSTEMS.values())]


def system_named(kernel: str, machine: str) -> str | None:
    """The system of an archive by the names that `uname -s` and `uname -m` print; `None` if there is no archive for it."""
    system = f"{kernel.lower()}-{PROCESSORS.get(machine.lower(), machine)}"
    return system if system in SYSTEMS.values() else None
