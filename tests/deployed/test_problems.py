"""What counts as a problem of a function, and which problems fail a test."""

from __future__ import annotations

import pytest

from tools.problems import Problems, reports_a_problem

FAILED_SWEEP = '{"level":"INFO","event":"sweep-ended","problems":["EC2 DescribeInstanceStatus: no such filter"]}'
WAITS = '{"level":"WARN","event":"claim-waits","why":"throttled"}'
MADE = '{"level":"INFO","event":"plan-made"}'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"level":"INFO","event":"sweep-ended","problems":[]}', False),
        (FAILED_SWEEP, True),
        (MADE, False),
        ('{"_aws":{},"ReconcileErrors":0}', False),
        (WAITS, True),
        ('{"level":"ERROR","fields":{"message":"a message failed"}}', True),
        ("thread 'main' panicked", True),
        ("START RequestId: 1 Version: $LATEST", False),
        ("", False),
    ],
)
def test_problems_are_distinguished_from_successes(line: str, problem: bool) -> None:
    assert reports_a_problem(line) == problem


def problems(*lines: str) -> Problems:
    return Problems(lambda start, _: {"planner": list(lines) if start == 0 else []})


def test_a_problem_that_no_test_causes_fails_it() -> None:
    assert problems(MADE, WAITS, FAILED_SWEEP).surprises() == [WAITS, FAILED_SWEEP]
    with pytest.raises(AssertionError, match="2 problems .*\n.*claim-waits"):
        problems(MADE, WAITS, FAILED_SWEEP).check()
    problems(MADE).check()


def test_what_a_test_causes_has_to_be_logged_and_what_depends_on_order_need_not() -> None:
    of_both = problems(WAITS, FAILED_SWEEP)
    of_both.expect("throttled")
    of_both.allow("no such filter", "never logged")
    assert of_both.surprises() == []
    of_none = problems(MADE)
    of_none.expect("throttled")
    assert of_none.surprises() == ["not logged, but expected: throttled"]


def test_what_is_allowed_holds_until_the_next_check() -> None:
    lines = {0: [WAITS]}
    logged = Problems(lambda start, _: {"planner": lines.get(start, [FAILED_SWEEP])})
    logged.allow_any()
    assert logged.surprises() == []
    assert logged.surprises() == [FAILED_SWEEP]
