"""Parts of the first hour of tests/aws that matter most where no emulator is: that it ends well when interrupted, shows no secret,
and asks AWS in words that AWS understands (botocore checks requests and answers against AWS's own models). No emulator is needed."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name
from botocore.stub import Stubber

from aws import cost, first_hour, fleet_probe, report, steps
from aws.account import Account
from aws.hour import Hour, Observation, Ran, Step
from aws.place import Failed, Place, run_to_end
from aws.remains import remains, searches
from tools.terraform import ROOT


class NoPlace(Place):
    """A place in which nothing can be made; it records the commands of Terraform."""

    name, is_aws, poll = "no-place", True, 0.01

    def __init__(self, directory: Path, at_apply: BaseException) -> None:
        super().__init__(directory, "first-hour", "us-east-1")
        self.at_apply = at_apply
        self.commands: list[str] = []
        self.fails_to_destroy = 0

    def variables(self) -> dict[str, str]:
        return {"architecture": "arm64"}

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def clients(self, service: str) -> list[Any]:
        raise AssertionError(f"nothing should ask {service}")

    def connect(self) -> None:
        raise AssertionError("there is nothing to connect to")

    def interrupt(self, node: dict[str, Any], instance_id: str) -> str:
        raise AssertionError("there is nothing to interrupt")

    def copy_example(self) -> None:
        pass

    def log_events(self, function: str) -> list[dict[str, Any]]:
        return [{"message": f"START RequestId {function}"}, {"message": f"{function} explained why"}]

    def terraform(self, *arguments: str) -> str:
        self.commands.append(arguments[0])
        if arguments[0] == "apply":
            raise self.at_apply
        if arguments[0] == "destroy" and self.fails_to_destroy:
            self.fails_to_destroy -= 1
            raise Failed("a subnet has dependencies")
        return ""


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "remains", lambda place: ({}, []))  # noqa: ARG005


@pytest.mark.parametrize("end", [KeyboardInterrupt(), Failed("no such subnet"), RuntimeError("unexpected")])
def test_whatever_ends_the_apply_it_is_destroyed(end: BaseException, tmp_path: Path, nothing_left: None) -> None:  # noqa: ARG001
    place = NoPlace(tmp_path, end)
    hour = first_hour.run(place, report=lambda text: None)  # noqa: ARG005
    assert place.commands == ["init", "apply", "destroy"]
    assert hour.failed and hour.steps[0].outcome == ("interrupted" if isinstance(end, KeyboardInterrupt) else "failed")
    # The logs of what failed are in the report, without what reports nothing.
    if not isinstance(end, KeyboardInterrupt):
        text = "\n".join(report.lines(hour))
        assert "planner explained why" in text and "START RequestId" not in text and str(end) in text


def test_destroying_is_tried_twice_and_explains_the_manual_steps(tmp_path: Path, nothing_left: None) -> None:  # noqa: ARG001
    stated: list[str] = []
    place = NoPlace(tmp_path, Failed("no"))
    place.fails_to_destroy = 1
    assert first_hour.run(place, stated.append).steps[-1].outcome == "done" and place.commands.count("destroy") == 2
    assert not any("Not everything could be destroyed" in line for line in stated)
    place = NoPlace(tmp_path, Failed("no"))
    place.fails_to_destroy = 2
    assert first_hour.run(place, stated.append).failed
    (by_hand,) = [line for line in stated if "Not everything could be destroyed" in line]
    assert "--remove" in by_hand and "kubernetes.io/cluster/first-hour=owned" in by_hand and "terraform -chdir=" in by_hand


def test_an_interrupt_while_destroying_changes_nothing(tmp_path: Path, nothing_left: None) -> None:  # noqa: ARG001
    stated: list[str] = []

    class Interrupting(NoPlace):
        def terraform(self, *arguments: str) -> str:
            if arguments[0] == "destroy":
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGTERM)
            return super().terraform(*arguments)

    before = [signal.getsignal(signum) for signum in first_hour.ENDS]
    hour = first_hour.run(Interrupting(tmp_path, Failed("no")), stated.append)
    assert hour.steps[-1].outcome == "done" and sum("Still destroying" in line for line in stated) == 2
    assert [signal.getsignal(signum) for signum in first_hour.ENDS] == before


def test_a_child_is_interrupted_and_waited_for(tmp_path: Path) -> None:
    """The child runs until it has written its state, as Terraform does on an interrupt."""
    state, begun = tmp_path / "state", tmp_path / "begun"
    child = f"""
import pathlib, signal, sys, time
def end(*_):
    time.sleep(1)
    pathlib.Path({str(state)!r}).write_text("written")
    sys.exit(0)
signal.signal(signal.SIGINT, end)
pathlib.Path({str(begun)!r}).touch()
time.sleep(60)
"""

    def press() -> None:
        while not begun.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)  # who is impatient

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        run_to_end([sys.executable, "-c", child], dict(os.environ), tmp_path / "log")
    assert state.read_text() == "written"


def test_a_command_that_fails_shows_its_output(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="ended with 3:\nout\nerr"):
        run_to_end(["sh", "-c", "echo out; echo err >&2; exit 3"], dict(os.environ), tmp_path / "log")
    assert run_to_end(["cat"], dict(os.environ), tmp_path / "log", stdin="input") == "input"


def test_the_report_shows_no_secret() -> None:
    secret = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYxx"
    text = " ".join([
        "arn:aws:iam::111122223333:role/x", "account 111122223333,", "https://sqs.us-east-1.amazonaws.com/111122223333/queue",
        "AKIAIOSFODNN7EXAMPLE", secret, "k8s-aws-v1.aHR0cHM6Ly9zdHMu-x_y", "https://abc123def.lambda-url.us-east-1.on.aws/" + "a1B2" * 12,
        "https://0123456789ABCDEF0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com", "arn:aws:sts::111122223333:assumed-role/Admin/jane@example.com",
        "arn:aws:iam::111122223333:user/jane",
    ])  # fmt: skip
    shown = report.redacted(text, "111122223333", {"AWS_SECRET_ACCESS_KEY": secret})
    for part in ("111122223333", "AKIA", secret, "aHR0cHM6", "abc123def", "a1B2", "0123456789ABCDEF", "jane", "Admin"):
        assert part not in shown, shown
    # Without knowing the account, by its form; and instances keep their names.
    assert "111122223333" not in report.redacted(text, None, {})
    kept = "i-0b662ef9931388ba0 seen at 1742058000123 in 20250315170000 ip-10-0-1-2.ec2.internal"
    assert report.redacted(kept, "111122223333", {}) == kept


def test_a_verdict_needs_aws() -> None:
    yes, no, untried = Observation(True, "so"), Observation(False, "not so"), Observation(None, "refused")
    assert report.verdict([yes, yes], is_aws=True) == ("confirmed", "so")
    assert report.verdict([yes, no], is_aws=True) == ("contradicted", "so; not so")
    assert report.verdict([untried], is_aws=True) == ("not tried", "refused")
    assert report.verdict([], is_aws=True)[0] == "not tried"
    assert report.verdict([], is_aws=True, untried="it throttles others") == ("not tried", "it throttles others")
    assert report.verdict([yes], is_aws=False)[0] == "not tried" and report.verdict([no], is_aws=False)[0] == "not tried"


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    return Account(tmp_path, "first-hour", "eu-west-1")


def test_the_experiment_is_what_fis_takes(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # noqa: ARG005
    fis, iam = Stubber(account.client("fis")), Stubber(account.client("iam"))
    role = {"Path": "/", "RoleName": "r", "RoleId": "AROA0000000000000000", "Arn": "arn:aws:iam::111122223333:role/r", "CreateDate": datetime.now(timezone.utc)}
    monkeypatch.setattr(account, "number", lambda: "111122223333")
    iam.add_response("create_role", {"Role": role})
    iam.add_response("put_role_policy", {})
    fis.add_response("create_experiment_template", {"experimentTemplate": {"id": "EXT1"}})
    # The role is not visible to FIS yet, once.
    for status in ("failed", "running"):
        fis.add_response("start_experiment", {"experiment": {"id": "EXP1"}}, {"experimentTemplateId": "EXT1"})
        fis.add_response("get_experiment", {"experiment": {"id": "EXP1", "state": {"status": status, "reason": "no role"}}}, {"id": "EXP1"})
    with fis, iam:
        assert "aws:ec2:send-spot-instance-interruptions" in account.interrupt({}, "i-1")
        fis.assert_no_pending_responses()
        iam.assert_no_pending_responses()


def test_what_the_experiment_left_is_removed(account: Account) -> None:
    fis, iam = Stubber(account.client("fis")), Stubber(account.client("iam"))
    ours = {"id": "EXT1", "tags": {"Name": "nodeless-first-hour-eu-west-1-fis"}}
    fis.add_response("list_experiment_templates", {"experimentTemplates": [ours, {"id": "EXT2", "tags": {"Name": "of-another"}}, {"id": "EXT3"}]})
    fis.add_response("delete_experiment_template", {}, {"id": "EXT1"})
    # The role was never made, or is gone already.
    for call in ("delete_role_policy", "delete_role"):
        iam.add_client_error(call, "NoSuchEntity")
    with fis, iam:
        account.clean_up_interruption()
        fis.assert_no_pending_responses()
        iam.assert_no_pending_responses()


def test_a_probe_that_ends_early_terminates_what_it_launched(account: Account) -> None:
    """Instances are found by their tag, so also one whose launch was never answered."""
    ec2 = Stubber(account.client("ec2"))
    ec2.add_response("describe_instances", {"Reservations": []})  # there is no instance that it could be like
    ec2.add_response("describe_instances", {"Reservations": [{"Instances": [{"InstanceId": "i-9"}]}]})
    ec2.add_response("terminate_instances", {}, {"InstanceIds": ["i-9"]})
    ec2.add_response("describe_launch_templates", {"LaunchTemplates": [{"LaunchTemplateId": "lt-9"}]})
    ec2.add_response("delete_launch_template", {}, {"LaunchTemplateId": "lt-9"})
    step = Step("ask AWS directly")
    with ec2:
        fleet_probe.run(Hour(account, report=lambda text: None), step)  # noqa: ARG005
        ec2.assert_no_pending_responses()
    assert "could not be tried to the end" in step.seen[0]


def test_the_kubeconfig_asks_the_aws_cli_for_tokens(account: Account) -> None:
    account.directory.mkdir(exist_ok=True)
    eks = Stubber(account.client("eks"))
    cluster = {"name": "first-hour", "endpoint": "https://x.eks.amazonaws.com", "certificateAuthority": {"data": "UEVN"}}
    eks.add_response("describe_cluster", {"cluster": cluster}, {"name": "first-hour"})
    with eks:
        account.connect()
    config = json.loads(account.kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == cluster["endpoint"]
    assert config["users"][0]["user"]["exec"]["args"][:4] == ["--region", "eu-west-1", "eks", "get-token"]
    assert account.kubeconfig.stat().st_mode & 0o077 == 0


def test_every_search_is_a_request_that_aws_takes(account: Account) -> None:
    """An empty account has nothing, and one whose names are taken is refused. Stubs check the parameters of each call."""
    answers: dict[str, dict[str, Any]] = {"describe_alarms": {"MetricAlarms": []}, "list_roles": {"Roles": []}, "list_instance_profiles": {"InstanceProfiles": []}}
    calls: list[str] = []

    def answer(model: Any, params: dict[str, Any], **_: Any) -> Any:  # noqa: ARG001
        calls.append(model.name)
        name = xform_name(model.name)
        return _Response(), answers.get(name, {})

    for service in {service for service, _ in searches("first-hour", "eu-west-1").values()}:
        account.client(service).meta.events.register("before-call", answer)
    assert remains(account) == ({}, [])
    # Policies of retries may ask more often, never less.
    assert len(set(calls)) >= 18, calls
    answers["list_tables"] = {"TableNames": ["nodeless-first-hour", "nodeless-first-hourly"]}
    answers["list_queues"] = {"QueueUrls": ["https://sqs/1/nodeless-first-hour-plan.fifo"]}
    answers["list_roles"] = {"Roles": [{"RoleName": "nodeless-first-hour-eu-west-1-planner"}, {"RoleName": "nodeless-first-hour-us-east-1-planner"}]}
    found, _ = remains(account)
    assert found == {
        "tables": ["nodeless-first-hour"],
        "queues": ["https://sqs/1/nodeless-first-hour-plan.fifo"],
        "roles": ["nodeless-first-hour-eu-west-1-planner"],
    }
    with pytest.raises(SystemExit, match="Nothing was changed"):
        first_hour.check_names(account)


class _Response:
    status_code = 200


def test_the_estimate_counts_what_it_has_no_price_for(tmp_path: Path, nothing_left: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    hour = Hour(NoPlace(tmp_path, Failed("no")), report=lambda text: None)  # noqa: ARG005
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    hour.ran["i-1"] = Ran("m5.large", "us-east-1a", True, at, at.replace(hour=1))
    hour.ran["i-2"] = Ran("m5.large", "us-east-1a", False, at, at)
    monkeypatch.setattr(cost, "price", lambda hour, ran: 0.05 if ran.spot else None)  # noqa: ARG005
    hour.cluster_begun, hour.cluster_ended = at, at.replace(hour=2)
    lines = {line.what: line.dollars for line in cost.estimate(hour)}
    assert lines["EKS control plane, 2.00 h"] == pytest.approx(0.2)
    assert lines["m5.large spot in us-east-1a, 1.00 h"] == pytest.approx(0.05)
    assert lines["m5.large on-demand in us-east-1a, 0.02 h"] is None, "at least a minute"
    assert "1 lines without a price" in "\n".join(report.cost_lines(hour))
    assert f"by list prices (about ${cost.expected():.0f})" in (ROOT / "tests/aws/README.md").read_text()


def test_names_that_would_be_shortened_are_refused() -> None:
    assert first_hour.arguments(["--cluster-name", "a" * 30]).cluster_name == "a" * 30
    for name in ("a" * 31, "Upper", "under_score", "-dash"):
        with pytest.raises(SystemExit):
            first_hour.arguments(["--cluster-name", name])
