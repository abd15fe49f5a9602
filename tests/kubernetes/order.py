"""The order of the tests: what reads the audit log runs after all that writes it."""

from __future__ import annotations

import pytest

LAST = "test_rights.py"
SCENARIOS = ("test_scenarios.py", "test_api_server.py")
# Whether this run has all scenarios.
WHOLE_RUN = pytest.StashKey[bool]()


def arrange(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Moves the last file to the end."""
    items.sort(key=lambda item: item.path.name == LAST)
    chosen = bool(config.option.keyword or config.option.markexpr or any("::" in argument for argument in config.args))
    config.stash[WHOLE_RUN] = not chosen and {item.path.name for item in items}.issuperset(SCENARIOS)
