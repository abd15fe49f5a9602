"""A proxy between the functions and kube-apiserver that can hold a request, for tests of what happens between two requests.

It ends TLS on both sides and passes everything else on as it comes, so a client that has a token is authenticated by kube-apiserver
itself. Only the functions of a test that asks for it go this way.
"""

from __future__ import annotations

import http.client
import select
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .certificates import Pair

# What belongs to one of the two connections.
NOT_PASSED_ON = ("connection", "keep-alive", "transfer-encoding")

# Is given the method and the path with the query before a request is passed on.
Before = Callable[[str, str], None]


class Gateway:
    """The proxy. Use as a context manager."""

    def __init__(self, certificate: Pair, authority: Pair, port: int, before: Before) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(port, ssl.create_default_context(cafile=str(authority.certificate)), before))
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate, certificate.key)
        # The handshake is made by the thread of the connection; a client that is slow holds up no other.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)

    def __enter__(self) -> Gateway:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"


def handler(port: int, trusted: ssl.SSLContext, before: Before) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self._upstream = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=trusted)

        def finish(self) -> None:
            self._upstream.close()
            super().finish()

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            before(self.command, self.path)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in NOT_PASSED_ON}
            if self._upstream.sock is not None and closed(self._upstream):
                self._upstream.close()
            try:
                self._upstream.request(self.command, self.path, body or None, headers)
                self._answer(self._upstream.getresponse())
            except (OSError, http.client.HTTPException):
                # What the client would see of a server that ends: its connection is closed.
                self.close_connection = True
                self._upstream.close()

        def _answer(self, answer: http.client.HTTPResponse) -> None:
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in NOT_PASSED_ON:
                    self.send_header(name, value)
            counted = answer.getheader("Content-Length") is not None
            if not counted:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            # By what has arrived, so that the events of a watch are passed on at once.
            while piece := answer.read1(65536):
                self.wfile.write(piece if counted else b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            if not counted:
                self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _pass_on  # noqa: N815 names that http.server calls

        def log_message(self, *_: object) -> None:
            """Prints nothing; the audit log has the calls."""

    return Handler


def closed(connection: http.client.HTTPSConnection) -> bool:
    """Whether the server has closed an idle connection: nothing else makes it readable."""
    readable, _, _ = select.select([connection.sock], [], [], 0)
    return bool(readable)
