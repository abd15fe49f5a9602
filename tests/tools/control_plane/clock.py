"""Changes the clock of a function without changing that of the machine, by a library that is loaded before the C library."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
# The seconds that are added.
OFFSET = "NODELESS_TESTS_CLOCK_SECONDS"


def library(directory: Path) -> Path:
    """Compiles the library. A C compiler is installed, because Rust needs one as its linker."""
    built = directory / "clock.so"
    if not built.exists():
        done = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", built, SOURCE], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"cc could not compile {SOURCE.name}:\n{done.stderr}"
    return built


def moved(directory: Path, seconds: int) -> dict[str, str]:
    """The environment of a process whose clock differs by this number of seconds."""
    return {"LD_PRELOAD": str(library(directory)), OFFSET: str(seconds)}
