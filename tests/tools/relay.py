"""A relay of TCP connections to a server, which can stop to answer as a server does that hangs."""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit


class Relay:
    """Passes connections on to the server of a URL. Use as a context manager."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._held = False

    @property
    def url(self) -> str:
        return f"{self._target.scheme}://{self._target.hostname}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._close()

    def hold(self) -> None:
        """From now on connections are accepted, and nothing is answered. Existing connections are closed."""
        self._held = True
        self._close()

    def resume(self) -> None:
        """Passes connections on again. Connections that wait for an answer are closed."""
        self._held = False
        self._close()

    def _close(self) -> None:
        with self._lock:
            closing, self._open = self._open, set()
        for connection in closing:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was closed by the other side
            connection.close()

    def _keep(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._keep(client)
            if not self._held:
                server = socket.create_connection((self._target.hostname, self._target.port))
                self._keep(server)
                for source, destination in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(source, destination), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, destination: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                destination.sendall(data)
            destination.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one of them was closed
