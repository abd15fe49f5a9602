"""ministack: an AWS emulator, which runs the functions' zips as child processes."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from .dynamodb_local import JARS, missing
from .problems import Problems
from .processes import Process, executable, free_port
from .results import Unavailable, skip
from .terraform import ROOT

REGION = "us-east-1"


@cache
def tables() -> dict[str, str]:
    """The environment in which ministack has its tables in DynamoDB Local. Without it, which is reported, they are its own."""
    folder = ROOT / ".venv/dynamodb"
    if reason := missing(folder):
        skip("tables in DynamoDB Local", Unavailable("dynamodb-local", reason))
        return {}
    return {JARS: str(folder)}


class Ministack:
    """A running, empty ministack. Use as a context manager."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.problems = Problems(self.function_lines)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        # ministack unpacks the zips here, half a gigabyte, and does not delete them when it ends.
        self._scratch = tempfile.TemporaryDirectory(prefix="nodeless-ministack-")
        self._process = Process(
            "ministack",
            # Isolated, because a module of this directory is called ministack too.
            [sys.executable, "-I", Path(__file__).with_name("ministack_process.py")],
            logs,
            kept
            | {
                "BIND_HOST": "127.0.0.1",
                "GATEWAY_PORT": str(self.port),
                # The AWS endpoint of the functions; per-service endpoints in their environment take precedence.
                "AWS_ENDPOINT_URL": self.url,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_REGION": REGION,
                "AWS_EC2_METADATA_DISABLED": "true",
                "S3_PERSIST": "0",
                "TMPDIR": self._scratch.name,
            }
            | tables(),
        )

    def set_for_functions(self, variables: dict[str, str]) -> None:
        """Sets environment variables of all functions, before ministack is started."""
        self._process.environment |= variables

    def __enter__(self) -> Ministack:
        self._process.__enter__()
        try:
            self._process.wait_until_answers(f"{self.url}/_ministack/health")
        except BaseException:
            self._end()
            raise
        return self

    def function_pids(self) -> list[int]:
        """The processes of the functions that run now: their programs are where ministack unpacks the zips."""
        return [pid for pid in self._process.pids() if self._scratch.name in executable(pid)]

    def kill_functions(self) -> None:
        """Ends the processes of all functions, whatever they do. The next invocation of each starts a new one."""
        for pid in self.function_pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended

    def __exit__(self, *_: object) -> None:
        try:
            self.save_function_logs()
        finally:
            self._end()

    def _end(self) -> None:
        try:
            self._process.__exit__()
        finally:
            self._scratch.cleanup()

    def client(self, service: str) -> Any:
        """A boto3 client of it."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries={"max_attempts": 2}),
        )

    def call_function_url(self, url: str, body: object, seconds: float = 10) -> tuple[int, bytes]:
        """POSTs to a Function URL like the API server. Its host name does not resolve; ministack uses the Host header."""
        parts = urlsplit(url)
        request = urllib.request.Request(
            f"{self.url}{parts.path}?timeout=2s",
            data=json.dumps(body).encode(),
            headers={"Host": parts.netloc, "Content-Type": "application/json", "User-Agent": "kube-apiserver-admission"},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()

    def local_function_url(self, url: str) -> str:
        """A Function URL with an address of this machine, for callers that cannot set the Host header."""
        parts = urlsplit(url)
        return f"{self.url}/_aws/lambda-url/{parts.netloc.split('.', 1)[0]}{parts.path}"

    def invocations(self, function: str) -> int:
        """The number of invocations of a function, from its log."""
        pages = self.client("logs").get_paginator("filter_log_events").paginate(logGroupName=f"/aws/lambda/{function}")
        return sum(event["message"].startswith("START RequestId") for page in pages for event in page["events"])

    def leftovers(self) -> dict[str, list[str]]:
        """All resources, by kind, except those of an empty account."""
        client = self.client
        found = {
            "functions": [f["FunctionName"] for f in client("lambda").list_functions()["Functions"]],
            "event source mappings": [m["UUID"] for m in client("lambda").list_event_source_mappings()["EventSourceMappings"]],
            "queues": client("sqs").list_queues().get("QueueUrls", []),
            "tables": client("dynamodb").list_tables()["TableNames"],
            "rules": [r["Name"] for r in client("events").list_rules()["Rules"]],
            "roles": [r["RoleName"] for r in client("iam").list_roles()["Roles"] if not r["Path"].startswith("/aws-service-role/")],
            "instance profiles": [p["InstanceProfileName"] for p in client("iam").list_instance_profiles()["InstanceProfiles"]],
            "alarms": [a["AlarmName"] for a in client("cloudwatch").describe_alarms()["MetricAlarms"]],
            "dashboards": [d["DashboardName"] for d in client("cloudwatch").list_dashboards()["DashboardEntries"]],
            "log groups": [g["logGroupName"] for g in client("logs").describe_log_groups()["logGroups"]],
            "stacks": [
                s["StackName"]
                for s in client("cloudformation").list_stacks()["StackSummaries"]
                if s["StackStatus"] != "DELETE_COMPLETE"
            ],
            "clusters": client("eks").list_clusters()["clusters"],
        }
        return {kind: names for kind, names in found.items() if names}

    def drop_doubled_mappings(self, state: Path) -> None:
        """Deletes event source mappings that duplicate one in Terraform's state.

        Because of ministack_process.py the provider rarely sends a request twice. Lambda rejects a second mapping of one queue to one
        function with ResourceConflictException; ministack creates it, and it would never be deleted.
        """
        resources = json.loads(state.read_text())["resources"]
        ours = {
            instance["attributes"]["uuid"]
            for resource in resources
            if resource["type"] == "aws_lambda_event_source_mapping"
            for instance in resource["instances"]
        }
        mappings = self.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        pairs = {(m["EventSourceArn"], m["FunctionArn"]) for m in mappings if m["UUID"] in ours}
        for mapping in mappings:
            if mapping["UUID"] not in ours and (mapping["EventSourceArn"], mapping["FunctionArn"]) in pairs:
                self.client("lambda").delete_event_source_mapping(UUID=mapping["UUID"])

    def function_lines(self, start: int = 0, end: int | None = None) -> dict[str, list[str]]:
        """The log of each function from `start` until before `end`, in milliseconds since 1970, oldest line first. ministack returns no
        more than 10,000 lines."""
        logs = self.client("logs")
        until = {} if end is None else {"endTime": end - 1}
        return {
            group["logGroupName"].rsplit("/", 1)[-1]: [
                line
                for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"], startTime=start, **until)
                for event in page["events"]
                for line in event["message"].splitlines()
            ]
            for group in logs.describe_log_groups()["logGroups"]
        }

    def save_function_logs(self) -> None:
        """Writes the logs of the functions to files next to ministack's log."""
        for name, lines in self.function_lines().items():
            (self.logs / f"function-{name}.log").write_text("\n".join(lines) + "\n")
