"""A client of kube-apiserver for tests, without discovery and validation."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .certificates import Pair

# The API server rejects a call with this message, status 429 and a Retry-After, while it replaces the storage of a kind whose definition
# was just created or changed. It lasts for seconds.
INITIALIZING = "storage is (re)initializing"
PATIENCE = 60


@dataclass(frozen=True)
class Answer:
    """A response of the API server; `body` is decoded if it is JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def initializing(self) -> bool:
        """Whether the kind cannot be used yet; the call had no effect."""
        return self.status == 429 and isinstance(self.body, dict) and self.body.get("message") == INITIALIZING


class Client:
    """Calls the API server with a certificate, or with a token."""

    def __init__(self, port: int, authority: Pair, identity: Pair | None = None, token: str | None = None) -> None:
        self._port, self._token = port, token
        self._context = ssl.create_default_context(cafile=str(authority.certificate))
        if identity is not None:
            self._context.load_cert_chain(identity.certificate, identity.key)

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json", accept: str = "application/json") -> Answer:
        """The answer to a call, which is repeated while the kind is being initialized."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._call(method, path, body, content_type, accept)
            if not answer.initializing or time.monotonic() > deadline:
                return answer
            time.sleep(float(answer.headers.get("Retry-After", "1")))

    def _call(self, method: str, path: str, body: Any, content_type: str, accept: str) -> Answer:
        headers = {"Content-Type": content_type, "Accept": accept}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=60, context=self._context)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), decoded(answer.read()))
        finally:
            connection.close()

    def watch(self, path: str, seconds: int) -> list[dict[str, Any]]:
        """The events of a watch that the API server ends after this number of seconds, or earlier."""
        return list(self.stream(path, seconds))

    def stream(self, path: str, seconds: int) -> Iterator[dict[str, Any]]:
        """The events of a watch as they arrive, until the API server ends it after this number of seconds, or earlier."""
        separator = "&" if "?" in path else "?"
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=seconds + 30, context=self._context)
        try:
            connection.request("GET", f"{path}{separator}watch=1&timeoutSeconds={seconds}")
            answer = connection.getresponse()
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()


def decoded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
