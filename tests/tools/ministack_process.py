"""Runs ministack in this process, with answers to Terraform that take as long as a network's.

Where an answer arrives before Go's HTTP client has finished with the request, the client closes the connection while the answer
is read, and the AWS SDK sends the request again. Over loopback that happened once or twice in an apply; the second
CreateInstanceProfile is refused, and of a second event source mapping ministack makes one more.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from ministack import app as ministack

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


if __name__ == "__main__":
    ministack.app = unhurried(ministack.app)
    sys.exit(ministack.main())
