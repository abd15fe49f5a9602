"""The simulated API server with its controllers, as a process."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import IO

from .play import Server, plain


class Simulated:
    """A running simulated API server. Use as a context manager."""

    def __init__(self, program: Path, log: Path) -> None:
        self._program, self._log = program, log

    def __enter__(self) -> Server:
        with self._log.open("w") as log:
            self._process = subprocess.Popen([self._program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self._input, self._output = piped(self._process.stdin), piped(self._process.stdout)
        return Server(plain(int(self._output.readline())), self._compact)

    def _compact(self) -> None:
        self._input.write("compact\n")
        self._input.flush()
        assert self._output.readline() == "compacted\n"

    def __exit__(self, *_: object) -> None:
        self._input.close()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()


def piped(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
