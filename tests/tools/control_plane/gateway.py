"""A server in front of the API server, so that a test can act between two requests of a function."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from .certificates import Pair

NOT_PASSED_ON = ("connection", "content-length", "transfer-encoding", "host", "accept-encoding")


@dataclass
class Gateway:
    """Forwards every request with the token of its caller. Use as a context manager.

    `before` is called with the path of each request for a page of a list, before it is forwarded."""

    certificate: Pair
    authority: Pair
    port: int
    before: Callable[[str], None]

    def __enter__(self) -> Gateway:
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

    def connection(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=120, context=context)


def handler(gateway: Gateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in NOT_PASSED_ON}
            connection = gateway.connection()
            query = parse_qs(urlsplit(self.path).query)
            try:
                if "limit" in query:
                    gateway.before(self.path)
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
                if "watch" in query:
                    self._stream(answer)
                else:
                    self._whole(answer)
            except (OSError, http.client.HTTPException):
                # The client or the server ended its connection; the caller repeats its request.
                self.close_connection = True
            finally:
                connection.close()

        def _whole(self, answer: http.client.HTTPResponse) -> None:
            content = answer.read()
            self._begin(answer, ("Content-Length", str(len(content))))
            self.wfile.write(content)

        def _stream(self, answer: http.client.HTTPResponse) -> None:
            self._begin(answer, ("Transfer-Encoding", "chunked"))
            while part := answer.read1(65536):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

        def _begin(self, answer: http.client.HTTPResponse, length: tuple[str, str]) -> None:
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in NOT_PASSED_ON:
                    self.send_header(name, value)
            self.send_header(*length)
            self.end_headers()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward  # noqa: N815 names that http.server calls

        def log_message(self, *_: object) -> None:
            """Prints nothing; the audit log of the API server contains the calls."""

    return Handler
