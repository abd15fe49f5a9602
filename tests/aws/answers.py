"""Shared by the probes: refusals, items of the state table, and a launch template of the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from .hour import Hour

# The partition of the probes in the state table: no cluster can be called so, since EKS allows no dot.
PARTITION = "first.hour.probe"


def refused(call: Callable[[], Any], *codes: str) -> tuple[bool, str]:
    """Whether a call is refused with one of these codes."""
    try:
        call()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return code in codes, f"{code}: {error.response['Error'].get('Message', '')[:160]}"
    return False, "it was not refused"


def item(key: str) -> dict[str, Any]:
    """An item that goes by itself within days, should it stay."""
    return {"pk": {"S": PARTITION}, "sk": {"S": key}, "expires": {"N": str(int(time.time()) + 3600)}}


def put(hour: Hour, key: str, **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": f"nodeless-{hour.place.cluster}", "Item": item(key) | more}}


def forget(hour: Hour, *keys: str) -> None:
    for key in keys:
        hour.place.client("dynamodb").delete_item(TableName=f"nodeless-{hour.place.cluster}", Key={"pk": {"S": PARTITION}, "sk": {"S": key}})


def template(hour: Hour) -> dict[str, Any]:
    """A launch template of the cluster."""
    owned = [{"Name": f"tag:kubernetes.io/cluster/{hour.place.cluster}", "Values": ["owned"]}]
    found = hour.place.client("ec2").describe_launch_templates(Filters=owned)["LaunchTemplates"]
    assert found, "there is no launch template of the cluster"
    return dict(found[0])
