"""Functions that record their events instead of handling them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.terraform import placeholder_artifacts


class Records:
    """The invocations that the recording functions have recorded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def all(self) -> list[dict[str, Any]]:
        """All invocations, in their order."""
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def of(self, function: str) -> list[dict[str, Any]]:
        return [line for line in self.all() if line["function"] == function]

    def bodies(self, function: str) -> list[dict[str, Any]]:
        """The bodies of all SQS messages that reached it."""
        return [json.loads(r["body"]) for line in self.of(function) for r in line["event"].get("Records", [])]


def recording_zips(directory: Path) -> tuple[Path, Records]:
    """A zip for each function that records its events, and the records."""
    records = Records(directory / "records.jsonl")
    recorder = Path(__file__).with_name("recorder.py").read_text().replace('os.environ["RECORDER_FILE"]', repr(str(records.file)))
    return placeholder_artifacts(directory / "artifacts", f"#!{sys.executable}\n{recorder}"), records
