"""The tables of the deployed functions: ministack has them, and AWS's engine their items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tools.ministack import Ministack, tables
from tools.results import Unavailable

# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
LARGEST_ITEM = 400 * 1024
MAX_IN_A_TRANSACTION = 100
TABLE = {
    "TableName": "nodeless-tables",
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "instanceId")],
    "GlobalSecondaryIndexes": [
        {"IndexName": "instance", "KeySchema": [{"AttributeName": "instanceId", "KeyType": "HASH"}], "Projection": {"ProjectionType": "KEYS_ONLY"}}
    ],
    "Tags": [{"Key": "owner", "Value": "tests"}],
}


@pytest.fixture
def table(tmp_path: Path) -> Any:
    if not tables():
        raise Unavailable("dynamodb-local", "DynamoDB Local is not installed")
    with Ministack(tmp_path) as ministack:
        client = ministack.client("dynamodb")
        client.create_table(**TABLE)
        yield client


def item(number: int, size: int = 1) -> dict[str, Any]:
    return {"pk": {"S": "cluster"}, "sk": {"S": f"{number:04}"}, "instanceId": {"S": "i-0"}, "text": {"S": "x" * size}}


def put(number: int, size: int = 1, **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": TABLE["TableName"], "Item": item(number, size)} | more}


def code(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    return refused.value.response["Error"]["Code"]


def test_items_are_in_dynamodb_local_and_the_table_is_described_by_ministack(table: Any) -> None:
    written = table.put_item(TableName=TABLE["TableName"], Item=item(1))
    assert written["ResponseMetadata"]["HTTPHeaders"]["server"].startswith("Jetty"), "the item is in a table of ministack"
    assert table.query(
        TableName=TABLE["TableName"], IndexName="instance", KeyConditionExpression="instanceId = :i", ExpressionAttributeValues={":i": {"S": "i-0"}}
    )["Items"] == [{key: item(1)[key] for key in ("pk", "sk", "instanceId")}]
    described = table.describe_table(TableName=TABLE["TableName"])["Table"]
    assert table.list_tags_of_resource(ResourceArn=described["TableArn"])["Tags"] == TABLE["Tags"]
    table.delete_table(TableName=TABLE["TableName"])
    assert code(table.get_item, TableName=TABLE["TableName"], Key={"pk": {"S": "c"}, "sk": {"S": "1"}}) == "ResourceNotFoundException"


def test_limits_and_conditions_are_those_of_the_engine(table: Any) -> None:
    assert code(table.put_item, TableName=TABLE["TableName"], Item=item(1, LARGEST_ITEM)) == "ValidationException"
    table.transact_write_items(TransactItems=[put(number) for number in range(MAX_IN_A_TRANSACTION)])
    assert code(table.transact_write_items, TransactItems=[put(number) for number in range(MAX_IN_A_TRANSACTION + 1)]) == "ValidationException"
    with pytest.raises(ClientError) as cancelled:
        table.transact_write_items(TransactItems=[put(200), put(1, ConditionExpression="attribute_not_exists(pk)")])
    reasons = [reason["Code"] for reason in cancelled.value.response["CancellationReasons"]]
    assert reasons == ["None", "ConditionalCheckFailed"]
    assert "Item" not in table.get_item(TableName=TABLE["TableName"], Key={key: item(200)[key] for key in ("pk", "sk")})
