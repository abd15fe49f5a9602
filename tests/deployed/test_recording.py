"""The proxy that notes the functions' AWS calls, between an SDK and two servers of the test: no emulator, no network."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tools import recording
from tools.authorization import Gone, Tags
from tools.iam import Policy
from tools.recording import DeployedProxy, Proxy, signed_by_name
from tools.terraform import placeholder_artifacts

SUBNETS = (
    b'<DescribeSubnetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
    b"<subnetSet><item><subnetId>subnet-0a</subnetId></item></subnetSet></DescribeSubnetsResponse>"
)
REFUSED = b'{"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "there is no such queue"}'


class Account:
    """An account whose instances carry tags that change when the first of them is terminated."""

    id = "111122223333"

    def __init__(self) -> None:
        self.owned = True

    def tags(self, resource_id: str) -> Tags:  # noqa: ARG002 the same for all
        return {"owner": "us"} if self.owned else {}

    def template(self, name_or_id: str) -> tuple[str, dict[str, Any]]:
        raise Gone(name_or_id)


@pytest.fixture
def servers() -> Iterator[dict[str, Any]]:
    """Replacements of the simulation and of ministack, with the calls that reached each."""
    seen: dict[str, list[tuple[str, bytes]]] = {"world": [], "ministack": []}
    account = Account()

    def server(name: str, status: int, answer: bytes) -> ThreadingHTTPServer:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # noqa: N802 the name that http.server calls
                body = self.rfile.read(int(self.headers["Content-Length"]))
                account.owned &= b"TerminateInstances" not in body
                seen[name].append((self.headers.get("X-Amz-Target", ""), body))
                self.send_response(status)
                self.send_header("X-Of", name)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Reports nothing."""

        made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=made.serve_forever, daemon=True).start()
        return made

    made = {"world": server("world", 200, SUBNETS), "ministack": server("ministack", 400, REFUSED)}
    urls = {name: f"http://127.0.0.1:{server.server_address[1]}" for name, server in made.items()}
    yield {"urls": urls, "seen": seen, "account": account}
    for server in made.values():
        server.shutdown()
        server.server_close()


@pytest.fixture
def proxy(servers: dict[str, Any], tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(servers["account"], servers["urls"]["world"], servers["urls"]["ministack"], tmp_path) as running:
        yield running


def client(proxy: Proxy, service: str) -> Any:
    return boto3.client(
        service, endpoint_url=proxy.url, region_name="us-east-1", aws_access_key_id="planner", aws_secret_access_key="s",
        config=Config(retries={"max_attempts": 1, "mode": "standard"}),
    )  # fmt: skip


def policy(*actions: str, **more: object) -> Policy:
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*", **more}
    return Policy.parse(json.dumps({"Version": "2012-10-17", "Statement": statement}))


def test_calls_reach_the_server_that_speaks_their_service_and_answers_come_back(servers: dict[str, Any], proxy: Proxy) -> None:
    answer = client(proxy, "ec2").describe_subnets()
    assert [s["SubnetId"] for s in answer["Subnets"]] == ["subnet-0a"]
    assert answer["ResponseMetadata"]["HTTPHeaders"]["x-of"] == "world"
    with pytest.raises(ClientError, match="there is no such queue"):
        client(proxy, "sqs").send_message(QueueUrl=f"{proxy.url}/111122223333/plan", MessageBody="m")
    assert [len(servers["seen"][name]) for name in ("world", "ministack")] == [1, 1]
    assert servers["seen"]["ministack"][0][0] == "AmazonSQS.SendMessage"
    assert proxy.recording.used("planner") == {"ec2:DescribeSubnets", "sqs:SendMessage"}, "what AWS refused was asked for, too"
    assert proxy.recording.used("lifecycle") == set()


def test_a_call_is_evaluated_by_the_tags_before_it(proxy: Proxy) -> None:
    client(proxy, "ec2").terminate_instances(InstanceIds=["i-0a"])
    allowed = {"planner": policy("ec2:TerminateInstances", Condition={"StringEquals": {"aws:ResourceTag/owner": "us"}})}
    assert proxy.recording.denied(allowed) == []
    client(proxy, "ec2").terminate_instances(InstanceIds=["i-0a"])
    (denied,) = proxy.recording.denied(allowed)
    assert "ec2:TerminateInstances on arn:aws:ec2:us-east-1:111122223333:instance/i-0a" in denied and "no statement allows it" in denied


@pytest.fixture
def deployed(servers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeployedProxy:
    """The proxy of a deployment whose planner may describe subnets."""
    monkeypatch.setattr(recording, "EmulatedAccount", lambda *_: servers["account"])
    monkeypatch.setattr(recording, "policies", lambda _: {"planner": policy("ec2:DescribeSubnets")})
    eks = SimpleNamespace(describe_cluster=lambda name: {"cluster": {"arn": f"arn:aws:eks:us-east-1:999999999999:cluster/{name}"}})
    world = SimpleNamespace(aws_url=servers["urls"]["world"], cluster="ours", client=lambda _: eks)
    ministack = SimpleNamespace(url=servers["urls"]["ministack"])
    return DeployedProxy(world, ministack, tmp_path)  # type: ignore[arg-type]


def test_a_deployment_ends_well_if_every_call_is_allowed(deployed: DeployedProxy) -> None:
    with deployed:
        deployed.read_policies()
        client(deployed, "ec2").describe_subnets()


def test_the_cluster_is_in_the_account_of_the_functions(deployed: DeployedProxy) -> None:
    with deployed:
        deployed.read_policies()
        client(deployed, "ec2").describe_subnets()
    assert deployed.replaced == {"arn:aws:eks:us-east-1:999999999999:cluster/ours": f"arn:aws:eks:us-east-1:{Account.id}:cluster/ours"}


def test_a_deployment_fails_at_its_end_for_a_call_that_aws_would_refuse(deployed: DeployedProxy) -> None:
    with pytest.raises(AssertionError, match="ec2:TerminateInstances on .*i-0a"), deployed:
        deployed.read_policies()
        client(deployed, "ec2").terminate_instances(InstanceIds=["i-0a"])


def test_a_deployment_fails_at_its_end_if_nothing_was_recorded(deployed: DeployedProxy) -> None:
    with pytest.raises(AssertionError, match="no call of a function went through the proxy"), deployed:
        deployed.read_policies()


def test_a_deployment_fails_at_its_end_if_no_policy_was_read(deployed: DeployedProxy) -> None:
    with pytest.raises(AssertionError, match="no function with that name"), deployed:
        client(deployed, "ec2").describe_subnets()


def test_the_failure_of_a_deployment_is_not_replaced(deployed: DeployedProxy) -> None:
    with pytest.raises(ValueError, match="first"), deployed:
        raise ValueError("first")


def test_access_entries_are_those_of_terraform(servers: dict[str, Any], proxy: Proxy) -> None:
    given = {"clusterName": "ours", "principalArn": "arn:aws:iam::111122223333:role/a", "policyArn": "arn:aws:eks::aws:cluster-access-policy/P"}
    with pytest.raises(ClientError):
        client(proxy, "eks").associate_access_policy(**given, accessScope={"type": "cluster"})
    assert [len(servers["seen"][name]) for name in ("world", "ministack")] == [0, 1]
    assert proxy.recording.used("planner") == {"eks:AssociateAccessPolicy"}


def test_no_zone_is_shifted_away(servers: dict[str, Any], proxy: Proxy) -> None:
    answer = client(proxy, "arc-zonal-shift").get_managed_resource(resourceIdentifier="arn:aws:eks:us-east-1:111122223333:cluster/ours")
    assert answer["zonalShifts"] == answer["autoshifts"] == []
    assert proxy.recording.used("planner") == {"arc-zonal-shift:GetManagedResource"} and servers["seen"] == {"world": [], "ministack": []}


def test_what_a_policy_lacks_is_reported_once(proxy: Proxy) -> None:
    for _ in range(2):
        client(proxy, "ec2").describe_subnets()
    assert proxy.recording.denied({"planner": policy("ec2:DescribeSubnets")}) == []
    assert len(proxy.recording.denied({"planner": policy("ec2:DescribeImages")})) == 1
    (denied,) = proxy.recording.denied({"lifecycle": policy("ec2:DescribeSubnets")})
    assert "no function with that name" in denied


def test_a_call_that_cannot_be_evaluated_is_passed_on_and_fails_the_test(servers: dict[str, Any], proxy: Proxy) -> None:
    client(proxy, "ec2").delete_volume(VolumeId="vol-0a")
    assert len(servers["seen"]["world"]) == 1
    (unread,) = proxy.recording.denied({"planner": policy("ec2:DeleteVolume")})
    assert "tests/tools/authorization.py" in unread


def test_a_call_about_something_that_is_gone_needs_no_right(servers: dict[str, Any], proxy: Proxy) -> None:
    client(proxy, "ec2").delete_launch_template(LaunchTemplateName="nodeless/a")
    assert len(servers["seen"]["world"]) == 1
    assert proxy.recording.denied({"planner": policy("ec2:DescribeSubnets")}) == []


def test_a_server_that_is_gone_is_an_error_of_the_call(servers: dict[str, Any], tmp_path: Path) -> None:
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=planner/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0"}
    with Proxy(servers["account"], "http://127.0.0.1:1", servers["urls"]["ministack"], tmp_path) as proxy:
        request = urllib.request.Request(proxy.url, b"Action=DescribeSubnets", signed)
        with pytest.raises(urllib.error.HTTPError, match="502"):
            urllib.request.urlopen(request)


def test_all_calls_are_kept_in_a_log(servers: dict[str, Any], tmp_path: Path) -> None:
    with Proxy(servers["account"], servers["urls"]["world"], servers["urls"]["ministack"], tmp_path) as proxy:
        client(proxy, "ec2").describe_subnets()
    assert "ec2:DescribeSubnets by planner" in (tmp_path / "aws-calls.log").read_text()


def test_a_proxy_that_does_not_record_only_passes_calls_on(servers: dict[str, Any], proxy: Proxy) -> None:
    proxy.records = False
    client(proxy, "ec2").delete_volume(VolumeId="vol-0a")
    assert len(servers["seen"]["world"]) == 1
    assert proxy.recording.lines() == []


def test_zips_start_the_function_with_its_name_as_access_key(tmp_path: Path) -> None:
    zips = signed_by_name(placeholder_artifacts(tmp_path / "built", "the function"), tmp_path / "signed")
    with zipfile.ZipFile(zips / "planner/bootstrap.zip") as archive:
        assert archive.read("function") == b"the function"
        assert b"AWS_ACCESS_KEY_ID=$AWS_LAMBDA_FUNCTION_NAME" in archive.read("bootstrap")
        assert archive.getinfo("bootstrap").external_attr >> 16 == 0o755
