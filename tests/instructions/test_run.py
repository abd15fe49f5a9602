"""The comparison of instructions itself, without valgrind; `make instructions` has the counts."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SPEC = importlib.util.spec_from_file_location("instructions_run", FOLDER / "run.py")
assert SPEC is not None and SPEC.loader is not None
# Another test imports tests/compare/run.py as `run`.
run = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = run
SPEC.loader.exec_module(run)

Count = run.Count
BEFORE = {"a plan": Count(1_000_000, 100_000)}


def differences(whole: int, part: int) -> list[str]:
    return run.differences({"a plan": Count(whole, part)}, BEFORE)


def test_a_count_that_grows_by_more_than_3_percent_fails() -> None:
    assert differences(1_029_999, 102_999) == []
    assert differences(1_030_001, 100_000) == ["a plan, whole: 1,030,001 instructions, +3.0%"]
    # It is 0.4% of the whole command.
    assert differences(1_004_000, 104_000) == ["a plan, part: 104,000 instructions, +4.0%"]


def test_a_saving_has_to_be_recorded_as_well() -> None:
    assert differences(970_001, 97_001) == []
    assert differences(969_999, 60_000) == [
        "a plan, whole: 969,999 instructions, -3.0%",
        "a plan, part: 60,000 instructions, -40.0%",
    ]


def test_a_case_without_a_recorded_count_fails() -> None:
    assert run.differences({"new": Count(1, 1)}, BEFORE) == ["new: no count is recorded"]


def test_work_that_is_not_counted_fails() -> None:
    most = run.MAX_PER_UNIT
    assert run.uncounted({"a plan": Count(1_000_000, 1000 * most, 1000), "lifecycle": Count(1, 1)}) == []
    [message] = run.uncounted({"a plan": Count(1_000_000, 1000 * most + 1, 1000)})
    assert message.startswith(f"a plan: {most} instructions for each of 1,000 units of work, more than {most}.")


def test_the_work_of_decisions_is_part_of_the_work() -> None:
    assert run.work('{"statistics": {"work": 5}}') == 5
    assert run.work('{"statistics": {"work": 5, "disruption": {"work": 7}}}') == 12
    assert run.work('{"launches": []}') is None
    assert run.work("done\n") is None


def test_the_part_is_what_the_calls_of_its_functions_took() -> None:
    profile = [
        "fn=main\n", "12 5\n",
        "cfn=plan\n", "calls=1 7\n", "13 400\n",
        "cfn=plan::read\n", "calls=2 7\n", "14 30\n",
        "fn=plan\n", "7 100\n",
        "cfn=solve\n", "calls=9 7\n", "8 300\n",
        "fn=other\n",
        "cfn=plan\n", "calls=2 7\n", "20 50\n",
    ]  # fmt: skip
    assert run.inclusive(profile, ("plan", "replay")) == 450
    assert run.inclusive(profile, ("replay",)) == 0


def test_every_case_is_recorded_under_a_name_of_its_own() -> None:
    recorded = json.loads((FOLDER / "figures.json").read_text())["instructions"]
    assert list(recorded) == [case.name for case in run.CASES]
