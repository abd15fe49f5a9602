"""Counts the instructions of commands of nodeless with callgrind, and compares them with figures.json.

    python3 tests/instructions/run.py [--write] [--quick] FOLDER [PART OF A NAME...]

FOLDER has a build of the tests: nodeless and the examples `export` and `up_and_down` (`make instructions`). The inputs are generated from
seeds. Each case has two counts: of the whole command, and of its part, which is the plan or the reconciliation without the reading of
files. `--quick` counts only the cases that CI counts. It fails if a count differs by more than 3% from the recorded one, or if a plan takes
more instructions for a unit of its counted work than a limit of work allows for, and `--write` records the counts. README.md has why
counts repeat, and what they depend on. Where that is different, counts are printed and not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

from results import Unavailable, needs, record, skip  # noqa: E402

FIGURES = HERE / "figures.json"
TOLERANCE = 0.03
# The most instructions for a unit of work. A loop over objects that counts nothing makes it more.
MAX_PER_UNIT = 800
# The time of generated workloads, two days after their nodes were launched.
NOW = "2026-01-10T12:00:00Z"
# The functions whose instructions are the part of a case. None of them calls another one.
PLAN_PART = (
    "nodeless_planner::dry_run::DryRun::place",
    "nodeless_planner::dry_run::disruption::<impl nodeless_planner::dry_run::DryRun>::disruption_observed",
    "nodeless_planner::saved::<impl nodeless_planner::snapshot::Snapshot>::replay_with",
)
RECONCILE_PART = ("nodeless_reconciler::reconcile::Reconciler::run_shard::{{closure}}",)


@dataclass(frozen=True)
class Case:
    name: str
    # Arguments of `export`, whose output is the file `input`.
    export: str | None
    # A program in FOLDER and its arguments.
    command: str = f"nodeless plan --cluster input -o json --at {NOW}"
    part: tuple[str, ...] = PLAN_PART
    # Whether CI counts it.
    quick: bool = False


PLAN = Case.command
DISRUPTION = f"{PLAN} --disruption"
REPLAY = "nodeless plan --snapshot input -o json"

CASES = [
    Case("300 zonal StatefulSet pods", "zonal_sets 300"),
    Case("300 soft pods", "soft 300"),
    Case("300 diverse pods", "diverse 300", quick=True),
    Case("500 web pods, a few with GPUs", "gpu_and_web 500"),
    Case("100 pods, half with device claims", "seed=1 pods=100 gpu=50 --devices"),
    Case("200 NodePools", "seed=1 pods=200 pools=200 weights=1"),
    Case("200 pods with volumes in zones", "seed=1 pods=200 group=5 volumes=100 hard_zone=50 nodes=20 bound=5"),
    Case("running, 40 nodes", "teams 0 scaled-down 40 100", DISRUPTION),
    Case("running, 60 nodes half full, 60 waiting", "teams 60 scaled-down 60 50", DISRUPTION, quick=True),
    Case("running, zonal StatefulSets, 40 nodes", "zonal_sets 0 scaled-down 40 100", DISRUPTION),
    Case("running, soft spread, 40 nodes", "soft 0 40 14 30", DISRUPTION),
    Case("running, 40 on-demand nodes, spot allowed", "seed=1 pods=0 sizes=2 scale=4 nodes=40 bound=10", DISRUPTION),
    Case("planner, 100 nodes, 20 waiting", "teams 20 scaled-down 100 80 --snapshot", REPLAY),
    Case("planner, 1,000 pods of teams", "teams 1000 --snapshot", REPLAY, quick=True),
    Case("lifecycle, 20 nodes up and down", None, "examples/up_and_down 20", part=RECONCILE_PART),
]


@dataclass(frozen=True)
class Count:
    """Instructions of a command."""

    whole: int
    part: int
    # The work of the part as the plan counts it, if it states it.
    work: int | None = None


def callgrind(command: list[str | Path], folder: str, preload: Path, part: tuple[str, ...]) -> Count:
    """The instructions of a command and of the functions of its part."""
    profile = Path(folder) / "profile"
    ended = subprocess.run(
        ["valgrind", "--tool=callgrind", "--compress-strings=no", f"--callgrind-out-file={profile}", *command],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "LD_PRELOAD": str(preload), "TOKIO_WORKER_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    found = re.search(r"^==\d+== Collected : (\d+)", ended.stderr, re.MULTILINE)
    # 2: some pods are unschedulable.
    if ended.returncode not in (0, 2) or found is None:
        sys.exit(f"{' '.join(map(str, command))}: exit code {ended.returncode}\n{ended.stderr}")
    with profile.open() as lines:
        count = Count(int(found[1]), inclusive(lines, part), work(ended.stdout))
    if count.part == 0:
        sys.exit(f"{' '.join(map(str, command))}: it calls none of {', '.join(part)}. If they were renamed, change run.py.")
    return count


def inclusive(profile: Iterable[str], functions: tuple[str, ...]) -> int:
    """The instructions of calls of these functions, with what they call."""
    called = {f"cfn={name}\n" for name in functions}
    total, lines = 0, iter(profile)
    for line in lines:
        if line in called:
            # The number of calls, and on the next line the position of the call and the instructions.
            next(lines)
            total += int(next(lines).split()[1])
    return total


def work(output: str) -> int | None:
    """The counted work in the statistics of a plan, with that of its decisions; None for a replay and for lifecycle, which state none."""
    statistics = json.loads(output).get("statistics") if output.startswith("{") else None
    if statistics is None:
        return None
    return statistics["work"] + statistics.get("disruption", {}).get("work", 0)


def count(case: Case, programs: Path, preload: Path) -> Count:
    """The instructions of a case."""
    with tempfile.TemporaryDirectory() as folder:
        if case.export:
            with (Path(folder) / "input").open("wb") as out:
                subprocess.run([programs / "examples/export", *case.export.split()], stdout=out, check=True)
        program, *arguments = case.command.split()
        return callgrind([programs / program, *arguments], folder, preload, case.part)


def fixed_random(folder: Path) -> Path:
    """A library that makes random numbers constant."""
    library = folder / "fixed_random.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "fixed_random.c"], check=True)
    return library


def machine(nodeless: Path) -> dict[str, str]:
    """What counts depend on, apart from the code."""
    compilers = set(re.findall(rb"rustc version [\d.]+ \([^)]*\)", nodeless.read_bytes()))
    valgrind, cc = (
        subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        for program in ("valgrind", "cc")
    )
    has_avx2 = " avx2 " in Path("/proc/cpuinfo").read_text()
    return {
        "architecture": platform.machine() + (" with AVX2" if has_avx2 else ""),
        "compiler": ", ".join(sorted(text.decode() for text in compilers)),
        "C compiler": cc,
        "libc": " ".join(platform.libc_ver()),
        "valgrind": valgrind,
    }


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--write", action="store_true", help="record the counts")
    arguments.add_argument("--quick", action="store_true", help="only the cases that CI counts")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("parts", nargs="*")
    given = arguments.parse_args()
    try:
        needs("valgrind")
        needs("cc")
    except Unavailable as missing:
        skip("instructions", missing)
        return 0
    here = machine(given.folder / "nodeless")
    recorded = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"machine": here, "instructions": {}}
    known = {name: Count(**counts) for name, counts in recorded["instructions"].items()}
    cases = [case for case in CASES if all(part in case.name for part in given.parts) and (case.quick or not given.quick)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as threads:
        preload = fixed_random(Path(folder))
        programs = given.folder.resolve()
        # The longest last ones would leave a processor without work.
        counts = threads.map(lambda case: count(case, programs, preload), reversed(cases))
        found = dict(zip((case.name for case in reversed(cases)), counts))
    print(table(found, known))
    too_little = uncounted(found)
    if too_little:
        print("\n".join(too_little))
        return 1
    differs = [f"{name} {here[name]}, not {value}" for name, value in recorded["machine"].items() if here[name] != value]
    if given.write:
        write(here, found if differs else {**known, **found})
        return 0
    if differs:
        reason = f"counts are not compared, because this machine has {'; '.join(differs)}"
        print(reason)
        record("skipped", "instructions", reason)
        return 0
    changed = differences(found, known)
    if changed:
        print("\n".join(changed))
        print(
            f"{len(changed)} counts differ by more than {TOLERANCE:.0%} from {FIGURES}. If that is what the change is for, or is worth it, "
            "record them with `make instructions-update`, and give the reason in the commit."
        )
    return 1 if changed else 0


def write(here: dict[str, str], counts: dict[str, Count]) -> None:
    """Records counts, in the order of the cases."""
    ordered = {case.name: asdict(counts[case.name]) for case in CASES if case.name in counts}
    FIGURES.write_text(json.dumps({"machine": here, "instructions": ordered}, indent=2) + "\n")


def differences(found: dict[str, Count], known: dict[str, Count]) -> list[str]:
    """What differs too much from what is recorded."""
    changed = []
    for name, count in found.items():
        recorded = known.get(name)
        if recorded is None:
            changed.append(f"{name}: no count is recorded")
            continue
        for which in ("whole", "part"):
            now, before = getattr(count, which), getattr(recorded, which)
            if abs(now - before) > TOLERANCE * before:
                changed.append(f"{name}, {which}: {now:,} instructions, {(now - before) / before:+.1%}")
    return changed


def uncounted(found: dict[str, Count]) -> list[str]:
    """The cases whose work counts too little for the instructions that it takes."""
    return [
        f"{name}: {count.part / count.work:,.0f} instructions for each of {count.work:,} units of work, more than {MAX_PER_UNIT}. "
        "A loop over pods or nodes may count no work."
        for name, count in found.items()
        if count.work is not None and count.part > MAX_PER_UNIT * count.work
    ]


def table(found: dict[str, Count], known: dict[str, Count]) -> str:
    """The counts in millions, and how they differ from what is recorded."""
    lines = ["| case | whole | recorded | part | recorded | a unit of work |", "|---|---:|---:|---:|---:|---:|"]
    for name in (case.name for case in CASES if case.name in found):
        row = [name]
        for which in ("whole", "part"):
            now, before = getattr(found[name], which), getattr(known[name], which) if name in known else None
            row += [f"{now / 1e6:,.1f}", "" if before is None else f"{before / 1e6:,.1f} ({(now - before) / before:+.2%})"]
        row.append(f"{found[name].part / work:,.0f}" if (work := found[name].work) else "")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
