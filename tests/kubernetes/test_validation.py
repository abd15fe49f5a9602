"""Each case of Karpenter's validation tests has the same result here, in a real API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from definitions import FILES, established, remove_all
from released import NEWEST, names, released
from tools.control_plane.client import Answer
from tools.control_plane.server import PATHS, ControlPlane
from validation import KINDS, Case, cases, resource


@pytest.fixture(scope="module")
def installed(plane: ControlPlane) -> Iterator[ControlPlane]:
    remove_all(plane)
    plane.kubectl("apply", "--server-side", "-f", str(FILES))
    established(plane)
    yield plane
    remove_all(plane)


@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_those_of_karpenter(installed: ControlPlane, kind: str) -> None:
    tried, different = list(cases(kind)), []
    assert {case.accepted for case in tried} == {True, False}
    for case in tried:
        answer = verdict(installed, case)
        assert answer.status in (200, 201, 422), f"{case.id}: neither accepted nor rejected: {answer}"
        if (answer.status < 300) != case.accepted:
            different.append(f"{case.id}: Karpenter {word(case.accepted)}, here {word(answer.status < 300)} {reason(answer)}")
    print(f"\n{kind}: {len(tried) - len(different)} of {len(tried)} verdicts are those of Karpenter")
    assert not different, "\n".join(different)


@pytest.fixture(scope="module")
def newest(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The definitions of Karpenter's newest minor version."""
    remove_all(plane)
    plane.apply(*released(NEWEST))
    established(plane, names(released(NEWEST)))
    yield plane
    remove_all(plane)


@pytest.mark.parametrize("kind", KINDS)
def test_karpenters_newest_definitions_accept_more_only_where_its_controller_checks(newest: ControlPlane, kind: str) -> None:
    tried = list(cases(kind))
    different = [case for case in tried if (verdict(newest, case).status < 300) != case.accepted]
    print(f"\n{kind}: {len(tried) - len(different)} of {len(tried)} verdicts are those of Karpenter {NEWEST}")
    # From 1.15, spec.kubelet is an open object, and Karpenter reports what is wrong in it as ValidationSucceeded=False.
    unexplained = [case.id for case in different if case.accepted or not checks_kubelet(case)]
    assert not unexplained, "\n".join(unexplained)


def checks_kubelet(case: Case) -> bool:
    return case.kind == "EC2NodeClass" and "kubelet" in case.patch.get("spec", {})


def verdict(plane: ControlPlane, case: Case) -> Answer:
    path = f"{PATHS[resource(case.kind)]}/{resource(case.kind)}"
    before = case.before()
    if before is None:
        return plane.client.call("POST", f"{path}?dryRun=All", case.object())
    stored = plane.client.call("POST", path, before)
    assert stored.status == 201, f"{case.id}: the earlier object was rejected: {reason(stored)}"
    changed = case.object()
    changed["metadata"]["resourceVersion"] = stored.body["metadata"]["resourceVersion"]
    name = stored.body["metadata"]["name"]
    answer = plane.client.call("PUT", f"{path}/{name}?dryRun=All", changed)
    plane.client.call("DELETE", f"{path}/{name}")
    return answer


def word(accepted: bool) -> str:
    return "accepts" if accepted else "refuses"


def reason(answer: Answer) -> str:
    return answer.body.get("message", "") if isinstance(answer.body, dict) else str(answer.body)
