"""Lists at resourceVersions and in pages, and Leases, of which no controller creates any in the namespace."""

from __future__ import annotations

from typing import Any

from .objects import LEASES, POOLS, lease
from .request import COMPACT, MERGE, METADATA, METADATA_LIST, TABLE, Request, answered

REVISION = "metadata.resourceVersion"
LATER = "999999999"


def at(name: str) -> dict[str, str]:
    return {name: REVISION}


def renewal(revision: str, holder: str) -> dict[str, Any]:
    metadata = {"resourceVersion": revision} if revision else {}
    return lease("c", holder, **metadata)


REQUESTS = [
    Request("a lease is created", "POST", LEASES, lease("a"), saves=at("first")),
    Request("another lease is created", "POST", LEASES, lease("b"), saves=at("second")),
    Request("a third lease is created", "POST", LEASES, lease("c"), saves=at("third")),
    Request("a lease without a duration", "POST", LEASES, lease("d") | {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 0}}),
    Request("a lease is renewed", "PUT", f"{LEASES}/c", renewal("{third}", "two"), saves=at("renewed")),
    Request("a lease is renewed from an old revision", "PUT", f"{LEASES}/c", renewal("{third}", "three")),
    Request("a lease is renewed without a revision", "PUT", f"{LEASES}/c", renewal("", "three")),
    Request("a lease gets a label", "PATCH", f"{LEASES}/b", {"metadata": {"labels": {"team": "x"}}}, MERGE),
    Request("a lease loses a label", "PATCH", f"{LEASES}/b", {"metadata": {"labels": {"team": None}}}, MERGE),
    Request("a lease is deleted", "DELETE", f"{LEASES}/a"),
    Request("a patch that changes nothing", "PATCH", f"{LEASES}/b", {"metadata": {"labels": {"app": "exchange"}}}, MERGE),
    # By resourceVersion.
    Request("leases now", "GET", LEASES),
    Request("leases as metadata", "GET", LEASES, accept=METADATA_LIST),
    Request("leases as a table", "GET", LEASES, accept=TABLE),
    Request("a lease as metadata", "GET", f"{LEASES}/b", accept=METADATA),
    Request("leases from the cache", "GET", f"{LEASES}?resourceVersion=0"),
    Request("leases not older than the first", "GET", f"{LEASES}?resourceVersion={{first}}"),
    Request("leases not older, by name", "GET", f"{LEASES}?resourceVersion={{first}}&resourceVersionMatch=NotOlderThan"),
    Request("leases at a revision", "GET", f"{LEASES}?resourceVersion={{second}}&resourceVersionMatch=Exact"),
    Request("a page at a revision", "GET", f"{LEASES}?resourceVersion={{third}}&resourceVersionMatch=Exact&limit=2", saves={"page": "metadata.continue"}),
    Request("the next page at a revision", "GET", f"{LEASES}?limit=2&continue={{page}}"),
    Request("a page of an old revision", "GET", f"{LEASES}?resourceVersion={{second}}&limit=1"),
    Request("a page from the cache", "GET", f"{LEASES}?resourceVersion=0&limit=1"),
    Request("a page not older", "GET", f"{LEASES}?resourceVersion={{second}}&resourceVersionMatch=NotOlderThan&limit=1"),
    Request("an exact list without a revision", "GET", f"{LEASES}?resourceVersionMatch=Exact"),
    Request("an exact list of the cache", "GET", f"{LEASES}?resourceVersion=0&resourceVersionMatch=Exact"),
    Request("a match that is none", "GET", f"{LEASES}?resourceVersion=1&resourceVersionMatch=Newest"),
    Request("a revision that is no number", "GET", f"{LEASES}?resourceVersion=x"),
    Request("leases of a later revision", "GET", f"{LEASES}?resourceVersion={LATER}"),
    Request("leases at a later revision", "GET", f"{LEASES}?resourceVersion={LATER}&resourceVersionMatch=Exact"),
    Request("a lease not older than the first", "GET", f"{LEASES}/b?resourceVersion={{first}}"),
    Request("a lease of a later revision", "GET", f"{LEASES}/b?resourceVersion={LATER}"),
    Request("initial events of a list", "GET", f"{LEASES}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"),
    # In pages.
    Request("a first page", "GET", f"{LEASES}?limit=1", saves={"next": "metadata.continue"}),
    Request("a last page", "GET", f"{LEASES}?limit=1&continue={{next}}"),
    Request("a page with a revision", "GET", f"{LEASES}?limit=1&continue={{next}}&resourceVersion={{first}}"),
    Request("a page from the cache with a token", "GET", f"{LEASES}?limit=1&continue={{next}}&resourceVersion=0"),
    Request("a page with a match", "GET", f"{LEASES}?limit=1&continue={{next}}&resourceVersionMatch=Exact"),
    Request("a page of selected leases", "GET", f"{LEASES}?limit=1&labelSelector=app%3Dexchange"),
    Request("a page of a negative size", "GET", f"{LEASES}?limit=-1"),
    Request("a page of a size that is no number", "GET", f"{LEASES}?limit=x"),
    Request("a page as a table", "GET", f"{LEASES}?limit=1", accept=TABLE),
]  # fmt: skip

# After the history is removed. The watch cache of a real API server keeps changes that etcd has forgotten; that of the NodePools begins
# with their definition, so no cache has the first revision.
EXPIRED = [
    Request("the history is removed", COMPACT, ""),
    Request("a page of a forgotten revision", "GET", f"{LEASES}?limit=1&continue={{next}}", until=answered(410), saves={"rest": "metadata.continue"}),
    Request("the rest at the latest revision", "GET", f"{LEASES}?limit=1&continue={{rest}}"),
    Request("leases at a forgotten revision", "GET", f"{LEASES}?resourceVersion={{second}}&resourceVersionMatch=Exact", until=answered(410)),
    Request("leases not older than a forgotten revision", "GET", f"{LEASES}?resourceVersion={{second}}"),
    Request("a watch from a forgotten revision", "GET", f"{POOLS}?watch=1&timeoutSeconds=1&resourceVersion=1"),
    Request("a watch from a forgotten revision, as a table", "GET", f"{POOLS}?watch=1&timeoutSeconds=1&resourceVersion=1", accept=TABLE),
]  # fmt: skip
