"""The example applied on ministack, with functions that only note what reaches them: that every wire is connected.

What the functions do with it is test_end_to_end.py's business.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from records import Records, recording_zips
from tools.ministack import Ministack
from tools.processes import wait_for
from tools.terraform import ROOT, copy_module, environment, terraform

CLUSTER = "wired"
INTERRUPTIONS = ("spot-warning", "rebalance", "state-change", "scheduled-change", "capacity-reservation")


def test_every_trigger_reaches_its_function_and_destroy_leaves_nothing(ministack: Ministack, mirror: Path, tmp_path: Path, logs: Path) -> None:
    artifacts, records = recording_zips(tmp_path)
    root = copy_module(tmp_path / "terraform") / "examples/complete"
    before = ministack.leftovers()
    env = environment(AWS_ENDPOINT_URL=ministack.url)
    variables = [f"-var=cluster_name={CLUSTER}", f"-var=artifacts_directory={artifacts}", "-var=architecture=x86_64", "-var=zones=2"]

    terraform(root, "init", f"-plugin-dir={mirror}", env=env, log=logs / "terraform.log")
    terraform(root, "apply", "-auto-approve", *variables, env=env, log=logs / "terraform.log")
    ministack.drop_doubled_mappings(root / "terraform.tfstate")
    check_installer(records, "create")
    check_schedules(records)
    check_order(records)
    check_environment(records)
    check_interruption(ministack, records)
    check_wake(ministack, records)

    terraform(root, "destroy", "-auto-approve", *variables, env=env, log=logs / "terraform.log")
    check_installer(records, "delete")
    check_nodes_go_first(records)
    assert ministack.leftovers() == before


def check_installer(records: Records, action: str) -> None:
    sample = json.loads((ROOT / "events/installer.install.json").read_text())

    def sent(what: str) -> list[dict[str, Any]]:
        events = [r["event"] for r in records.of("installer")]
        return [e for e in events if e["action"] == what and e["tf"]["action"] == action]

    event = wait_for(f"the installer's {action}", lambda: sent("install"), 30)[-1]
    assert sorted(event) == sorted(sample), "events/installer.install.json is no longer what Terraform sends"
    assert event["cluster"] == CLUSTER and event["wakeUrl"].startswith("https://")
    sample = json.loads((ROOT / "events/installer.remove-nodes.json").read_text())
    (event,) = wait_for(f"the removal of nodes on {action}", lambda: sent("removeNodes"), 30)
    assert sorted(event) == sorted(sample) and event["cluster"] == CLUSTER


def check_order(records: Records) -> None:
    """Definitions and rights, the first catalog, and only then plans and sweeps."""
    sample = json.loads((ROOT / "events/catalog.install.json").read_text())
    order = ["first catalog" if sorted(r["event"]) == sorted(sample) else r["function"] for r in records.all()]
    first = {what: order.index(what) for what in ("installer", "first catalog", "planner", "lifecycle")}
    assert first["installer"] < first["first catalog"] < min(first["planner"], first["lifecycle"]), first


def check_nodes_go_first(records: Records) -> None:
    """On destroy nodes are removed before the installer takes its rights away."""
    deleted = [r["event"]["action"] for r in records.of("installer") if r["event"]["tf"]["action"] == "delete"]
    assert deleted == ["removeNodes", "install"], deleted


def check_schedules(records: Records) -> None:
    wakes = wait_for("a heartbeat in the planner", lambda: records.bodies("planner"), 100)
    assert {k: v for k, v in wakes[0].items() if k != "at"} == {"kind": "wake", "source": "heartbeat"}
    groups = {r["attributes"]["MessageGroupId"] for line in records.of("planner") for r in line["event"]["Records"]}
    assert groups == {CLUSTER}, "one message group a cluster is what keeps planners apart"
    sweeps = wait_for("a sweep in lifecycle", lambda: records.bodies("lifecycle"), 100)
    assert sweeps[0]["kind"] == "sweep" and sweeps[0]["at"]


def check_environment(records: Records) -> None:
    found = records.of("planner")[0]["environment"]
    assert found["CLUSTER_NAME"] == CLUSTER and found["RUST_LOG"] == "info" and found["NODELESS_LOG"] == "info"
    assert found["NODELESS_PLAN_QUEUE_URL"].endswith("-plan.fifo") and found["NODELESS_CLAIMS_QUEUE_URL"] and found["NODELESS_TABLE"]


def check_interruption(ministack: Ministack, records: Records) -> None:
    """Only AWS may put events of aws.ec2 on the bus, here as there; so rules are asked, and the queue is sent to."""
    events, queue = ministack.client("events"), ministack.client("sqs")
    rules = {name: events.describe_rule(Name=f"nodeless-{CLUSTER}-{name}")["EventPattern"] for name in INTERRUPTIONS}
    url = queue.get_queue_url(QueueName=f"nodeless-{CLUSTER}-interruption")["QueueUrl"]
    for name in INTERRUPTIONS:
        body = json.loads((ROOT / f"events/interruption.{name}.json").read_text())["Records"][0]["body"]
        matching = [rule for rule, pattern in rules.items() if events.test_event_pattern(EventPattern=pattern, Event=body)["Result"]]
        assert matching == [name], f"events/interruption.{name}.json must match its own rule and no other"
        targets = events.list_targets_by_rule(Rule=f"nodeless-{CLUSTER}-{name}")["Targets"]
        assert [t["Arn"].rsplit(":", 1)[-1] for t in targets] == [f"nodeless-{CLUSTER}-interruption"]
        queue.send_message(QueueUrl=url, MessageBody=body)
    running = json.dumps({"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": {"state": "running"},
                          "id": "1", "account": "1", "time": "2025-03-15T17:00:00Z", "region": "us-east-1", "resources": []})
    assert not any(events.test_event_pattern(EventPattern=pattern, Event=running)["Result"] for pattern in rules.values())
    wait_for("all interruptions in their function", lambda: len(records.bodies("interruption")) >= len(INTERRUPTIONS), 30)


def check_wake(ministack: Ministack, records: Records) -> None:
    url = [r["event"]["wakeUrl"] for r in records.of("installer") if r["event"]["action"] == "install"][-1]
    status, _ = ministack.call_function_url(url, {"kind": "AdmissionReview"})
    assert status == 200
    call = wait_for("the call in wake", lambda: records.of("wake"), 10)[-1]
    assert call["event"]["rawPath"] == call["environment"]["NODELESS_WAKE_PATH"]
    assert url.endswith(call["event"]["rawPath"]) and len(call["event"]["rawPath"]) > 32
    assert ministack.invocations(f"nodeless-{CLUSTER}-wake") == 1
