"""Watches: changes after a revision, existing objects, bookmarks, and selectors. They follow the requests of `lists.py`."""

from __future__ import annotations

from .lists import LATER
from .objects import LEASES
from .request import METADATA, TABLE, Request

BOOKMARKS = "allowWatchBookmarks=true"
INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


def watch(name: str, query: str, seconds: int = 1, accept: str = "application/json") -> Request:
    return Request(name, "GET", f"{LEASES}?watch=1&timeoutSeconds={seconds}&{query}", accept=accept)


REQUESTS = [
    watch("changes after the first lease", "resourceVersion={first}"),
    watch("changes after the first lease, as metadata", "resourceVersion={first}", accept=METADATA),
    watch("changes after the first lease, as a table", "resourceVersion={first}", accept=TABLE),
    watch("changes of a selected lease", "resourceVersion={first}&labelSelector=team%3Dx"),
    watch("changes of a lease by name", "resourceVersion={first}&fieldSelector=metadata.name%3Dc"),
    watch("a watch with an invalid selector", "resourceVersion={first}&labelSelector=a%3D%3D%3D"),
    watch("a watch by a field that is no selector", "resourceVersion={first}&fieldSelector=spec.holderIdentity%3Dc"),
    watch("a watch from the cache", "resourceVersion=0"),
    watch("a watch without a revision", ""),
    watch("a watch of a later revision", f"resourceVersion={LATER}"),
    watch("a watch of a revision that is no number", "resourceVersion=x"),
    watch("a watch with bookmarks", f"resourceVersion={{renewed}}&{BOOKMARKS}", 6),
    watch("a watch without bookmarks", "resourceVersion={renewed}", 6),
    watch("a watch with bookmarks, as metadata", f"resourceVersion={{renewed}}&{BOOKMARKS}", 6, METADATA),
    watch("a watch with bookmarks, as a table", f"resourceVersion={{renewed}}&{BOOKMARKS}", 6, TABLE),
    watch("initial events", f"{INITIAL}&{BOOKMARKS}&resourceVersion="),
    watch("initial events from the cache", f"{INITIAL}&{BOOKMARKS}&resourceVersion=0"),
    watch("initial events, as a table", f"{INITIAL}&{BOOKMARKS}", accept=TABLE),
    watch("initial events without bookmarks", INITIAL),
    watch("initial events without a match", f"sendInitialEvents=true&{BOOKMARKS}"),
    watch("initial events of another match", f"sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=0&{BOOKMARKS}"),
    watch("initial events of a later revision", f"{INITIAL}&{BOOKMARKS}&resourceVersion={LATER}"),
    watch("no initial events", f"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{BOOKMARKS}&resourceVersion={{first}}"),
    watch("a watch with a match", "resourceVersionMatch=NotOlderThan&resourceVersion={first}"),
    watch("a watch with a limit", "limit=1&resourceVersion={first}"),
]  # fmt: skip
