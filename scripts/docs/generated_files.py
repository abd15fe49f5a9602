"""Shared by the generators of documentation: they write files, or report those that are out of date."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from pages import ROOT  # noqa: E402


def main(files: Mapping[Path, str]) -> None:
    """Writes the files with `--write`. Without it, ends with their names if any is out of date."""
    stale = []
    for path, content in files.items():
        if "--write" in sys.argv:
            path.write_text(content)
        elif not path.is_file() or path.read_text() != content:
            stale.append(str(path.relative_to(ROOT)))
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; run make docs-update")
