"""Receives the API server's webhook calls over TLS, which it requires, and forwards them to a function of ministack."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .certificates import Pair


@dataclass(frozen=True)
class Reviewed:
    """A call of the webhook."""

    at: datetime
    path: str
    review: dict


@dataclass
class Relay:
    """The server. Use as a context manager. `forward` gets the path and the review and returns status and body."""

    certificate: Pair
    forward: Callable[[str, dict], tuple[int, bytes]]
    calls: list[Reviewed] = field(default_factory=list)
    # The delay of a response in seconds, for tests of a slow webhook.
    delay: float = 0

    def __enter__(self) -> Relay:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate.certificate, self.certificate.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"


def handler(relay: Relay) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802 a name that http.server calls
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            relay.calls.append(Reviewed(datetime.now(timezone.utc), self.path, review))
            time.sleep(relay.delay)
            status, body = relay.forward(self.path, review)
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # the API server waits no longer than the webhook's timeout

        def log_message(self, *_: object) -> None:
            """Prints nothing; `calls` contains the calls."""

    return Handler
