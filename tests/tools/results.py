"""Results of tests for the summary at the end of `make test`: each result is a line of JSON in the file NODELESS_RESULTS.

    python3 tests/tools/results.py PROGRAM CHECK REASON

reports that a check is skipped because a program is missing, and fails if NODELESS_REQUIRE_TOOLS contains the program.
"""

from __future__ import annotations

import json
import os
import shutil
import sys


class Unavailable(Exception):
    """A program or what it needs is missing on this machine; the message contains what, and where it was searched. It skips the test,
    or fails it if NODELESS_REQUIRE_TOOLS contains the program."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(reason)
        self.program = program
        self.required = program in os.environ.get("NODELESS_REQUIRE_TOOLS", "").split()


def needs(program: str) -> None:
    """Raises Unavailable if a program is not in PATH."""
    if shutil.which(program) is None:
        raise Unavailable(program, f"there is no `{program}` in PATH")


def record(result: str, test: str, reason: str = "") -> None:
    """Records that a test is `skipped` or `failed`."""
    file = os.environ.get("NODELESS_RESULTS")
    if file:
        with open(file, "a") as lines:
            lines.write(json.dumps({"result": result, "test": test, "reason": reason}) + "\n")


def skip(check: str, missing: Unavailable) -> None:
    """Reports that a check that is no pytest test is skipped; ends the process with an error if what is missing is required."""
    if missing.required:
        sys.exit(f"NODELESS_REQUIRE_TOOLS contains {missing.program}: {missing}")
    print(f"SKIPPED {check}: {missing}", file=sys.stderr, flush=True)
    record("skipped", check, str(missing))


if __name__ == "__main__":
    program, check, reason = sys.argv[1:]
    skip(check, Unavailable(program, reason))
