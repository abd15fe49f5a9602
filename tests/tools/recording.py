"""A proxy between the deployed functions and the emulated AWS, which records the IAM requests of each call.

A function signs with an access key that is its own name (see `signed_by_name`), so the proxy identifies the role of a call.
The IAM requests of a call are computed before it is forwarded, because they depend on the tags of its resources at that time.
"""

from __future__ import annotations

import http.client
import json
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from .authorization import Account, Gone, Profile, Tags, requests
from .calls import Call, read, scope
from .iam import Policy, Request
from .ministack import Ministack
from .terraform import FUNCTIONS
from .world import SERVICES, World

# The services of the world, by their name in the scope of a signature; ministack has the others.
OF_WORLD = tuple(service.lower() for service in SERVICES)
ENDPOINTS = (*SERVICES, "DYNAMODB", "SQS", "STS", "ARC_ZONAL_SHIFT")
# The answer of GetManagedResource, which no emulator has, for a cluster that is not shifted away from any zone:
# https://docs.aws.amazon.com/arc-zonal-shift/latest/api/API_GetManagedResource.html
NO_ZONAL_SHIFT = json.dumps({"appliedWeights": {}, "zonalShifts": [], "autoshifts": []}).encode()
# Headers that the proxy sets.
NOT_PASSED_ON = ("connection", "transfer-encoding", "content-length", "keep-alive")


class EmulatedAccount:
    """The account of the tests: EC2 and instance profiles in the world, roles and tables in ministack."""

    def __init__(self, world: World, ministack: Ministack) -> None:
        self._ec2 = world.client("ec2")
        self._profiles = world.client("iam")
        self._iam = ministack.client("iam")
        self._dynamodb = ministack.client("dynamodb")
        self._sts = ministack.client("sts")

    @cached_property
    def id(self) -> str:
        return self._sts.get_caller_identity()["Account"]

    def tags(self, resource_id: str) -> Tags:
        found = self._ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [resource_id]}])["Tags"]
        if not found and resource_id.startswith("lt-"):
            # The catalog deletes the templates of an EC2NodeClass while lifecycle may still make dry runs from them.
            with gone("InvalidLaunchTemplate"):
                self._ec2.describe_launch_templates(LaunchTemplateIds=[resource_id])
        return {tag["Key"]: tag["Value"] for tag in found}

    def template(self, name_or_id: str) -> tuple[str, Mapping[str, Any]]:
        named = {"LaunchTemplateId" if name_or_id.startswith("lt-") else "LaunchTemplateName": name_or_id}
        with gone("InvalidLaunchTemplate"):
            (version,) = self._ec2.describe_launch_template_versions(**named, Versions=["$Latest"])["LaunchTemplateVersions"]
        return version["LaunchTemplateId"], version["LaunchTemplateData"]

    def profile(self, name: str) -> Profile:
        with gone("NoSuchEntity"):
            found = self._profiles.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
        roles = [self.role_arn(role["RoleName"]) for role in found["Roles"]]
        arn = f"arn:aws:iam::{self.id}:instance-profile{found['Path']}{found['InstanceProfileName']}"
        return Profile(arn, roles[0] if roles else None, {tag["Key"]: tag["Value"] for tag in found.get("Tags", ())})

    def role_arn(self, name: str) -> str:
        return self._iam.get_role(RoleName=name)["Role"]["Arn"]

    @cache  # noqa: B019 exists as long as its test
    def partition_key(self, table: str, index: str | None) -> str:
        described = self._dynamodb.describe_table(TableName=table)["Table"]
        schemas = {i["IndexName"]: i["KeySchema"] for i in described.get("GlobalSecondaryIndexes", ())} | {None: described["KeySchema"]}
        return next(key["AttributeName"] for key in schemas[index] if key["KeyType"] == "HASH")


@contextmanager
def gone(code: str) -> Iterator[None]:
    """Raises Gone for an error whose code has this prefix."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"].startswith(code):
            raise Gone(str(error)) from error
        raise


@dataclass(frozen=True)
class Recorded:
    """A call with its IAM requests."""

    call: Call
    requests: tuple[Request, ...]


@dataclass
class Recording:
    """The calls of the functions."""

    calls: list[Recorded] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def note(self, account: Account, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        """Records a call. A call that cannot be evaluated is recorded as such, and fails the test at its end instead of the function."""
        try:
            call = read(method, target, headers, body)
            try:
                asked = tuple(requests(call, account))
            except Gone:
                # The resource has been deleted: the response is "not found", and no permission was needed.
                asked = ()
            self.calls.append(Recorded(call, asked))
        except Exception as problem:  # noqa: BLE001 the test has to report every error
            self.unread.append(f"{method} {target} {headers.get('X-Amz-Target', '')} {body[:300]!r}: {type(problem).__name__}: {problem}")

    def lines(self) -> list[str]:
        """The calls, each with its IAM requests."""
        return [f"{r.call}: {'; '.join(map(str, r.requests))}" for r in self.calls] + self.unread

    def used(self, caller: str) -> set[str]:
        """The IAM actions of a function."""
        return {request.action for recorded in self.calls if recorded.call.caller == caller for request in recorded.requests}

    def denied(self, policies: Mapping[str, Policy]) -> list[str]:
        """Every IAM request that the policy of the caller's role does not allow, once each."""
        found = dict.fromkeys(self.unread)
        for recorded in self.calls:
            policy = policies.get(recorded.call.caller)
            if policy is None:
                found[f"{recorded.call}: there is no function with that name"] = None
                continue
            for request, decision in policy.denied(recorded.requests):
                found[f"{recorded.call} needs {request}: {decision.value}"] = None
        return list(found)


class Proxy:
    """Receives the functions' calls on a port of this machine, records and forwards them. Use as a context manager."""

    def __init__(self, account: Account, world_url: str, ministack_url: str, logs: Path, name: str = "aws-calls") -> None:
        self.recording = Recording()
        # Whether calls are recorded, and evaluated at the end. Both read the objects that a call names from the emulators, which takes longer
        # than most calls.
        self.records = True
        # Addresses in answers that are replaced, such as that of the API server by the one of a relay.
        self.replaced: dict[str, str] = {}
        self._log = logs / f"{name}.log"
        self._account = account
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._take))
        self._server.daemon_threads = True
        self._world, self._ministack = urlsplit(world_url).netloc, urlsplit(ministack_url).netloc

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def endpoints(self) -> dict[str, str]:
        """Environment variables that send the functions' calls here."""
        return {f"AWS_ENDPOINT_URL_{service}": self.url for service in ENDPOINTS}

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._log.write_text("".join(f"{line}\n" for line in self.recording.lines()))

    def _take(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Iterable[tuple[str, str]], bytes]:
        if self.records:
            self.recording.note(self._account, method, target, headers, body)
        service = scope(headers)[2]
        if service == "arc-zonal-shift":
            return 200, [("Content-Type", "application/json")], NO_ZONAL_SHIFT
        # Terraform makes the access entries in ministack.
        of_world = service in OF_WORLD and "/access-entries/" not in target
        target_host = self._world if of_world else self._ministack
        connection = http.client.HTTPConnection(target_host, timeout=60)
        try:
            connection.request(method, target, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
            for old, new in self.replaced.items():
                content = content.replace(old.encode(), new.encode())
            return answer.status, answer.getheaders(), content
        finally:
            connection.close()


class DeployedProxy(Proxy):
    """The AWS of the functions of a deployment. When it stops, every call must be allowed by the policy of the role that made it."""

    def __init__(self, world: World, ministack: Ministack, logs: Path, name: str = "aws-calls") -> None:
        super().__init__(EmulatedAccount(world, ministack), world.aws_url, ministack.url, logs, name)
        self._cluster_world, self._deployed = world, ministack
        self.policies: dict[str, Policy] = {}

    def __enter__(self) -> DeployedProxy:
        # The world is another account than ministack; in AWS both are one.
        arn = self._cluster_world.client("eks").describe_cluster(name=self._cluster_world.cluster)["cluster"]["arn"]
        *parts, _, name = arn.split(":")
        self.replaced[arn] = ":".join([*parts, self._account.id, name])
        super().__enter__()
        return self

    def read_policies(self) -> None:
        """Reads the policies of all functions, after Terraform has applied them: Terraform destroys them before the last calls are made."""
        self.policies = policies(self._deployed)

    def __exit__(self, kind: object = None, *_: object) -> None:
        super().__exit__()
        if kind is not None or not self.records:
            return
        assert self.recording.calls, "no call of a function went through the proxy"
        denied = self.recording.denied(self.policies)
        assert not denied, "AWS would refuse calls that the functions make:\n" + "\n".join(denied)


Take = Callable[[str, str, Mapping[str, str], bytes], tuple[int, Iterable[tuple[str, str]], bytes]]


def _handler(take: Take) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, headers, content = take(self.command, self.path, self.headers, body)
            except Exception as problem:  # noqa: BLE001 without a response the SDK would wait
                status, headers, content = 502, [], f"the tests' proxy: {problem}".encode()
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in NOT_PASSED_ON:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            try:
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the function has ended

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _answer  # noqa: N815 names that http.server calls

        def log_message(self, *_: object) -> None:
            """Reports nothing; the recording does."""

    return Handler


def signed_by_name(zips: Path, destination: Path) -> Path:
    """The functions' zips, each with a start script that sets the access key to the function's name. In AWS every function has the keys of
    its own role. In ministack all functions have the same keys, which environment variables of a function cannot override."""
    start = '#!/bin/sh\nhere=$(dirname "$0")\nchmod +x "$here/function"\nexport AWS_ACCESS_KEY_ID=$AWS_LAMBDA_FUNCTION_NAME\nexec "$here/function"\n'
    for name in FUNCTIONS:
        (destination / name).mkdir(parents=True, exist_ok=True)
        with (
            zipfile.ZipFile(zips / name / "bootstrap.zip") as built,
            zipfile.ZipFile(destination / name / "bootstrap.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            for entry, content in (("bootstrap", start.encode()), ("function", built.read("bootstrap"))):
                info = zipfile.ZipInfo(entry)
                info.external_attr = 0o755 << 16
                archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return destination


def policies(ministack: Ministack) -> dict[str, Policy]:
    """The policy of each deployed function's role, as Terraform made it, by the name of the function."""
    functions, iam = ministack.client("lambda"), ministack.client("iam")
    found: dict[str, Policy] = {}
    for function in functions.get_paginator("list_functions").paginate().build_full_result()["Functions"]:
        deployed, role = function["FunctionName"], function["Role"].rsplit("/", 1)[-1]
        attached = [policy["PolicyArn"] for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]]
        inline = iam.list_role_policies(RoleName=role)["PolicyNames"]
        documents = [iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"] for policy in inline]
        for arn in attached:
            version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
            documents.append(iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"])
        found[deployed] = Policy.parse(*map(_document, documents))
    return found


def _document(policy: object) -> str:
    return policy if isinstance(policy, str) else json.dumps(policy)
