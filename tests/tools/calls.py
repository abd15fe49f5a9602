"""AWS API calls, read from the HTTP requests that an SDK sends: EC2's and IAM's query protocols, JSON, and REST."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

QUERY = ("ec2", "iam", "sts")
JSON = ("dynamodb", "sqs", "ssm", "pricing")
# For each service its operations: method, path with its parameters, and name.
ACCESS_POLICIES = r"/clusters/(?P<name>[^/]+)/access-entries/(?P<principalArn>[^/]+)/access-policies"
REST = {
    "eks": (
        ("GET", re.compile(r"/clusters/(?P<name>[^/]+)"), "DescribeCluster"),
        ("POST", re.compile(ACCESS_POLICIES), "AssociateAccessPolicy"),
        ("DELETE", re.compile(rf"{ACCESS_POLICIES}/(?P<policyArn>[^/]+)"), "DisassociateAccessPolicy"),
    ),
    "savingsplans": (
        ("POST", re.compile(r"/DescribeSavingsPlans"), "DescribeSavingsPlans"),
        ("POST", re.compile(r"/DescribeSavingsPlanRates"), "DescribeSavingsPlanRates"),
    ),
    "arc-zonal-shift": (("GET", re.compile(r"/managedresources/(?P<resourceIdentifier>.+)"), "GetManagedResource"),),
}
SCOPE = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")


class Unreadable(Exception):
    """A request that cannot be parsed as an AWS call."""


@dataclass(frozen=True)
class Call:
    """An API call. `caller` is the access key that signed it; parameters have the names of the request."""

    caller: str
    service: str
    region: str
    operation: str
    parameters: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.service}:{self.operation} by {self.caller}"


def scope(headers: Mapping[str, str]) -> tuple[str, str, str]:
    """The access key, region and service that a request is signed for."""
    signed = {name.lower(): value for name, value in headers.items()}.get("authorization", "")
    found = SCOPE.search(signed)
    if found is None:
        raise Unreadable(f"a request without a signature of version 4: Authorization is {signed[:40]!r}")
    return found[1], found[2], found[3]


def read(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Call:
    """The call that an HTTP request makes."""
    caller, region, service = scope(headers)
    if service in QUERY:
        parameters = nest(parse_qsl(body.decode(), keep_blank_values=True))
        operation = parameters.pop("Action", None)
    elif service in JSON:
        named = {name.lower(): value for name, value in headers.items()}.get("x-amz-target", "")
        operation, parameters = named.rpartition(".")[2], json.loads(body or b"{}")
    elif service in REST:
        operation, parameters = _rest(service, method, target, body)
    else:
        raise Unreadable(f"service {service}: {method} {target}")
    if not operation:
        raise Unreadable(f"{service}: {method} {target} has no operation")
    return Call(caller, service, region, operation, parameters)


def _rest(service: str, method: str, target: str, body: bytes) -> tuple[str, dict[str, Any]]:
    """The operation of a REST call, and its parameters, of the path and the body."""
    for expected, path, operation in REST[service]:
        found = path.fullmatch(urlsplit(target).path)
        if method == expected and found is not None:
            return operation, {name: unquote(value) for name, value in found.groupdict().items()} | json.loads(body or b"{}")
    raise Unreadable(f"{service}: {method} {target}")


def nest(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Parameters such as Tag.1.Key and Tags.member.1.Key as nested dictionaries and lists."""
    tree: dict[str, Any] = {}
    for name, value in pairs:
        *path, last = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return {name: _lists(node) for name, node in tree.items()}


def _lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if list(node) == ["member"]:
        return _lists(node["member"])
    if all(name.isdigit() for name in node):
        return [_lists(node[name]) for name in sorted(node, key=int)]
    return {name: _lists(child) for name, child in node.items()}
