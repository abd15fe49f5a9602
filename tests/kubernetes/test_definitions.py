"""The CustomResourceDefinitions in a real API server: applied in all ways that users use, and over those of Karpenter."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from definitions import FILES, established, remove_all
from released import MINORS, names, released
from tools.control_plane.client import INITIALIZING, Answer, Client
from tools.control_plane.server import PATHS, ControlPlane
from validation import KINDS, cases, resource


@pytest.fixture
def plane(plane: ControlPlane) -> ControlPlane:
    remove_all(plane)
    return plane


class Initializing(Client):
    """The kind is initialized by the second call."""

    def __init__(self) -> None:
        self.answers = [Answer(429, {"Retry-After": "0"}, {"message": INITIALIZING}), Answer(200, {}, {})]

    def _call(self, *_: object) -> Answer:
        return self.answers.pop(0)


def test_a_call_is_repeated_while_the_kind_is_initialized() -> None:
    assert Initializing().call("GET", "/apis/karpenter.sh/v1/nodepools").status == 200


def test_client_side_apply_creates_them_and_changes_nothing_the_second_time(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", str(FILES))
    established(plane)
    again = plane.kubectl("apply", "-f", str(FILES))
    assert again.splitlines() and all(line.endswith(" unchanged") for line in again.splitlines()), again


def test_server_side_apply_creates_them_and_changes_nothing_the_second_time(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--server-side", "-f", str(FILES))
    established(plane)
    before = revisions(plane)
    plane.kubectl("apply", "--server-side", "-f", str(FILES))
    assert revisions(plane) == before


def test_the_installer_and_a_user_may_both_apply_them(plane: ControlPlane, nodeless: Path) -> None:
    """The installer takes over the fields of a user who applied the files client-side, and the user can still apply them."""
    plane.kubectl("apply", "-f", str(FILES))
    established(plane)
    install(plane, nodeless)
    again = plane.kubectl("apply", "-f", str(FILES)).splitlines()
    assert again and all(line.endswith((" unchanged", " configured")) for line in again), again
    before = revisions(plane)
    install(plane, nodeless)
    assert revisions(plane) == before, "the installer writes unchanged definitions"


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("how", ["client-side", "server-side", "installer"])
def test_they_replace_those_of_karpenter_and_keep_every_object(plane: ControlPlane, nodeless: Path, minor: str, how: str) -> None:
    theirs = released(minor)
    # The definitions were created by Helm or kubectl.
    apply(plane, theirs, how)
    established(plane, names(theirs))
    stored = store(plane)
    if how == "installer":
        install(plane, nodeless)
    else:
        apply(plane, ours(), how)
    established(plane)
    for kind in KINDS:
        check_kept(plane, kind, stored[kind])


@pytest.mark.parametrize("minor", MINORS)
def test_those_of_karpenter_replace_them_and_keep_every_object(plane: ControlPlane, minor: str) -> None:
    """The way back to Karpenter: `kubectl apply` of its definitions, or its chart karpenter-crd."""
    apply(plane, ours(), "server-side")
    established(plane)
    stored = store(plane)
    theirs = released(minor)
    apply(plane, theirs, "server-side")
    established(plane, names(theirs))
    for kind in KINDS:
        check_kept(plane, kind, stored[kind])


def ours() -> list[dict[str, Any]]:
    return [yaml.safe_load(file.read_text()) for file in sorted(FILES.glob("*.yaml"))]


def apply(plane: ControlPlane, definitions: list[dict[str, Any]], how: str) -> None:
    """Applies definitions server-side, or client-side otherwise."""
    options = ["--server-side", "--force-conflicts"] if how == "server-side" else []
    for definition in definitions:
        plane.kubectl("apply", *options, "-f", "-", stdin=json.dumps(definition))


def install(plane: ControlPlane, nodeless: Path) -> None:
    """Installs with the command that shares its code with the installer function; afterwards removes everything except the definitions."""
    for command in (["install", "--no-wake"], ["uninstall"]):
        done = subprocess.run([nodeless, *command, f"--kubeconfig={plane.kubeconfig}"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def revisions(plane: ControlPlane) -> dict[str, str]:
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in plane.items("customresourcedefinitions")}


def store(plane: ControlPlane) -> dict[str, list[dict]]:
    """Creates an object for each case that the definitions accept, and returns what the API server stored, by kind."""
    stored: dict[str, list[dict]] = {}
    for kind in KINDS:
        for case in cases(kind):
            if case.accepted:
                answer = plane.client.call("POST", path(kind), case.object())
                assert answer.status in (201, 422), f"{case.id}: {answer.body}"
                if answer.status == 201:
                    stored.setdefault(kind, []).append(answer.body)
        assert stored.get(kind), f"no {kind} is accepted"
    return stored


def check_kept(plane: ControlPlane, kind: str, stored: list[dict]) -> None:
    """No field of a user is lost, and the metadata of each object can still be changed, as controllers do."""
    for before in stored:
        name = before["metadata"]["name"]
        after = plane.client.call("GET", f"{path(kind)}/{name}").body
        missing = lost(before["spec"], after["spec"])
        assert not missing, f"{kind} {name}: {missing} is lost"
        annotated = plane.client.call(
            "PATCH", f"{path(kind)}/{name}", {"metadata": {"annotations": {"tests": "changed"}}}, "application/merge-patch+json"
        )
        assert annotated.status == 200, f"{kind} {name} can no longer be changed: {annotated.body['message']}"


def lost(before: object, after: object, place: str = "spec") -> list[str]:
    """The fields of `before` that are missing in `after`. Defaults may be added."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [rest for key in before for rest in lost(before[key], after.get(key), f"{place}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [rest for index, value in enumerate(before) for rest in lost(value, after[index], f"{place}[{index}]")]
    return [] if before == after else [f"{place}: {before!r} became {after!r}"]


def path(kind: str) -> str:
    return f"{PATHS[resource(kind)]}/{resource(kind)}"
