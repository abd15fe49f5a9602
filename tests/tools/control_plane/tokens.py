"""Authenticates EKS tokens for kube-apiserver (its webhook token authentication), as EKS does with access entries.

A token is a presigned URL of STS GetCallerIdentity, which EKS calls. Here the signature is computed again, because all keys of the
emulators have the same secret. The access key is the name of a function (tools.recording.signed_by_name), which determines its role, and
the role's access entry determines the groups. Sources: aws-iam-authenticator's README and pkg/token;
https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, urlsplit

PREFIX = "k8s-aws-v1."
# How long a token is accepted after it was signed, independent of X-Amz-Expires.
LIFETIME = timedelta(minutes=15)
CLUSTER_HEADER = "x-k8s-aws-id"


class Refused(Exception):
    """A token is not accepted; the message has the reason."""


@dataclass(frozen=True)
class Identity:
    """The identity of a token in the API server."""

    user: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Signed:
    """A decoded token: its signer and the time of its signature."""

    access_key: str
    at: datetime


def read(token: str, cluster: str, secret: str, now: datetime) -> Signed:
    """Checks a token; raises Refused."""
    url = decoded(token)
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    if not re.fullmatch(r"sts\.[a-z0-9-]+\.amazonaws\.com", url.netloc) or url.scheme != "https" or url.path != "/":
        raise Refused(f"the URL is not that of STS: {url.scheme}://{url.netloc}{url.path}")
    if query.get("Action") != "GetCallerIdentity" or query.get("Version") != "2011-06-15":
        raise Refused("the URL does not call GetCallerIdentity")
    signature = query.pop("X-Amz-Signature", "")
    signed_headers = query.get("X-Amz-SignedHeaders", "").split(";")
    if CLUSTER_HEADER not in signed_headers:
        raise Refused(f"{CLUSTER_HEADER} is not signed, so the token belongs to no cluster")
    try:
        access_key, day, region, service, _ = query["X-Amz-Credential"].split("/")
        at = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except (KeyError, ValueError) as problem:
        raise Refused(f"the signature's parameters are incomplete: {problem}") from problem
    if now > at + LIFETIME or at > now + timedelta(minutes=5):
        raise Refused(f"the token was signed at {at:%H:%M:%S} and is not valid at {now:%H:%M:%S}")
    headers = {"host": url.netloc, CLUSTER_HEADER: cluster}
    expected = sign(query, {h: headers.get(h, "") for h in signed_headers}, secret, day, region, service)
    if not hmac.compare_digest(expected, signature):
        raise Refused("the signature is not right for this cluster")
    return Signed(access_key, at)


def decoded(token: str) -> object:
    if not token.startswith(PREFIX):
        raise Refused(f"the token does not begin with {PREFIX}")
    encoded = token.removeprefix(PREFIX)
    try:
        return urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    except ValueError as problem:
        raise Refused(f"the token is not base64 of a URL: {problem}") from problem


def sign(query: dict[str, str], headers: dict[str, str], secret: str, day: str, region: str, service: str) -> str:
    """The signature of a presigned GET: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html."""

    def encode(text: str) -> str:
        return quote(text, safe="-_.~")

    canonical_query = "&".join(f"{encode(k)}={encode(v)}" for k, v in sorted(query.items()))
    canonical_headers = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    empty = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{canonical_query}\n{canonical_headers}\n{';'.join(sorted(headers))}\n{empty}"
    scope = f"{day}/{region}/{service}/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{query['X-Amz-Date']}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, to_sign.encode(), "sha256").hexdigest()


@dataclass
class Authenticator:
    """The server that authenticates tokens for the API server. Use as a context manager.

    `resolve` maps an access key to an identity, or to None if there is no access entry."""

    cluster: str
    secret: str
    resolve: Callable[[str], Identity | None] = lambda _: None
    accepted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    # For each accepted token, the difference between the times of its signature and of its check, with its access key.
    signed_after: list[tuple[str, timedelta]] = field(default_factory=list)
    # Tokens signed before this are refused, for tests of a token that has expired.
    not_before: datetime = datetime.min.replace(tzinfo=timezone.utc)

    def __enter__(self) -> Authenticator:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self.review))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def kubeconfig(self) -> str:
        """The content of the file for --authentication-token-webhook-config-file."""
        cluster = {"name": "authenticator", "cluster": {"server": self.url}}
        context = {"name": "authenticator", "context": {"cluster": "authenticator", "user": ""}}
        return json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context], "current-context": "authenticator"})

    def review(self, token: str) -> dict[str, object]:
        """The status of a TokenReview."""
        try:
            now = datetime.now(timezone.utc)
            signed = read(token, self.cluster, self.secret, now)
            if signed.at < self.not_before:
                raise Refused("the token has expired")
            identity = self.resolve(signed.access_key)
            if identity is None:
                raise Refused(f"{signed.access_key} has no access entry")
        except Refused as why:
            self.refused.append(str(why))
            return {"authenticated": False, "error": str(why)}
        self.accepted.append(signed.access_key)
        self.signed_after.append((signed.access_key, signed.at - now))
        return {"authenticated": True, "user": {"username": identity.user, "groups": list(identity.groups)}}


def handler(review: Callable[[str], dict[str, object]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # noqa: N802 a name that http.server calls
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps({"apiVersion": asked["apiVersion"], "kind": "TokenReview", "status": review(asked["spec"]["token"])}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Prints nothing; `accepted` and `refused` contain the results."""

    return Handler
