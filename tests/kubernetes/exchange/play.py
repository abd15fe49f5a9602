"""Sends the requests to a server, one after another."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tools.control_plane.client import Answer, decoded

from . import controllers, discovery, lists, watches, writes
from .request import COMPACT, Request, found

REQUESTS = [*writes.REQUESTS, *lists.REQUESTS, *watches.REQUESTS, *controllers.REQUESTS, *discovery.REQUESTS, *lists.EXPIRED]
# Seconds that controllers and the removal of history have.
PATIENCE = 60
SAVED = re.compile(r"\{(\w+)\}")

Call = Callable[..., Answer]


@dataclass(frozen=True)
class Server:
    """An API server: how it is called, and how its history is removed."""

    call: Call
    compact: Callable[[], None]


def plain(port: int) -> Call:
    """Calls an API server over HTTP that accepts every caller, as `tools.control_plane.client` calls the real one."""

    def call(method: str, path: str, body: Any = None, content_type: str = "application/json", accept: str = "application/json") -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": content_type, "Accept": accept})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), decoded(answer.read()))
        finally:
            connection.close()

    return call


def play(server: Server) -> dict[str, Answer]:
    """The response to each request, by its name."""
    saved: dict[str, str] = {}
    answers: dict[str, Answer] = {}
    for request in REQUESTS:
        if request.method == COMPACT:
            server.compact()
            continue
        answers[request.name] = answer(server.call, request, saved)
        saved |= {name: str(found(answers[request.name].body, path) or "") for name, path in request.saves.items()}
    return answers


def answer(call: Call, request: Request, saved: dict[str, str]) -> Answer:
    deadline = time.monotonic() + PATIENCE
    path = SAVED.sub(lambda match: quote(saved.get(match[1], match[0]), safe=""), request.path)
    while True:
        answered = call(request.method, path, filled(request.body, saved), request.content_type, request.accept)
        if request.is_watch and answered.status == 200:
            answered = Answer(answered.status, answered.headers, events(answered.body))
        if request.until is None or request.until(answered) or time.monotonic() > deadline:
            return answered
        time.sleep(0.2)


def filled(body: Any, saved: dict[str, str]) -> Any:
    """A body with saved values in place of their names."""
    if isinstance(body, dict):
        return {key: filled(value, saved) for key, value in body.items()}
    if isinstance(body, list):
        return [filled(value, saved) for value in body]
    if isinstance(body, str) and (match := SAVED.fullmatch(body)):
        return saved.get(match[1], body)
    return body


def events(body: Any) -> list[Any]:
    """The events of a watch: one JSON document in each line."""
    return [json.loads(line) for line in body.splitlines()] if isinstance(body, str) else [body]
