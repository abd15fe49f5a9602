#!/usr/bin/env python3
"""Plans the examples of docs/nodepools, docs/spot.md and docs/pull-requests.md and writes the results into their pages.

    python3 scripts/docs/plans.py --write     # without --write: fails if a page is out of date

A page has its manifests as blocks of YAML, and its plans as `<!-- plan: ARGUMENTS -->`, a table, and `<!-- end of plan -->`. With
`--cluster FILE` the manifests are planned as a file. Otherwise they are applied to the local world without nodeless, where an API
server validates them and controllers create the pods, and the plan reads that cluster. It needs kubectl, and the command `nodeless`:
that of NODELESS_BINARY, or of the folder NODELESS_BINARIES, or the one that cargo builds.

docs/pull-requests.md has two sets of manifests, whose first lines are `# base.yaml` and `# head.yaml`, and their comparison as a block
of text.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "tests")]

import yaml  # noqa: E402
from pages import DOCS, ROOT, code  # noqa: E402
from tools import artifacts  # noqa: E402

PLAN = re.compile(r"(<!-- plan: (.*?) -->\n).*?(<!-- end of plan -->\n)", re.S)
SECONDS = 60
HEAD = "| nodes | NodePool | cheapest instance type | capacity type | zone | dollars an hour each | pods each |\n|---:|---|---|---|---|---:|---:|\n"


def examples() -> list[Path]:
    """The pages with plans."""
    return [path for path in [*sorted((DOCS / "nodepools").glob("*.md")), DOCS / "spot.md"] if PLAN.search(path.read_text())]


def manifests(text: str) -> str:
    """The manifests of a page as one file."""
    return "---\n".join(block.text for block in code(text) if block.language == "yaml").replace("CLUSTER", "local")


def pods(manifest: str) -> int:
    """The number of pods that the controllers create for the manifests."""
    number = 0
    for each in yaml.safe_load_all(manifest):
        spec = each.get("spec", {})
        match each["kind"]:
            case "Pod":
                number += 1
            case "Deployment" | "StatefulSet":
                number += spec["replicas"]
            case "Job":
                number += spec["parallelism"]
    return number


def wait_for(what: str, condition: Any) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"no {what} within {SECONDS} seconds")
        time.sleep(0.1)


@contextmanager
def world(nodeless: Path, folder: Path, *flags: str) -> Iterator[Path]:
    """A local world; gives its kubeconfig."""
    kubeconfig = folder / "nodeless.kubeconfig"
    command = [nodeless, "local", *flags, "--kubeconfig", kubeconfig]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for("kubeconfig of the local world", lambda: kubeconfig.is_file() or process.poll() is not None)
        yield kubeconfig
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS)


def kubectl(kubeconfig: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(["kubectl", "--kubeconfig", kubeconfig, *arguments], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def planned(nodeless: Path, arguments: list[str], folder: Path) -> dict[str, Any]:
    """The plan as JSON. Unschedulable pods are part of a plan, other errors are not."""
    done = subprocess.run([nodeless, "plan", *arguments, "-o", "json"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 2):
        raise RuntimeError(f"nodeless plan {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def table(plan: dict[str, Any]) -> str:
    """The launches of a plan, and the pods that stay pending."""
    launches = plan["launches"] + [launch for static in plan.get("staticLaunches", []) for launch in static["launches"]]
    rows: Counter[tuple[Any, ...]] = Counter()
    for launch in launches:
        offering = launch["offering"]
        rows[(launch["nodePool"], offering["instanceType"], offering["capacityType"], offering["zone"], f"{offering['pricePerHour']:.4f}", len(launch["pods"]))] += 1
    text = HEAD + "".join(f"| {number} | {' | '.join(map(str, row))} |\n" for row, number in sorted(rows.items())) if rows else ""
    pending = Counter(tuple(each["reasons"]) for each in plan["unschedulable"])
    for reasons, number in sorted(pending.items()):
        stay = "pod stays" if number == 1 else "pods stay"
        text += ("\n" if text else "") + f"{number} {stay} pending: {'; '.join(reasons)}.\n"
    return text or "Nothing is launched.\n"


def plans(text: str, nodeless: Path) -> list[str]:
    """The results of each plan of a page."""
    manifest = manifests(text)
    given = [shlex.split(found[2]) for found in PLAN.finditer(text)]
    with tempfile.TemporaryDirectory(prefix="nodeless-docs-") as scratch:
        folder = Path(scratch)
        if all("--cluster" in arguments for arguments in given):
            for arguments in given:
                (folder / arguments[arguments.index("--cluster") + 1]).write_text(manifest)
            return [table(planned(nodeless, arguments, folder)) for arguments in given]
        with world(nodeless, folder, "--no-controllers") as kubeconfig:
            kubectl(kubeconfig, "apply", "-f", "-", stdin=manifest)
            expected = pods(manifest)
            wait_for(f"{expected} pods", lambda: len(kubectl(kubeconfig, "get", "pods", "-o", "name").split()) == expected)
            return [table(planned(nodeless, arguments, folder)) for arguments in given]


def written(text: str, nodeless: Path) -> str:
    """A page with its plans as they are now."""
    results = iter(plans(text, nodeless))
    return PLAN.sub(lambda found: f"{found[1]}\n{next(results)}\n{found[3]}", text)


COMPARISON = DOCS / "pull-requests.md"


def with_comparison(text: str, nodeless: Path) -> str:
    """The page about pull requests with its comparison as it is now."""
    with tempfile.TemporaryDirectory(prefix="nodeless-docs-") as scratch:
        names = ["base.yaml", "head.yaml"]
        for name in names:
            (found,) = [block.text for block in code(text) if block.language == "yaml" and block.text.startswith(f"# {name}\n")]
            (Path(scratch) / name).write_text(found)
        done = subprocess.run([nodeless, "plan", "--diff", *names], cwd=scratch, capture_output=True, text=True, check=False)
        if not done.stdout:
            raise RuntimeError(f"nodeless plan --diff: {done.stderr}")
        return re.sub(r"^```text\n.*?^```$", lambda _: f"```text\n{done.stdout}```", text, count=1, flags=re.M | re.S)


def main() -> None:
    if shutil.which("kubectl") is None:
        sys.exit("there is no `kubectl` on PATH, which applies the manifests of the examples")
    nodeless, stale = artifacts.command(), []
    for path in [*examples(), COMPARISON]:
        text = path.read_text()
        now = with_comparison(text, nodeless) if path == COMPARISON else written(text, nodeless)
        if "--write" in sys.argv:
            path.write_text(now)
        elif now != text:
            stale.append(path.name)
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; run make docs-update")


if __name__ == "__main__":
    main()
