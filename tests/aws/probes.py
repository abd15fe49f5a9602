"""Calls that ask AWS directly whether an assumption of docs/aws.md holds. They cost nothing that can be measured, and what they make
they remove."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from .hour import Hour, Step

# The partition of the probes in the state table: no cluster can be called so, since EKS allows no dot.
PARTITION = "first.hour.probe"


def everything(hour: Hour, step: Step) -> None:
    """All probes. One that is answered otherwise than assumed is an observation, not a failure."""
    for assumption, probe in PROBES.items():
        holds: bool | None
        try:
            holds, seen = probe(hour)
        except ClientError as error:
            holds, seen = None, f"the probe was refused: {error}"
        except AssertionError as error:
            holds, seen = None, f"the probe could not be made: {error}"
        hour.observe(assumption, holds, seen)
        step.seen.append(f"{assumption}: {'as assumed' if holds else 'not tried' if holds is None else 'NOT as assumed'}: {seen}")


def refused(call: Callable[[], Any], *codes: str) -> tuple[bool, str]:
    """Whether a call is refused with one of these codes."""
    try:
        call()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return code in codes, f"{code}: {error.response['Error'].get('Message', '')[:160]}"
    return False, "it was not refused"


def put(hour: Hour, key: str, **more: Any) -> dict[str, Any]:
    item = {"pk": {"S": PARTITION}, "sk": {"S": key}, "expires": {"N": str(int(time.time()) + 3600)}} | more
    return {"Put": {"TableName": f"nodeless-{hour.place.cluster}", "Item": item}}


def forget(hour: Hour, *keys: str) -> None:
    for key in keys:
        hour.place.client("dynamodb").delete_item(TableName=f"nodeless-{hour.place.cluster}", Key={"pk": {"S": PARTITION}, "sk": {"S": key}})


def transaction_of_101(hour: Hour) -> tuple[bool, str]:
    client = hour.place.client("dynamodb")
    keys = [f"many#{i}" for i in range(101)]
    try:
        return refused(lambda: client.transact_write_items(TransactItems=[put(hour, key) for key in keys]), "ValidationException")
    finally:
        forget(hour, *keys)


def item_of_401_kilobytes(hour: Hour) -> tuple[bool, str]:
    client = hour.place.client("dynamodb")
    try:
        return refused(lambda: client.put_item(**put(hour, "large", chunk={"B": b"x" * (401 * 1024)})["Put"]), "ValidationException")
    finally:
        forget(hour, "large")


def token_with_another_request(hour: Hour) -> tuple[bool, str]:
    client, token = hour.place.client("dynamodb"), f"probe-{time.time_ns()}"
    try:
        client.transact_write_items(TransactItems=[put(hour, "token", n={"N": "1"})], ClientRequestToken=token)
        client.transact_write_items(TransactItems=[put(hour, "token", n={"N": "1"})], ClientRequestToken=token)
        return refused(
            lambda: client.transact_write_items(TransactItems=[put(hour, "token", n={"N": "2"})], ClientRequestToken=token),
            "IdempotentParameterMismatchException",
        )
    finally:
        forget(hour, "token")


def cancelled_with_reasons(hour: Hour) -> tuple[bool, str]:
    client, table = hour.place.client("dynamodb"), f"nodeless-{hour.place.cluster}"
    check = {"ConditionCheck": {"TableName": table, "Key": {"pk": {"S": PARTITION}, "sk": {"S": "absent"}}, "ConditionExpression": "attribute_exists(pk)"}}
    try:
        client.transact_write_items(TransactItems=[put(hour, "cancelled"), check])
    except client.exceptions.TransactionCanceledException as cancelled:
        codes = [reason["Code"] for reason in cancelled.response["CancellationReasons"]]
        return codes == ["None", "ConditionalCheckFailed"], f"reasons in the order of the items: {codes}"
    finally:
        forget(hour, "cancelled")
    return False, "it was not cancelled"


def delay_of_901_seconds(hour: Hour) -> tuple[bool, str]:
    sqs = hour.place.client("sqs")
    url = sqs.get_queue_url(QueueName=f"nodeless-{hour.place.cluster}-claims-dead-letters")["QueueUrl"]
    holds, seen = refused(lambda: sqs.send_message(QueueUrl=url, MessageBody="{}", DelaySeconds=901), "InvalidParameterValue")
    if not holds:
        sqs.purge_queue(QueueUrl=url)  # what was accepted would be taken for a message that was given up
    return holds, seen


def fifo(hour: Hour) -> dict[str, str]:
    """A queue like the plan queue, for a probe."""
    sqs = hour.place.client("sqs")
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "30"}
    return {"QueueUrl": sqs.create_queue(QueueName=f"nodeless-{hour.place.cluster}-probe.fifo", Attributes=attributes)["QueueUrl"]}


def one_group_in_flight(hour: Hour) -> tuple[bool, str]:
    sqs, queue = hour.place.client("sqs"), fifo(hour)
    try:
        for body in ("first", "second"):
            sqs.send_message(**queue, MessageBody=body, MessageGroupId="g")
        first = sqs.receive_message(**queue, MaxNumberOfMessages=1, WaitTimeSeconds=5).get("Messages", [])
        assert first, "the queue gave no message within five seconds"
        second = sqs.receive_message(**queue, MaxNumberOfMessages=1, WaitTimeSeconds=2).get("Messages", [])
        return not second, f"while {first[0]['Body']!r} was in flight, {len(second)} more messages of its group were given out"
    finally:
        sqs.delete_queue(**queue)


def one_message_for_one_deduplication_id(hour: Hour) -> tuple[bool, str]:
    sqs, queue = hour.place.client("sqs"), fifo(hour)
    try:
        ids = [sqs.send_message(**queue, MessageBody=body, MessageGroupId="g", MessageDeduplicationId="d")["MessageId"] for body in ("first", "second")]
        got = sqs.receive_message(**queue, MaxNumberOfMessages=10, WaitTimeSeconds=5).get("Messages", [])
        return [m["Body"] for m in got] == ["first"], f"two messages with one deduplication id were accepted as {len(set(ids))} ids, and {len(got)} came out"
    finally:
        sqs.delete_queue(**queue)


def template(hour: Hour) -> dict[str, Any]:
    """A launch template of ours."""
    owned = [{"Name": f"tag:kubernetes.io/cluster/{hour.place.cluster}", "Values": ["owned"]}]
    found = hour.place.client("ec2").describe_launch_templates(Filters=owned)["LaunchTemplates"]
    assert found, "there is no launch template of the cluster"
    return dict(found[0])


def template_of_one_name_twice(hour: Hour) -> tuple[bool, str]:
    name = template(hour)["LaunchTemplateName"]
    create = hour.place.client("ec2").create_launch_template
    return refused(lambda: create(LaunchTemplateName=name, LaunchTemplateData={"InstanceType": "t3.nano"}), "InvalidLaunchTemplateName.AlreadyExistsException")


def dry_run(hour: Hour) -> tuple[bool, str]:
    """Another instance like one that runs, from its own template."""
    ec2 = hour.place.client("ec2")
    instances = hour.look()
    assert instances, "there is no instance whose template, type and subnet could be taken"
    one = instances[0]
    tags = {t["Key"]: t["Value"] for t in one["Tags"]}
    assert "aws:ec2launchtemplate:id" in tags, "the instance does not state which template it came from"
    # Our templates list network interfaces, so the subnet is stated there; and those for spot tag the spot request.
    interface = {"DeviceIndex": 0, "SubnetId": one["SubnetId"], "Groups": [group["GroupId"] for group in one["SecurityGroups"]]}
    market = {"InstanceMarketOptions": {"MarketType": "spot"}} if one.get("InstanceLifecycle") == "spot" else {}

    def call() -> Any:
        launch = {"LaunchTemplateId": tags["aws:ec2launchtemplate:id"], "Version": tags["aws:ec2launchtemplate:version"]}
        return ec2.run_instances(DryRun=True, MinCount=1, MaxCount=1, LaunchTemplate=launch, InstanceType=one["InstanceType"], NetworkInterfaces=[interface], **market)

    return refused(call, "DryRunOperation")


def unknown_instance(hour: Hour) -> tuple[bool, str]:
    ec2, unknown = hour.place.client("ec2"), "i-00000000000000000"
    holds, seen = refused(lambda: ec2.describe_instances(InstanceIds=[unknown]), "InvalidInstanceID.NotFound")
    filtered = ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [unknown]}])["Reservations"]
    return holds and not filtered, f"{seen}; by a filter {len(filtered)} reservations"


def recursion_is_allowed(hour: Hour) -> tuple[None, str]:
    """No loop is provoked: a thousand invocations prove less than what the functions are allowed."""
    client = hour.place.client("lambda")
    settings = {f: client.get_function_recursion_config(FunctionName=f"nodeless-{hour.place.cluster}-{f}")["RecursiveLoop"] for f in ("planner", "lifecycle", "interruption")}
    return None, f"no loop was provoked; what the functions are set to: {json.dumps(settings)}"


PROBES: dict[str, Callable[[Hour], tuple[bool | None, str]]] = {
    "ddb-transaction-100-items": transaction_of_101,
    "ddb-item-400-kb": item_of_401_kilobytes,
    "ddb-client-token": token_with_another_request,
    "ddb-cancellation-reasons": cancelled_with_reasons,
    "sqs-delay-900": delay_of_901_seconds,
    "sqs-fifo-group-in-flight": one_group_in_flight,
    "sqs-fifo-deduplication": one_message_for_one_deduplication_id,
    "ec2-template-name-unique": template_of_one_name_twice,
    "ec2-dry-run": dry_run,
    "ec2-unknown-instance": unknown_instance,
    "lambda-recursion": recursion_is_allowed,
}
