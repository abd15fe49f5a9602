"""Probes of limits: calls that AWS should refuse, and the few whose answer shows a rule. Each probe removes what it makes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from .answers import PARTITION, forget, item, put, refused, template
from .hour import Hour

KILOBYTE = 1024


def transaction_of_101(hour: Hour) -> tuple[bool, str]:
    client = hour.place.client("dynamodb")
    keys = [f"many#{i}" for i in range(101)]
    try:
        return refused(lambda: client.transact_write_items(TransactItems=[put(hour, key) for key in keys]), "ValidationException")
    finally:
        forget(hour, *keys)


def transaction_of_5_megabytes(hour: Hour) -> tuple[bool, str]:
    client = hour.place.client("dynamodb")
    keys = [f"heavy#{i}" for i in range(13)]
    writes = [put(hour, key, chunk={"B": b"x" * (390 * KILOBYTE)}) for key in keys]
    try:
        return refused(lambda: client.transact_write_items(TransactItems=writes), "ValidationException", "TransactionCanceledException", "RequestEntityTooLarge")
    finally:
        forget(hour, *keys)


def item_of_401_kilobytes(hour: Hour) -> tuple[bool, str]:
    client = hour.place.client("dynamodb")
    try:
        return refused(lambda: client.put_item(**put(hour, "large", chunk={"B": b"x" * (401 * KILOBYTE)})["Put"]), "ValidationException")
    finally:
        forget(hour, "large")


def query_of_more_than_a_megabyte(hour: Hour) -> tuple[bool, str]:
    client = hour.place.client("dynamodb")
    keys = [f"page#{i}" for i in range(3)]
    try:
        for key in keys:
            client.put_item(**put(hour, key, chunk={"B": b"x" * (390 * KILOBYTE)})["Put"])
        answer = client.query(
            TableName=f"nodeless-{hour.place.cluster}",
            KeyConditionExpression="pk = :p AND begins_with(sk, :k)",
            ExpressionAttributeValues={":p": {"S": PARTITION}, ":k": {"S": "page#"}},
            ConsistentRead=True,
        )
        return "LastEvaluatedKey" in answer, f"of three items of 390 KB a query gave {answer['Count']}, and {'a' if 'LastEvaluatedKey' in answer else 'no'} key to go on from"
    finally:
        forget(hour, *keys)


def batch_of_26(hour: Hour) -> tuple[bool, str]:
    client, table = hour.place.client("dynamodb"), f"nodeless-{hour.place.cluster}"
    keys = [f"batch#{i}" for i in range(26)]
    try:
        return refused(lambda: client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": item(key)}} for key in keys]}), "ValidationException")
    finally:
        forget(hour, *keys)


def expired_item(hour: Hour) -> tuple[bool, str]:
    client = hour.place.client("dynamodb")
    request = put(hour, "expired")["Put"]
    request["Item"]["expires"] = {"N": str(int(time.time()) - 60)}
    try:
        client.put_item(**request)
        found = "Item" in client.get_item(TableName=request["TableName"], Key={k: request["Item"][k] for k in ("pk", "sk")}, ConsistentRead=True)
        return found, f"an item that expired a minute ago is {'still' if found else 'no longer'} read"
    finally:
        forget(hour, "expired")


def consistent_reads(hour: Hour) -> tuple[bool, str]:
    client, table = hour.place.client("dynamodb"), f"nodeless-{hour.place.cluster}"
    stale = 0
    try:
        for number in range(20):
            client.put_item(**put(hour, "consistent", n={"N": str(number)})["Put"])
            read = client.get_item(TableName=table, Key={"pk": {"S": PARTITION}, "sk": {"S": "consistent"}}, ConsistentRead=True)["Item"]
            stale += read["n"]["N"] != str(number)
    finally:
        forget(hour, "consistent")
    holds, seen = refused(
        lambda: client.query(
            TableName=table, IndexName="instance", KeyConditionExpression="instanceId = :i", ExpressionAttributeValues={":i": {"S": "i-0"}}, ConsistentRead=True
        ),
        "ValidationException",
    )
    return holds and not stale, f"{stale} of 20 consistent reads were stale; of the index: {seen}"


def delay_of_901_seconds(hour: Hour) -> tuple[bool, str]:
    sqs = hour.place.client("sqs")
    url = sqs.get_queue_url(QueueName=f"nodeless-{hour.place.cluster}-claims-dead-letters")["QueueUrl"]
    holds, seen = refused(lambda: sqs.send_message(QueueUrl=url, MessageBody="{}", DelaySeconds=901), "InvalidParameterValue")
    if not holds:
        sqs.purge_queue(QueueUrl=url)  # what was accepted would be taken for a message that was given up
    return holds, seen


def fifo(hour: Hour, name: str = "probe", **more: str) -> dict[str, str]:
    """A queue like the plan queue, for a probe. A name is used once: SQS refuses that of a queue that was deleted a minute ago."""
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "30", **more}
    return {"QueueUrl": hour.place.client("sqs").create_queue(QueueName=f"nodeless-{hour.place.cluster}-{name}.fifo", Attributes=attributes)["QueueUrl"]}


def one_group_in_flight(hour: Hour) -> tuple[bool, str]:
    sqs, queue = hour.place.client("sqs"), fifo(hour, "probe-group")
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
    sqs, queue = hour.place.client("sqs"), fifo(hour, "probe-deduplication")
    try:
        ids = [sqs.send_message(**queue, MessageBody=body, MessageGroupId="g", MessageDeduplicationId="d")["MessageId"] for body in ("first", "second")]
        got = sqs.receive_message(**queue, MaxNumberOfMessages=10, WaitTimeSeconds=5).get("Messages", [])
        return [m["Body"] for m in got] == ["first"], f"two messages with one deduplication id were accepted as {len(set(ids))} ids, and {len(got)} came out"
    finally:
        sqs.delete_queue(**queue)


def delay_in_a_fifo_queue(hour: Hour) -> tuple[bool, str]:
    sqs, queue = hour.place.client("sqs"), fifo(hour, "probe-delay")
    try:
        return refused(lambda: sqs.send_message(**queue, MessageBody="{}", MessageGroupId="g", DelaySeconds=5), "InvalidParameterValue")
    finally:
        sqs.delete_queue(**queue)


def batch_of_11_messages(hour: Hour) -> tuple[bool, str]:
    sqs, queue = hour.place.client("sqs"), fifo(hour, "probe-batch")
    entries = [{"Id": str(i), "MessageBody": str(i), "MessageGroupId": "g"} for i in range(11)]
    try:
        return refused(lambda: sqs.send_message_batch(**queue, Entries=entries), "AWS.SimpleQueueService.TooManyEntriesInBatchRequest")
    finally:
        sqs.delete_queue(**queue)


def dead_letter_gives_way(hour: Hour) -> tuple[bool, str]:
    sqs, letters = hour.place.client("sqs"), fifo(hour, "probe-letters")
    arn = sqs.get_queue_attributes(**letters, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    queue = fifo(hour, "probe-redrive", VisibilityTimeout="1", RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1}))
    try:
        for body in ("first", "second"):
            sqs.send_message(**queue, MessageBody=body, MessageGroupId="g")
        got: list[str] = []
        for _ in range(5):
            got += [m["Body"] for m in sqs.receive_message(**queue, MaxNumberOfMessages=1, WaitTimeSeconds=3).get("Messages", [])]
            if "second" in got:
                break
            time.sleep(1)
        given_up = [m["Body"] for m in sqs.receive_message(**letters, MaxNumberOfMessages=1, WaitTimeSeconds=5).get("Messages", [])]
        return got == ["first", "second"] and given_up == ["first"], f"the queue gave {got}, its dead-letter queue {given_up}"
    finally:
        sqs.delete_queue(**queue)
        sqs.delete_queue(**letters)


def mapping(hour: Hour, name: str, **settings: Any) -> tuple[bool, str]:
    """Whether Lambda refuses an event source mapping of a FIFO queue. The mapping is disabled, so that it invokes nothing where it is accepted."""
    sqs, functions, queue = hour.place.client("sqs"), hour.place.client("lambda"), fifo(hour, name, **settings.pop("attributes", {}))
    arn = sqs.get_queue_attributes(**queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    made: list[str] = []

    def call() -> None:
        made.append(functions.create_event_source_mapping(EventSourceArn=arn, FunctionName=f"nodeless-{hour.place.cluster}-planner", Enabled=False, **settings)["UUID"])

    try:
        holds, seen = refused(call, "InvalidParameterValueException")
        # The role of the planner may not read this queue, which is refused with the same code.
        wrong = holds and "permission" in seen.lower()
        assert not wrong, f"it was refused for another reason: {seen}"
        return holds, seen
    finally:
        for uuid in made:
            functions.delete_event_source_mapping(UUID=uuid)
        sqs.delete_queue(**queue)


def short_visibility_timeout(hour: Hour) -> tuple[bool, str]:
    return mapping(hour, "probe-visibility", attributes={"VisibilityTimeout": "5"})


def fifo_mapping_of_11(hour: Hour) -> tuple[bool, str]:
    return mapping(hour, "probe-mapping", attributes={"VisibilityTimeout": "300"}, BatchSize=11)


def filter_of_201_values(hour: Hour) -> tuple[bool, str]:
    ec2 = hour.place.client("ec2")
    values = [f"i-{number:017x}" for number in range(201)]
    holds, seen = refused(lambda: ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": values}]), "FilterLimitExceeded")
    ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": values[:200]}])
    return holds, f"201 values: {seen}; 200 were taken"


def fifty_first_tag(hour: Hour) -> tuple[bool, str]:
    ec2, one = hour.place.client("ec2"), template(hour)["LaunchTemplateId"]
    tags = [{"Key": f"probe-{number}", "Value": "x"} for number in range(51)]
    try:
        holds, seen = refused(lambda: ec2.create_tags(Resources=[one], Tags=tags), "TagLimitExceeded")
        reserved, why = refused(lambda: ec2.create_tags(Resources=[one], Tags=[{"Key": "aws:probe", "Value": "x"}]), "InvalidParameterValue")
        return holds and reserved, f"51 tags: {seen}; a tag aws:probe: {why}"
    finally:
        ec2.delete_tags(Resources=[one], Tags=[{"Key": tag["Key"]} for tag in tags])


def templates_have_one_version(hour: Hour) -> tuple[bool, str]:
    owned = [{"Name": f"tag:kubernetes.io/cluster/{hour.place.cluster}", "Values": ["owned"]}]
    found = hour.place.client("ec2").describe_launch_templates(Filters=owned)["LaunchTemplates"]
    assert found, "there is no launch template of the cluster"
    newest = {t["LatestVersionNumber"] for t in found}
    return newest == {1}, f"the newest versions of {len(found)} templates are {sorted(newest)}, and instances were launched from $Latest"


def spot_prices_of_now(hour: Hour) -> tuple[bool, str]:
    instances = hour.look()
    assert instances, "there is no instance whose type could be asked for"
    one = instances[0]["InstanceType"]
    ec2 = hour.place.client("ec2")
    answer = ec2.describe_spot_price_history(InstanceTypes=[one], ProductDescriptions=["Linux/UNIX"], StartTime=datetime.now(timezone.utc))
    priced = {p["AvailabilityZone"] for p in answer["SpotPriceHistory"]}
    offers = ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [one]}])
    zones = {o["Location"] for o in offers["InstanceTypeOfferings"]}
    return bool(priced) and zones <= priced, f"{one} is offered in {sorted(zones)}, and has spot prices in {sorted(priced)}"


def node_names(hour: Hour) -> tuple[bool, str]:
    names = {i["InstanceId"]: i["PrivateDnsName"] for i in hour.look()}
    nodes = {n["spec"].get("providerID", "").rsplit("/", 1)[-1]: n["metadata"]["name"] for n in hour.place.items("nodes")}
    both = sorted(names.keys() & nodes.keys())
    assert both, "there is no node with its instance"
    other = [f"{nodes[i]} for {names[i]}" for i in both if nodes[i] != names[i]]
    return not other, f"{len(both) - len(other)} of {len(both)} nodes have the private DNS name of their instance{': ' + ', '.join(other) if other else ''}"


def second_role_in_a_profile(hour: Hour) -> tuple[bool, str]:
    instances = hour.look()
    assert instances and "IamInstanceProfile" in instances[0], "there is no instance with a profile"
    iam, name = hour.place.client("iam"), instances[0]["IamInstanceProfile"]["Arn"].rsplit("/", 1)[-1]
    (role,) = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]
    # The profile already has this role: if AWS accepted it again, nothing would change.
    return refused(lambda: iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role["RoleName"]), "LimitExceeded")


def one_price_for_one_type(hour: Hour) -> tuple[bool, str]:
    attributes = {
        "regionCode": hour.place.region, "instanceType": "m5.large", "operatingSystem": "Linux", "tenancy": "Shared",
        "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand", "productFamily": "Compute Instance",
    }  # fmt: skip
    filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in attributes.items()]
    found = hour.place.client("pricing").get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
    return len(found) == 1, f"{len(found)} products for m5.large in {hour.place.region}"


def product_of_metrics(hour: Hour) -> tuple[bool, str]:
    """The planner publishes PendingPods with every plan, and ClaimsCreated only with some."""

    def metric(name: str, statistic: str) -> dict[str, Any]:
        dimensions = [{"Name": "Cluster", "Value": hour.place.cluster}]
        return {"Metric": {"Namespace": "nodeless", "MetricName": name, "Dimensions": dimensions}, "Period": 60, "Stat": statistic}

    queries = [
        {"Id": "plans", "MetricStat": metric("PendingPods", "SampleCount")},
        {"Id": "claims", "MetricStat": metric("ClaimsCreated", "Sum")},
        {"Id": "product", "Expression": "plans * claims"},
    ]
    now = datetime.now(timezone.utc)
    answer = hour.place.client("cloudwatch").get_metric_data(MetricDataQueries=queries, StartTime=now - timedelta(hours=1), EndTime=now)
    values = {result["Id"]: dict(zip(result["Timestamps"], result["Values"], strict=True)) for result in answer["MetricDataResults"]}
    lacking = set(values.get("plans", {})) - set(values.get("claims", {}))
    assert lacking and values.get("claims"), "there are no minutes with plans and without launches"
    zero = {at for at in lacking if values.get("product", {}).get(at) == 0}
    return zero == lacking, f"of {len(lacking)} minutes that one of two metrics lacks, their product is 0 in {len(zero)}"


PROBES: dict[str, Callable[[Hour], tuple[bool | None, str]]] = {
    "ddb-transaction-100-items": transaction_of_101,
    "ddb-transaction-4-mb": transaction_of_5_megabytes,
    "ddb-item-400-kb": item_of_401_kilobytes,
    "ddb-query-1-mb": query_of_more_than_a_megabyte,
    "ddb-batch-25": batch_of_26,
    "ddb-ttl": expired_item,
    "ddb-consistent-read": consistent_reads,
    "sqs-delay-900": delay_of_901_seconds,
    "sqs-fifo-group-in-flight": one_group_in_flight,
    "sqs-fifo-deduplication": one_message_for_one_deduplication_id,
    "sqs-fifo-no-delay": delay_in_a_fifo_queue,
    "sqs-batch-10": batch_of_11_messages,
    "sqs-dead-letters-in-order": dead_letter_gives_way,
    "lambda-visibility-timeout": short_visibility_timeout,
    "lambda-fifo-batch-10": fifo_mapping_of_11,
    "ec2-filter-200": filter_of_201_values,
    "ec2-tag-limit": fifty_first_tag,
    "ec2-template-latest": templates_have_one_version,
    "ec2-spot-price-now": spot_prices_of_now,
    "ec2-private-dns": node_names,
    "iam-profile-one-role": second_role_in_a_profile,
    "pricing-linux": one_price_for_one_type,
    "cloudwatch-math-missing": product_of_metrics,
}
