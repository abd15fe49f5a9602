"""Runs ministack in this process, with answers to Terraform that take as long as a network's.

Where an answer arrives before Go's HTTP client has finished with the request, the client closes the connection while the answer
is read, and the AWS SDK sends the request again. Over loopback that happened once or twice in an apply; the second
CreateInstanceProfile is refused, and of a second event source mapping ministack makes one more.

A function whose clock a test moves (control_plane/clock.py) is given deadlines by that clock: Lambda's Runtime API runs beside the
function and has the same one. When a function is changed, an invocation that is under way ends as in Lambda; ministack kills it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ministack import app as ministack
from ministack.core import lambda_runtime
from ministack.services import lambda_svc

# As in control_plane/clock.py, which cannot be imported here.
CLOCK_OFFSET = "NODELESS_TESTS_CLOCK_SECONDS"

MIN_SECONDS = 0.05

Message = dict[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


def unhurried(app: App) -> App:
    """The same application, whose answers to Terraform start after MIN_SECONDS."""

    async def serve(scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]) -> None:
        agent = dict(scope.get("headers") or ()).get(b"user-agent", b"")
        if scope["type"] != "http" or b"Terraform" not in agent:
            return await app(scope, receive, send)

        async def later(message: Message) -> None:
            if message["type"] == "http.response.start":
                await asyncio.sleep(MIN_SECONDS)
            await send(message)

        return await app(scope, receive, later)

    return serve


class MovedTime:
    """The module `time`, with another time of day in the threads that set `seconds`."""

    def __init__(self) -> None:
        self.moved = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return time.time() + getattr(self.moved, "seconds", 0)


def with_its_own_clock(worker: type[lambda_runtime.ProvidedWorker]) -> None:
    """Lets an execution environment compute deadlines by the clock of its function."""
    clock, invoke = MovedTime(), worker.invoke

    def invoke_by_clock(self: lambda_runtime.ProvidedWorker, *arguments: Any, **named: Any) -> dict[str, Any]:
        variables = (self.config.get("Environment") or {}).get("Variables") or {}
        clock.moved.seconds = int(variables.get(CLOCK_OFFSET, 0))
        try:
            return invoke(self, *arguments, **named)
        finally:
            clock.moved.seconds = 0

    lambda_runtime.time = clock
    worker.invoke = invoke_by_clock


def update_lets_invocations_end() -> None:
    """Ends the execution environments of a function whose configuration is updated once they have answered."""
    kill, update, thread = lambda_runtime.kill_workers, lambda_svc._update_config, threading.local()

    def kill_later(worker: lambda_runtime.Worker) -> None:
        while worker.in_use:
            time.sleep(0.1)
        kill([worker])

    def kill_or_wait(workers: list[lambda_runtime.Worker]) -> None:
        busy = [worker for worker in workers if worker.in_use] if getattr(thread, "updates", False) else []
        for worker in busy:
            threading.Thread(target=kill_later, args=[worker], daemon=True).start()
        kill([worker for worker in workers if worker not in busy])

    def update_config(*arguments: Any) -> Any:
        thread.updates = True
        try:
            return update(*arguments)
        finally:
            thread.updates = False

    lambda_runtime.kill_workers = kill_or_wait
    lambda_svc._update_config = update_config


if __name__ == "__main__":
    update_lets_invocations_end()
    with_its_own_clock(lambda_runtime.ProvidedWorker)
    ministack.app = unhurried(ministack.app)
    sys.exit(ministack.main())
