"""Runs workloads on Karpenter and on nodeless, each in a real control plane of its own, one after the other, and writes what happened.

    python tests/compare/run.py --workload cold-web-300 --seed 1 --out target/compare
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import catalog  # noqa: E402
import measure  # noqa: E402
import page  # noqa: E402
from controllers import NAMESPACE, controller, pod_spec  # noqa: E402
from record import Usage, Watches  # noqa: E402
from sides import SIDES, Setting, Side  # noqa: E402
from tools import artifacts  # noqa: E402
from tools.control_plane.binaries import Binaries, binaries  # noqa: E402
from tools.control_plane.server import path_of  # noqa: E402
from tools.results import Unavailable  # noqa: E402
from workload import UnknownWorkload, workload  # noqa: E402

Json = dict[str, Any]

WORKLOADS = (
    "cold-web-300", "cold-enterprise-300", "cold-stateful-300", "cold-diverse-300", "half-web-300", "waste-web-300", "batch-web-300", "day-web-300",
    "suite-basic-300", "suite-spreading-300", "suite-interference-150", "suite-wide-300", "suite-churn-300",
)  # fmt: skip
# Two agents on each node, with the requests of aws-node and kube-proxy.
DAEMONS = {"aws-node": (50, 64), "kube-proxy": (100, 64)}


def main() -> int:
    arguments = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("compare: terminated; what was started is ended"))
    try:
        recorded = [(name, seed, ended(workload(name, seed), arguments.rest)) for name in arguments.workload for seed in arguments.seed]
        enough_memory(max(pods(played) for _, _, played in recorded))
        programs = binaries()
        setting = Setting(catalog.instance_types(artifacts.command()), arguments.capacity_type, dict(arguments.nodeless_variables), arguments.changed)
        whole = True
        for name, seed, played in recorded:
            for side in arguments.side:
                whole &= compare_one(programs, setting, side, played, arguments.out / f"{name}-{seed}" / side)
        (arguments.out / "index.html").write_text(page.page(page.runs(arguments.out)))
    except (UnknownWorkload, Unavailable, TooSmall, NotStarted) as problem:
        print(f"compare: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("compare: interrupted; what was started is ended", file=sys.stderr)
        return 130
    return 0 if whole else 1


class TooSmall(Exception):
    """This machine has too little memory for a workload."""


class NotStarted(Exception):
    """A side could not be started."""


def ended(played: Json, rest: float | None) -> Json:
    """The workload, but that a run ends after this time without changes."""
    return played if rest is None else played | {"seconds": played["events"][-1]["at"] + rest}


def pods(played: Json) -> int:
    """The pods of the controllers that a workload creates."""
    return sum(event["object"]["spec"].get("replicas", 0) for event in played["events"] if event["do"] == "create")


def enough_memory(most: int) -> None:
    """A control plane, the emulators and the functions use about 3 GiB, and 1,000 pods about 1 GiB more."""
    needed = 3 + most / 1000
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) / 2**20
    if free < needed:
        raise TooSmall(f"{most} pods need {needed:.1f} GiB of memory and {free:.1f} are free; choose a smaller workload")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", default=list(WORKLOADS), metavar="NAME", help="KIND-MIX-PODS, see workload.py")
    parser.add_argument("--seed", nargs="+", type=int, default=[1])
    parser.add_argument("--side", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--capacity-type", nargs="+", default=["on-demand"], choices=["on-demand", "spot"])
    parser.add_argument("--nodeless-variables", nargs="+", type=variable, default=[], metavar="NAME=VALUE", help="such as expected_pods=samples, of the module")
    parser.add_argument("--rest", type=float, metavar="SECONDS", help="how long a run goes on after the last change of the workload")
    parser.add_argument("--out", type=Path, default=Path("target/compare"))
    arguments = parser.parse_args()
    options = ("capacity_type", "nodeless_variables", "rest")
    arguments.changed = {name: value for name in options if (value := getattr(arguments, name)) != parser.get_default(name)}
    return arguments


def variable(text: str) -> list[str]:
    """A variable of the module and its value, which Terraform converts to the type of the variable."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text} is not NAME=VALUE")
    return [name, value]


def compare_one(programs: Binaries, setting: Setting, name: str, played: Json, out: Path) -> bool:
    """One workload on one side. Returns whether the run reached its end; if not, its result is marked as partial."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "workload.json").write_text(json.dumps(played))
    prices = {k: v for k, v in catalog.prices(setting.types).items() if k.split(" ")[2] in setting.capacity_types}
    about: Json = {"side": name, "workload": played["name"], "seed": played["seed"], "seconds": played["seconds"], "processors": os.cpu_count(),
                   "prices": prices, "types": catalog.allocatable(setting.types), "options": setting.options, "problems": []}  # fmt: skip
    print(f"{played['name']}, seed {played['seed']}: {name}, {played['seconds']:.0f} seconds; files in {out}", flush=True)
    with tempfile.TemporaryDirectory(prefix="nodeless-compare-") as directory, ExitStack() as started:
        try:
            side = started.enter_context(SIDES[name](programs, setting, Path(directory), out))
            prepare(side)
        except (AssertionError, OSError, RuntimeError) as problem:
            raise NotStarted(f"{name} could not be started: {problem}") from problem
        about |= {"version": side.version, "kubernetes": programs.version}
        play_recorded(side, played, about, out)
    figures = measure.figures(measure.read(out), out / "usage.jsonl")
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    print(json.dumps({key: value for key, value in figures.items() if key != "series"}), flush=True)
    for problem in about["problems"]:
        print(f"compare: partial: {problem}", file=sys.stderr)
    return not about["problems"]


def play_recorded(side: Side, played: Json, about: Json, out: Path) -> None:
    """Plays the workload and records what happens. `run.json` is written in any case, with what ended the run early."""
    watches, usage = Watches(side.plane, out / "objects.jsonl"), Usage(side.pids, out / "usage.jsonl")
    about["start"] = time.time()
    about["problems"].append("the run was interrupted")
    try:
        with watches, usage:
            play(side, played, about["start"])
        about["problems"].clear()
    except (OSError, http.client.HTTPException, RuntimeError) as problem:
        about["problems"] = [f"the run ended early: {problem}"]
    finally:
        about["problems"] += watches.broken
        about["end"] = time.time()
        (out / "run.json").write_text(json.dumps(about))


def prepare(side: Side) -> None:
    side.plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for name, (cpu, memory) in DAEMONS.items():
        tolerations = {"tolerations": [{"operator": "Exists"}]}
        side.plane.apply(controller("DaemonSet", name, None, pod_spec(cpu, memory, **tolerations)))


def play(side: Side, played: Json, start: float) -> None:
    """Makes each change at its time, or as soon as possible after it."""
    for event in played["events"]:
        time.sleep(max(0.0, start + event["at"] - time.time()))
        change(side, event)
    time.sleep(max(0.0, start + played["seconds"] - time.time()))


def change(side: Side, event: Json) -> None:
    item = event["object"]
    collection = path_of(item)
    call = side.plane.client.call
    if event["do"] == "create":
        answer = call("POST", collection, item)
    elif event["do"] == "patch":
        answer = call("PATCH", f"{collection}/{item['metadata']['name']}", item, "application/merge-patch+json")
    else:
        answer = call("DELETE", f"{collection}/{item['metadata']['name']}?propagationPolicy=Background")
    if answer.status not in (200, 201, 202):
        raise RuntimeError(f"{event['do']} of {item['kind']} {item['metadata']['name']}: {answer.status} {answer.body}")


if __name__ == "__main__":
    sys.exit(main())
