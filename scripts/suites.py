#!/usr/bin/env python3
"""Runs suites, which are targets of the Makefile, and lists at the end what failed and what was skipped, and why.

    python3 scripts/suites.py [--jobs N] TARGET...

A suite that fails does not keep the others from running; the exit code is 1 then. With several jobs, the output of a suite is printed
when it has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# libtest has no stable format for programs. Whether a suite failed is decided by its exit code; this only adds the names of tests.
FAILED_IN_RUST = re.compile(r"^test (.+) \.\.\. FAILED$", re.MULTILINE)
# The number of skipped tests of a suite that are listed for a reason.
LISTED = 5


@dataclass(frozen=True)
class Ended:
    suite: str
    succeeded: bool
    failed: Sequence[str]
    # Pairs of test and reason.
    skipped: Sequence[tuple[str, str]]


def run(suite: str, folder: Path, live: bool) -> Ended:
    """Runs a suite, and prints its output at once (`live`) or at its end."""
    results = folder / suite
    child = subprocess.Popen(
        ["make", "--no-print-directory", suite],
        env=os.environ | {"NODELESS_RESULTS": str(results)},
        stdout=subprocess.PIPE,
        stderr=None if live else subprocess.STDOUT,
    )
    assert child.stdout is not None
    output = bytearray()
    while part := os.read(child.stdout.fileno(), 1 << 16):
        output += part
        if live:
            show(part)
    code = child.wait()
    if not live:
        show(f"--- {suite}\n".encode() + output)
    return ended(suite, code, output.decode(errors="replace"), results.read_text() if results.exists() else "")


def show(output: bytes) -> None:
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()


def ended(suite: str, code: int, output: str, results: str) -> Ended:
    """The result of a suite, from its exit code, its output, and the lines in its file of results."""
    lines = [json.loads(line) for line in results.splitlines()]
    failed = [line["test"] for line in lines if line["result"] == "failed"] + FAILED_IN_RUST.findall(output)
    skipped = [(line["test"], line["reason"]) for line in lines if line["result"] == "skipped"]
    return Ended(suite, code == 0, failed, skipped)


def summary(suites: Sequence[Ended]) -> str:
    lines = ["", "--- Summary"]
    tests: dict[tuple[str, str], list[str]] = {}
    for suite in suites:
        for test, reason in suite.skipped:
            # The first line, because the reason may contain the output of a program.
            tests.setdefault((suite.suite, reason.partition("\n")[0]), []).append(test)
    for (name, reason), skipped in tests.items():
        lines.append(f"SKIPPED {len(skipped)} of {name}, because {reason}")
        lines += [f"    {test}" for test in skipped[:LISTED]]
        if len(skipped) > LISTED:
            lines.append(f"    and {len(skipped) - LISTED} more")
    if not tests:
        lines.append("SKIPPED nothing")
    for suite in suites:
        if not suite.succeeded:
            lines.append(f"FAILED {suite.suite}" + ("" if suite.failed else ", and no test of it: see its output above"))
            lines += [f"    {test}" for test in suite.failed]
    passed = [suite.suite for suite in suites if suite.succeeded]
    lines.append(f"Passed: {', '.join(passed) or 'nothing'}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("suites", nargs="+", metavar="TARGET")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nodeless-results-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        suites = list(pool.map(lambda suite: run(suite, Path(folder), options.jobs == 1), options.suites))
    print(summary(suites), flush=True)
    return 0 if all(suite.succeeded for suite in suites) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
