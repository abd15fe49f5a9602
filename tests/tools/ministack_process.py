"""Runs ministack in this process, and delays its responses to Terraform like a network.

If an answer arrives before Go's HTTP client has finished the request, the client closes the connection and the AWS SDK sends the
request again. Over loopback this happened in six of fourteen applies: the second CreateInstanceProfile failed, and ministack created a
second event source mapping, which Lambda would have rejected.

Functions with a changed clock (control_plane/clock.py) get deadlines of that clock.

EKS returns the upgrade policy of a cluster. ministack drops it, so that Terraform would change it in each apply, by a call that ministack
does not have.

The items of DynamoDB's tables are in DynamoDB Local (dynamodb_local.py).
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ministack import app as ministack
from ministack.core import lambda_runtime
from ministack.services import dynamodb, eks

# At the end, because a module of this directory is called ministack too.
sys.path.append(str(Path(__file__).parent))
from dynamodb_local import with_dynamodb_local  # noqa: E402

# The same variable as in control_plane/clock.py, which cannot be imported here.
CLOCK_OFFSET = "NODELESS_TESTS_CLOCK_SECONDS"

MIN_SECONDS = 0.05

Message = dict[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


def with_delayed_answers(app: App) -> App:
    """Wraps an application, so that its responses to Terraform start after MIN_SECONDS."""

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
    """The module `time`, with another time in threads that set `seconds`."""

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


def with_upgrade_policies(service: Any) -> None:
    """Has EKS keep the upgrade policy of a cluster, and return it with the cluster. Without one in the request it is extended support:
    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpgradePolicyRequest.html
    """
    create = service._create_cluster

    def create_cluster(body: dict[str, Any], creator_arn: str | None = None) -> Any:
        existing = body.get("name") in service._clusters
        answer = create(body, creator_arn)
        cluster = service._clusters.get(body.get("name"))
        if existing or cluster is None:
            return answer
        cluster["upgradePolicy"] = body.get("upgradePolicy") or {"supportType": "EXTENDED"}
        return service._describe_cluster(body["name"])

    service._create_cluster = create_cluster


if __name__ == "__main__":
    with_upgrade_policies(eks)
    with_dynamodb_local(dynamodb)
    with_its_own_clock(lambda_runtime.ProvidedWorker)
    ministack.app = with_delayed_answers(ministack.app)
    sys.exit(ministack.main())
