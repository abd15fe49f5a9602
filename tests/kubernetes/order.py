"""The order of the tests: those with their own deployment run before the shared one is started, and those that read the audit log run
last."""

from __future__ import annotations

import pytest

FIRST, LAST = "test_migration.py", "test_rights.py"
SCENARIOS = (
    "test_scenarios.py", "test_api_server.py", "test_auto_mode.py", "test_clocks.py",
    "test_kueue.py", "test_managers.py", "test_node_claims.py", "test_pages.py", "test_restarts.py", "test_static.py", "test_stored.py",
    "test_surge.py", "test_webhooks.py",
)  # fmt: skip
# Whether this run includes all scenarios.
WHOLE_RUN = pytest.StashKey[bool]()


def arrange(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Moves the first file to the beginning and the last to the end."""
    items.sort(key=lambda item: (item.path.name != FIRST, item.path.name == LAST))
    chosen = bool(config.option.keyword or config.option.markexpr or any("::" in argument for argument in config.args))
    config.stash[WHOLE_RUN] = not chosen and {item.path.name for item in items}.issuperset(SCENARIOS)
