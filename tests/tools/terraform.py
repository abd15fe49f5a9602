"""Terraform for tests: finds a provider mirror on the machine, so that nothing is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

from .results import Unavailable, needs

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = ("planner", "lifecycle", "interruption", "catalog", "wake", "installer")
PROVIDER = "registry.terraform.io/hashicorp/aws"
# Below these, a folder whose name starts like this may be an unpacked provider mirror.
SEARCH_PLACES = ("/opt", "/usr/local", "/usr/local/share", "/usr/share", "/srv", "/var/lib")
SEARCH_PREFIX = "tf-plugins"


def plugin_mirror() -> Path:
    """The directory of an unpacked provider mirror that contains hashicorp/aws.

    The value of NODELESS_TERRAFORM_PLUGINS, if set; otherwise the folder of `make terraform-provider` and Terraform's plugin directories
    are searched, then folders tf-plugins* in the usual places.
    """
    needs("terraform")
    named = os.environ.get("NODELESS_TERRAFORM_PLUGINS")
    if named:
        if not (Path(named) / PROVIDER).is_dir():
            raise SystemExit(f"NODELESS_TERRAFORM_PLUGINS is {named}, which does not contain {PROVIDER}")
        return Path(named)
    home = Path.home()
    own = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "nodeless-tests/terraform"
    candidates = [own, home / ".terraform.d/plugins", home / ".local/share/terraform/plugins", Path("/usr/share/terraform/plugins")]
    if "TF_PLUGIN_CACHE_DIR" in os.environ:
        candidates.insert(0, Path(os.environ["TF_PLUGIN_CACHE_DIR"]))
    for place in map(Path, SEARCH_PLACES):
        candidates += sorted(place.glob(f"{SEARCH_PREFIX}*")) + sorted(place.glob(f"*/{SEARCH_PREFIX}*"))
    for candidate in candidates:
        if (candidate / PROVIDER).is_dir():
            return candidate
    looked = ", ".join(str(c) for c in candidates[:5])
    raise Unavailable(
        "terraform-provider",
        f"no unpacked provider mirror with {PROVIDER}; looked at {looked} and for {SEARCH_PREFIX}* below {', '.join(SEARCH_PLACES)}. "
        "Run `make terraform-provider`, or set NODELESS_TERRAFORM_PLUGINS to the folder of a mirror",
    )


def environment(**extra: str) -> dict[str, str]:
    """Terraform's environment: no user configuration, only fake credentials, no prompts."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TF_"))}
    return kept | {
        "TF_CLI_CONFIG_FILE": os.devnull,
        "TF_IN_AUTOMATION": "1",
        "TF_INPUT": "0",
        "CHECKPOINT_DISABLE": "1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    } | extra


def terraform(directory: Path, *arguments: str, env: dict[str, str] | None = None, log: Path | None = None) -> str:
    """Runs Terraform, with its output also in `log`. If it fails, raises an error with the end of the output."""
    command = ["terraform", f"-chdir={directory}", *arguments]
    if arguments[0] not in ("fmt", "output"):
        command.append("-no-color")
    done = subprocess.run(command, env=env or environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if log is not None:
        with log.open("a") as file:
            file.write(f"$ {' '.join(command)}\n{done.stdout}\n")
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with exit code {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def copy_module(destination: Path) -> Path:
    """A copy of terraform/, so that no run leaves state, locks or providers in the checkout; and next to it the files of infra/ that
    the example reads."""
    shutil.copytree(ROOT / "terraform", destination, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*", "artifacts"))
    shutil.copytree(ROOT / "infra/nodepools", destination.parent / "infra/nodepools", dirs_exist_ok=True)
    return destination


def placeholder_artifacts(destination: Path, bootstrap: str = "#!/bin/sh\nexit 1\n") -> Path:
    """A zip for each function, whose bootstrap is this script."""
    for name in FUNCTIONS:
        (destination / name).mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(destination / name / "bootstrap.zip", "w") as archive:
            entry = zipfile.ZipInfo("bootstrap")
            entry.external_attr = 0o755 << 16
            archive.writestr(entry, bootstrap)
    return destination
