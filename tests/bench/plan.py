"""Measures the time and memory of `nodeless plan` as a process.

    python3 tests/bench/plan.py NODELESS EXPORT [PART OF A NAME...]

NODELESS is a release build of the command line, EXPORT one of the example `export` of nodeless-workloads. Processor time is user
and system time of all threads, as reported by wait4, the best of three runs. A run that takes more than MAX_SECONDS seconds is killed and
printed as "no answer".
"""

import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

MAX_SECONDS = 60
RUNS = 3
# A run that takes this number of seconds is not repeated.
LONG = 10.0


@dataclass
class Case:
    name: str
    # Arguments of the example `export`.
    export: str
    reach: float | None = None
    disruption: bool = False


CASES = [
    Case("1,000 plain pods as kubectl prints them", "plain 1000 --as-kubectl", 0.5),
    Case("95,000 plain pods run", "plain 0 6334 15 30", 4.0),
    Case("95,000 plain pods run, --disruption", "plain 0 6334 15 30", 4.0, disruption=True),
    Case("50 stateful pods", "stateful 50"),
    Case("1,000 stateful pods", "stateful 1000"),
    Case("30 soft pods", "soft 30"),
    Case("300 soft pods", "soft 300"),
    Case("1,000 soft pods", "soft 1000"),
    Case("1,000 GPU and web pods", "gpu_and_web 1000"),
    Case("1,000 diverse pods", "diverse 1000"),
    Case("10,000 diverse pods", "diverse 10000", 0.25),
    Case("10,000 plain pods", "plain 10000", 0.08),
    Case("300 pods of teams on 300 scaled down nodes, --disruption", "teams 300 scaled-down 300 100", 0.3, disruption=True),
    Case("1,000 pods of teams on 1,000 scaled down nodes, --disruption", "teams 1000 scaled-down 1000 100", 1.5, disruption=True),
    Case("teams on 1,000 scaled down nodes, --disruption", "teams 0 scaled-down 1000 100", 1.5, disruption=True),
    Case("zonal StatefulSets on 1,000 scaled down nodes, --disruption", "zonal_sets 0 scaled-down 1000 100", 1.5, disruption=True),
    Case("teams on 3,000 scaled down nodes, --disruption", "teams 0 scaled-down 3000 100", 6.0, disruption=True),
    Case("10,000 pods of zonal StatefulSets", "zonal_sets 10000", 0.5),
    Case("10,000 enterprise pods", "enterprise 10000", 0.3),
    Case("14,000 soft pods on 1,000 nodes, --disruption", "soft 0 1000 14 30", disruption=True),
]


@dataclass
class Run:
    seconds: float
    peak_mib: float
    code: int


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))


def run(command: list[str]) -> Run | None:
    """Runs a command without output. Returns None if it was killed."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limit)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode < 0:
        return None
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, child.returncode)


def best(command: list[str]) -> Run | None:
    runs: list[Run] = []
    for _ in range(RUNS):
        one = run(command)
        if one is None:
            break
        runs.append(one)
        if one.seconds > LONG:
            break
    return min(runs, key=lambda one: one.seconds, default=None)


def write(exporter: str, arguments: str, folder: Path) -> Path:
    path = folder / f"{arguments.replace(' ', '_')}.json"
    if not path.exists():
        with path.open("wb") as out:
            subprocess.run([exporter, *arguments.split()], stdout=out, check=True)
    return path


def main() -> None:
    nodeless, exporter, *parts = sys.argv[1:]
    print("| case | export in MB | processor seconds | peak MiB | exit code | reach |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if not all(part in case.name for part in parts):
                continue
            path = write(exporter, case.export, Path(folder))
            command = [nodeless, "plan", "--cluster", str(path), "-o", "json"]
            found = best(command + (["--disruption"] if case.disruption else []))
            row = f"no answer in {MAX_SECONDS} s | | " if found is None else f"{found.seconds:.2f} | {found.peak_mib:.0f} | {found.code}"
            reach = f"{case.reach} s" if case.reach else ""
            print(f"| {case.name} | {path.stat().st_size / 1e6:.1f} | {row} | {reach} |", flush=True)


if __name__ == "__main__":
    main()
