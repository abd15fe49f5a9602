"""What the functions log as problems: warnings, errors, and reports with problems in them, as tests/src/lambda.rs reads them.

A test that causes a problem names the words with which it is logged. Every other problem fails the test."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# What Lambda, and not the function, writes to the log of a function.
OF_LAMBDA = ("START RequestId:", "END RequestId:", "REPORT RequestId:", "INIT_START")


def reports_a_problem(line: str) -> bool:
    """Whether a log line reports a problem."""
    try:
        fields = json.loads(line)
    except ValueError:
        # Functions log only JSON; other lines come from a panic or from the runtime.
        return bool(line.strip()) and not line.startswith(OF_LAMBDA)
    return isinstance(fields, dict) and (fields.get("level") in ("WARN", "ERROR") or bool(fields.get("problems")))


@dataclass
class Problems:
    """The problems that functions have logged. `lines` returns the lines of each function from a time until before another, in
    milliseconds since 1970."""

    lines: Callable[[int, int], Mapping[str, Sequence[str]]]
    _since: int = 0
    _expected: list[str] = field(default_factory=list)
    _possible: list[str] = field(default_factory=list)
    _any: bool = False

    def expect(self, words: str) -> None:
        """The test causes a problem that is logged in these words."""
        self._expected.append(words)

    def allow(self, *words: str) -> None:
        """Problems that are logged in these words depend on the speed of the machine, or on the order of events."""
        self._possible.extend(words)

    def allow_any(self) -> None:
        """The test takes away what the functions need, so whatever problem they have is the test's doing."""
        self._any = True

    def surprises(self) -> list[str]:
        """The problems since the last call that were neither expected nor allowed, and those that were expected and not logged. What was
        expected and allowed holds no longer."""
        now = int(time.time() * 1000)
        logged = [line for lines in self.lines(self._since, now).values() for line in lines if reports_a_problem(line)]
        self._since = now
        missing = [f"not logged, but expected: {words}" for words in self._expected if not any(words in line for line in logged)]
        named = [*self._expected, *self._possible]
        unexpected = [line for line in logged if not self._any and not any(words in line for words in named)]
        self._expected, self._possible, self._any = [], [], False
        return unexpected + missing

    def check(self) -> None:
        """Fails if there are surprises."""
        surprises = self.surprises()
        shown = "\n".join(surprises[:20])
        assert not surprises, f"the functions had {len(surprises)} problems that the test does not cause:\n{shown}"
