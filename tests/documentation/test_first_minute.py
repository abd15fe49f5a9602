"""The recording of the first minute, and the picture of `nodeless view` in it: what a run shows today."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import first_minute
import pages
import pytest
from tools import artifacts


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_a_run_shows_what_was_recorded() -> None:
    old = first_minute.commands(first_minute.CAST.read_text())
    assert first_minute.differences(old, first_minute.recorded(artifacts.command())) == []


def test_the_picture_is_that_of_the_recording() -> None:
    text = dict(first_minute.commands(first_minute.CAST.read_text()))[first_minute.VIEW]
    assert first_minute.PICTURE.read_text() == first_minute.picture(text)
    assert len(max(text.splitlines(), key=len)) <= first_minute.WIDTH + 20


def test_asciinema_plays_the_recording() -> None:
    pytest.importorskip("asciinema", reason="asciinema is not installed")
    _, *events = [json.loads(line) for line in first_minute.CAST.read_text().splitlines()]
    command = [sys.executable, "-m", "asciinema", "play", "--speed", "1000", str(first_minute.CAST)]
    played = subprocess.run(command, capture_output=True, check=True)
    assert played.stdout.decode() == "".join(output for _, _, output in events)


def test_a_recording_contains_what_is_read_from_it() -> None:
    shown = [("kubectl get nodes", "NAME\na  10s"), ("export A=b", ""), ("nodeless view", "1 node")]
    assert first_minute.commands(first_minute.cast(shown)) == shown
    later = [("kubectl get nodes", "NAME\na   9s"), ("export A=b", ""), ("nodeless view", "no node")]
    assert first_minute.differences(shown, later) == ["nodeless view"]
    assert first_minute.differences(shown, later[:2]) == ["the commands"]


def test_the_page_has_the_commands_of_the_recording() -> None:
    page = (pages.DOCS / "start.md").read_text()
    for command in (first_minute.CREATE, first_minute.REQUEST, first_minute.SCALE, first_minute.DECISIONS):
        assert command in page, command
