"""DynamoDB Local as the tables of ministack: AWS's own engine evaluates conditions and transactions, and enforces limits.

ministack answers what DynamoDB Local does not have, such as tags, backups and encryption, and has an empty table of each name. It runs
`with_dynamodb_local` in its own process; where Java or DynamoDB Local is missing, its own tables are used.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any

# The environment variable with the folder of the jars.
JARS = "NODELESS_TESTS_DYNAMODB"
MAIN = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
ITEMS = {
    *("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan"),
    *("BatchGetItem", "BatchWriteItem", "TransactGetItems", "TransactWriteItems"),
}
# What changes a table in both, and the fields of it that DynamoDB Local knows.
TABLES = {
    "CreateTable": ("TableName", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode"),
    "DeleteTable": ("TableName",),
    "UpdateTimeToLive": ("TableName", "TimeToLiveSpecification"),
}
# It does not check signatures, and accepts only letters and digits in access keys; functions sign with their names.
SIGNED = "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
SECONDS_TO_START = 60

Response = tuple[int, dict[str, str], bytes]


class DynamoDBLocal:
    """A DynamoDB Local that is started with the first call, and ends with the process group."""

    def __init__(self, jars: str) -> None:
        self._jars, self._lock, self._port = jars, threading.Lock(), 0

    def call(self, action: str, body: Mapping[str, Any]) -> Response:
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"DynamoDB_20120810.{action}", "Authorization": SIGNED}
        connection = http.client.HTTPConnection("127.0.0.1", self._listening(), timeout=60)
        try:
            connection.request("POST", "/", json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            passed = {name: value for name, value in answer.getheaders() if name.lower() not in ("content-length", "connection", "date")}
            return answer.status, passed, content
        finally:
            connection.close()

    def _listening(self) -> int:
        with self._lock:
            if not self._port:
                self._port = start(self._jars)
            return self._port


def start(jars: str) -> int:
    """Starts DynamoDB Local, and returns its port when it listens there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # All callers have the same tables, whatever their region and access key.
    options = ("-disableTelemetry", "-inMemory", "-sharedDb", "-port", str(port))
    child = subprocess.Popen(["java", "-Xmx256m", "-cp", f"{jars}/*", MAIN, *options])
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"DynamoDB Local in {jars} does not listen: exit code {child.poll()}") from None
            time.sleep(0.05)
        else:
            return port


def with_dynamodb_local(service: Any) -> None:
    """Has the tables of ministack in DynamoDB Local, if its jars are named."""
    jars = os.environ.get(JARS)
    if not jars:
        return
    tables, handle = DynamoDBLocal(jars), service.handle_request

    async def handle_request(method: str, path: str, headers: dict[str, str], body: bytes, query_params: dict[str, Any]) -> Response:
        action = headers.get("x-amz-target", "").rpartition(".")[2]
        if action in ITEMS:
            return await asyncio.to_thread(tables.call, action, json.loads(body))
        answered = await handle(method, path, headers, body, query_params)
        if action in TABLES and answered[0] == 200:
            known = {name: value for name, value in json.loads(body).items() if name in TABLES[action]}
            status, _, content = await asyncio.to_thread(tables.call, action, known)
            if status != 200:
                raise RuntimeError(f"DynamoDB Local refuses {action} of {known}: {content.decode(errors='replace')}")
        return answered

    service.handle_request = handle_request


def missing(folder: os.PathLike[str] | str) -> str:
    """Why DynamoDB Local cannot run on this machine; empty if it can."""
    if shutil.which("java") is None:
        return "there is no `java` in PATH"
    if not os.path.isfile(os.path.join(folder, "installed")):
        return f"DynamoDB Local is not in {folder}; run `make dynamodb`"
    return ""
